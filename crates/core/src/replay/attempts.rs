//! Callers that wait no longer for an answer, and attempts that are made because an earlier one failed.
//!
//! ```text
//!   caller   ├─work─┬─ waits ─┤  pause  ┬─ waits ──▶         It gives the first attempt up and makes a second one.
//!   server          ├──────────────────────────┤             It does not know that, and goes on with the first.
//! ```
//! If the first attempt is answered while its caller still waits, the pause and the second attempt do not happen.
use super::network::{Attempt, Event, State, NEVER, NOBODY};
use super::program::Step;

impl State<'_> {
    /// Whether the visit that this one repeats was answered while its caller still waited.
    pub(super) fn is_needless(&self, visit: u32) -> bool {
        let is_new = self.out.lost[visit as usize] == 0;
        is_new
            && usize::try_from(self.net.repeats[visit as usize]).is_ok_and(|before| {
                let took = self.out.departure[before].saturating_sub(self.out.sent[before]);
                self.out.departure[before] < NEVER && took < self.net.patience[visit as usize]
            })
    }

    /// Whether a call is not made.
    fn is_spared(&self, call: u32) -> bool {
        self.held.attempt(call) == Attempt::Never || self.is_needless(call)
    }

    /// Whether a visit, whose last step was a work, would work only to repeat a call that it does not make.
    pub(super) fn waits_to_repeat(&self, visit: usize) -> bool {
        if self.next[visit] >= self.net.program.first[visit + 1] {
            return false;
        }
        match self.net.program.steps[self.next[visit] as usize] {
            Step::Send(call) => self.net.repeats[call as usize] >= 0 && self.is_spared(call),
            _ => false,
        }
    }

    /// Whether a call is not made: then it is over at once.
    pub(super) fn skips(&mut self, call: u32, now: i64) -> bool {
        let skipped = self.is_spared(call);
        if skipped {
            (self.out.departure[call as usize], self.back[call as usize]) = (now, true);
        }
        skipped
    }

    /// A visit is sent: its caller waits for so long.
    pub(super) fn will_give_up(&mut self, visit: u32, now: i64) {
        let after = self.net.visits.gives_up[visit as usize];
        if after < NEVER && self.held.attempt(visit) != Attempt::Patient {
            self.at(now.saturating_add(after), Event::GivesUp(visit));
        }
    }

    pub(super) fn gives_up(&mut self, visit: u32, now: i64) {
        if !self.back[visit as usize] {
            self.comes_back(visit, now);
        }
    }

    /// The caller of a visit has its answer, or goes on without it.
    pub(super) fn comes_back(&mut self, visit: u32, now: i64) {
        let i = visit as usize;
        self.back[i] = true;
        let (bytes, took) = (self.net.bytes[i], now.saturating_sub(self.out.sent[i]));
        if let Some((balancer, candidate)) = self.balancer(visit) {
            balancer.got(now, candidate, bytes, took);
        }
        if let Some((free, waiting)) = self.connections(visit) {
            match waiting.pop_front() {
                Some(call) => self.goes_out(call, now),
                None => *free += 1,
            }
        }
        let next = self.next_of[i];
        if next != NOBODY {
            let think = self.net.visits.sent[next as usize] - self.net.visits.back(i);
            let then = now.saturating_add(think.max(0));
            if self.paths.is_empty() {
                self.attempts(next, then);
            } else {
                self.at(then, Event::Sends(next));
            }
        }
        let Ok(parent) = u32::try_from(self.net.visits.parent[i]) else {
            return;
        };
        if self.waits_for[parent as usize] == visit {
            self.waits_for[parent as usize] = NOBODY;
            self.goes_on(parent, now);
        }
    }
}
