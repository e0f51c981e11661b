//! Notices when somebody sets the clock.
//!
//! Packets and samples carry the time of the system's clock. Adjusting it slowly (NTP slews by at most 0.5 ms a second)
//! does no harm; a step puts what follows out of line with what came before.

use super::sys;

/// A step is told from here on: a hundred times what slewing does in a long sampling interval of 1 s.
const STEP_NS: i64 = 50_000_000;
/// Both clocks must have been read within this time of each other, or the difference says nothing.
const TOGETHER_NS: i64 = 1_000_000;

#[derive(Default)]
pub struct StepWatch {
    /// Clock of the epoch − steady clock.
    difference: Option<i64>,
}

impl StepWatch {
    /// By how much the clock was set since the last look; None: it was not.
    pub fn look(&mut self) -> Option<i64> {
        let before = sys::steady_ns();
        let epoch = sys::epoch_ns();
        self.judge(before, epoch, sys::steady_ns())
    }

    fn judge(&mut self, before: i64, epoch: i64, after: i64) -> Option<i64> {
        if after - before > TOGETHER_NS {
            return None;
        }
        let now = epoch - before;
        let step = now - self.difference.replace(now)?;
        (step.abs() >= STEP_NS).then_some(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    #[test]
    fn a_step_is_told_once_and_slewing_is_not() {
        let mut watch = StepWatch::default();
        assert_eq!(watch.judge(0, 100 * S, 10), None);
        assert_eq!(watch.judge(S, 101 * S + 500_000, S + 10), None);
        assert_eq!(
            watch.judge(2 * S, 90 * S + 500_000, 2 * S + 10),
            Some(-12 * S)
        );
        assert_eq!(watch.judge(3 * S, 91 * S + 500_000, 3 * S + 10), None);
    }

    #[test]
    fn clocks_that_were_read_apart_say_nothing() {
        let mut watch = StepWatch::default();
        assert_eq!(watch.judge(0, 100 * S, 10), None);
        assert_eq!(watch.judge(S, 200 * S, 2 * S), None);
        assert_eq!(watch.judge(3 * S, 103 * S, 3 * S), None);
    }
}
