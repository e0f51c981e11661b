//! The clock of a recording: the system clock as it was when the recording began (or the run that
//! it belongs to), even if it is set later.
//! ```text
//! system clock   10:00:00 … 10:00:07 │ set back │ 10:00:02 …
//! steady clock         40 …       47 │          │       47 …      their difference shows the step
//! rows           10:00:00 … 10:00:07 │          │ 10:00:07 …
//! ```
//!
//! A slow adjustment of the clock (NTP) moves both alike.

use serde::{Deserialize, Serialize};

use super::sys;

/// The smallest step that is reported. It is larger than the delay of reading packets (some 20 ms),
/// so that stamps from before and after the step can be distinguished.
const STEP_NS: i64 = 50_000_000;
/// Both clocks must have been read within this time of each other, or their difference is not
/// valid.
const TOGETHER_NS: i64 = 1_000_000;

const READINGS: usize = 5;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Clock {
    /// System clock − steady clock, as the record uses it.
    begin: i64,
    /// The current difference, and the one before the clock was last set.
    now: i64,
    before: i64,
    /// The last check, by the steady clock.
    looked: i64,
}

impl Clock {
    /// Uses this difference between the two clocks, or the present one. The present one comes from
    /// the fastest of a few readings, because an interruption between the two clocks would add an
    /// error.
    pub fn begin(difference: Option<i64>) -> Clock {
        let mut readings = [(); READINGS].map(|()| {
            let earliest = sys::steady_ns();
            let epoch = sys::epoch_ns();
            let latest = sys::steady_ns();
            (latest - earliest, epoch - earliest, latest)
        });
        readings.sort_unstable();
        let now = Clock::new(readings[0].1, readings[0].2);
        Clock {
            begin: difference.unwrap_or(now.begin),
            ..now
        }
    }

    fn new(difference: i64, looked: i64) -> Clock {
        Clock {
            begin: difference,
            now: difference,
            before: difference,
            looked,
        }
    }

    /// Nanoseconds since the epoch of a moment of the steady clock.
    pub fn time(&self, steady: i64) -> i64 {
        steady + self.begin
    }

    /// By how much the clock was set since the last check; None: it was not, or by little.
    pub fn look(&mut self) -> Option<i64> {
        let earliest = sys::steady_ns();
        let epoch = sys::epoch_ns();
        self.judge(earliest, epoch, sys::steady_ns())
    }

    fn judge(&mut self, earliest: i64, epoch: i64, latest: i64) -> Option<i64> {
        self.looked = latest;
        let possible = epoch - latest..=epoch - earliest;
        if latest - earliest > TOGETHER_NS {
            return None;
        }
        let now = self.now.clamp(*possible.start(), *possible.end());
        let step = now - self.now;
        let told = step.abs() >= STEP_NS;
        self.before = if told { self.now } else { self.before + step };
        self.now = now;
        told.then_some(step)
    }

    /// The time of a kernel stamp from after the clock was set, or shortly before: no later than
    /// the last check.
    pub fn stamped(&self, stamp: i64) -> i64 {
        let moments = [self.now, self.before].map(|difference| stamp - difference);
        let past = moments
            .into_iter()
            .filter(|moment| moment - self.looked < STEP_NS / 2);
        self.time(past.max().unwrap_or(moments[0]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;
    const MS: i64 = 1_000_000;

    #[test]
    fn a_step_is_reported_once_and_moves_no_row() {
        let mut clock = Clock::new(100 * S, 0);
        assert_eq!(clock.judge(S, 101 * S + 5, S + 10), None);
        assert_eq!(clock.judge(2 * S, 90 * S, 2 * S), Some(-12 * S));
        assert_eq!(clock.judge(3 * S, 91 * S, 3 * S), None);
        assert_eq!(clock.time(3 * S), 103 * S);
    }

    #[test]
    fn a_clock_set_before_the_recording_uses_the_given_offset() {
        let now = Clock::begin(None);
        let mut clock = Clock::begin(Some(now.begin - 5 * S));
        assert_eq!(clock.look(), None);
        assert_eq!(clock.time(S), now.time(S) - 5 * S);
        let stamp = sys::epoch_ns();
        let off = clock.stamped(stamp) - (stamp - 5 * S);
        assert!(off.abs() < STEP_NS, "off by {off} ns");
    }

    #[test]
    fn clocks_that_were_read_apart_say_nothing() {
        let mut clock = Clock::new(100 * S, 0);
        assert_eq!(clock.judge(S, 200 * S, 2 * S), None);
        assert_eq!(clock.judge(3 * S, 103 * S, 3 * S), None);
    }

    #[test]
    fn packets_before_and_after_a_step_have_the_times_that_passed() {
        for step in [5 * S, -5 * S, STEP_NS, 20 * MS, -20 * MS] {
            let mut clock = Clock::new(100 * S, 0);
            clock.judge(10 * S, 110 * S + step, 10 * S);
            assert_eq!(clock.stamped(110 * S + step), 110 * S, "after {step}");
            let small = step.abs() < STEP_NS;
            let before = 110 * S - 20 * MS;
            let expected = if small { before - step } else { before };
            assert_eq!(clock.stamped(before), expected, "before {step}");
        }
    }

    #[test]
    fn a_packet_from_before_a_step_may_be_read_some_looks_after_it() {
        let mut clock = Clock::new(100 * S, 0);
        clock.judge(10 * S, 115 * S + 900, 10 * S + 1000);
        assert_eq!(
            clock.judge(10 * S + 2000, 115 * S + 2001, 10 * S + 2100),
            None
        );
        let off = clock.stamped(110 * S - 20 * MS) - (110 * S - 20 * MS);
        assert!(off.abs() <= 1000, "off by {off} ns");
    }

    #[test]
    fn packets_between_two_steps_go_by_the_last() {
        let mut clock = Clock::new(100 * S, 0);
        clock.judge(10 * S, 115 * S, 10 * S);
        clock.judge(13 * S, 113 * S, 13 * S);
        assert_eq!(clock.stamped(113 * S), 113 * S);
        assert_eq!(clock.stamped(118 * S - MS), 113 * S - MS);
    }
}
