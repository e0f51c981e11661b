//! The benchmark's models in simcore 0.1 (dslab), as its documentation writes them: components that send events.
//!
//!     simcore-driver MODEL SECONDS      MODEL: single, tiers, stalls
//!
//! CPUs serve one job after another instead of sharing themselves among all: less work an event, the same throughput, and
//! (times being exponential) the same mean response.

use rand_distr::Exp1;
use serde::Serialize;
use simcore::{cast, Event, EventHandler, Id, Simulation, SimulationContext};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

const REPEATS: [f64; 7] = [1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 11.0];
const STALL_EVERY: f64 = 15.0;
const STALL: f64 = 0.4;
const SAMPLE: f64 = 0.05;

#[derive(Clone, Serialize)]
struct Due {
    client: u32,
}

/// A call of `client` comes in; `sent` and `lost` are of its connection attempts.
#[derive(Clone, Serialize)]
struct Call {
    client: u32,
    sent: f64,
    lost: usize,
}

#[derive(Clone, Serialize)]
struct Answer {
    client: u32,
}

/// A burst of computing is over: the one before the call downstream, or the one after it.
#[derive(Clone, Serialize)]
struct Worked {
    client: u32,
    again: bool,
}

#[derive(Clone, Serialize)]
struct Stall {}

#[derive(Clone, Serialize)]
struct Look {}

#[derive(Default)]
struct Counts {
    answered: u64,
    response: f64,
    over_1s: u64,
    drops: u64,
}

struct Clients {
    context: SimulationContext,
    first: Id,
    think: f64,
    sent: Vec<f64>,
    counts: Rc<RefCell<Counts>>,
}

impl Clients {
    fn think(&self, client: u32) {
        let x: f64 = self.context.sample_from_distribution(&Exp1);
        self.context.emit_self(Due { client }, x * self.think);
    }
}

impl EventHandler for Clients {
    fn on(&mut self, event: Event) {
        cast!(match event.data {
            Due { client } => {
                let sent = self.context.time();
                self.sent[client as usize] = sent;
                self.context.emit_now(Call { client, sent, lost: 0 }, self.first);
            }
            Answer { client } => {
                let took = self.context.time() - self.sent[client as usize];
                let mut counts = self.counts.borrow_mut();
                counts.answered += 1;
                counts.response += took;
                counts.over_1s += u64::from(took >= 1.0);
                drop(counts);
                self.think(client);
            }
        })
    }
}

struct Tier {
    context: SimulationContext,
    /// Who asked, and whom to ask: components.
    caller: Id,
    callee: Option<Id>,
    work: f64,
    free: usize,
    accept_queue: usize,
    waiting: VecDeque<u32>,
    /// Jobs of the CPU, the one in service first.
    jobs: VecDeque<Worked>,
    stalled_until: f64,
    counts: Rc<RefCell<Counts>>,
}

impl Tier {
    fn compute(&mut self, client: u32, again: bool) {
        self.jobs.push_back(Worked { client, again });
        if self.jobs.len() == 1 {
            self.serve();
        }
    }

    fn serve(&mut self) {
        if let Some(job) = self.jobs.front() {
            let x: f64 = self.context.sample_from_distribution(&Exp1);
            let held = (self.stalled_until - self.context.time()).max(0.0);
            self.context.emit_self(job.clone(), held + x * self.work);
        }
    }

    fn leave(&mut self, client: u32) {
        self.context.emit_now(Answer { client }, self.caller);
        match self.waiting.pop_front() {
            Some(next) => self.compute(next, false),
            None => self.free += 1,
        }
    }
}

