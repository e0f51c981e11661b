//! Infers which server calls which, from a sample of visits.
//!
//! P calls S if visits of S that came from P's host lie inside visits of P much more often than the
//! same visits would at another time of the sample. With everything on one host (127.0.0.1) the
//! database's visits also lie inside the web server's: the innermost caller that explains as many
//! is kept.

use super::machines::Hosts;
use crate::record::{Names, Visit, NO_NAME, NO_TIME};
use rustc_hash::FxHashMap;

/// At least this share of the visits that are not inside by chance must lie inside. Lost packets
/// and direct clients on the caller's host may explain the rest.
const EXPLAINED: f64 = 0.3;
/// How much less the innermost caller may explain than an outer one.
const TOLERANCE: f64 = 0.02;
/// With fewer visits than this, their absence does not show that a server makes no calls.
pub const ENOUGH: usize = 20;
/// The sample is shifted by these shares of its length, to measure how many visits lie inside by
/// chance.
const SHIFTS: [f64; 4] = [0.17, 0.37, 0.59, 0.83];
/// Two addresses count as one machine if chance puts the calls inside with a probability below one
/// in this number.
const BY_CHANCE: f64 = 1000.0;
/// If chance puts this share inside, calls that are inside are no evidence: a server with a queue
/// always has visits.
const DROWNED: f64 = 0.9;

/// A caller with fewer than [`ENOUGH`] visits must cover so little of the time that its visits fall on the calls by
/// chance with a probability below one in this number: however many calls lie inside, they are few coincidences.
const FEW_BY_CHANCE: f64 = 10.0;

/// `caller` calls `callee`: the servers, and the evidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Nesting {
    pub caller: u32,
    pub callee: u32,
    /// The host that the calls came from.
    pub host: u32,
    /// The number of visits examined, the share of them inside a visit of the caller, and the share
    /// expected by chance.
    pub visits: usize,
    pub inside: f64,
    pub chance: f64,
    /// Visits of the callee from that host in the whole sample.
    pub sampled: usize,
    /// Visits of the caller.
    callers: usize,
    callee_median: i64,
}

impl Nesting {
    fn explained(&self) -> f64 {
        ((self.inside - self.chance) / (1.0 - self.chance).max(1e-9)).clamp(-1.0, 1.0)
    }

    pub fn holds(&self) -> bool {
        self.visits > 0
            && self.is_no_coincidence()
            && 1.0 - self.inside <= (1.0 - EXPLAINED) * (1.0 - self.chance)
    }

    fn is_no_coincidence(&self) -> bool {
        let shown = self.callers as f64 * -self.chance.max(f64::EPSILON).ln();
        self.callers >= ENOUGH || shown >= FEW_BY_CHANCE.ln()
    }

    /// Whether so many lie inside by chance with a probability below one in [`BY_CHANCE`].
    pub fn is_no_chance(&self) -> bool {
        self.evidence() >= BY_CHANCE.ln()
    }

    /// So many lie inside by chance with a probability of at most `exp(-evidence)` (Chernoff's bound
    /// of the binomial distribution). The estimate of chance is limited by the number of shifted
    /// visits.
    fn evidence(&self) -> f64 {
        let n = self.visits as f64;
        let shifted = n * SHIFTS.len() as f64;
        let chance = (self.chance * shifted + 1.0) / (shifted + 2.0);
        if self.inside <= chance {
            return 0.0;
        }
        let term = |share: f64, of: f64| match share {
            0.0 => 0.0,
            _ => share * (share / of).ln(),
        };
        n * (term(self.inside, chance) + term(1.0 - self.inside, 1.0 - chance))
    }
}

/// What a sample shows.
pub struct Found {
    /// The edges with enough evidence, without cycles.
    pub edges: Vec<Nesting>,
    /// Whether calls come from a server's host and the sample shows neither that it makes them nor
    /// that it does not, because chance explains them as well or few of its visits lie in the
    /// sample. A longer sample may decide.
    pub undecided: bool,
}

