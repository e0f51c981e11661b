//! The choices of a balancer: as recorded, in turn, or made again by its policy.
//!
//! A policy that looks at its candidates chooses others where a candidate is no longer stalled. The
//! simulator's [balancer](crate::sim::balancer) counts in the replay what a policy looks at. A
//! recorded choice that the policy could make in the replay, too, is kept.
use crate::rng::{Purpose, Stream};
use crate::sim::balancer::Balancer;
use crate::sim::plan::Policy;

/// A balancer has a bit for each of its candidates.
pub const CANDIDATES: usize = 32;

/// How a replay makes a choice.
#[derive(Clone, Debug)]
pub enum Choosing {
    AsRecorded,
    /// Candidates take turns; one whose connections are all in use misses its turn.
    InTurn,
    /// With more than `CANDIDATES` candidates, choices are as recorded.
    ByPolicy(Policy),
}

pub(super) enum Chooser {
    AsRecorded,
    /// The candidate whose turn it is.
    InTurn(u32),
    ByPolicy(Box<Balancer>),
}

impl Chooser {
    pub fn of(choosing: &Choosing, candidates: usize) -> Chooser {
        match choosing {
            Choosing::InTurn => Chooser::InTurn(0),
            Choosing::ByPolicy(policy) if (1..=CANDIDATES).contains(&candidates) => {
                let balancer = Balancer::new(policy, candidates, 0);
                Chooser::ByPolicy(Box::new(balancer))
            }
            _ => Chooser::AsRecorded,
        }
    }
}

/// A choice by a policy at `now`, where the recorded one was `recorded`. `key` draws what the policy
/// leaves to chance.
pub(super) fn again(
    balancer: &mut Balancer,
    now: i64,
    recorded: usize,
    key: u64,
    inside: impl Fn(usize) -> u32,
) -> usize {
    if !balancer.draws() && balancer.possible(now, &inside) >> recorded & 1 == 1 {
        balancer.took(recorded);
        return recorded;
    }
    let mut stream = Stream::of(0, 0, key, Purpose::Balance);
    let chosen = balancer.choose(now, 0, &mut stream, inside);
    chosen.map_or(recorded, |chosen| chosen as usize)
}

/// A recorded call to one of the candidates.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub candidate: u32,
    /// When it was chosen, when the call was sent, and when its answer was back.
    pub ready: i64,
    pub sent: i64,
    pub departure: i64,
    pub bytes: u64,
}

/// How well recorded choices agree with a policy. A choice counts if the policy could not choose
/// each of the candidates.
#[derive(Clone, Copy, Debug, Default)]
pub struct Agreement {
    pub choices: u32,
    pub agreed: u32,
    /// How many would agree if they were made by chance.
    pub by_chance: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    Choice,
    Sent,
    Answered,
}

impl Agreement {
    pub fn with(policy: &Policy, candidates: usize, calls: &[Call]) -> Agreement {
        let mut found = Agreement::default();
        let known = |call: &Call| (call.candidate as usize) < candidates;
        if !(1..=CANDIDATES).contains(&candidates) || !calls.iter().all(known) {
            return found;
        }
        let mut balancer = Balancer::new(policy, candidates, 0);
        // Two calls that are sent at once are chosen one after the other.
        let mut moments: Vec<(i64, bool, usize, Moment)> = calls
            .iter()
            .enumerate()
            .flat_map(|(i, call)| {
                let chosen =
                    (call.ready <= call.sent).then_some((call.ready, true, i, Moment::Choice));
                let answered = call.departure.max(call.sent);
                let at_once = call.departure <= call.sent;
                let sent = (call.sent, true, i, Moment::Sent);
                let back = (answered, at_once, i, Moment::Answered);
                chosen.into_iter().chain([sent, back])
            })
            .collect();
        moments.sort_unstable();
        let mut inside = vec![0u32; candidates];
        for (now, _, i, moment) in moments {
            let (call, at) = (&calls[i], calls[i].candidate as usize);
            match moment {
                Moment::Choice => found.add(
                    balancer.possible(now, |i| inside[i]),
                    candidates,
                    at,
                    &mut balancer,
                ),
                Moment::Sent => {
                    inside[at] += 1;
                    balancer.sent(at);
                }
                Moment::Answered => {
                    inside[at] -= 1;
                    balancer.got(now, at, call.bytes, now.saturating_sub(call.sent));
                }
            }
        }
        found
    }

    fn add(&mut self, possible: u32, candidates: usize, chosen: usize, balancer: &mut Balancer) {
        let several = possible.count_ones() as usize;
        if several < candidates {
            self.choices += 1;
            self.by_chance += several as f64 / candidates as f64;
            if possible >> chosen & 1 == 1 {
                self.agreed += 1;
            } else {
                balancer.was_lowest(chosen);
            }
        }
        balancer.took(chosen);
    }
}
