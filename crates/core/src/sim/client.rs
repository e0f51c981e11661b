//! Clients: who asks when for what, and what they do with the answer.

use super::plan::{Arrivals, Chain, Plan, Time, Workload};
use super::queue::Kind;
use super::stay::{Status, NONE};
use super::tables::Sink;
use super::Sim;
use crate::rng::{Purpose, Stream};
use crate::workload::{self, starts_fast, Arriving, Chooser, Position};

/// Somebody who asks: a client of a closed workload, or one that came, asks and goes.
///
/// With many clients each is out of the processor's caches when it acts: what every request needs fills one line of them.
#[repr(C, align(64))]
struct Client {
    workload: u32,
    class: u32,
    /// Among all that ever came: says which server it asks and which streams it draws from.
    number: u64,
    think: Stream,
    choice: Stream,
    requests: Stream,
    /// When the operation began.
    asked: i64,
    tries: u32,
    fetched: u32,
    /// Requests of the operation that are waited for: the first, and the hedge.
    out: [u32; 2],
    author: bool,
    fast: bool,
    times_out: i64,
    hedges: i64,
    position: Position,
}

/// A think-time mode and since when it lasts.
struct Mode {
    mode: workload::Mode,
    since: i64,
}

/// One workload while it runs.
struct Source {
    chooser: Chooser,
    modes: Vec<Mode>,
    open: Arriving,
    came: u64,
    /// Of aggregated thinkers: who thinks, and when the next one asks.
    stream: Stream,
    thinking: Vec<u32>,
    due: i64,
}

pub struct Clients {
    all: Vec<Client>,
    gone: Vec<u32>,
    sources: Vec<Source>,
}

impl Clients {
    pub fn new(plan: &Plan) -> Self {
        let sources = plan.workloads.iter().enumerate();
        Clients {
            all: Vec::new(),
            gone: Vec::new(),
            sources: sources.map(|(i, w)| Source::new(plan, i, w)).collect(),
        }
    }

    /// Has the processor load a client that will act soon, while it works on.
    #[inline]
    pub fn fetch(&self, client: u32) {
        if let Some(client) = self.all.get(client as usize) {
            std::hint::black_box(client.workload);
        }
    }

    pub fn workload_of(&self, client: u32) -> usize {
        self.all[client as usize].workload as usize
    }

    pub fn number_of(&self, client: u32) -> u64 {
        self.all[client as usize].number
    }

    fn add(&mut self, plan: &Plan, workload: usize) -> u32 {
        let source = &mut self.sources[workload];
        let number = source.came;
        source.came += 1;
        let entity = (workload as u64) << 40 | number;
        let stream = |purpose| Stream::of(plan.seed, plan.replication, entity, purpose);
        let mut mode = stream(Purpose::Mode);
        let client = Client {
            workload: workload as u32,
            number,
            position: Position::default(),
            author: source.chooser.draw_author(&mut mode),
            fast: chain_of(&plan.workloads[workload]).is_some_and(|c| starts_fast(c, &mut mode)),
            think: stream(Purpose::Think),
            choice: stream(Purpose::Choice),
            requests: stream(Purpose::Request),
            asked: 0,
            class: 0,
            tries: 0,
            fetched: 0,
            out: [NONE; 2],
            times_out: 0,
            hedges: 0,
        };
        match self.gone.pop() {
            Some(place) => {
                self.all[place as usize] = client;
                place
            }
            None => {
                self.all.push(client);
                (self.all.len() - 1) as u32
            }
        }
    }
}

fn chain_of(workload: &Workload) -> Option<&Chain> {
    match &workload.arrivals {
        Arrivals::Closed { chain, .. } => chain.as_ref(),
        _ => None,
    }
}

