//! The clock of a run: CLOCK_MONOTONIC, so that a step of the date moves no request.

use rustix::time::{clock_gettime, ClockId, Timespec};

/// Nanoseconds after the begin of the load; below 0 before it.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    begin: i64,
    unix: i64,
}

impl Clock {
    pub fn new(begin: i64, unix: i64) -> Self {
        Clock { begin, unix }
    }

    #[inline]
    pub fn now(&self) -> i64 {
        let time = clock_gettime(ClockId::Monotonic);
        time.tv_sec * 1_000_000_000 + time.tv_nsec - self.begin
    }

    /// A time of this clock in ns since the Unix epoch.
    pub fn unix(&self, time: i64) -> i64 {
        time.saturating_add(self.begin).saturating_add(self.unix)
    }
}

pub fn timespec(ns: i64) -> Timespec {
    let ns = ns.max(0);
    Timespec {
        tv_sec: ns / 1_000_000_000,
        tv_nsec: ns % 1_000_000_000,
    }
}