type Interval = (i64, i64);
/// Keyed by the calling host and the called server.
type Calls = FxHashMap<(u32, u32), Vec<Interval>>;
type Covers = FxHashMap<u32, Cover>;

/// Visits, as calls and as stays that may contain calls.
pub struct Sample {
    pub calls: Calls,
    covers: Covers,
}

/// Visits of one server, indexed for the question whether one of them contains an interval.
struct Cover {
    /// Sorted by arrival, each with the latest departure so far.
    arrivals: Vec<Interval>,
    median: i64,
    /// Calls before and after may belong to visits that began before the sample or end after it.
    begin: i64,
    settled: i64,
    /// Whether this would leave nothing of the sample, so that all of it is examined.
    short: bool,
}

impl Cover {
    /// How long visits take is learnt from those with a whole answer, if there are any. `sample` is the
    /// time of all visits: while this server has none, it calls nobody.
    fn of(
        mut visits: Vec<Interval>,
        mut unanswered: Vec<Interval>,
        sample: Interval,
    ) -> Option<Self> {
        let whole = if visits.is_empty() {
            &unanswered
        } else {
            &visits
        };
        let mut durations: Vec<i64> = whole
            .iter()
            .map(|(arrival, end)| end.saturating_sub(*arrival))
            .collect();
        durations.sort_unstable();
        visits.append(&mut unanswered);
        visits.sort_unstable();
        let mut latest = i64::MIN;
        for visit in &mut visits {
            latest = latest.max(visit.1);
            visit.1 = latest;
        }
        let long = *durations.get(durations.len() * 9 / 10)?;
        let settled = (sample.0.saturating_add(long), sample.1.saturating_sub(long));
        let short = settled.0 >= settled.1;
        let (begin, settled) = if short { sample } else { settled };
        Some(Cover {
            arrivals: visits,
            median: durations[durations.len() / 2],
            begin,
            settled,
            short,
        })
    }

    fn contains(&self, (sent, departure): Interval) -> bool {
        let before = self
            .arrivals
            .partition_point(|&(arrival, _)| arrival <= sent);
        before > 0 && self.arrivals[before - 1].1 >= departure
    }
}

impl Sample {
    /// A call without a whole answer ends for the caller when it gives up, and for the server when
    /// it finds that out. So such calls count only where few are answered.
    pub fn of(visits: &[Visit], names: &Names) -> Sample {
        let mut stays: FxHashMap<u32, (Vec<Interval>, Vec<Interval>)> = FxHashMap::default();
        let mut sample = (i64::MAX, i64::MIN);
        let (mut calls, mut unanswered) = (Calls::default(), Calls::default());
        for visit in visits
            .iter()
            .filter(|visit| visit.served && visit.departure != NO_TIME)
        {
            let arrival = if visit.arrival == NO_TIME {
                visit.sent
            } else {
                visit.arrival
            };
            sample = (sample.0.min(arrival), sample.1.max(visit.departure));
            let (whole, others) = stays.entry(visit.server).or_default();
            let (stays, calls) = match names.is_answered(visit.status) {
                true => (whole, &mut calls),
                false => (others, &mut unanswered),
            };
            stays.push((arrival, visit.departure));
            calls
                .entry((visit.caller, visit.server))
                .or_default()
                .push((visit.sent, visit.departure));
        }
        for (pair, mut its) in unanswered {
            let answered = calls.entry(pair).or_default();
            if answered.len() < ENOUGH {
                answered.append(&mut its);
            }
        }
        let covers = stays
            .into_iter()
            .filter_map(|(server, (whole, others))| {
                Some((server, Cover::of(whole, others, sample)?))
            })
            .collect();
        Sample { calls, covers }
    }

