//! A discrete-event simulator of n-tier systems: clients, TCP connections, servers, pools,
//! balancers, CPUs and causes of stalls.
//! ```text
//! client ─ send ─► connect ─► arrive ─► start ─► step … step ─► finish ─ respond ─► client
//!                  (tcp)      (server)  (worker)   │ ▲
//!                     └ lost SYN: again later      │ └ compute: cpu
//!                                                  └─► call: connector (balancer, pool) ─ connect or kept ─► another server
//! ```
//!
//! One run is one thread and one [`Sim`]; replications and sweeps run several. No event allocates
//! memory, and neither hash order nor threads affect the result: the same plan gives the same
//! bytes.

pub(crate) mod balancer;
mod causes;
mod check;
mod client;
mod connector;
mod cpu;
#[cfg(test)]
mod golden_tests;
mod heap;
mod hedge;
mod limiter;
mod monitor;
pub mod plan;
mod pool;
mod prequal;
mod program;
mod queue;
mod server;
mod source;
mod states;
mod stay;
mod tables;
mod tcp;
#[cfg(test)]
mod tests;

pub use tables::{Counts, Report, Sink, StallSeen, Tables};

use crate::error::{Error, Result};
use client::Clients;
use connector::Connector;
use cpu::Cpus;
use plan::Plan;
use pool::Pool;
use queue::{Kind, Queue};
use server::Server;
use stay::Stays;

/// How long requests that are under way at the end may take: longer than any sender tries. Requests
/// that are still open then hang.
const DRAIN: i64 = 600_000_000_000;
/// The most simultaneous stays, of some 250 bytes each; with more, requests arrive faster than they
/// are answered.
const OPEN_MAX: usize = if cfg!(test) { 100_000 } else { 5_000_000 };
/// Events between two checks of progress and Ctrl-C.
const LOOK_EVERY: u32 = 1 << 18;
/// Checks at the same simulated moment after which time no longer advances: some 30 million events.
const LOOKS_MAX: u32 = if cfg!(test) { 2 } else { 128 };

/// The state of a run.
pub struct Sim<'a, S: Sink> {
    plan: &'a Plan,
    now: i64,
    queue: Queue,
    cpus: Cpus,
    stays: Stays,
    servers: Vec<Server<'a>>,
    steps: Vec<program::Step>,
    connectors: Vec<Connector<'a>>,
    pools: Vec<Pool>,
    clients: Clients,
    causes: causes::Causes,
    monitor: monitor::Monitor,
    report: Report,
    visits: u64,
    sink: S,
    failed: Option<Error>,
}

/// Runs the plan. `progress(simulated, duration)` in ns is called now and then, and an error from
/// it stops the run.
pub fn run<S: Sink>(
    plan: &Plan,
    sink: S,
    progress: &mut dyn FnMut(i64, i64) -> Result<()>,
) -> Result<(Report, S)> {
    check::check(plan)?;
    let mut sim = Sim::new(plan, sink);
    sim.begin();
    let mut countdown = LOOK_EVERY;
    let (mut seen, mut looks) = (0, 0);
    while sim.advance() {
        countdown -= 1;
        if countdown == 0 {
            countdown = LOOK_EVERY;
            progress(sim.now.min(plan.duration), plan.duration)?;
            looks = if sim.now == seen { looks + 1 } else { 0 };
            seen = sim.now;
            if looks == LOOKS_MAX {
                return Err(sim.stands_still());
            }
        }
    }
    progress(plan.duration, plan.duration)?;
    sim.end()
}

impl<'a, S: Sink> Sim<'a, S> {
    fn new(plan: &'a Plan, sink: S) -> Self {
        let cpus = Cpus::new(&plan.nodes, &plan.groups);
        let causes = causes::Causes::new(plan);
        let system = server::build(plan);
        Sim {
            plan,
            now: 0,
            queue: Queue::default(),
            monitor: monitor::Monitor::new(plan),
            report: Report::new(plan),
            cpus,
            stays: Stays::new(),
            servers: system.servers,
            steps: system.steps,
            connectors: system.connectors,
            pools: system.pools,
            clients: Clients::new(plan),
            causes,
            visits: 0,
            sink,
            failed: None,
        }
    }

    fn begin(&mut self) {
        self.start_causes();
        self.start_clients();
        self.queue.lay_out();
    }

    /// One event; false: no events are left, or the sink refused a row.
    #[inline(always)]
    fn advance(&mut self) -> bool {
        let (cpu, group) = self.cpus.next(self.now);
        let queued = self.queue.time();
        if cpu <= queued {
            if cpu == cpu::NEVER {
                return false;
            }
            self.now = cpu;
            if let Some(job) = self.cpus.take(cpu, group) {
                let next = self.worked(job);
                self.go_on(next);
            } else {
                self.accepts_or_not(group);
            }
        } else if let Some((time, kind, id)) = self.queue.pop() {
            // Timers that are due exactly at the end still run.
            if time > self.plan.duration && (self.stays.open() == 0 || self.is_over()) {
                return false;
            }
            self.now = time;
            self.report.counts.events += 1;
            if let Some(client) = self.queue.next_client() {
                self.clients.fetch(client);
            }
            let next = self.happens(kind, id);
            self.go_on(next);
        }
        if self.stays.open() > OPEN_MAX {
            self.overflow();
        }
        self.failed.is_none()
    }

    #[cold]
    fn overflow(&mut self) {
        let after = self.seconds();
        self.keep(Err(Error::Options(format!(
            "more than {OPEN_MAX} requests and calls are under way {after} s after the begin of the ramp: \
             more come than are answered, for too long"
        ))));
    }

    #[cold]
    fn stands_still(&self) -> Error {
        let after = self.seconds();
        Error::Options(format!(
            "time stands still {after} s after the begin of the ramp: clients get answers and ask again, and neither \
             thinking nor computing nor latency takes any time"
        ))
    }

    fn seconds(&self) -> f64 {
        self.now as f64 / 1e9
    }

    #[inline(always)]
    fn happens(&mut self, kind: Kind, id: u32) -> server::GoesOn {
        match kind {
            Kind::Client => return self.client_acts(id),
            Kind::Syn => return self.syn_arrives(id),
            Kind::Data => return self.data_arrives(id),
            Kind::Kept => return self.kept_arrives(id),
            Kind::Return => return self.respond(id),
            Kind::GiveUp => return self.gives_up(id),
            Kind::Waited => return Some(id),
            Kind::Poll => return self.poll(id),
            Kind::Granted => return self.send_out(id),
            Kind::TryAgain => return self.try_again(id),
            Kind::Hedge => return self.client_hedges(id),
            Kind::HedgeCall => return self.hedge_call(id),
            Kind::Source => self.source_sends(id),
            Kind::Timeout => self.client_times_out(id),
            Kind::Timer => self.timer(id),
        }
        None
    }

    /// Whether no load is left, or only load that hangs: timers of the system stop then.
    fn is_over(&self) -> bool {
        self.now >= self.plan.duration
            && (self.stays.open() == 0 || self.now >= self.plan.duration + DRAIN)
    }

    fn end(mut self) -> Result<(Report, S)> {
        self.report.end = self.now;
        self.report.counts.unfinished = self.stays.open() as u64;
        self.now = self.now.max(self.plan.duration);
        self.close_causes();
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.sink.finish()?;
        Ok((self.report, self.sink))
    }

    fn keep(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.failed.get_or_insert(error);
        }
    }
}
