//! The shape of the result: groups by name, and under each the same windows in order.
//!
//! Memory depends on the events and not on the length of the recording: of a long stretch in which
//! no visit of any group arrives or departs, only the ends are kept.

use super::partial::{too_many, Partial};
use super::{Plan, DENSE_ROWS_MAX, MOMENT_MAX};
use crate::error::Result;

pub(super) struct Grid {
    /// Numbers of the groups that occur, sorted by name.
    pub groups: Vec<u32>,
    /// Group number → its place in `groups`.
    rank: Vec<usize>,
    spans: Vec<Span>,
    /// Of all spans together.
    pub windows: usize,
    window_ns: i64,
}

/// Windows without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    first: i64,
    windows: usize,
    /// Windows of the spans before it.
    before: usize,
}

impl Grid {
    pub fn new(partial: &Partial, plan: &Plan) -> Result<Self> {
        let groups = groups_of(partial);
        let mut rank = vec![0; partial.groups.len()];
        for (at, &group) in groups.iter().enumerate() {
            rank[group as usize] = at;
        }
        let spans = spans_of(partial, plan);
        let windows = spans.last().map_or(0, |span| span.before + span.windows);
        let rows = windows.saturating_mul(groups.len());
        if rows > DENSE_ROWS_MAX {
            return Err(too_many(rows));
        }
        Ok(Grid {
            groups,
            rank,
            spans,
            windows,
            window_ns: plan.window_ns,
        })
    }

    pub fn rows(&self) -> usize {
        self.groups.len() * self.windows
    }

    pub fn row(&self, group: u32, window: i64) -> usize {
        let at = self.spans.partition_point(|span| span.first <= window) - 1;
        let span = self.spans[at];
        let within = ((window - span.first) / self.window_ns) as usize;
        self.rank[group as usize] * self.windows + span.before + within
    }

    /// Starts of the windows, in order.
    pub fn starts(&self) -> impl Iterator<Item = i64> + '_ {
        let window_ns = self.window_ns;
        self.spans.iter().flat_map(move |&span| {
            (0..span.windows as i64).map(move |at| span.first + at * window_ns)
        })
    }
}

fn groups_of(partial: &Partial) -> Vec<u32> {
    let mut occurs: Vec<bool> = partial.opening.iter().map(|&count| count != 0).collect();
    occurs.resize(partial.groups.len(), false);
    for cell in &partial.cells {
        occurs[cell.group as usize] = true;
    }
    let mut groups: Vec<u32> = (0..partial.groups.len() as u32)
        .filter(|&g| occurs[g as usize])
        .collect();
    groups.sort_by_key(|&g| &partial.groups[g as usize]);
    groups
}

/// From the first requested window, or the first with an event, to the last, without the middle of
/// long silent stretches.
fn spans_of(partial: &Partial, plan: &Plan) -> Vec<Span> {
    let (begin, end) = plan.bounds();
    let (first, last) = (partial.cells.first(), partial.cells.last());
    let first = match first {
        _ if begin != -MOMENT_MAX => begin,
        Some(cell) => cell.window,
        None => return Vec::new(),
    };
    let last = match last {
        _ if end != MOMENT_MAX => end,
        Some(cell) => cell.window.saturating_add(plan.window_ns),
        None => return Vec::new(),
    };
    let kept = plan.idle_windows.map_or(i64::MAX, i64::from);
    let kept = kept.saturating_mul(plan.window_ns);
    let mut spans = Vec::new();
    let (mut from, mut to) = (first, first);
    for cell in &partial.cells {
        if cell.window > to && cell.window - to > kept.saturating_mul(2) {
            push(&mut spans, from, to.saturating_add(kept), plan.window_ns);
            from = cell.window - kept;
        }
        to = to.max(cell.window + plan.window_ns);
    }
    if last > to && last - to > kept.saturating_mul(2) {
        push(&mut spans, from, to.saturating_add(kept), plan.window_ns);
        from = last - kept;
    }
    push(&mut spans, from, last.max(from), plan.window_ns);
    spans
}

fn push(spans: &mut Vec<Span>, from: i64, to: i64, window_ns: i64) {
    let before = spans.last().map_or(0, |span| span.before + span.windows);
    let windows = (to.saturating_sub(from) / window_ns).max(0) as usize;
    spans.push(Span {
        first: from,
        windows,
        before,
    });
}