impl EventHandler for Tier {
    fn on(&mut self, event: Event) {
        cast!(match event.data {
            Call { client, sent, lost } => {
                if self.free > 0 {
                    self.free -= 1;
                    self.compute(client, false);
                } else if self.waiting.len() < self.accept_queue {
                    self.waiting.push_back(client);
                } else if let Some(after) = REPEATS.get(lost) {
                    self.counts.borrow_mut().drops += 1;
                    let delay = sent + after - self.context.time();
                    self.context.emit_self(
                        Call {
                            client,
                            sent,
                            lost: lost + 1,
                        },
                        delay,
                    );
                } else {
                    self.context.emit_now(Answer { client }, self.caller);
                }
            }
            Worked { client, again } => {
                if self.context.time() < self.stalled_until {
                    // In service when the stall began: that much later.
                    self.context.emit_self(Worked { client, again }, STALL);
                    return;
                }
                self.jobs.pop_front();
                self.serve();
                match self.callee {
                    Some(callee) if !again => {
                        let sent = self.context.time();
                        self.context.emit_now(Call { client, sent, lost: 0 }, callee);
                    }
                    _ => self.leave(client),
                }
            }
            Answer { client } => {
                self.compute(client, true);
            }
            Stall {} => {
                self.stalled_until = self.context.time() + STALL;
                self.context.emit_self(Stall {}, STALL_EVERY);
            }
        })
    }
}

struct Monitor {
    context: SimulationContext,
    tiers: Vec<Rc<RefCell<Tier>>>,
    samples: Vec<[u32; 3]>,
}

impl EventHandler for Monitor {
    fn on(&mut self, event: Event) {
        cast!(match event.data {
            Look {} => {
                for tier in &self.tiers {
                    let tier = tier.borrow();
                    self.samples
                        .push([tier.free as u32, tier.waiting.len() as u32, tier.jobs.len() as u32]);
                }
                self.context.emit_self(Look {}, SAMPLE);
            }
        })
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let seconds = arguments.get(2).and_then(|s| s.parse::<f64>().ok());
    let (Some(model), Some(seconds)) = (arguments.get(1), seconds) else {
        eprintln!("simcore-driver single|tiers|stalls SECONDS");
        std::process::exit(2);
    };
    let (single, stalls) = (model == "single", model == "stalls");
    let (clients, think) = if stalls { (7000, 7.0) } else { (1000, 1.0) };
    let tiers: &[(&str, usize, f64)] = if single {
        &[("s", usize::MAX, 5e-4)]
    } else {
        &[("web", 150, 1e-4), ("app", 50, 2e-4), ("db", 50, 5e-4)]
    };
    let mut simulation = Simulation::new(1);
    let counts = Rc::new(RefCell::new(Counts::default()));
    let context = simulation.create_context("clients");
    let contexts: Vec<_> = tiers.iter().map(|t| simulation.create_context(t.0)).collect();
    let ids: Vec<Id> = std::iter::once(context.id())
        .chain(contexts.iter().map(|c| c.id()))
        .collect();
    let parts: Vec<_> = contexts
        .into_iter()
        .zip(tiers)
        .enumerate()
        .map(|(i, (context, &(_, threads, work)))| {
            Rc::new(RefCell::new(Tier {
                context,
                caller: ids[i],
                callee: ids.get(i + 2).copied(),
                work,
                free: threads,
                accept_queue: if stalls { 129 } else { usize::MAX },
                waiting: VecDeque::new(),
                jobs: VecDeque::new(),
                stalled_until: 0.0,
                counts: counts.clone(),
            }))
        })
        .collect();
    for (part, tier) in parts.iter().zip(tiers) {
        simulation.add_handler(tier.0, part.clone());
    }
    if stalls {
        let last = parts[parts.len() - 1].borrow();
        last.context.emit_self(Stall {}, STALL_EVERY);
        drop(last);
        let context = simulation.create_context("monitor");
        context.emit_self(Look {}, SAMPLE);
        let monitor = Rc::new(RefCell::new(Monitor {
            context,
            tiers: parts.clone(),
            samples: Vec::new(),
        }));
        simulation.add_handler("monitor", monitor);
    }
    for client in 0..clients {
        let first = context.rand() * think;
        context.emit_self(Due { client }, first);
    }
    let all = Clients {
        context,
        first: ids[1],
        think,
        sent: vec![0.0; clients as usize],
        counts: counts.clone(),
    };
    simulation.add_handler("clients", Rc::new(RefCell::new(all)));
    simulation.step_until_time(seconds);
    let c = counts.borrow();
    println!(
        "{{\"answered\": {}, \"response_ns\": {}, \"over_1s\": {}, \"drops\": {}}}",
        c.answered,
        (c.response * 1e9) as u64,
        c.over_1s,
        c.drops
    );
}
