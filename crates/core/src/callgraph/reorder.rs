//! Sorts visits that come roughly by departure: a call must be known before the visit that made it.

use crate::record::Visit;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// If a protocol cannot be decoded, a visit ends with the next request on its connection; in a pool
/// this can take seconds.
const LAG_NS: i64 = 10_000_000_000;
/// At most this many are held, about 13 MB.
const HELD: usize = 1 << 16;

/// Sorted by departure. Of two that depart together, the one sent later goes first, because it may
/// be a call of the other; then the order of arrival here. The last field is the position in
/// `slots`.
type Turn = Reverse<(i64, i64, u64, usize)>;

#[derive(Default, Deserialize, Serialize)]
pub(super) struct Reorder {
    turns: BinaryHeap<Turn>,
    slots: Vec<Option<Visit>>,
    free: Vec<usize>,
    pushed: u64,
    newest: Option<i64>,
    passed: Option<i64>,
    late: u64,
}

impl Reorder {
    /// Visits that came too late to be sorted.
    pub fn late(&self) -> u64 {
        self.late
    }

    pub fn push(&mut self, visit: Visit) {
        self.late += u64::from(self.passed.is_some_and(|passed| visit.departure < passed));
        self.newest = self.newest.max(Some(visit.departure));
        self.pushed += 1;
        let turn = (visit.departure, visit.sent.saturating_neg(), self.pushed);
        let slot = self.free.pop().unwrap_or(self.slots.len());
        match self.slots.get_mut(slot) {
            Some(place) => *place = Some(visit),
            None => self.slots.push(Some(visit)),
        }
        self.turns.push(Reverse((turn.0, turn.1, turn.2, slot)));
    }

    /// The oldest visit, if no older one can still come.
    pub fn pop_settled(&mut self) -> Option<Visit> {
        let &Reverse((departure, ..)) = self.turns.peek()?;
        let settled = self
            .newest
            .is_some_and(|newest| newest.saturating_sub(departure) > LAG_NS);
        if settled || self.turns.len() > HELD {
            self.pop()
        } else {
            None
        }
    }

    pub fn pop(&mut self) -> Option<Visit> {
        let Reverse((.., slot)) = self.turns.pop()?;
        self.free.push(slot);
        let visit = self.slots.get_mut(slot)?.take()?;
        self.passed = self.passed.max(Some(visit.departure));
        Some(visit)
    }
}
