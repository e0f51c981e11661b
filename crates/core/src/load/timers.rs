//! Timers.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

pub const NEVER: i64 = i64::MAX;

/// Moments and what is due then; of equal moments, the smaller number goes first.
#[derive(Debug, Default)]
pub struct Timers(BinaryHeap<Reverse<(i64, u32)>>);

impl Timers {
    pub fn add(&mut self, due: i64, what: u32) {
        self.0.push(Reverse((due, what)));
    }

    pub fn next(&self) -> i64 {
        self.0.peek().map_or(NEVER, |&Reverse((due, _))| due)
    }

    pub fn pop(&mut self, now: i64) -> Option<(i64, u32)> {
        if self.next() > now {
            return None;
        }
        self.0.pop().map(|Reverse(timer)| timer)
    }
}

/// Timeouts of equal length, so that the first in is the first out. An entry that is no longer
/// needed is dropped when it reaches the front, so that few are held while nothing hangs.
#[derive(Debug, Default)]
pub struct Deadlines(VecDeque<(i64, u64)>);

impl Deadlines {
    pub fn add(&mut self, due: i64, token: u64) {
        self.0.push_back((due, token));
    }

    /// The first that is still waiting, if it is due.
    pub fn pop(&mut self, now: i64, waits: impl Fn(u64) -> bool) -> Option<u64> {
        while let Some(&(due, token)) = self.0.front() {
            if due > now && waits(token) {
                return None;
            }
            self.0.pop_front();
            if waits(token) {
                return Some(token);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_in_order_and_not_before_their_time() {
        let mut timers = Timers::default();
        for (due, what) in [(30, 1), (10, 2), (20, 4), (20, 3)] {
            timers.add(due, what);
        }
        assert_eq!(timers.next(), 10);
        assert_eq!(timers.pop(9), None);
        let fired: Vec<_> = std::iter::from_fn(|| timers.pop(25)).collect();
        assert_eq!(fired, [(10, 2), (20, 3), (20, 4)]);
        assert_eq!(timers.next(), 30);
    }

    #[test]
    fn deadlines_forget_what_no_longer_waits() {
        let mut deadlines = Deadlines::default();
        for token in 0..4 {
            deadlines.add(10 + token as i64, token);
        }
        let waits = |token| token >= 2;
        assert_eq!(deadlines.pop(5, waits), None);
        assert_eq!(
            deadlines.0.len(),
            2,
            "0 and 1 are forgotten before they are due"
        );
        assert_eq!(deadlines.pop(20, waits), Some(2));
        assert_eq!(deadlines.pop(20, waits), Some(3));
        assert_eq!(deadlines.pop(20, waits), None);
    }
}
