//! Servers: which request gets a worker, where requests wait, and the steps of their programs.
//!
//! A new connection takes a free worker, else a place in the light queue, else one in the accept
//! queue, else its SYN is lost. A synchronous server holds the worker to the end. An asynchronous
//! one gives it back during calls, keeps the stay in its light queue, and resumes it, before
//! anything new, when the answers have arrived.
//!
//! A server that is stopped (a signal, a collection, a used-up quota) accepts nothing: only its
//! accept queue holds new connections, and is as long as the light queue if that is longer (the
//! testbed's servers listen so). Requests on kept connections are inside. A server that is restarted
//! accepts nothing either, and takes up none of those inside.

use super::connector::{self, Connector};
use super::limiter::Limiter;
use super::plan::{self, Plan};
use super::pool::Pool;
use super::program::{self, Step};
use super::queue::Kind;
use super::stay::{Line, Ranked, Status, Stays, NONE};
use super::tables::Sink;
use super::Sim;

/// Where a stay waits if no worker is free.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The accept queue, once the light queue is full.
    Socket,
    /// Accepted or on a kept connection.
    Inside,
}

pub struct Server<'a> {
    pub settings: &'a plan::Server,
    pub group: u32,
    pub holds: bool,
    /// By class: the first step of what is done for it.
    begins: Vec<u32>,
    /// Workers of a process; `u32::MAX`: no limit.
    workers: u32,
    light_queue: u32,
    accept_queue: u32,
    /// Busy workers of each process; the last ones may be ending: only the first `alive` take
    /// requests.
    pub processes: Vec<u32>,
    pub alive: usize,
    pub busy: u32,
    room: u32,
    /// Stays that have arrived and not left, including those in the accept queue.
    pub inside: u32,
    pub accepting: Line,
    pub light: Ranked,
    limiter: Option<Limiter<'a>>,
    /// In an asynchronous server: the answers have arrived, but no worker is free.
    ready: Line,
    pub first_connector: u32,
    /// SYNs and data that were lost here.
    pub lost: u64,
    handing_out: bool,
    /// It accepts no connection.
    pub stopped: bool,
    /// So many restarts are under way: no worker takes up a visit.
    pub restarting: u32,
    pub full_since: i64,
    pub spawning: bool,
}

/// The stay that continues at once, if there is one.
pub type GoesOn = Option<u32>;

/// All servers, what they do, and how they call each other.
pub struct System<'a> {
    pub servers: Vec<Server<'a>>,
    pub steps: Vec<Step>,
    pub connectors: Vec<Connector<'a>>,
    pub pools: Vec<Pool>,
}

pub fn build(plan: &Plan) -> System<'_> {
    let (mut servers, mut connectors, mut pools) = (Vec::new(), Vec::new(), Vec::new());
    let mut steps = vec![Step::End];
    let heaviest = plan.classes.iter().map(|class| class.rank).max();
    let ranks = heaviest.map_or(1, |rank| rank + 1);
    for server in &plan.servers {
        let workers = match (server.workers, server.light_queue) {
            // Without a limit on workers, the light queue bounds the requests inside.
            (0, 0) => u32::MAX,
            (0, light) => light,
            (n, _) => n,
        };
        let first_connector = connectors.len() as u32;
        servers.push(Server {
            settings: server,
            group: server.group,
            holds: server.holds,
            begins: program::lay_out(plan, server, first_connector, &mut steps),
            workers,
            light_queue: if server.workers == 0 {
                0
            } else {
                server.light_queue
            },
            accept_queue: server.backlog.saturating_add(1),
            processes: vec![0; server.processes as usize],
            alive: server.processes as usize,
            busy: 0,
            room: workers.saturating_mul(server.processes),
            inside: 0,
            accepting: Line::default(),
            light: Ranked::new(
                if server.lightest_first { ranks } else { 1 },
                server.newest_first,
            ),
            limiter: server.limit.as_ref().map(Limiter::new),
            ready: Line::default(),
            first_connector,
            lost: 0,
            handing_out: false,
            stopped: false,
            restarting: 0,
            full_since: -1,
            spawning: false,
        });
        for c in &server.connectors {
            connectors.push(connector::build(plan, server, c, &mut pools));
        }
    }
    System {
        servers,
        steps,
        connectors,
        pools,
    }
}

