//! The likeliest calls of one visit, among those without an owner.
//! ```text
//! visit   |──head──┬ call ┬──gap──┬ call ┬──tail──|
//! ```
//!
//! The cost of a chain of k calls is −ln P(k) plus −ln of the density of each of its k + 1 delays.
//! A call that is left to other visits costs nothing. A call that is taken must be likelier than a
//! chance call of others, which occur at rate λ: cost = −ln P(k) + Σ −ln f(delay) + k·ln λ − Σ gain
//! of equal keys and of equal connections. Chains of all lengths are compared in the same unit.
//!
//! A call that failed may be followed by another attempt. Both count as one call then, so a visit that repeats a call
//! makes as many as others.

use super::model::{Call, Frame, KeyGains, Model, CALLS_MAX, USUAL};

/// The indices of the chosen calls, in order. `calls` are sorted by `sent` and lie inside the
/// visit; `rate` is λ per ns.
pub fn likeliest(frame: &Frame, calls: &[Call], model: &mut Model, rate: f64) -> Vec<usize> {
    if calls.is_empty() {
        return Vec::new();
    }
    let counts = model.count_costs(frame.interaction);
    let model = &*model;
    let (chance, gains) = (rate.max(1e-15).ln(), model.key_gains());
    let taken = |call: &Call| chance - gains.of(frame.key, call.key);
    let first = |call: &Call| model.head_cost(frame, call) + taken(call);
    let last = |call: &Call| model.tail_cost(frame, call);

    // All lengths beyond the separate counts cost the same; there are as many layers as calls at
    // most.
    let cost_of = |length: usize| counts[length.min(CALLS_MAX + 1)];
    let longest = (1..=calls.len().min(CALLS_MAX))
        .rev()
        .find(|&length| cost_of(length) < RARE)
        .unwrap_or(1);
    let longest = if cost_of(CALLS_MAX + 1) < RARE {
        calls.len()
    } else {
        longest
    };
    // Any unusual number of calls, even none, is worse than any usual one that is possible: calls
    // have an owner. Calls that are made seldom are never usual.
    let is_seldom = model.seldom || passes_on(frame, calls, &counts, gains);
    let cost_of = |length: usize| {
        cost_of(length)
            + if (is_seldom && length > 0) || cost_of(length) < USUAL {
                0.0
            } else {
                UNUSUAL
            }
    };
    let mut best = (model.no_call_cost(frame) + cost_of(0), Vec::new());
    let repeats = calls.iter().any(|call| call.failed);
    if longest == 1 && !repeats {
        let costs = calls.iter().map(|call| (first(call), last(call)));
        let (only, cost) = cheapest(costs);
        return match cost + cost_of(1) < best.0 {
            true => vec![only],
            false => best.1,
        };
    }
    let gaps = gaps(calls, model);
    let taken: Vec<f64> = calls.iter().map(taken).collect();
    let last: Vec<f64> = calls.iter().map(last).collect();
    let mut costs: Vec<f64> = calls.iter().map(first).collect();
    let mut came: Vec<Vec<Before>> = vec![vec![None; calls.len()]];
    for length in 1..=longest {
        if repeats {
            repeat(calls, &gaps, &taken, &mut costs, &mut came);
        }
        let end =
            (0..calls.len()).min_by(|&a, &b| (costs[a] + last[a]).total_cmp(&(costs[b] + last[b])));
        let Some(end) = end.filter(|&end| costs[end].is_finite()) else {
            break;
        };
        let total = costs[end] + last[end] + cost_of(length);
        if total < best.0 {
            best = (total, trace(&came, end));
        }
        if length < longest {
            let (longer, from) = extend(&gaps, &costs, &taken, length - 1);
            costs = longer;
            came.push(from);
        }
    }
    best.1
}

/// Whether a visit that usually makes no call may have passed itself on: a proxy does so when its cache lacks the answer.
fn passes_on(frame: &Frame, calls: &[Call], counts: &[f64], gains: KeyGains) -> bool {
    let has_calls = counts.iter().skip(1).any(|&cost| cost < USUAL);
    let are_kept = gains.of(1, 1) > 0.0;
    let is_same = |call: &Call| frame.key != 0 && call.key == frame.key;
    !has_calls && are_kept && calls.iter().any(is_same)
}

