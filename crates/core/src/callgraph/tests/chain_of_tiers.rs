//! A small n-tier system with blocking servers, whose visits know their true parents.
//!
//! Each tier has threads, a backlog and one CPU that serves its bursts in random order (which
//! spreads times as processor sharing does). A visit is a burst, followed by a call and a burst for
//! each of its calls. A full backlog drops the SYN, which is repeated 1, 2 and 4 s later.

use crate::record::{Names, Visit, NO_ID, NO_NAME, NO_TIME};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

pub const MS: i64 = 1_000_000;
pub const SECOND: i64 = 1_000 * MS;

pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn exponential(&mut self, mean: f64) -> i64 {
        let u = ((self.next() >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
        (-u.ln() * mean) as i64 + 1_000
    }
}

#[derive(Clone)]
pub struct Tier {
    pub threads: usize,
    pub backlog: usize,
    /// Mean of a burst, ns.
    pub burst: f64,
    /// A visit makes 1 to this many calls, by its interaction.
    pub calls_max: u64,
}

#[derive(Clone)]
pub struct System {
    pub seed: u64,
    pub tiers: Vec<Tier>,
    pub per_second: f64,
    pub seconds: f64,
    /// (tier, begin, length): its CPU stands still.
    pub stalls: Vec<(usize, i64, i64)>,
    /// All servers and the clients share one host.
    pub one_host: bool,
}

struct Stay {
    tier: usize,
    parent: Option<usize>,
    interaction: u32,
    sent: i64,
    arrival: i64,
    first_byte: i64,
    departure: i64,
    drops: u8,
    calls_left: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrive(usize),
    CpuDone(usize, usize),
    CpuFree(usize),
    Answered(usize),
}

struct Station {
    free_threads: usize,
    backlog: VecDeque<usize>,
    runnable: Vec<usize>,
    busy: bool,
}

struct Run<'a> {
    system: &'a System,
    random: Random,
    stays: Vec<Stay>,
    stations: Vec<Station>,
    events: BinaryHeap<Reverse<(i64, u64, Event)>>,
    count: u64,
}

/// What a decoder would see (no parents), in order of departure, and the true parents by visit id.
pub struct Trace {
    pub names: Names,
    pub visits: Vec<Visit>,
    pub parents: Vec<u64>,
}

impl System {
    /// 150 and 165 threads, and a database with few; 1000 requests a second keep the second tier's
    /// CPU at 60 %.
    pub fn web_app_db(seed: u64) -> System {
        let tier = |threads, burst, calls_max| Tier {
            threads,
            backlog: 128,
            burst,
            calls_max,
        };
        let tiers = vec![tier(150, 1e5, 1), tier(300, 2e5, 3), tier(100, 1e5, 0)];
        System {
            seed,
            tiers,
            per_second: 1000.0,
            seconds: 20.0,
            stalls: vec![],
            one_host: false,
        }
    }

    pub fn run(&self) -> Trace {
        let station = |tier: &Tier| Station {
            free_threads: tier.threads,
            backlog: VecDeque::new(),
            runnable: vec![],
            busy: false,
        };
        let mut run = Run {
            system: self,
            random: Random(self.seed),
            stays: Vec::new(),
            stations: self.tiers.iter().map(station).collect(),
            events: BinaryHeap::new(),
            count: 0,
        };
        let mut at = SECOND;
        while at < SECOND + (self.seconds * SECOND as f64) as i64 {
            at += run.random.exponential(1e9 / self.per_second);
            run.call(at, 0, None);
        }
        while let Some(Reverse((now, _, event))) = run.events.pop() {
            run.step(now, event);
        }
        run.trace()
    }
}

