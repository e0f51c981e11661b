//! Who calls whom, from a sample of visits.
//!
//! P calls S when visits of S that came from P's host lie inside visits of P much more often than the same visits would
//! at some other time of the sample. With everything on one host (127.0.0.1) the database's visits lie inside the web
//! server's too: the innermost caller that explains as many is kept.

use crate::record::{Names, Visit, NO_NAME, NO_TIME};
use rustc_hash::FxHashMap;

/// Of the visits that chance leaves outside, at least this share must lie inside: lost packets and direct clients on
/// the caller's host may take the rest.
const EXPLAINED: f64 = 0.3;
/// How much less the innermost caller may explain than an outer one.
const TOLERANCE: f64 = 0.02;
/// With fewer visits than this, that a server does not call says nothing.
pub const ENOUGH: usize = 20;
/// The sample is shifted by these shares of its length to see what chance alone puts inside.
const SHIFTS: [f64; 4] = [0.17, 0.37, 0.59, 0.83];
/// Where chance puts this share inside, calls that are inside say nothing: a server with a queue is always visited.
const DROWNED: f64 = 0.9;

/// `caller` calls `callee`: the servers, and what it rests on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Nesting {
    pub caller: u32,
    pub callee: u32,
    /// Visits looked at, the share of them inside a visit of the caller, and the share that chance would put there.
    pub visits: usize,
    pub inside: f64,
    pub chance: f64,
    /// Visits of the callee from that host in the whole sample.
    pub sampled: usize,
    callee_median: i64,
}

impl Nesting {
    fn explained(&self) -> f64 {
        ((self.inside - self.chance) / (1.0 - self.chance).max(1e-9)).clamp(-1.0, 1.0)
    }

    fn holds(&self) -> bool {
        self.visits > 0 && 1.0 - self.inside <= (1.0 - EXPLAINED) * (1.0 - self.chance)
    }
}

/// What a sample tells.
pub struct Found {
    /// The edges that hold, without cycles.
    pub edges: Vec<Nesting>,
    /// Whether calls come from a server's host and nothing says that it makes them nor that it does not, for chance
    /// explains them as well or few of its visits lie in the sample: a longer one may tell.
    pub undecided: bool,
}

type Interval = (i64, i64);
/// By the host they came from and the server they went to.
type Calls = FxHashMap<(u32, u32), Vec<Interval>>;
type Covers = FxHashMap<u32, Cover>;

/// Visits of one server, ready for the question whether one of them contains an interval.
struct Cover {
    /// By arrival, each with the latest departure so far.
    arrivals: Vec<Interval>,
    median: i64,
    /// Calls before and after may belong to visits that began before the sample or end after it.
    begin: i64,
    settled: i64,
    /// Whether that leaves nothing of the sample, so that it is all looked at.
    short: bool,
}

impl Cover {
    fn of(mut visits: Vec<Interval>) -> Option<Self> {
        visits.sort_unstable();
        let begin = visits.first()?.0;
        let mut latest = i64::MIN;
        let mut durations: Vec<i64> = visits
            .iter()
            .map(|(arrival, end)| end.saturating_sub(*arrival))
            .collect();
        durations.sort_unstable();
        for visit in &mut visits {
            latest = latest.max(visit.1);
            visit.1 = latest;
        }
        let long = durations[durations.len() * 9 / 10];
        let (settling, settled) = (begin.saturating_add(long), latest.saturating_sub(long));
        let short = settling >= settled;
        let (begin, settled) = if short {
            (begin, latest)
        } else {
            (settling, settled)
        };
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

/// Who calls whom in the sample.
pub fn discover(sample: &[Visit], names: &Names) -> Found {
    let mut stays: FxHashMap<u32, Vec<Interval>> = FxHashMap::default();
    let mut calls = Calls::default();
    for visit in sample
        .iter()
        .filter(|visit| visit.served && visit.departure != NO_TIME)
    {
        let arrival = if visit.arrival == NO_TIME {
            visit.sent
        } else {
            visit.arrival
        };
        stays
            .entry(visit.server)
            .or_default()
            .push((arrival, visit.departure));
        calls
            .entry((visit.caller, visit.server))
            .or_default()
            .push((visit.sent, visit.departure));
    }
    let covers: Covers = stays
        .into_iter()
        .filter_map(|(server, stays)| Some((server, Cover::of(stays)?)))
        .collect();
    let mut found = Vec::new();
    let mut undecided = false;
    for (&(host, callee), calls) in &calls {
        let (held, mut open) = (found.len(), false);
        for caller in servers_on(host, names).filter(|&caller| caller != callee) {
            let (Some(cover), Some(own)) = (covers.get(&caller), covers.get(&callee)) else {
                open = true;
                continue;
            };
            let nesting = measure(caller, callee, calls, cover, own.median);
            open |= cover.short || nesting.visits < ENOUGH || nesting.chance >= DROWNED;
            // On one host, where each could be calling the other, the caller is the one that takes longer.
            let elsewhere = names.server_hosts.get(callee as usize) != Some(&host);
            if nesting.holds() && (elsewhere || own.median <= cover.median) {
                found.push(nesting);
            }
        }
        undecided |= found.len() == held && open && calls.len() >= ENOUGH;
    }
    let nested = innermost(without_cycles(found), names);
    Found {
        edges: without_shadows(nested, &calls, &covers, names),
        undecided,
    }
}

pub fn servers_on(host: u32, names: &Names) -> impl Iterator<Item = u32> + '_ {
    let on_host = names
        .server_hosts
        .iter()
        .enumerate()
        .filter(move |(_, &at)| at == host && host != NO_NAME);
    on_host.filter_map(|(server, _)| u32::try_from(server).ok())
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
        visits: known.len(),
        inside: share(inside, known.len()),
        chance: share(by_chance, known.len() * SHIFTS.len()),
        sampled: calls.len(),
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

/// The best explained edges first; one that would close a circle is left out.
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

/// Drops outer callers of the same host where an inner one, which they call, explains as much.
fn innermost(found: Vec<Nesting>, names: &Names) -> Vec<Nesting> {
    let pairs: Vec<(u32, u32)> = found
        .iter()
        .map(|edge| (edge.caller, edge.callee))
        .collect();
    let host = |server: u32| names.server_hosts.get(server as usize).copied();
    let explained_inside = |outer: &Nesting| {
        found.iter().any(|inner| {
            inner.callee == outer.callee
                && inner.caller != outer.caller
                && host(inner.caller) == host(outer.caller)
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

/// Drops callers that explain next to nothing which a better one, unrelated and on the same host, leaves: of two systems
/// side by side the busier one is always visited.
fn without_shadows(
    found: Vec<Nesting>,
    calls: &Calls,
    covers: &Covers,
    names: &Names,
) -> Vec<Nesting> {
    let pairs: Vec<(u32, u32)> = found
        .iter()
        .map(|edge| (edge.caller, edge.callee))
        .collect();
    let related = |one: u32, other: u32| {
        reaches(pairs.iter().copied(), one, other) || reaches(pairs.iter().copied(), other, one)
    };
    let from = |edge: &Nesting| Some((*names.server_hosts.get(edge.caller as usize)?, edge.callee));
    let mut kept: Vec<Nesting> = Vec::new();
    for edge in found {
        let better: Vec<&Cover> = kept
            .iter()
            .filter(|other| from(other) == from(&edge) && !related(other.caller, edge.caller))
            .filter_map(|other| covers.get(&other.caller))
            .collect();
        let of_both = covers
            .get(&edge.caller)
            .zip(from(&edge).and_then(|pair| calls.get(&pair)));
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
