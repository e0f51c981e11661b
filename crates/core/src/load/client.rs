//! A client: of a closed workload, or one that arrives, sends one request and leaves.

use super::plan::{Piece, Plan, Workload};
use crate::record::NO_TIME;
use crate::rng::{Purpose, Stream};
use crate::workload::plan::{Arrivals, Chain};
use crate::workload::{self, begins_fast, Arriving, Chooser, Mode, Position};
use std::io::Write;
use std::net::{IpAddr, SocketAddr};

pub const NONE: u32 = u32::MAX;

pub struct Client {
    pub workload: u32,
    /// Its number among all clients of all workers. It determines its server and its random
    /// streams.
    pub number: u64,
    author: bool,
    fast: bool,
    think: Stream,
    choice: Stream,
    requests: Stream,
    position: Position,
    pub class: u32,
    /// The class of the next request, if a trace gives it.
    pub given: Option<u32>,
    pub tries: u32,
    pub fetched: u32,
    pub connection: u32,
    /// The request uses an existing connection.
    pub reused: bool,
    /// Whether a request is outstanding, and how many were sent before.
    pub open: bool,
    pub asked: u32,
    drawn: Vec<u32>,
    /// What is sent.
    pub request: Vec<u8>,
    pub intended: i64,
    pub sent: i64,
    pub connected: i64,
    pub first_byte: i64,
}

/// One workload while it runs.
pub struct Source {
    chooser: Chooser,
    modes: Vec<Mode>,
    pub open: Arriving,
    pub came: u64,
    /// Surges that have ended and are not in the log yet: begin and end.
    pub surges: Vec<(i64, i64)>,
}

/// The stream that the simulator would use, so its clients request the same pages.
fn stream(plan: &Plan, workload: usize, number: u64, purpose: Purpose) -> Stream {
    let entity = (workload as u64) << 40 | number;
    Stream::of(plan.seed, plan.replication, entity, purpose)
}

pub fn chain_of(workload: &Workload) -> Option<&Chain> {
    match &workload.arrivals {
        Arrivals::Closed { chain, .. } => chain.as_ref(),
        _ => None,
    }
}

impl Source {
    pub fn new(plan: &Plan, number: usize, workload: &Workload) -> Self {
        let shared = |i: u64, purpose| stream(plan, number, 1 << 39 | i, purpose);
        let modes = chain_of(workload).into_iter().flat_map(|chain| {
            (0..u64::from(chain.chains)).map(move |i| {
                let stream = shared(i, Purpose::Mode);
                Mode::new(&workload.arrivals, i as u32, workload.begin, stream)
            })
        });
        Source {
            chooser: Chooser::new(&workload.choice, &workload.arrivals),
            modes: modes.collect(),
            open: Arriving::new(shared(0, Purpose::Arrival)),
            came: 0,
            surges: Vec::new(),
        }
    }

    /// Surges that last beyond `now` end there: those of this worker's clients, and those of open
    /// arrivals, which all workers draw and the first one writes.
    pub fn close(&mut self, plan: &Plan, workload: &Workload, now: i64) {
        let modes = (0..).zip(&self.modes);
        let mine = modes.filter(|&(number, _)| plan.is_mine(workload, number));
        let open = self.open.burst(&workload.arrivals);
        let open = open.filter(|_| plan.share == 0).map(|(since, _)| since);
        let begun = mine.filter_map(|(_, mode)| mode.surge()).chain(open);
        let lasting = begun.filter(|&since| since < now);
        self.surges.extend(lasting.map(|since| (since, now)));
    }

    /// The arrival after the one at `after`; none comes from `ends` on.
    pub fn next_open(&mut self, plan: &Plan, arrivals: &Arrivals, after: i64, ends: i64) -> i64 {
        let before = self.open.burst(arrivals);
        let next = self.open.next(arrivals, after);
        if plan.share == 0 && self.open.burst(arrivals) != before {
            let surge = before.map(|(since, until)| (since, until.min(ends)));
            self.surges.extend(surge);
        }
        next
    }
}