impl Server<'_> {
    /// Whether the light queue has room. That of an asynchronous server holds all requests inside.
    #[inline(always)]
    fn has_place(&self) -> bool {
        if self.stopped {
            return false;
        }
        if self.holds {
            return self.light.len() < self.light_queue;
        }
        let places = self.room.saturating_add(self.light_queue);
        self.inside - self.accepting.len() < places
    }

    /// Whether the accept queue has room.
    #[inline(always)]
    fn has_place_outside(&self) -> bool {
        let mut places = self.accept_queue;
        if self.stopped {
            places = places.max(self.settings.light_queue.saturating_add(1));
        }
        self.accepting.len() < places
    }

    /// Which stay gets a worker next: those that wait inside, then those outside.
    fn next(&mut self, stays: &Stays) -> Option<u32> {
        let inside = self.light.pop(stays);
        if inside.is_none() && self.holds && !self.stopped {
            return self.accepting.pop(stays);
        }
        inside
    }

    fn process(&self) -> u32 {
        let alive = self.processes[..self.alive].iter().enumerate();
        alive
            .min_by_key(|(_, &busy)| busy)
            .map_or(0, |(process, _)| process as u32)
    }

    #[inline(always)]
    fn anyone_waits(&self) -> bool {
        self.ready.len() + self.light.len() + self.accepting.len() > 0
    }

    /// A worker that becomes free now has nothing to take.
    #[inline(always)]
    fn rests(&self) -> bool {
        !self.anyone_waits() && self.full_since < 0
    }

    /// Nothing inside has been taken up.
    pub fn works_at_nothing(&self) -> bool {
        self.inside == self.accepting.len() + self.light.len()
    }

    pub fn add_process(&mut self) {
        if self.alive == self.processes.len() {
            self.processes.push(0);
        }
        self.alive += 1;
        self.room = self.room.saturating_add(self.workers);
    }

    /// Ends a process if the others have enough workers for the current load.
    pub fn retire_process(&mut self) {
        if self.room - self.room.min(self.busy) >= self.workers {
            self.alive -= 1;
            self.room -= self.workers;
        }
    }
}

