//! When a calling server was busy: whether a visit was alone there, and whether any visit could
//! have made a call.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Visits remembered, 2 MB.
const REMEMBERED: usize = 1 << 17;

#[derive(Debug, Deserialize, Serialize)]
pub struct Stays {
    /// (departure, arrival), sorted by departure, without those that a later one covers. Arrivals
    /// increase too, so the first that departs after a moment arrived first among all that do.
    outer: VecDeque<(i64, i64)>,
    pub busy_until: i64,
    pub first_arrival: i64,
}

impl Default for Stays {
    fn default() -> Self {
        Stays {
            outer: VecDeque::new(),
            busy_until: i64::MIN,
            first_arrival: i64::MAX,
        }
    }
}

impl Stays {
    pub fn add(&mut self, arrival: i64, departure: i64) {
        // A visit that comes out of order counts from when it came; at worst a call seems to have
        // had no parent.
        self.busy_until = self.busy_until.max(departure);
        self.first_arrival = self.first_arrival.min(arrival);
        while self
            .outer
            .back()
            .is_some_and(|&(end, begin)| begin >= arrival && end <= departure)
        {
            self.outer.pop_back();
        }
        if self.outer.back().is_none_or(|&(end, _)| end < departure) {
            self.outer.push_back((departure, arrival));
        }
        if self.outer.len() > REMEMBERED {
            self.outer.pop_front();
        }
    }

    pub fn contain(&self, sent: i64, departure: i64) -> bool {
        let after = self.outer.partition_point(|&(end, _)| end < departure);
        self.outer
            .get(after)
            .is_some_and(|&(_, arrival)| arrival <= sent)
    }
}

/// The time covered by at least one of the intervals.
pub fn union(mut intervals: Vec<(i64, i64)>) -> i64 {
    intervals.sort_unstable();
    let (mut covered, mut until) = (0i64, i64::MIN);
    for (begin, end) in intervals {
        let begin = begin.max(until);
        covered = covered.saturating_add(end.saturating_sub(begin).max(0));
        until = until.max(end);
    }
    covered
}
