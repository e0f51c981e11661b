//! The unfinished exchanges of a connection, in step with the receiver of [`Exchanges`]: it closes
//! an exchange at `finish`, at the next `request` after `open_ended`, and at the next `request`
//! after a hole in the server's bytes.

use super::{Exchanges, Outcome};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

#[derive(Debug, Deserialize, Serialize)]
pub struct Waiting<T> {
    queue: VecDeque<Entry<T>>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Entry<T> {
    asked: T,
    /// Bytes of its response were seen; bytes that may belong to its response are missing.
    answering: bool,
    hole: bool,
    /// Its outcome was reported while its end is open.
    told: bool,
}

impl<T> Entry<T> {
    fn closes_at_request(&self) -> bool {
        self.told || self.hole
    }
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Waiting {
            queue: VecDeque::new(),
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
        self.queue.get(i).map(|entry| &entry.asked)
    }

    pub fn front(&self) -> Option<&T> {
        self.get(0)
    }

    pub fn front_mut(&mut self) -> Option<&mut T> {
        self.queue.front_mut().map(|entry| &mut entry.asked)
    }

    pub fn back_mut(&mut self) -> Option<&mut T> {
        self.queue.back_mut().map(|entry| &mut entry.asked)
    }

    pub fn position(&self, is: impl Fn(&T) -> bool) -> Option<usize> {
        self.queue.iter().position(|entry| is(&entry.asked))
    }

    pub fn find_mut(&mut self, is: impl Fn(&T) -> bool) -> Option<&mut T> {
        let mut asked = self.queue.iter_mut().map(|entry| &mut entry.asked);
        asked.find(|asked| is(asked))
    }

    /// The response of the oldest has begun.
    pub fn answering(&self) -> bool {
        self.queue.front().is_some_and(|front| front.answering)
    }

    pub fn told(&self) -> bool {
        self.queue.front().is_some_and(|front| front.told)
    }

    /// Whether the receiver will close the oldest by itself.
    pub fn closes_at_request(&self) -> bool {
        self.queue.front().is_some_and(Entry::closes_at_request)
    }

    pub fn clear(&mut self) {
        *self = Waiting::default();
    }

    /// Call it just before [`Exchanges::request`].
    pub fn before_request(&mut self) {
        while self.told() {
            self.queue.pop_front();
        }
        while self.queue.front().is_some_and(|front| front.hole) {
            self.queue.pop_front();
        }
    }

    pub fn push(&mut self, asked: T) {
        self.queue.push_back(Entry {
            asked,
            answering: false,
            hole: false,
            told: false,
        });
    }

    /// The newest gets no response; call it together with [`Exchanges::one_way`].
    pub fn pop_back(&mut self) -> Option<T> {
        self.queue.pop_back().map(|entry| entry.asked)
    }

    /// Bytes of the server are missing.
    pub fn hole(&mut self) {
        self.queue.iter_mut().for_each(|entry| entry.hole = true);
    }

    /// The nth oldest becomes the oldest.
    pub fn turn_to(&mut self, nth: usize, out: &mut dyn Exchanges) {
        if nth == 0 {
            return;
        }
        if let Some(entry) = self.queue.remove(nth) {
            self.queue.push_front(entry);
            out.turn_to(nth);
        }
    }

    /// Bytes of the oldest exchange's response; false: none is waiting.
    pub fn bytes(&mut self, time: i64, n: u64, out: &mut dyn Exchanges) -> bool {
        let Some(front) = self.queue.front_mut() else {
            if n > 0 {
                out.unreadable("a response without its request", n);
            }
            return false;
        };
        front.answering = true;
        if n > 0 {
            out.response_bytes(time, n);
        }
        true
    }

    /// The outcome of the oldest, without its end.
    pub fn tell(&mut self, outcome: Outcome, out: &mut dyn Exchanges) {
        if let Some(front) = self.queue.front_mut().filter(|front| !front.told) {
            front.told = true;
            out.open_ended(outcome);
        }
    }

    /// All of them were answered by `time`, in bytes that could not be read.
    pub fn tell_all(&mut self, mut outcome: Outcome, time: i64, out: &mut dyn Exchanges) {
        while self.len() > 1 {
            self.finish(outcome, out);
            outcome = Outcome::Ok;
            if let Some(front) = self.queue.front_mut() {
                front.answering = true;
            }
            out.response_bytes(time, 0);
        }
        self.tell(outcome, out);
    }

    /// The oldest ends at `time` without a further byte of its response.
    pub fn break_off(&mut self, time: i64, outcome: Outcome, out: &mut dyn Exchanges) {
        if self.queue.pop_front().is_some() {
            out.break_off(time, outcome);
        }
    }

    pub fn finish(&mut self, outcome: Outcome, out: &mut dyn Exchanges) -> Option<T> {
        let entry = self.queue.pop_front()?;
        out.finish(outcome);
        Some(entry.asked)
    }
}
