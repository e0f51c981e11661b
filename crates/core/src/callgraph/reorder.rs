//! Sorts visits that come roughly by departure: a call must be known before the visit that made it.

use crate::record::Visit;
use serde::{Deserialize, Serialize};
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

/// If a protocol cannot be decoded, a visit ends with the next request on its connection; in a pool
/// this can take seconds.
const LAG_NS: i64 = 10_000_000_000;
/// At most this many are held, about 13 MB.
const HELD: usize = 1 << 16;

/// A visit comes this many places too early at most, if it is put into its place among those in order. Most come in
/// order, or after a few that depart in the same microsecond.
const MOVES: usize = 32;

/// Sorted by departure. Of two that depart together, the one sent later goes first, because it may
/// be a call of the other; then the order of arrival here.
type Turn = (i64, i64, u64);

#[derive(Deserialize, Serialize)]
struct Held {
    turn: Turn,
    visit: Visit,
}

#[derive(Default, Deserialize, Serialize)]
pub(super) struct Reorder {
    /// In order.
    turns: VecDeque<Held>,
    /// Those that would have to pass too many.
    others: BinaryHeap<Reverse<Held>>,
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
        let later = self.turns.iter().rev().take(MOVES + 1);
        let passes = later.take_while(|held| held.turn > turn).count();
        let held = Held { turn, visit };
        match passes {
            0 => self.turns.push_back(held),
            1..=MOVES => self.turns.insert(self.turns.len() - passes, held),
            _ => self.others.push(Reverse(held)),
        }
    }

    /// The oldest visit, if no older one can still come.
    pub fn pop_settled(&mut self) -> Option<Visit> {
        let departure = self.first()?.turn.0;
        let settled = self
            .newest
            .is_some_and(|newest| newest.saturating_sub(departure) > LAG_NS);
        if settled || self.turns.len() + self.others.len() > HELD {
            self.pop()
        } else {
            None
        }
    }

    pub fn pop(&mut self) -> Option<Visit> {
        let visit = match self.is_other() {
            true => self.others.pop()?.0.visit,
            false => self.turns.pop_front()?.visit,
        };
        self.passed = self.passed.max(Some(visit.departure));
        Some(visit)
    }

    fn first(&self) -> Option<&Held> {
        match self.is_other() {
            true => self.others.peek().map(|Reverse(held)| held),
            false => self.turns.front(),
        }
    }

    /// Whether the first is not among those in order.
    fn is_other(&self) -> bool {
        match (self.turns.front(), self.others.peek()) {
            (Some(held), Some(Reverse(other))) => other.turn < held.turn,
            (None, Some(_)) => true,
            _ => false,
        }
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Held) -> bool {
        self.turn == other.turn
    }
}

impl Eq for Held {}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Held) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Held {
    fn cmp(&self, other: &Held) -> Ordering {
        self.turn.cmp(&other.turn)
    }
}