    /// The servers with the most visits, up to `most`.
    pub fn busiest(&self, most: usize) -> Vec<u32> {
        let mut servers: Vec<(usize, u32)> = self
            .covers
            .iter()
            .map(|(&server, cover)| (cover.arrivals.len(), server))
            .collect();
        servers.sort_unstable_by(|a, b| b.cmp(a));
        servers.truncate(most);
        servers.into_iter().map(|(_, server)| server).collect()
    }

    /// How the calls from a host to a server lie in the visits of a caller. None: one of the two
    /// has no visits.
    pub fn nesting(&self, caller: u32, host: u32, callee: u32) -> Option<Nesting> {
        let calls = self.calls.get(&(host, callee))?;
        let (cover, own) = (self.covers.get(&caller)?, self.covers.get(&callee)?);
        let mut nesting = measure(caller, callee, calls, cover, own.median);
        nesting.host = host;
        Some(nesting)
    }

    /// If both are on one host and each could be calling the other, the caller is the one with more
    /// evidence. With as much evidence, it is the one that takes longer.
    pub fn is_caller(&self, edge: &Nesting) -> bool {
        let reverse = self.nesting(edge.callee, edge.host, edge.caller);
        let Some(reverse) = reverse.filter(Nesting::holds) else {
            return true;
        };
        let (here, there) = (edge.evidence(), reverse.evidence());
        here > there || here == there && self.takes_longer(edge.caller, edge.callee)
    }

    fn takes_longer(&self, caller: u32, callee: u32) -> bool {
        let median = |server| self.covers.get(&server).map(|cover| cover.median);
        median(callee) <= median(caller)
    }
}

/// The edges of the sample.
pub fn discover(visits: &[Visit], hosts: &Hosts<'_>) -> Found {
    let sample = Sample::of(visits, hosts.names);
    let mut found = Vec::new();
    let mut undecided = false;
    for (&(host, callee), calls) in &sample.calls {
        let (held, mut open) = (found.len(), false);
        for caller in hosts.servers_on(host).filter(|&caller| caller != callee) {
            let Some(nesting) = sample.nesting(caller, host, callee) else {
                open = true;
                continue;
            };
            let short = sample.covers.get(&caller).is_none_or(|cover| cover.short);
            open |= short || nesting.visits < ENOUGH || nesting.chance >= DROWNED;
            let elsewhere = hosts.of(callee) != host;
            if nesting.holds() && (elsewhere || sample.is_caller(&nesting)) {
                found.push(nesting);
            }
        }
        undecided |= found.len() == held && open && calls.len() >= ENOUGH;
    }
    Found {
        edges: choose(found, &sample, |_| false),
        undecided,
    }
}

/// Keeps edges that explain something others do not. `anywhere`: the calling host is unknown, so
/// callers on several hosts compete.
pub fn choose(
    found: Vec<Nesting>,
    sample: &Sample,
    anywhere: impl Fn(&Nesting) -> bool,
) -> Vec<Nesting> {
    let rivals = |one: &Nesting, other: &Nesting| {
        one.callee == other.callee && (one.host == other.host || anywhere(one) && anywhere(other))
    };
    let nested = innermost(without_cycles(found), rivals);
    without_shadows(nested, sample, rivals)
}

fn measure(
    caller: u32,
    callee: u32,
    calls: &[Interval],
    cover: &Cover,
    callee_median: i64,
) -> Nesting {
    let known: Vec<Interval> = calls
        .iter()
        .copied()
        .filter(|call| call.0 >= cover.begin && call.1 <= cover.settled)
        .collect();
    let span = cover.settled.saturating_sub(cover.begin).max(1);
    let shifted = |&(sent, departure): &Interval, share: f64| {
        let moved = sent
            .saturating_sub(cover.begin)
            .saturating_add((span as f64 * share) as i64)
            % span;
        let sent_then = cover.begin.saturating_add(moved);
        cover.contains((
            sent_then,
            sent_then.saturating_add(departure.saturating_sub(sent)),
        ))
    };
    let share = |hits: usize, of: usize| hits as f64 / of.max(1) as f64;
    let inside = known.iter().filter(|&&call| cover.contains(call)).count();
    let by_chance = SHIFTS
        .iter()
        .map(|&by| known.iter().filter(|call| shifted(call, by)).count())
        .sum();
    Nesting {
        caller,
        callee,
        host: NO_NAME,
        visits: known.len(),
        inside: share(inside, known.len()),
        chance: share(by_chance, known.len() * SHIFTS.len()),
        sampled: calls.len(),
        callers: cover.arrivals.len(),
        callee_median,
    }
}