impl<S: Sink> Sim<'_, S> {
    /// Whether a connection attempt would find a place.
    #[inline(always)]
    pub(super) fn may_connect(&self, server: u32) -> bool {
        let s = &self.servers[server as usize];
        s.holds && s.busy < s.room && !s.stopped || s.has_place() || s.has_place_outside()
    }

    #[inline(always)]
    pub(super) fn arrive(&mut self, stay: u32) -> GoesOn {
        self.enter(self.stays[stay].server, stay, Place::Socket)
    }

    #[inline(always)]
    pub(super) fn enter(&mut self, server: u32, stay: u32, place: Place) -> GoesOn {
        let s = &mut self.servers[server as usize];
        let enters = place == Place::Inside || s.has_place();
        s.inside += 1;
        if let Some(limiter) = &s.limiter {
            if !limiter.admits(s.inside) {
                return self.refuses(stay);
            }
            self.stays[stay].abreast = s.inside;
        }
        let accepted = (enters || s.holds && !s.stopped) && s.restarting == 0;
        if s.busy < s.room && accepted && !s.anyone_waits() && !s.handing_out {
            return self.start(stay);
        }
        self.waits(server, stay, enters);
        None
    }

    /// It is above the server's limit: its caller gets an error at once.
    fn refuses(&mut self, stay: u32) -> GoesOn {
        let s = &mut self.stays[stay];
        s.start = self.now;
        s.logged = true;
        s.status = Status::Failed;
        self.finish(stay)
    }

    /// Inside the server, or outside in its accept queue.
    fn waits(&mut self, server: u32, stay: u32, inside: bool) {
        if inside {
            self.waits_inside(server, stay);
        } else {
            let accepting = &mut self.servers[server as usize].accepting;
            accepting.push(&mut self.stays, stay);
        }
        let s = &mut self.servers[server as usize];
        if s.busy >= s.room && s.full_since < 0 {
            self.becomes_full(server);
        } else {
            self.hand_out(server);
        }
    }

    fn waits_inside(&mut self, server: u32, stay: u32) {
        let light = &mut self.servers[server as usize].light;
        let rank = if light.ranks() {
            self.plan.classes[self.stays[stay].asked_for as usize].rank
        } else {
            0
        };
        light.push(&mut self.stays, stay, rank);
    }

    /// A worker takes the stay.
    #[inline(always)]
    fn start(&mut self, stay: u32) -> GoesOn {
        let s = &mut self.stays[stay];
        let server = s.server;
        let srv = &mut self.servers[server as usize];
        s.start = self.now;
        s.works = true;
        s.step = srv.begins[s.class as usize];
        srv.busy += 1;
        if srv.processes.len() > 1 {
            s.process = srv.process();
        }
        srv.processes[s.process as usize] += 1;
        let (has_heap, class) = (srv.settings.heap.is_some(), s.class);
        if has_heap {
            self.allocate(server);
        }
        if let Some(until) = self.locked_until(server, class) {
            self.queue.push(until, Kind::Waited, stay);
            return None;
        }
        Some(stay)
    }

    /// Gives free workers to waiting stays: answers first, then accepted requests, then the accept
    /// queue.
    #[inline(always)]
    pub(super) fn hand_out(&mut self, server: u32) {
        let s = &mut self.servers[server as usize];
        if s.handing_out {
            return;
        }
        if s.anyone_waits() {
            self.hand_out_in_order(server);
        } else if s.busy < s.room {
            s.full_since = -1;
        }
    }

    fn hand_out_in_order(&mut self, server: u32) {
        self.servers[server as usize].handing_out = true;
        loop {
            while self.servers[server as usize].has_place() {
                let accepting = &mut self.servers[server as usize].accepting;
                let Some(next) = accepting.pop(&self.stays) else {
                    break;
                };
                self.waits_inside(server, next);
            }
            let s = &mut self.servers[server as usize];
            if s.busy >= s.room {
                break;
            }
            let next = if let Some(stay) = s.ready.pop(&self.stays) {
                self.take_on(stay)
            } else if s.restarting > 0 {
                break;
            } else if let Some(stay) = s.next(&self.stays) {
                self.start(stay)
            } else {
                break;
            };
            self.go_on(next);
        }
        let s = &mut self.servers[server as usize];
        s.handing_out = false;
        if s.busy < s.room {
            s.full_since = -1;
        }
    }

    #[inline(always)]
    fn give_back(&mut self, stay: u32) {
        let s = &mut self.stays[stay];
        if !std::mem::replace(&mut s.works, false) {
            return;
        }
        let (server, process) = (s.server, s.process);
        let srv = &mut self.servers[server as usize];
        srv.busy -= 1;
        srv.processes[process as usize] -= 1;
    }

    fn take_on(&mut self, stay: u32) -> GoesOn {
        let s = &mut self.stays[stay];
        s.works = true;
        let srv = &mut self.servers[s.server as usize];
        srv.busy += 1;
        srv.processes[s.process as usize] += 1;
        Some(stay)
    }

    /// A job of the CPUs is done.
    #[inline(always)]
    pub(super) fn worked(&mut self, job: u32) -> GoesOn {
        self.report.counts.events += 1;
        if job >= super::causes::SYSTEM_JOBS {
            self.system_worked(job);
            return None;
        }
        Some(job)
    }

    /// Continues everything that can continue, until time must pass: from a call into its server,
    /// from an answer back to its caller.
    pub(super) fn go_on(&mut self, mut stay: GoesOn) {
        while let Some(one) = stay {
            stay = self.step(one);
        }
    }

    /// The next step of the program.
    #[inline(always)]
    fn step(&mut self, stay: u32) -> GoesOn {
        let s = &mut self.stays[stay];
        if s.status != Status::Ok {
            return self.logs_and_finishes(stay);
        }
        let step = &self.steps[s.step as usize];
        s.step += 1;
        match step {
            Step::Compute { group, tier, time } => {
                let mut work = time.draw(&mut s.stream);
                if s.row != NONE {
                    work *= self.clients.factor(s.row, *tier);
                }
                if work > 0.0 {
                    self.cpus.add(self.now, *group, work, stay);
                    return None;
                }
            }
            Step::Wait(time) => {
                let mut time = time.draw(&mut s.stream) as i64;
                if self.plan.classes[s.class as usize].silent {
                    time -= self.now - s.arrival; // it may leave before a worker is free
                }
                if time > 0 {
                    self.queue.push(self.now + time, Kind::Waited, stay);
                    return None;
                }
            }
            Step::Call(call) => {
                if call.with_next {
                    return self.begin_joined(stay);
                }
                let count = call.draw(&mut s.stream);
                if count > 0 || call.all {
                    let call = *call;
                    return self.begin_calls(stay, &call, count);
                }
            }
            Step::End => return self.logs_and_finishes(stay),
        }
        Some(stay)
    }

    /// Sends calls; an asynchronous server then does something else. Returns whether it can.
    #[inline(always)]
    pub(super) fn releases_worker(&mut self, stay: u32) -> bool {
        let s = &self.stays[stay];
        let free = s.works && !self.servers[s.server as usize].holds;
        if free {
            self.give_back(stay);
        }
        free
    }

    /// All answers of a step are there.
    #[inline(always)]
    pub(super) fn has_answers(&mut self, stay: u32) -> GoesOn {
        if self.stays[stay].works {
            return Some(stay);
        }
        let server = self.stays[stay].server;
        let s = &mut self.servers[server as usize];
        if s.busy < s.room && s.ready.len() == 0 && !s.handing_out {
            return self.take_on(stay);
        }
        s.ready.push(&mut self.stays, stay);
        self.hand_out(server);
        None
    }

    /// Its last work: it writes to the log, and may have to wait for that.
    #[inline(always)]
    fn logs_and_finishes(&mut self, stay: u32) -> GoesOn {
        let s = &mut self.stays[stay];
        if !std::mem::replace(&mut s.logged, true) {
            s.step = program::END;
            let server = s.server;
            let wait = self.writes_log(server);
            if wait > 0 {
                self.queue.push(self.now + wait, Kind::Waited, stay);
                return None;
            }
        }
        self.finish(stay)
    }

    #[inline(always)]
    fn finish(&mut self, stay: u32) -> GoesOn {
        let server = self.stays[stay].server;
        self.write_visit(stay);
        self.adapts(stay);
        self.release_held(stay);
        self.give_back(stay);
        self.servers[server as usize].inside -= 1;
        // An answer that took no time also goes through the queue, so that a long chain of such
        // calls does not grow the stack.
        if self.plan.latency > 0 || self.stays[stay].sent == self.now {
            self.queue
                .push_last(self.now + self.plan.latency, Kind::Return, stay);
        } else if self.servers[server as usize].rests() {
            return self.respond(stay);
        } else {
            self.answers_first(stay);
        }
        self.hand_out(server);
        None
    }

    /// The server's limit learns from an answer.
    #[inline(always)]
    fn adapts(&mut self, stay: u32) {
        let s = &self.stays[stay];
        if s.abreast > 0 && s.status == Status::Ok {
            if let Some(limiter) = &mut self.servers[s.server as usize].limiter {
                limiter.answered(self.now - s.arrival, s.abreast);
            }
        }
    }

    /// The consequences of the answer come before the worker's next step.
    fn answers_first(&mut self, stay: u32) {
        let next = self.respond(stay);
        self.go_on(next);
    }

    /// The caller gets the answer, or learns that there is none.
    #[inline(always)]
    pub(super) fn respond(&mut self, stay: u32) -> GoesOn {
        if self.stays[stay].parent != NONE {
            return self.returned(stay);
        }
        self.client_gets(stay);
        self.stays.remove(stay);
        None
    }
}