impl Client {
    pub fn new(plan: &Plan, workload: usize, number: u64, source: &Source) -> Self {
        let mut mode = stream(plan, workload, number, Purpose::Mode);
        let author = source.chooser.draw_author(&mut mode);
        Client {
            workload: workload as u32,
            number,
            author,
            fast: begins_fast(&plan.workloads[workload].arrivals, &mut mode),
            think: stream(plan, workload, number, Purpose::Think),
            choice: stream(plan, workload, number, Purpose::Choice),
            requests: stream(plan, workload, number, Purpose::Request),
            position: Position::default(),
            class: 0,
            given: None,
            tries: 0,
            fetched: 0,
            connection: NONE,
            reused: false,
            open: false,
            asked: 0,
            drawn: Vec::new(),
            request: Vec::new(),
            intended: 0,
            sent: 0,
            connected: NO_TIME,
            first_byte: NO_TIME,
        }
    }

    /// When a client of a closed workload sends first, after the begin of the workload.
    pub fn first_pause(&mut self, plan: &Plan, source: &mut Source) -> i64 {
        match &plan.workloads[self.workload as usize].arrivals {
            Arrivals::Closed {
                spread: Some(spread),
                ..
            } => {
                let workload = self.workload as usize;
                let mut start = stream(plan, workload, self.number, Purpose::Start);
                (start.uniform() * *spread as f64) as i64
            }
            Arrivals::Closed {
                chain: Some(chain), ..
            } if chain.chains > 0 => {
                let modes = source.modes.len() as u64;
                let fast = source.modes[(self.number % modes) as usize].first();
                (self.think.exponential() * chain.mean(fast)) as i64
            }
            Arrivals::Closed {
                chain: None,
                think,
                think_max,
                ..
            } => workload::rest(think, *think_max, &mut self.think),
            _ => self.pause(plan, source, 0),
        }
    }

    /// How long it thinks from `now` on.
    pub fn pause(&mut self, plan: &Plan, source: &mut Source, now: i64) -> i64 {
        let Arrivals::Closed {
            think,
            think_max,
            chain,
            ..
        } = &plan.workloads[self.workload as usize].arrivals
        else {
            return 0;
        };
        let Some(chain) = chain else {
            return workload::think(think, *think_max, &mut self.think);
        };
        let x = self.think.exponential();
        if chain.chains == 0 {
            let pause = x * chain.mean(self.fast);
            self.fast ^= self.choice.uniform() < chain.leaves(self.fast);
            return pause as i64;
        }
        let modes = source.modes.len() as u64;
        let mode = &mut source.modes[(self.number % modes) as usize];
        let pause = x * chain.mean(mode.fast);
        source.surges.extend(mode.leave(chain, now));
        pause as i64
    }

    pub fn choose(&mut self, source: &Source) {
        self.class = source
            .chooser
            .next(self.author, &mut self.position, &mut self.choice);
    }

    /// Builds the next request.
    pub fn write_request(&mut self, plan: &Plan) {
        let target = &plan.targets[self.target(plan)];
        let out = &mut self.request;
        out.clear();
        out.extend_from_slice(b"GET ");
        out.extend_from_slice(target.prefix.as_bytes());
        let class = &plan.classes[self.class as usize];
        self.drawn.clear();
        for &(low, high) in &class.draws {
            let n = low + self.requests.below((high - low).saturating_add(1));
            self.drawn.push(n);
        }
        for piece in &class.path {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
                // Writing to memory cannot fail.
                Piece::Number(draw) => drop(write!(out, "{}", self.drawn[*draw as usize])),
                Piece::OneOf(draw, texts) => {
                    let text = texts.get(self.drawn[*draw as usize] as usize);
                    out.extend_from_slice(text.map_or(&[][..], |text| text.as_bytes()));
                }
            }
        }
        out.extend_from_slice(b" HTTP/1.1\r\n");
        out.extend_from_slice(target.fields.as_bytes());
        if !plan.workloads[self.workload as usize].kept {
            out.extend_from_slice(b"Connection: close\r\n");
        }
        out.extend_from_slice(b"\r\n");
    }

    /// The address it connects to, and the source address unless the kernel chooses.
    pub fn route(&self, plan: &Plan) -> (SocketAddr, Option<IpAddr>) {
        let round = self.number as usize / plan.workloads[self.workload as usize].targets.len();
        let from = plan.sources.get(round % plan.sources.len().max(1));
        (plan.targets[self.target(plan)].address, from.copied())
    }

    pub fn target(&self, plan: &Plan) -> usize {
        let targets = &plan.workloads[self.workload as usize].targets;
        targets[(self.number % targets.len() as u64) as usize] as usize
    }
}
