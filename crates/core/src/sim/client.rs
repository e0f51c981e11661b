//! Clients: what they request, and what they do with the answer.

use super::plan::{Arrivals, Plan, Workload};
use super::queue::Kind;
use super::server::GoesOn;
use super::source::{Source, BUCKET};
use super::stay::{Status, NONE};
use super::tables::Sink;
use super::Sim;
use crate::rng::{Purpose, Stream};
use crate::workload::{begins_fast, Position};

/// A client: of a closed workload, or one that arrives, sends one request and leaves.
///
/// With many clients each is outside of the processor's caches when it acts, so everything that a
/// request needs fits into one cache line.
#[repr(C, align(64))]
pub struct Client {
    pub workload: u16,
    author: bool,
    pub fast: bool,
    pub class: u32,
    /// Its number in the tables, among all clients so far.
    id: u32,
    /// Its server.
    server: u32,
    pub think: Stream,
    pub choice: Stream,
    requests: Stream,
    /// When the operation began.
    asked: i64,
    tries: u32,
    fetched: u32,
    /// Outstanding requests of the operation: the first, and the hedge.
    out: [u32; 2],
    times_out: i64,
    hedges: i64,
    position: Position,
    /// Its number among all clients of its workload; of a trace, that of its request.
    pub number: u32,
    /// The page was requested in the ramp.
    early: bool,
    /// It and all objects of it so far have arrived.
    whole: bool,
    /// When it was requested, for a page that embeds objects.
    page: i64,
}

pub struct Clients {
    pub all: Vec<Client>,
    gone: Vec<u32>,
    came: u32,
    pub sources: Vec<Source>,
    /// How many tiers the factors of traces distinguish.
    tiers: usize,
    /// Of all traces, row by row.
    factors: Vec<f32>,
}

impl Clients {
    pub fn new(plan: &Plan) -> Self {
        let tiers = plan.tiers as usize;
        let (mut sources, mut factors) = (Vec::new(), Vec::new());
        for (number, workload) in plan.workloads.iter().enumerate() {
            let mut source = Source::new(plan, number, workload);
            if let Arrivals::Trace(trace) = &workload.arrivals {
                if !trace.factors.is_empty() {
                    source.first_row = Some((factors.len() / tiers.max(1)) as u32);
                    factors.extend_from_slice(&trace.factors);
                }
            }
            sources.push(source);
        }
        Clients {
            all: Vec::new(),
            gone: Vec::new(),
            came: 0,
            sources,
            tiers,
            factors,
        }
    }

    /// The factor of a row for the work in a tier.
    #[inline]
    pub fn factor(&self, row: u32, tier: u32) -> f64 {
        f64::from(self.factors[row as usize * self.tiers + tier as usize])
    }

    /// Lets the processor load a client that will act soon, while other work continues.
    #[inline]
    pub fn fetch(&self, client: u32) {
        if let Some(client) = self.all.get(client as usize) {
            prefetch(client);
        }
    }

    pub fn workload_of(&self, client: u32) -> usize {
        self.all[client as usize].workload as usize
    }

