//! CPU time of children that were not sampled until their end. A process that waits for its children
//! counts their CPU time with theirs (`cutime` and `cstime` of `/proc/PID/stat`). What was sampled of
//! them is subtracted, and the rest is what no sample has.

/// Both times of the kernel are whole ticks, so they may be so much too small.
const ROUNDED_NS: i64 = 20_000_000;

/// The children of one process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reaped {
    /// What the kernel said at the first reading, and at the last one.
    first: Option<i64>,
    now: i64,
    /// What was sampled, or told, of children that have ended since.
    counted: i64,
}

impl Reaped {
    /// Reads what the kernel says, before it is looked which processes have ended. What is missing there
    /// now was of children for which their parent does not wait.
    pub fn read(&mut self, now: i64) {
        let first = *self.first.get_or_insert(now);
        self.now = now;
        self.counted = self.counted.min(now - first + ROUNDED_NS);
    }

    /// A child has ended of which so much was sampled.
    pub fn ended(&mut self, sampled: i64) {
        self.counted = self.counted.saturating_add(sampled);
    }

    /// What no sample has. It counts from then on as told.
    pub fn rest(&mut self) -> i64 {
        let rest = self.now - self.first.unwrap_or(self.now) - self.counted;
        self.counted += rest.max(0);
        rest.max(0)
    }

    /// CPU time that its own parent will find at its end, beside the time of the process itself.
    pub fn all(&self) -> i64 {
        self.now.max(self.counted)
    }

    pub fn has_children(&self) -> bool {
        self.all() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn a_child_that_was_never_seen_counts_whole_and_another_only_with_its_end() {
        let mut reaped = Reaped::default();
        reaped.read(500 * MS);
        assert_eq!(reaped.rest(), 0, "it was before the recording");
        reaped.read(530 * MS);
        assert_eq!(reaped.rest(), 30 * MS);
        reaped.read(630 * MS);
        reaped.ended(90 * MS);
        assert_eq!(reaped.rest(), 10 * MS);
        assert_eq!(reaped.rest(), 0);
    }

    #[test]
    fn a_child_that_ends_while_a_round_is_read_counts_once() {
        let mut reaped = Reaped::default();
        reaped.read(0);
        reaped.ended(90 * MS);
        assert_eq!(reaped.rest(), 0);
        reaped.read(100 * MS);
        assert_eq!(reaped.rest(), 10 * MS);
    }

    #[test]
    fn children_for_which_nobody_waits_do_not_hide_others() {
        let mut reaped = Reaped::default();
        reaped.read(0);
        reaped.ended(900 * MS);
        reaped.read(0);
        reaped.read(70 * MS);
        assert_eq!(reaped.rest(), 50 * MS, "all but what may be rounded");
        assert_eq!(reaped.all(), 70 * MS);
    }
}