impl Source {
    fn new(plan: &Plan, number: usize, workload: &Workload) -> Self {
        let stream = |entity: u64, purpose| {
            Stream::of(
                plan.seed,
                plan.replication,
                (number as u64) << 40 | entity,
                purpose,
            )
        };
        let modes = chain_of(workload).map_or(0, |chain| chain.chains);
        let mode = |i: u32| {
            // Entities beyond any client's number.
            let mut stream = stream(1 << 39 | u64::from(i), Purpose::Mode);
            let fast = chain_of(workload).is_some_and(|c| starts_fast(c, &mut stream));
            Mode {
                mode: workload::Mode { fast, stream },
                since: 0,
            }
        };
        Source {
            chooser: Chooser::new(&workload.choice),
            modes: (0..modes).map(mode).collect(),
            open: Arriving::new(stream(1 << 39, Purpose::Arrival)),
            came: 0,
            stream: stream(1 << 39, Purpose::Arrival),
            thinking: Vec::new(),
            due: i64::MAX,
        }
    }
}

impl<S: Sink> Sim<'_, S> {
    pub(super) fn start_clients(&mut self) {
        let plan = self.plan;
        for (number, workload) in plan.workloads.iter().enumerate() {
            let begin = workload.begin;
            match &workload.arrivals {
                Arrivals::Closed {
                    clients,
                    think,
                    think_max,
                    chain,
                    spread,
                    aggregate,
                } => {
                    for _ in 0..*clients {
                        let client = self.clients.add(plan, number);
                        let entity = (number as u64) << 40 | self.clients.number_of(client);
                        if *aggregate {
                            self.clients.sources[number].thinking.push(client);
                            continue;
                        }
                        let after = match spread {
                            Some(spread) => {
                                let mut start =
                                    Stream::of(plan.seed, plan.replication, entity, Purpose::Start);
                                (start.uniform() * *spread as f64) as i64
                            }
                            None => self.thinks(client, think, *think_max, chain.as_ref()),
                        };
                        self.queue.push(begin + after, Kind::Client, client);
                    }
                    if *aggregate {
                        self.now = begin;
                        self.draw_thinker(number);
                        self.now = 0;
                    }
                }
                Arrivals::Batch { first, .. } => {
                    self.queue.push(begin + first, Kind::Source, number as u32)
                }
                Arrivals::Trace { times, .. } => {
                    if let Some(&first) = times.first() {
                        self.queue.push(begin + first, Kind::Source, number as u32);
                    }
                }
                Arrivals::Poisson { .. } | Arrivals::Modulated { .. } => {
                    let first = self.next_arrival(number, begin);
                    self.queue.push(first, Kind::Source, number as u32);
                }
            }
        }
    }

    fn ends(&self, workload: usize) -> i64 {
        let end = self.plan.workloads[workload].end;
        end.unwrap_or(self.plan.duration).min(self.plan.duration)
    }

    /// A client has thought, or pauses no longer.
    pub(super) fn client_acts(&mut self, client: u32) {
        let workload = self.clients.workload_of(client);
        if self.now >= self.ends(workload) {
            return;
        }
        let c = &mut self.clients.all[client as usize];
        if c.tries == 0 && c.fetched == 0 {
            let chooser = &self.clients.sources[workload].chooser;
            c.class = chooser.next(c.author, &mut c.position, &mut c.choice);
        }
        self.ask(client);
    }

    /// A new operation: one request, and what to do if it is not answered soon.
    #[inline(always)]
    fn ask(&mut self, client: u32) {
        let c = &mut self.clients.all[client as usize];
        c.asked = self.now;
        let settings = &self.plan.workloads[c.workload as usize];
        if settings.timeout > 0 {
            c.times_out = self.now + settings.timeout;
            self.queue.push(c.times_out, Kind::Timeout, client);
        }
        if settings.hedge > 0 {
            c.hedges = self.now + settings.hedge;
            self.queue.push(c.hedges, Kind::Hedge, client);
        }
        self.send(client, 0);
    }

    #[inline(always)]
    fn send(&mut self, client: u32, slot: usize) {
        let c = &mut self.clients.all[client as usize];
        let settings = &self.plan.workloads[c.workload as usize];
        let class = match c.fetched {
            0 => c.class,
            n => settings.embedded[n as usize - 1],
        };
        self.visits += 1;
        let stream = c.requests.fork();
        let (number, stay) = self.stays.add(self.visits, stream, class, NONE);
        stay.visit = self.visits;
        stay.client = client;
        stay.number = c.number as u32;
        stay.recorded = self.now >= self.plan.record_from;
        stay.kept = settings.kept;
        stay.server = settings.entries[(c.number % settings.entries.len() as u64) as usize];
        c.out[slot] = number;
        self.connect(number);
    }

    /// The answer to a request, or the news that there is none.
    #[inline(always)]
    pub(super) fn client_gets(&mut self, stay: u32) {
        let s = &self.stays[stay];
        if s.abandoned {
            return;
        }
        let (client, status, recorded) = (s.client, s.status, s.recorded);
        self.write_request(stay, status);
        let c = &mut self.clients.all[client as usize];
        for out in c.out.iter_mut().filter(|out| **out == stay) {
            *out = NONE;
        }
        // One failed, and the other may not.
        if status != Status::Ok && c.out != [NONE; 2] {
            return;
        }
        if recorded {
            self.report.count(self.now - c.asked, status);
        }
        self.abandon(client);
        self.operation_ends(client, status == Status::Ok);
    }

    /// What is still out is waited for no longer, and goes on without its client. Returns whether anything was, and
    /// whether it is recorded.
    fn abandon(&mut self, client: u32) -> (bool, bool) {
        let out = std::mem::replace(&mut self.clients.all[client as usize].out, [NONE; 2]);
        let (mut any, mut recorded) = (false, false);
        for stay in out.into_iter().filter(|&stay| stay != NONE) {
            any = true;
            recorded |= self.stays[stay].recorded;
            self.write_request(stay, Status::Abandoned);
            self.stays[stay].abandoned = true;
        }
        (any, recorded)
    }

    /// Once more, or it stays as it is.
    fn operation_ends(&mut self, client: u32, well: bool) {
        let c = &mut self.clients.all[client as usize];
        let settings = &self.plan.workloads[c.workload as usize];
        if well || c.tries >= settings.retries {
            return self.has_page(client);
        }
        c.tries += 1;
        self.queue
            .push(self.now + settings.retry_pause, Kind::Client, client);
    }

    /// The operation is over: the next embedded object, or a pause.
    #[inline(always)]
    fn has_page(&mut self, client: u32) {
        let c = &mut self.clients.all[client as usize];
        c.tries = 0;
        let number = c.workload as usize;
        let settings = &self.plan.workloads[number];
        if (c.fetched as usize) < settings.embedded.len() {
            c.fetched += 1;
            return self.queue.push(self.now, Kind::Client, client);
        }
        c.fetched = 0;
        match &settings.arrivals {
            Arrivals::Closed {
                aggregate: true, ..
            } => {
                self.clients.sources[number].thinking.push(client);
                self.draw_thinker(number);
            }
            Arrivals::Closed {
                think,
                think_max,
                chain,
                ..
            } => {
                let pause = self.thinks(client, think, *think_max, chain.as_ref());
                self.queue.push(self.now + pause, Kind::Client, client);
            }
            _ => self.clients.gone.push(client),
        }
    }

    #[inline(always)]
    fn thinks(&mut self, client: u32, think: &Time, most: i64, chain: Option<&Chain>) -> i64 {
        let c = &mut self.clients.all[client as usize];
        let Some(chain) = chain else {
            return workload::think(think, most, &mut c.think);
        };
        let x = c.think.exponential();
        if chain.chains == 0 {
            let pause = x * chain.mean(c.fast);
            c.fast ^= c.choice.uniform() < chain.leaves(c.fast);
            return pause as i64;
        }
        let source = &mut self.clients.sources[c.workload as usize];
        let modes = source.modes.len() as u64;
        let Mode { mode, since } = &mut source.modes[(c.number % modes) as usize];
        let pause = x * chain.mean(mode.fast);
        if mode.leave(chain) {
            if !mode.fast {
                let workload = &self.plan.workloads[c.workload as usize];
                self.report.burst(self.plan, workload, *since, self.now);
            }
            *since = self.now;
        }
        pause as i64
    }

    /// Fast modes that last when the run is over.
    pub(super) fn close_bursts(&mut self) {
        for (source, workload) in self.clients.sources.iter().zip(&self.plan.workloads) {
            for mode in source.modes.iter().filter(|m| m.mode.fast) {
                self.report.burst(self.plan, workload, mode.since, self.now);
            }
        }
    }

    /// With exponential think times, k thinkers are one Poisson source of rate k / mean: drawn anew whenever k changes.
    fn draw_thinker(&mut self, number: usize) {
        let Arrivals::Closed {
            think: Time::Exponential(mean),
            ..
        } = &self.plan.workloads[number].arrivals
        else {
            return;
        };
        let source = &mut self.clients.sources[number];
        if source.thinking.is_empty() {
            source.due = i64::MAX;
            return;
        }
        let gap = source.stream.exponential() * mean / source.thinking.len() as f64;
        source.due = self.now + gap as i64;
        self.queue.push(source.due, Kind::Source, number as u32);
    }

    pub(super) fn source_sends(&mut self, number: u32) {
        let n = number as usize;
        let plan = self.plan;
        if self.now >= self.ends(n) {
            return;
        }
        match &plan.workloads[n].arrivals {
            Arrivals::Closed { .. } => {
                let source = &mut self.clients.sources[n];
                if source.due != self.now {
                    return;
                }
                let k = source.stream.below(source.thinking.len() as u32);
                let client = source.thinking.swap_remove(k as usize);
                self.draw_thinker(n);
                self.client_acts(client);
            }
            Arrivals::Batch { size, period, .. } => {
                self.report
                    .burst(plan, &plan.workloads[n], self.now, self.now);
                for _ in 0..*size {
                    let client = self.clients.add(plan, n);
                    self.client_acts(client);
                }
                self.queue.push(self.now + period, Kind::Source, number);
            }
            Arrivals::Trace { times, classes } => {
                let at = self.clients.sources[n].came as usize;
                let client = self.clients.add(plan, n);
                match classes.get(at) {
                    Some(&class) => {
                        self.clients.all[client as usize].class = class;
                        self.ask(client);
                    }
                    None => self.client_acts(client),
                }
                if let Some(next) = times.get(at + 1) {
                    self.queue.push(
                        (plan.workloads[n].begin + next).max(self.now),
                        Kind::Source,
                        number,
                    );
                }
            }
            Arrivals::Poisson { .. } | Arrivals::Modulated { .. } => {
                let client = self.clients.add(plan, n);
                self.client_acts(client);
                let next = self.next_arrival(n, self.now);
                self.queue.push(next, Kind::Source, number);
            }
        }
    }

    fn next_arrival(&mut self, number: usize, now: i64) -> i64 {
        let arrivals = &self.plan.workloads[number].arrivals;
        self.clients.sources[number].open.next(arrivals, now)
    }

    pub(super) fn client_times_out(&mut self, client: u32) {
        if self.clients.all[client as usize].times_out != self.now {
            return;
        }
        let (waited, recorded) = self.abandon(client);
        if recorded {
            self.report.count(
                self.now - self.clients.all[client as usize].asked,
                Status::Abandoned,
            );
        }
        if waited {
            self.operation_ends(client, false);
        }
    }

    pub(super) fn client_hedges(&mut self, client: u32) {
        let c = &self.clients.all[client as usize];
        if c.hedges == self.now && c.out[0] != NONE && c.out[1] == NONE {
            self.send(client, 1);
        }
    }
}
