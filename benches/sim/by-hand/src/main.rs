//! The bound: a loop written by hand for exactly the benchmark's three models, and good for nothing else.
//!
//!     by-hand MODEL SECONDS      MODEL: single, tiers, stalls
//!
//! What a skilled person would write who needs only this: one generator, the client's number is the request's, no rows,
//! no classes, no network, three tiers at most. Prints what was counted as one line of JSON.

mod cpu;
mod heap;

use cpu::Cpu;
use heap::Heap;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1};
use rand_xoshiro::Xoshiro256PlusPlus;

const SECOND: u64 = 1_000_000_000;
const NONE: u32 = u32::MAX;
/// After the first attempt; a linear start as in Linux since 6.5.
const REPEATS: [u64; 7] = [1, 2, 3, 4, 5, 7, 11];
const STALL_EVERY: u64 = 15 * SECOND;
const STALL: u64 = 400_000_000;
const SAMPLE: u64 = 50_000_000;

struct Model<const TIERS: usize, const PHASES: usize> {
    clients: u32,
    think: f64,
    /// The tier of each burst of computing, and its mean, ns.
    phases: [(usize, f64); PHASES],
    threads: [u32; TIERS],
    accept_queue: u32,
}

#[derive(Clone)]
struct Client {
    sent: u64,
    /// When the connection under way was first tried, and how often it was lost.
    connecting: u64,
    drops: u32,
    phase: u32,
    next: u32,
}

/// Threads, and who waits for one.
#[derive(Clone, Copy)]
struct Tier {
    free: u32,
    waiting: u32,
    head: u32,
    tail: u32,
}

#[derive(Default)]
struct Counts {
    requests: u64,
    response_ns: u64,
    over_1s: u64,
    drops: u64,
    gave_up: u64,
}

struct Run<'a, const TIERS: usize, const PHASES: usize> {
    model: &'a Model<TIERS, PHASES>,
    now: u64,
    future: Heap,
    order: u32,
    cpus: [Cpu; TIERS],
    tiers: [Tier; TIERS],
    clients: Vec<Client>,
    random: Xoshiro256PlusPlus,
    counts: Counts,
    samples: Vec<[f32; 3]>,
}

impl<'a, const TIERS: usize, const PHASES: usize> Run<'a, TIERS, PHASES> {
    fn new(model: &'a Model<TIERS, PHASES>) -> Self {
        let client = Client {
            sent: 0,
            connecting: 0,
            drops: 0,
            phase: 0,
            next: NONE,
        };
        Run {
            model,
            now: 0,
            future: Heap::default(),
            order: 0,
            cpus: std::array::from_fn(|_| Cpu::default()),
            tiers: std::array::from_fn(|i| Tier {
                free: model.threads[i],
                waiting: 0,
                head: NONE,
                tail: NONE,
            }),
            clients: vec![client; model.clients as usize],
            random: Xoshiro256PlusPlus::seed_from_u64(1),
            counts: Counts::default(),
            samples: Vec::new(),
        }
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        let x: f64 = Exp1.sample(&mut self.random);
        x * mean
    }

    fn at(&mut self, time: u64, client: u32) {
        self.order = self.order.wrapping_add(1);
        self.future
            .push(u128::from(time) << 64 | u128::from(self.order) << 32 | u128::from(client));
    }

    fn think(&mut self, client: u32) {
        let pause = self.exponential(self.model.think) as u64;
        self.at(self.now + pause, client);
    }

    /// A client has thought, or a lost SYN comes again.
    fn due(&mut self, number: u32) {
        let client = &mut self.clients[number as usize];
        if client.drops == 0 {
            (client.sent, client.connecting, client.phase) = (self.now, self.now, 0);
        }
        self.connect(number);
    }

    fn connect(&mut self, number: u32) {
        let client = &mut self.clients[number as usize];
        let tier = &mut self.tiers[self.model.phases[client.phase as usize].0];
        if tier.free > 0 {
            tier.free -= 1;
            client.drops = 0;
            self.compute(number);
        } else if tier.waiting < self.model.accept_queue {
            client.drops = 0;
            client.next = NONE;
            let last = std::mem::replace(&mut tier.tail, number);
            if tier.waiting == 0 {
                tier.head = number;
            } else {
                self.clients[last as usize].next = number;
            }
            tier.waiting += 1;
        } else {
            let after = REPEATS.get(client.drops as usize);
            client.drops += 1;
            self.counts.drops += 1;
            match after {
                Some(seconds) => {
                    let time = client.connecting + seconds * SECOND;
                    self.at(time, number);
                }
                None => {
                    self.counts.gave_up += 1;
                    client.drops = 0;
                    self.think(number);
                }
            }
        }
    }

