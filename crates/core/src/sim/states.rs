//! Which candidates of a balancer may receive calls: mod_jk's states (tomcat-connectors,
//! `jk_lb_worker.c`).
//!
//! - *Busy*: no connection to it was free. This lasts until one of its answers comes, or a call
//!   begins in a process with a free connection to it.
//! - *In error*: no connection to it could be made while it had no other call, or for half of
//!   `recover` without an answer in between (`error_escalation_time`).
//! - *Recovering*, `recover` after its last failure: one call probes it, and an answer makes it
//!   available.
//!
//! If no candidate is left, a call still tries those in error, once (`force_recovery`).

pub struct States {
    recover: i64,
    busy: u32,
    error: u32,
    recovering: u32,
    probed: u32,
    /// The first and the last failure since it answered.
    failures: Vec<Option<(i64, i64)>>,
}

impl States {
    pub fn new(candidates: usize, recover: i64) -> Self {
        States {
            recover,
            busy: 0,
            error: 0,
            recovering: 0,
            probed: 0,
            failures: vec![None; candidates],
        }
    }

    pub fn all_available(&self) -> bool {
        self.busy | self.error | self.recovering | self.probed == 0
    }

    /// Candidates that a call must skip, one bit each; the same holds for the following functions.
    pub fn unavailable(&self) -> u32 {
        self.busy | self.error | self.probed
    }

    /// Candidates that have been in error for long enough.
    pub fn recover(&mut self, now: i64) -> u32 {
        let mut found = 0;
        for (i, failed) in self.failures.iter().enumerate() {
            if failed.is_some_and(|(_, last)| now - last > self.recover) {
                found |= self.error & 1 << i;
            }
        }
        self.error &= !found;
        self.recovering |= found;
        found
    }

    /// Candidates in error, which are tried from now on.
    pub fn force(&mut self) -> u32 {
        std::mem::take(&mut self.error)
    }

    pub fn set_busy(&mut self, candidate: usize, busy: bool) {
        self.busy = self.busy & !(1 << candidate) | u32::from(busy) << candidate;
    }

    pub fn asked(&mut self, candidate: usize) {
        let bit = self.recovering & 1 << candidate;
        self.recovering &= !bit;
        self.probed |= bit;
    }

    pub fn answered(&mut self, candidate: usize) {
        if !self.all_available() {
            let others = !(1 << candidate);
            self.busy &= others;
            self.error &= others;
            self.recovering &= others;
            self.probed &= others;
        }
        self.failures[candidate] = None;
    }

    /// No connection could be made. `alone`: it has no other call.
    pub fn failed(&mut self, now: i64, candidate: usize, alone: bool) {
        let first = self.failures[candidate].map_or(now, |(first, _)| first);
        self.failures[candidate] = Some((first, now));
        let bit = 1 << candidate;
        if alone || self.probed & bit != 0 || now - first >= self.recover / 2 {
            self.error |= bit;
            self.recovering &= !bit;
        }
        self.probed &= !bit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    #[test]
    fn a_busy_candidate_is_available_again_when_it_answers() {
        let mut states = States::new(3, 0);
        states.set_busy(0, true);
        states.set_busy(1, true);
        assert_eq!(states.unavailable(), 0b011);
        states.answered(0);
        assert_eq!(states.unavailable(), 0b010);
    }

    #[test]
    fn failures_beside_other_calls_are_an_error_after_half_of_the_time() {
        let mut states = States::new(2, 60 * S);
        states.failed(0, 1, false);
        states.failed(29 * S, 1, false);
        assert!(states.all_available());
        states.failed(30 * S, 1, false);
        assert_eq!(states.unavailable(), 0b10);
        // An answer in between makes it the first failure again.
        states.answered(1);
        states.failed(31 * S, 1, false);
        assert!(states.all_available());
        states.failed(32 * S, 1, true);
        assert_eq!(states.unavailable(), 0b10);
    }

    #[test]
    fn one_call_probes_a_candidate_that_recovers() {
        let mut states = States::new(2, 60 * S);
        states.failed(0, 0, true);
        assert_eq!(states.recover(60 * S), 0);
        assert_eq!(states.recover(61 * S), 0b01);
        assert_eq!(states.unavailable(), 0);
        states.asked(0);
        assert_eq!(states.unavailable(), 0b01);
        states.failed(62 * S, 0, false);
        assert_eq!((states.unavailable(), states.recover(63 * S)), (0b01, 0));
        assert_eq!(states.recover(123 * S), 0b01);
        states.asked(0);
        states.answered(0);
        assert!(states.all_available());
    }

    #[test]
    fn candidates_in_error_are_tried_if_no_other_is_left() {
        let mut states = States::new(2, 60 * S);
        states.failed(0, 0, true);
        states.set_busy(1, true);
        assert_eq!(states.force(), 0b01);
        assert_eq!((states.unavailable(), states.force()), (0b10, 0));
    }
}