    pub fn add(&mut self, plan: &Plan, workload: usize) -> u32 {
        let source = &mut self.sources[workload];
        let number = source.came;
        source.came += 1;
        let entity = (workload as u64) << 40 | number;
        let stream = |purpose| Stream::of(plan.seed, plan.replication, entity, purpose);
        let mut mode = stream(Purpose::Mode);
        let entries = &plan.workloads[workload].entries;
        let client = Client {
            workload: workload as u16,
            id: self.came,
            number: number as u32,
            early: false,
            whole: true,
            page: 0,
            server: entries[(number % entries.len() as u64) as usize],
            position: Position::default(),
            author: source.chooser.draw_author(&mut mode),
            fast: begins_fast(&plan.workloads[workload].arrivals, &mut mode),
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
        self.came = self.came.wrapping_add(1);
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

/// Prefetches into the caches, without waiting as a load would. On processors other than x86-64 it
/// does nothing.
#[inline(always)]
#[allow(unsafe_code)]
fn prefetch<T>(what: &T) {
    // SAFETY: a hint, which may name any address.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(what).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = what;
}

impl<S: Sink> Sim<'_, S> {
    /// A client has finished thinking or pausing.
    #[inline(always)]
    pub(super) fn client_acts(&mut self, client: u32) -> GoesOn {
        let c = &mut self.clients.all[client as usize];
        let source = &self.clients.sources[c.workload as usize];
        if self.now >= source.end {
            return None;
        }
        if c.tries == 0 && c.fetched == 0 {
            let number = c.number as usize;
            let recorded = match &self.plan.workloads[c.workload as usize].arrivals {
                Arrivals::Trace(trace) => trace.classes.get(number),
                _ => None,
            };
            c.class = match recorded {
                Some(&class) => class,
                None => source
                    .chooser
                    .next(c.author, &mut c.position, &mut c.choice),
            };
        }
        self.ask(client)
    }

    /// A new operation: one request, and the timers for a missing answer.
    #[inline(always)]
    pub(super) fn ask(&mut self, client: u32) -> GoesOn {
        let c = &mut self.clients.all[client as usize];
        c.asked = self.now;
        let settings = &self.plan.workloads[c.workload as usize];
        if let (0, Some(share)) = (c.tries, settings.retry_budget) {
            let left = &mut self.clients.sources[c.workload as usize].repeats_left;
            *left = (*left + share).min(BUCKET);
        }
        if c.fetched == 0 {
            c.early = self.now < self.plan.record_from;
        }
        if settings.timeout > 0 {
            c.times_out = self.now + settings.timeout;
            self.queue.push(c.times_out, Kind::Timeout, client);
        }
        if settings.hedge > 0 {
            c.hedges = self.now + settings.hedge;
            self.queue.push(c.hedges, Kind::Hedge, client);
        }
        self.send(client, 0)
    }

    #[inline(always)]
    fn send(&mut self, client: u32, slot: usize) -> GoesOn {
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
        stay.asker = c.id;
        // A hedge is recorded like its first request.
        stay.recorded = c.asked >= self.plan.record_from;
        stay.kept = settings.kept;
        let first_row = self.clients.sources[c.workload as usize].first_row;
        stay.row = first_row.map_or(NONE, |first| first + c.number);
        stay.server = c.server;
        if slot == 1 && settings.hedge_elsewhere {
            stay.server = after(&settings.entries, c.server);
        }
        c.out[slot] = number;
        self.connect(number)
    }

    /// The answer to a request, or its failure.
    #[inline(always)]
    pub(super) fn client_gets(&mut self, stay: u32) {
        let s = &self.stays[stay];
        if s.abandoned {
            return;
        }
        let (client, status, recorded) = (s.client, s.status, s.recorded);
        let silent = self.plan.classes[s.class as usize].silent;
        self.write_request(stay, status);
        let c = &mut self.clients.all[client as usize];
        for out in c.out.iter_mut().filter(|out| **out == stay) {
            *out = NONE;
        }
        // One failed, but the other may succeed.
        if status != Status::Ok && c.out != [NONE; 2] {
            return;
        }
        let asked = c.asked;
        if !silent {
            self.counts(client, asked, status, recorded);
        }
        let c = &self.clients.all[client as usize];
        if c.out != [NONE; 2] {
            self.abandon(client);
        }
        if status == Status::Ok && self.clients.all[client as usize].early {
            self.counts_early(client);
        }
        self.operation_ends(client, status == Status::Ok);
    }

    /// A request and its hedge count as one, and so do a page and what it embeds, unless that is
    /// apart; a repetition counts as a new request.
    #[inline(always)]
    fn counts(&mut self, client: u32, asked: i64, status: Status, recorded: bool) {
        let c = &self.clients.all[client as usize];
        let settings = &self.plan.workloads[c.workload as usize];
        if settings.retried_as_one {
            self.counts_with_repetitions(client, status);
        } else if !settings.embedded.is_empty() && !settings.embedded_apart {
            self.counts_of_page(client, status == Status::Ok);
        } else if recorded && c.fetched == 0 {
            let in_time = self.now < self.plan.duration;
            self.report.count(self.now - asked, status, in_time);
        }
    }

    /// The operation counts when it is over, from its first attempt on.
    fn counts_with_repetitions(&mut self, client: u32, status: Status) {
        let workload = self.clients.workload_of(client);
        let next = self.now + self.plan.workloads[workload].retry_pause;
        let in_time = next < self.clients.sources[workload].end;
        let again = status != Status::Ok && in_time && self.repeats(client);
        let c = &mut self.clients.all[client as usize];
        if c.tries == 0 {
            c.page = c.asked;
        }
        if !again && c.page >= self.plan.record_from {
            let (took, in_time) = (self.now - c.page, self.now < self.plan.duration);
            self.report.count(took, status, in_time);
        }
    }

    fn counts_of_page(&mut self, client: u32, well: bool) {
        let c = &mut self.clients.all[client as usize];
        let settings = &self.plan.workloads[c.workload as usize];
        let again = !well && c.tries < settings.retries;
        if c.fetched == 0 {
            (c.page, c.whole) = (c.asked, true);
        }
        c.whole &= well;
        let more = embeds_more(c, settings, well);
        if c.early || again && c.fetched > 0 || !again && more {
            return;
        }
        let (took, whole) = (self.now - c.page, c.whole);
        self.counts_page(took, whole);
    }

    fn counts_page(&mut self, took: i64, whole: bool) {
        let status = if whole { Status::Ok } else { Status::Failed };
        let in_time = self.now < self.plan.duration;
        self.report.count(took, status, in_time);
    }

    /// A client that sends nothing more completes its page with what has arrived.
    #[inline]
    fn may_stay_incomplete(&mut self, client: u32, from: i64) {
        let c = &self.clients.all[client as usize];
        let apart = self.plan.workloads[c.workload as usize].embedded_apart;
        if c.fetched > 0
            && !apart
            && !c.early
            && from >= self.clients.sources[c.workload as usize].end
        {
            let (took, whole) = (self.now - c.page, c.whole);
            self.counts_page(took, whole);
        }
    }

    /// A page that was requested in the ramp and arrived within the interval: it is in no table.
    #[cold]
    fn counts_early(&mut self, client: u32) {
        let c = &self.clients.all[client as usize];
        let settings = &self.plan.workloads[c.workload as usize];
        let last = match settings.embedded_apart {
            true => 0,
            false => settings.embedded.len(),
        };
        if self.now >= self.plan.record_from
            && self.now < self.plan.duration
            && c.fetched as usize == last
        {
            self.report.counts.early[c.server as usize] += 1;
        }
    }

    /// Outstanding requests are no longer awaited, and continue without their client. Returns
    /// whether there were any, and whether they are recorded.
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

    /// Whether a client repeats a request that failed.
    #[inline(always)]
    fn repeats(&self, client: u32) -> bool {
        let c = &self.clients.all[client as usize];
        let settings = &self.plan.workloads[c.workload as usize];
        let source = &self.clients.sources[c.workload as usize];
        c.tries < settings.retries && source.repeats_left >= 1.0
    }

    /// Repeats the request, or gives up.
    #[inline(always)]
    fn operation_ends(&mut self, client: u32, well: bool) {
        if well || !self.repeats(client) {
            return self.has_page(client, well);
        }
        let c = &mut self.clients.all[client as usize];
        let settings = &self.plan.workloads[c.workload as usize];
        if settings.retry_budget.is_some() {
            self.clients.sources[c.workload as usize].repeats_left -= 1.0;
        }
        c.tries += 1;
        let again = self.now + settings.retry_pause;
        self.may_stay_incomplete(client, again);
        self.queue.push(again, Kind::Client, client);
    }

    /// The operation is over: the next embedded object, or a pause.
    #[inline(always)]
    fn has_page(&mut self, client: u32, well: bool) {
        let c = &mut self.clients.all[client as usize];
        c.tries = 0;
        let number = c.workload as usize;
        let settings = &self.plan.workloads[number];
        if embeds_more(c, settings, well) {
            c.fetched += 1;
            self.may_stay_incomplete(client, self.now);
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
            Arrivals::Trace(trace) => match trace.after(c.number) {
                Some(next) => {
                    c.number = next;
                    let pause = trace.times[next as usize];
                    self.queue.push(self.now + pause, Kind::Client, client);
                }
                None => self.clients.gone.push(client),
            },
            _ => self.clients.gone.push(client),
        }
    }

    pub(super) fn client_times_out(&mut self, client: u32) {
        if self.clients.all[client as usize].times_out != self.now {
            return;
        }
        let (waited, recorded) = self.abandon(client);
        if waited {
            let asked = self.clients.all[client as usize].asked;
            self.counts(client, asked, Status::Abandoned, recorded);
            self.operation_ends(client, false);
        }
    }

    pub(super) fn client_hedges(&mut self, client: u32) -> GoesOn {
        let c = &self.clients.all[client as usize];
        if c.hedges == self.now && c.out[0] != NONE && c.out[1] == NONE {
            return self.send(client, 1);
        }
        None
    }
}

/// The next of the entries, which are a circle.
fn after(entries: &[u32], server: u32) -> u32 {
    let at = entries.iter().position(|&entry| entry == server);
    at.map_or(server, |at| entries[(at + 1) % entries.len()])
}

/// Whether an object of the page is still to be fetched; a page that never arrived embeds nothing.
#[inline(always)]
fn embeds_more(client: &Client, settings: &Workload, well: bool) -> bool {
    (well || client.fetched > 0) && (client.fetched as usize) < settings.embedded.len()
}
