//! The origin of requests: when clients begin, how long they think, and the times of open arrivals.

use super::plan::{Arrivals, Chain, Plan, Time, Workload};
use super::queue::Kind;
use super::tables::Sink;
use super::Sim;
use crate::rng::{Purpose, Stream};
use crate::workload::{self, Arriving, Chooser, Mode};

/// The time step for examining a trace, ns, and the excess of arrivals that is a burst at least.
const CROWD_STEP: i64 = 100_000_000;
const CROWD_LEAST: f64 = 20.0;
/// Repetitions that a budget holds at most, and at the begin: `maxTokens` of gRPC's examples.
pub const BUCKET: f64 = 100.0;

/// One workload while it runs.
pub struct Source {
    pub chooser: Chooser,
    modes: Vec<Mode>,
    open: Arriving,
    pub came: u64,
    /// Of a trace with factors, where its rows begin among those of all traces.
    pub first_row: Option<u32>,
    /// No client sends from then on.
    pub end: i64,
    /// How many repetitions its budget allows.
    pub repeats_left: f64,
    /// For aggregated thinkers: their number, and when the next one sends.
    stream: Stream,
    pub thinking: Vec<u32>,
    due: i64,
}

/// The bursts of a trace, from its arrivals alone: steps with twice the mean number of arrivals
/// until the end, and twenty more; adjacent ones are merged.
fn crowds(times: &[i64], end: i64) -> Vec<(i64, i64)> {
    let times = &times[..times.partition_point(|&time| time < end)];
    let mean = times.len() as f64 * CROWD_STEP as f64 / end.max(CROWD_STEP) as f64;
    let many = (2.0 * mean).max(mean + CROWD_LEAST);
    let mut found: Vec<(i64, i64)> = Vec::new();
    for step in times.chunk_by(|a, b| a / CROWD_STEP == b / CROWD_STEP) {
        let (Some(&from), Some(&to)) = (step.first(), step.last()) else {
            continue;
        };
        match found.last_mut() {
            _ if (step.len() as f64) < many => {}
            Some(crowd) if from / CROWD_STEP - crowd.1 / CROWD_STEP <= 1 => crowd.1 = to,
            _ => found.push((from, to)),
        }
    }
    found
}

pub fn chain_of(workload: &Workload) -> Option<&Chain> {
    match &workload.arrivals {
        Arrivals::Closed { chain, .. } => chain.as_ref(),
        _ => None,
    }
}