impl Run<'_> {
    fn at(&mut self, time: i64, event: Event) {
        self.count += 1;
        self.events.push(Reverse((time, self.count, event)));
    }

    fn call(&mut self, now: i64, tier: usize, parent: Option<usize>) {
        let interaction = self.random.below(3) as u32;
        let calls_max = self.system.tiers[tier].calls_max;
        let calls_left = if calls_max == 0 {
            0
        } else {
            1 + u64::from(interaction) % calls_max
        };
        let times = (now, now, NO_TIME, NO_TIME);
        let (sent, arrival, first_byte, departure) = times;
        self.stays.push(Stay {
            tier,
            parent,
            interaction,
            sent,
            arrival,
            first_byte,
            departure,
            drops: 0,
            calls_left,
        });
        self.at(now, Event::Arrive(self.stays.len() - 1));
    }

    fn step(&mut self, now: i64, event: Event) {
        match event {
            Event::Arrive(stay) => self.arrive(now, stay),
            Event::CpuFree(tier) => {
                self.stations[tier].busy = false;
                self.dispatch(now, tier);
            }
            Event::CpuDone(tier, stay) => {
                self.stations[tier].busy = false;
                self.after_burst(now, stay);
                self.dispatch(now, tier);
            }
            Event::Answered(stay) => {
                let tier = self.stays[stay].tier;
                self.stations[tier].runnable.push(stay);
                self.dispatch(now, tier);
            }
        }
    }

    fn arrive(&mut self, now: i64, stay: usize) {
        let tier = self.stays[stay].tier;
        let station = &mut self.stations[tier];
        if station.free_threads > 0 {
            station.free_threads -= 1;
            station.runnable.push(stay);
            self.dispatch(now, tier);
        } else if station.backlog.len() <= self.system.tiers[tier].backlog {
            station.backlog.push_back(stay);
        } else {
            let drops = &mut self.stays[stay].drops;
            let again = now + (SECOND << *drops);
            *drops += 1;
            self.stays[stay].arrival = again;
            self.at(again, Event::Arrive(stay));
        }
    }

    fn dispatch(&mut self, now: i64, tier: usize) {
        if self.stations[tier].busy || self.stations[tier].runnable.is_empty() {
            return;
        }
        let stall = self
            .system
            .stalls
            .iter()
            .find(|&&(at, begin, length)| at == tier && (begin..begin + length).contains(&now));
        self.stations[tier].busy = true;
        if let Some(&(_, begin, length)) = stall {
            return self.at(begin + length, Event::CpuFree(tier));
        }
        let pick = self.random.below(self.stations[tier].runnable.len() as u64) as usize;
        let stay = self.stations[tier].runnable.swap_remove(pick);
        let burst = self.random.exponential(self.system.tiers[tier].burst);
        self.at(now + burst, Event::CpuDone(tier, stay));
    }

    fn after_burst(&mut self, now: i64, index: usize) {
        let tier = self.stays[index].tier;
        if self.stays[index].calls_left > 0 {
            self.stays[index].calls_left -= 1;
            let wire = 20_000 + self.random.below(40_000) as i64;
            return self.call(now + wire, tier + 1, Some(index));
        }
        let stay = &mut self.stays[index];
        (stay.first_byte, stay.departure) = (now, now + 5_000);
        let parent = stay.parent;
        if let Some(parent) = parent {
            let wire = 20_000 + self.random.below(40_000) as i64;
            self.at(now + wire, Event::Answered(parent));
        }
        match self.stations[tier].backlog.pop_front() {
            Some(next) => self.stations[tier].runnable.push(next),
            None => self.stations[tier].free_threads += 1,
        }
    }

    fn trace(self) -> Trace {
        let tiers = self.system.tiers.len() as u32;
        let host = |tier: u32| if self.system.one_host { 0 } else { tier + 1 };
        let names = Names {
            servers: (0..tiers).map(|tier| format!("server {tier}")).collect(),
            server_hosts: (0..tiers).map(host).collect(),
            hosts: (0..=tiers).map(|host| format!("10.0.0.{host}")).collect(),
            interactions: (0..3).map(|i| format!("GET /{i}")).collect(),
            folded: Vec::new(),
            statuses: vec!["ok".to_string()],
            ..Names::default()
        };
        let parents = std::iter::once(NO_ID).chain(
            self.stays
                .iter()
                .map(|s| s.parent.map_or(NO_ID, |p| p as u64 + 1)),
        );
        let parents = parents.collect();
        let mut visits: Vec<Visit> = self
            .stays
            .iter()
            .enumerate()
            .map(|(i, stay)| visit(i, stay, host))
            .collect();
        visits.sort_by_key(|v| (v.departure, v.visit));
        Trace {
            names,
            visits,
            parents,
        }
    }
}

fn visit(index: usize, stay: &Stay, host: impl Fn(u32) -> u32) -> Visit {
    let tier = stay.tier as u32;
    Visit {
        visit: index as u64 + 1,
        server: tier,
        caller: if tier == 0 { 0 } else { host(tier - 1) },
        interaction: stay.interaction,
        sent: stay.sent,
        arrival: stay.arrival,
        start: crate::record::NO_TIME,
        first_byte: stay.first_byte,
        departure: stay.departure,
        drops: stay.drops,
        ..blank(index as u64 + 1)
    }
}

pub fn blank(id: u64) -> Visit {
    Visit {
        visit: id,
        server: 0,
        caller: 0,
        connection: 0,
        interaction: NO_NAME,
        key: 0,
        sent: 0,
        connected: NO_TIME,
        arrival: 0,
        start: crate::record::NO_TIME,
        first_byte: NO_TIME,
        departure: 0,
        drops: 0,
        data_drops: 0,
        status: 0,
        bytes_in: 0,
        bytes_out: 0,
        served: true,
        parent: NO_ID,
        request: NO_ID,
        downstream_ns: NO_TIME,
    }
}
