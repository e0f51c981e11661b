//! A stretch of time in which a server ended no exchange. A connection that its client keeps without
//! a request matters only then: it may hold a worker that others need.

use serde::{Deserialize, Serialize};

use super::exchange::PROMPT;

/// The newest long stretch without an answer, and the newest answer.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub struct Lull {
    begin: i64,
    end: i64,
    last: i64,
}

impl Lull {
    pub fn answer(&mut self, time: i64) {
        if time.saturating_sub(self.last) > PROMPT {
            (self.begin, self.end) = (self.last, time);
        }
        self.last = self.last.max(time);
    }

    /// Nothing was answered from the middle of this stretch until shortly before its end, when it may
    /// have set a worker free. The diagnosis asks the same of all answers, also of later ones
    /// (`ledger/silences.py`, which derives the twentieth).
    pub fn covers(&self, begin: i64, end: i64) -> bool {
        let lasted = end.saturating_sub(begin);
        let covers = |from: i64, to: i64| from <= begin + lasted / 2 && to >= end - lasted / 20;
        covers(self.begin, self.end) || covers(self.last, i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn a_connection_matters_if_nobody_was_answered_in_the_second_half_of_its_silence() {
        let mut lull = Lull::default();
        for time in [1000, 1010, 1020] {
            lull.answer(time * MS);
        }
        assert!(lull.covers(1010 * MS, 4000 * MS));
        for time in [3995, 3998, 4001] {
            lull.answer(time * MS);
        }
        assert!(lull.covers(1010 * MS, 4002 * MS));
        lull.answer(7000 * MS);
        assert!(!lull.covers(1010 * MS, 4100 * MS));
    }

    #[test]
    fn it_does_not_matter_while_others_are_answered() {
        let mut lull = Lull::default();
        for time in 10..40 {
            lull.answer(time * 100 * MS);
        }
        assert!(!lull.covers(1000 * MS, 4000 * MS));
    }
}