/// Whether calls can lead from `from` to `to`.
pub fn reaches(edges: impl Iterator<Item = (u32, u32)> + Clone, from: u32, to: u32) -> bool {
    let mut seen = vec![from];
    let mut at = 0;
    while let Some(&server) = seen.get(at) {
        if server == to {
            return true;
        }
        for (_, callee) in edges.clone().filter(|&(caller, _)| caller == server) {
            if !seen.contains(&callee) {
                seen.push(callee);
            }
        }
        at += 1;
    }
    false
}

/// Keeps the best explained edges first; an edge that would close a cycle is left out.
fn without_cycles(mut found: Vec<Nesting>) -> Vec<Nesting> {
    found.sort_by(|a, b| {
        let explained = b.explained().total_cmp(&a.explained());
        explained
            .then(a.callee_median.cmp(&b.callee_median))
            .then((a.caller, a.callee).cmp(&(b.caller, b.callee)))
    });
    let mut kept: Vec<Nesting> = Vec::new();
    for edge in found {
        if !reaches(
            kept.iter().map(|e| (e.caller, e.callee)),
            edge.callee,
            edge.caller,
        ) {
            kept.push(edge);
        }
    }
    kept
}

/// Drops outer callers if an inner rival, which they call, explains as much.
fn innermost(found: Vec<Nesting>, rivals: impl Fn(&Nesting, &Nesting) -> bool) -> Vec<Nesting> {
    let pairs: Vec<(u32, u32)> = found
        .iter()
        .map(|edge| (edge.caller, edge.callee))
        .collect();
    let explained_inside = |outer: &Nesting| {
        found.iter().any(|inner| {
            inner.caller != outer.caller
                && rivals(inner, outer)
                && inner.inside >= outer.inside - TOLERANCE
                && reaches(pairs.iter().copied(), outer.caller, inner.caller)
        })
    };
    found
        .iter()
        .filter(|edge| !explained_inside(edge))
        .copied()
        .collect()
}

/// Drops callers that explain almost nothing beyond a better, unrelated rival: of two systems side
/// by side, the busier one always has a visit.
fn without_shadows(
    found: Vec<Nesting>,
    sample: &Sample,
    rivals: impl Fn(&Nesting, &Nesting) -> bool,
) -> Vec<Nesting> {
    let pairs: Vec<(u32, u32)> = found
        .iter()
        .map(|edge| (edge.caller, edge.callee))
        .collect();
    let related = |one: u32, other: u32| {
        reaches(pairs.iter().copied(), one, other) || reaches(pairs.iter().copied(), other, one)
    };
    let mut kept: Vec<Nesting> = Vec::new();
    for edge in found {
        let better: Vec<&Cover> = kept
            .iter()
            .filter(|other| rivals(other, &edge) && !related(other.caller, edge.caller))
            .filter_map(|other| sample.covers.get(&other.caller))
            .collect();
        let calls = sample.calls.get(&(edge.host, edge.callee));
        let of_both = sample.covers.get(&edge.caller).zip(calls);
        let is_shadow = !better.is_empty()
            && of_both.is_some_and(|(own, calls)| {
                let left = |call: Interval| {
                    own.contains(call) && !better.iter().any(|cover| cover.contains(call))
                };
                let left = calls.iter().filter(|&&call| left(call)).count();
                left as f64 <= TOLERANCE * calls.len() as f64
            });
        if !is_shadow {
            kept.push(edge);
        }
    }
    kept
}
