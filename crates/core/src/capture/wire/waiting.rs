//! The exchanges of a connection that wait for their end, kept in step with the receiver of [`Exchanges`]: it closes an
//! exchange at `finish`, at the next `request` after `open_ended`, and at the next `request` after a hole in what the
//! server sent.

use super::{Exchanges, Outcome};
use std::collections::VecDeque;

#[derive(Debug)]
pub struct Waiting<T> {
    queue: VecDeque<T>,
    /// So many of the oldest have a hole behind them.
    holes: usize,
    /// Of the oldest: bytes of its response were seen; its outcome was told while its end is open.
    answering: bool,
    told: bool,
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Waiting {
            queue: VecDeque::new(),
            holes: 0,
            answering: false,
            told: false,
        }
    }
}

impl<T> Waiting<T> {
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub fn get(&self, i: usize) -> Option<&T> {
        self.queue.get(i)
    }

    pub fn front(&self) -> Option<&T> {
        self.queue.front()
    }

    pub fn front_mut(&mut self) -> Option<&mut T> {
        self.queue.front_mut()
    }

    pub fn back_mut(&mut self) -> Option<&mut T> {
        self.queue.back_mut()
    }

    /// The response of the oldest has begun.
    pub fn answering(&self) -> bool {
        self.answering
    }

    pub fn told(&self) -> bool {
        self.told
    }

    /// Whether the receiver will close the oldest by itself.
    pub fn closes_at_request(&self) -> bool {
        self.told || self.holes > 0
    }

    pub fn clear(&mut self) {
        *self = Waiting::default();
    }

    /// To be called just before [`Exchanges::request`].
    pub fn before_request(&mut self) {
        if self.told {
            self.pop();
        }
        while self.holes > 0 {
            self.pop();
        }
    }

    pub fn push(&mut self, asked: T) {
        self.queue.push_back(asked);
    }

    /// Bytes of the server are missing.
    pub fn hole(&mut self) {
        self.holes = self.queue.len();
    }

    /// Bytes of the response of the oldest; false: nothing waits for any.
    pub fn bytes(&mut self, time: i64, n: u64, out: &mut dyn Exchanges) -> bool {
        if self.queue.is_empty() {
            if n > 0 {
                out.unreadable("a response without its request", n);
            }
            return false;
        }
        self.answering = true;
        if n > 0 {
            out.response_bytes(time, n);
        }
        true
    }

    /// How the oldest ended, but not when.
    pub fn tell(&mut self, outcome: Outcome, out: &mut dyn Exchanges) {
        if !self.queue.is_empty() && !self.told {
            self.told = true;
            out.open_ended(outcome);
        }
    }

    /// All of them were answered by `time`, in bytes that could not be read.
    pub fn tell_all(&mut self, mut outcome: Outcome, time: i64, out: &mut dyn Exchanges) {
        while self.len() > 1 {
            self.finish(outcome, out);
            outcome = Outcome::Ok;
            self.answering = true;
            out.response_bytes(time, 0);
        }
        self.tell(outcome, out);
    }

    pub fn finish(&mut self, outcome: Outcome, out: &mut dyn Exchanges) -> Option<T> {
        let asked = self.pop()?;
        out.finish(outcome);
        Some(asked)
    }

    fn pop(&mut self) -> Option<T> {
        self.answering = false;
        self.told = false;
        self.holes = self.holes.saturating_sub(1);
        self.queue.pop_front()
    }
}