    fn compute(&mut self, number: u32) {
        let (tier, mean) = self.model.phases[self.clients[number as usize].phase as usize];
        let work = self.exponential(mean);
        self.cpus[tier].add(self.now, work, number);
    }

    fn leave(&mut self, tier: usize) {
        let tier = &mut self.tiers[tier];
        if tier.waiting == 0 {
            tier.free += 1;
            return;
        }
        let next = tier.head;
        tier.head = self.clients[next as usize].next;
        tier.waiting -= 1;
        self.compute(next);
    }

    fn computed(&mut self, number: u32) {
        let client = &mut self.clients[number as usize];
        let from = self.model.phases[client.phase as usize].0;
        client.phase += 1;
        let Some(&(to, _)) = self.model.phases.get(client.phase as usize) else {
            let took = self.now - client.sent;
            self.counts.requests += 1;
            self.counts.response_ns += took;
            self.counts.over_1s += u64::from(took >= SECOND);
            self.leave(from);
            return self.think(number);
        };
        if to > from {
            client.connecting = self.now;
            self.connect(number);
        } else {
            self.leave(from);
            self.compute(number);
        }
    }

    fn sample(&mut self) {
        for (cpu, tier) in self.cpus.iter_mut().zip(&self.tiers) {
            self.samples
                .push([cpu.busy(self.now) as f32, tier.waiting as f32, tier.free as f32]);
        }
    }

    /// Until nobody may send any more and nobody is inside. `STALLS`: the last tier stalls, and monitors look.
    fn run<const STALLS: bool>(&mut self, duration: u64) {
        for number in 0..self.model.clients {
            let first: f64 = self.random.random();
            self.at((first * self.model.think) as u64, number);
        }
        let mut sample = if STALLS { SAMPLE } else { u64::MAX };
        let mut stall = if STALLS { STALL_EVERY } else { u64::MAX };
        loop {
            let (cpu, which) = cpu::first(&self.cpus);
            let queued = self.future.first().map_or(u64::MAX, |key| (key >> 64) as u64);
            let time = cpu.min(queued);
            if STALLS && time >= sample.min(stall) {
                self.now = sample.min(stall);
                if stall <= sample {
                    let begins = stall % STALL_EVERY == 0;
                    self.cpus[TIERS - 1].set_speed(self.now, if begins { 0.0 } else { 1.0 });
                    stall += if begins { STALL } else { STALL_EVERY - STALL };
                } else {
                    self.sample();
                    sample += SAMPLE;
                }
                continue;
            }
            if time >= duration {
                break;
            }
            self.now = time;
            if cpu <= queued {
                let number = self.cpus[which].take(time);
                self.computed(number);
            } else if let Some(key) = self.future.pop() {
                self.due(key as u32);
            }
        }
    }
}

fn report<const TIERS: usize, const PHASES: usize>(run: Run<TIERS, PHASES>) {
    let c = &run.counts;
    println!(
        "{{\"answered\": {}, \"response_ns\": {}, \"over_1s\": {}, \"drops\": {}, \"samples\": {}}}",
        c.requests,
        c.response_ns,
        c.over_1s,
        c.drops,
        run.samples.len()
    );
}

const TIERS: Model<3, 5> = Model {
    clients: 1000,
    think: 1e9,
    phases: [(0, 1e5), (1, 2e5), (2, 5e5), (1, 2e5), (0, 1e5)],
    threads: [150, 50, 50],
    accept_queue: u32::MAX,
};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let seconds = arguments.get(2).and_then(|s| s.parse::<u64>().ok());
    let (Some(model), Some(seconds)) = (arguments.get(1), seconds) else {
        eprintln!("by-hand single|tiers|stalls SECONDS");
        std::process::exit(2);
    };
    match model.as_str() {
        "single" => {
            let model = Model {
                clients: 1000,
                think: 1e9,
                phases: [(0, 5e5)],
                threads: [u32::MAX],
                accept_queue: 0,
            };
            let mut run = Run::new(&model);
            run.run::<false>(seconds * SECOND);
            report(run);
        }
        "tiers" => {
            let mut run = Run::new(&TIERS);
            run.run::<false>(seconds * SECOND);
            report(run);
        }
        _ => {
            let model = Model {
                clients: 7000,
                think: 7e9,
                accept_queue: 129,
                ..TIERS
            };
            let mut run = Run::new(&model);
            run.run::<true>(seconds * SECOND);
            report(run);
        }
    }
}