impl Source {
    pub fn new(plan: &Plan, number: usize, workload: &Workload) -> Self {
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
            let stream = stream(1 << 39 | u64::from(i), Purpose::Mode);
            Mode::new(&workload.arrivals, i, workload.begin, stream)
        };
        Source {
            chooser: Chooser::new(&workload.choice, &workload.arrivals),
            modes: (0..modes).map(mode).collect(),
            open: Arriving::new(stream(1 << 39, Purpose::Arrival)),
            came: 0,
            first_row: None,
            end: workload.end.unwrap_or(plan.duration).min(plan.duration),
            repeats_left: workload.retry_budget.map_or(f64::INFINITY, |_| BUCKET),
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
            // Overlapping arrivals add up.
            let others = plan
                .workloads
                .iter()
                .any(|other| other.begin < begin && begin < other.end.unwrap_or(plan.duration));
            if let Some(end) = workload.end.filter(|_| others) {
                self.report.burst(plan, workload, begin, end);
            }
            match &workload.arrivals {
                Arrivals::Closed { .. } => self.start_closed(number, workload),
                Arrivals::Batch { first, .. } => {
                    self.queue.push(begin + first, Kind::Source, number as u32)
                }
                Arrivals::Trace(trace) => {
                    let times = trace.opening();
                    for (from, to) in crowds(times, self.clients.sources[number].end - begin) {
                        self.report.burst(plan, workload, begin + from, begin + to);
                    }
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

    /// Closed clients: when each sends first.
    fn start_closed(&mut self, number: usize, workload: &Workload) {
        let Arrivals::Closed {
            clients,
            think,
            think_max,
            chain,
            spread,
            aggregate,
        } = &workload.arrivals
        else {
            return;
        };
        let (plan, begin) = (self.plan, workload.begin);
        if *spread == Some(0) {
            self.report.burst(plan, workload, begin, begin);
        }
        for i in 0..*clients {
            let client = self.clients.add(plan, number);
            if *aggregate {
                self.clients.sources[number].thinking.push(client);
                continue;
            }
            let after = match spread {
                Some(spread) => {
                    let entity = (number as u64) << 40 | u64::from(i);
                    let mut start = Stream::of(plan.seed, plan.replication, entity, Purpose::Start);
                    (start.uniform() * *spread as f64) as i64
                }
                None => self.thinks_first(client, think, *think_max, chain.as_ref()),
            };
            self.queue.push(begin + after, Kind::Client, client);
        }
        if *aggregate {
            self.now = begin;
            self.draw_thinker(number);
            self.now = 0;
        }
    }

    /// The rest of the think time of a client that has long been thinking.
    fn thinks_first(&mut self, client: u32, think: &Time, most: i64, chain: Option<&Chain>) -> i64 {
        let c = &mut self.clients.all[client as usize];
        match chain {
            None => workload::rest(think, most, &mut c.think),
            Some(chain) if chain.chains == 0 => self.thinks(client, think, most, Some(chain)),
            Some(chain) => {
                let modes = &mut self.clients.sources[c.workload as usize].modes;
                let mode = c.number as usize % modes.len();
                let fast = modes[mode].first();
                (c.think.exponential() * chain.mean(fast)) as i64
            }
        }
    }

    #[inline(always)]
    pub(super) fn thinks(
        &mut self,
        client: u32,
        think: &Time,
        most: i64,
        chain: Option<&Chain>,
    ) -> i64 {
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
        let modes = source.modes.len();
        let mode = &mut source.modes[c.number as usize % modes];
        let pause = x * chain.mean(mode.fast);
        if let Some((since, until)) = mode.leave(chain, self.now) {
            let workload = &self.plan.workloads[c.workload as usize];
            self.report.burst(self.plan, workload, since, until);
        }
        pause as i64
    }

    /// Fast modes that last beyond the end of the run.
    pub(super) fn close_bursts(&mut self) {
        for (source, workload) in self.clients.sources.iter().zip(&self.plan.workloads) {
            let end = source.end.min(self.now);
            let open = source.open.burst(&workload.arrivals);
            let modes = source.modes.iter().filter_map(Mode::surge);
            let begun = modes.chain(open.map(|(since, _)| since));
            for since in begun.filter(|&since| since < end) {
                self.report.burst(self.plan, workload, since, end);
            }
        }
    }

    /// With exponential think times, k thinkers are one Poisson source of rate k / mean: drawn
    /// again whenever k changes.
    pub(super) fn draw_thinker(&mut self, number: usize) {
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
        if self.now >= self.clients.sources[n].end {
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
                let next = self.client_acts(client);
                self.go_on(next);
            }
            Arrivals::Batch { size, period, .. } => {
                self.report
                    .burst(plan, &plan.workloads[n], self.now, self.now);
                for _ in 0..*size {
                    let client = self.clients.add(plan, n);
                    let next = self.client_acts(client);
                    self.go_on(next);
                }
                self.queue.push(self.now + period, Kind::Source, number);
            }
            Arrivals::Trace(trace) => {
                let at = self.clients.sources[n].came as usize;
                let client = self.clients.add(plan, n);
                let next = self.client_acts(client);
                self.go_on(next);
                if let Some(next) = trace.opening().get(at + 1) {
                    self.queue.push(
                        (plan.workloads[n].begin + next).max(self.now),
                        Kind::Source,
                        number,
                    );
                }
            }
            Arrivals::Poisson { .. } | Arrivals::Modulated { .. } => {
                let client = self.clients.add(plan, n);
                let next = self.client_acts(client);
                self.go_on(next);
                let next = self.next_arrival(n, self.now);
                self.queue.push(next, Kind::Source, number);
            }
        }
    }

    fn next_arrival(&mut self, number: usize, now: i64) -> i64 {
        let plan = self.plan;
        let workload = &plan.workloads[number];
        let open = &mut self.clients.sources[number].open;
        let before = open.burst(&workload.arrivals);
        let next = open.next(&workload.arrivals, now);
        if let Some((since, until)) = before {
            if open.burst(&workload.arrivals) != before {
                let until = until.min(self.clients.sources[number].end);
                self.report.burst(plan, workload, since, until);
            }
        }
        next
    }
}