/// The first of the cheapest calls of a visit that makes one, and its cost, if its delays have one.
fn cheapest(costs: impl Iterator<Item = (f64, f64)>) -> (usize, f64) {
    costs
        .enumerate()
        .min_by(|(_, a), (_, b)| (a.0 + a.1).total_cmp(&(b.0 + b.1)))
        .filter(|(_, (first, _))| first.is_finite())
        .map_or((0, f64::INFINITY), |(at, (first, last))| (at, first + last))
}

/// More than the delays of any chain cost.
const UNUSUAL: f64 = 1e6;
/// Lengths that fewer than one visit in a thousand has are not tried.
const RARE: f64 = 7.0;
/// The nearest calls by `sent`, and as many by `departure`, that may have come before, in addition to the last one on
/// the same connection.
const REACH: usize = 32;

/// For each call, the calls that may precede it, with the cost of the time between.
fn gaps(calls: &[Call], model: &Model) -> Vec<Vec<(usize, f64)>> {
    let gains = model.connection_gains();
    let mut left: Vec<usize> = (0..calls.len()).collect();
    left.sort_by_key(|&call| calls[call].departure);
    let before = |after: usize| {
        let nearest = after.saturating_sub(REACH);
        let on_its_connection =
            (0..nearest).rfind(|&before| calls[before].shares_connection(&calls[after]));
        // One that was sent long before and left just before: others waited with it, and each was sent meanwhile.
        let until = left.partition_point(|&call| calls[call].departure <= calls[after].sent);
        let just_left = left[until.saturating_sub(REACH)..until]
            .iter()
            .copied()
            .filter(|&before| before < nearest && Some(before) != on_its_connection);
        on_its_connection
            .into_iter()
            .chain(just_left)
            .chain(nearest..after)
            .filter_map(|before| {
                Some((
                    before,
                    model.gap_cost(&calls[before], &calls[after], gains)?,
                ))
            })
            .collect()
    };
    (0..calls.len()).map(before).collect()
}

/// The call that precedes another one in a chain, and the layer in which its own predecessor is found.
type Before = Option<(usize, usize)>;

/// Chains one call longer: their costs, and the preceding call, which is in this layer.
fn extend(
    gaps: &[Vec<(usize, f64)>],
    costs: &[f64],
    taken: &[f64],
    layer: usize,
) -> (Vec<f64>, Vec<Before>) {
    let mut longer = vec![f64::INFINITY; costs.len()];
    let mut from = vec![None; costs.len()];
    for (after, gaps) in gaps.iter().enumerate() {
        for &(before, gap) in gaps {
            let cost = costs[before] + gap + taken[after];
            if cost < longer[after] {
                (longer[after], from[after]) = (cost, Some((layer, before)));
            }
        }
    }
    (longer, from)
}

/// Puts attempts that failed before the calls of the newest layer, where that makes a chain cheaper.
fn repeat(
    calls: &[Call],
    gaps: &[Vec<(usize, f64)>],
    taken: &[f64],
    costs: &mut [f64],
    came: &mut [Vec<Before>],
) {
    let layer = came.len() - 1;
    for (after, gaps) in gaps.iter().enumerate() {
        for &(before, gap) in gaps.iter().filter(|&&(before, _)| calls[before].failed) {
            let cost = costs[before] + gap + taken[after];
            if cost < costs[after] {
                (costs[after], came[layer][after]) = (cost, Some((layer, before)));
            }
        }
    }
}

/// The chain that ends with this call of the newest layer.
fn trace(came: &[Vec<Before>], end: usize) -> Vec<usize> {
    let mut chain = vec![end];
    let mut at = (came.len() - 1, end);
    while let Some((layer, before)) = came[at.0][at.1] {
        chain.push(before);
        at = (layer, before);
    }
    chain.reverse();
    chain
}
