//! The future events, in the order of time and then of insertion.
//! ```text
//! now ─ near: a heap ─┬─ a ring of slots, each a list without order ─┬─ far: a heap ─►
//!                     at                                      at + SLOTS
//!     ─ a line: what crosses the network, in order as it comes ─►
//! ```
//!
//! Thousands of clients think, and few of them act soon: only those are kept in order. An event is
//! one integer: time first, then the order of insertion, then the event.

use super::heap::Heap;
use std::collections::VecDeque;

/// Bits of a key below the time: 46 of the order of insertion, 32 of the payload.
const TIME_SHIFT: u32 = 78;
const ORDER_SHIFT: u32 = 32;
const ORDER_MASK: u64 = (1 << 46) - 1;
/// Times must fit into 50 bits: 13 days of nanoseconds.
pub const TIME_MAX: i64 = (1 << 50) - 1;

/// The kind of an event, and the number of its subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// A client has finished thinking, or its retry is due.
    Client,
    /// A source sends its next request.
    Source,
    /// A SYN reaches the server.
    Syn,
    /// The last ACK of the handshake reaches the server, with the request behind it.
    Data,
    /// A request reaches the server on a kept connection.
    Kept,
    /// A response reaches its caller.
    Return,
    /// A connection attempt is given up.
    GiveUp,
    /// A step that only takes time is over.
    Waited,
    /// A call looks again for a free connection.
    Poll,
    /// A call has been given a connection.
    Granted,
    /// A call that found all candidates busy tries them once more.
    TryAgain,
    Timeout,
    Hedge,
    /// A call has waited for its answer for so long that it is sent again.
    HedgeCall,
    /// A timer of the system: sampling, quota, governor, disk, stalls.
    Timer,
}

const KINDS: [Kind; 15] = [
    Kind::Client,
    Kind::Source,
    Kind::Syn,
    Kind::Data,
    Kind::Kept,
    Kind::Return,
    Kind::GiveUp,
    Kind::Waited,
    Kind::Poll,
    Kind::Granted,
    Kind::TryAgain,
    Kind::Timeout,
    Kind::Hedge,
    Kind::HedgeCall,
    Kind::Timer,
];

/// Bits of a payload that identify its subject.
const ID_BITS: u32 = 28;
pub const ID_MAX: u32 = (1 << ID_BITS) - 1;

/// Slots of the ring. A slot is so long that the ring holds the events of four to eight times the
/// median waiting time.
const SLOTS: u64 = 1 << 12;
const SLOTS_OF_MEDIAN: i64 = SLOTS as i64 / 8;
/// No event, in a list of the ring.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Waiting {
    key: u128,
    next: u32,
}

/// Besides the line: everything due up to the slot `at` is in `near`, which is never empty while
/// anything waits; then each slot has a list without order; later events are in `far`.
pub struct Queue {
    /// Keys that came in order.
    line: VecDeque<u128>,
    near: Heap,
    far: Heap,
    /// Bits of the time within a slot.
    shift: u32,
    at: u64,
    /// The first of each slot's list in `waiting`, and a bit for each non-empty slot.
    heads: Vec<u32>,
    taken: [u64; SLOTS as usize / 64],
    in_ring: usize,
    waiting: Vec<Waiting>,
    free: u32,
    order: u64,
}

impl Default for Queue {
    /// Everything is in one slot.
    fn default() -> Self {
        Queue {
            line: VecDeque::new(),
            near: Heap::default(),
            far: Heap::default(),
            shift: 63,
            at: 0,
            heads: vec![NONE; SLOTS as usize],
            taken: [0; SLOTS as usize / 64],
            in_ring: 0,
            waiting: Vec::new(),
            free: NONE,
            order: 0,
        }
    }
}

impl Queue {
    #[inline]
    pub fn push(&mut self, time: i64, kind: Kind, id: u32) {
        let key = self.key(time, kind, id);
        self.place(key);
    }

    /// The same for events that usually come no earlier than the last one pushed this way: then
    /// nothing is sorted.
    #[inline(always)]
    pub fn push_last(&mut self, time: i64, kind: Kind, id: u32) {
        let key = self.key(time, kind, id);
        if self.line.back().is_none_or(|&last| last < key) {
            self.line.push_back(key);
        } else {
            self.place(key);
        }
    }

    #[inline(always)]
    fn key(&mut self, time: i64, kind: Kind, id: u32) -> u128 {
        // A later event is after the end of any run.
        let time = time.min(TIME_MAX);
        self.order += 1;
        let payload = (kind as u32) << ID_BITS | id;
        (time as u128) << TIME_SHIFT
            | u128::from(self.order & ORDER_MASK) << ORDER_SHIFT
            | u128::from(payload)
    }

    /// Chooses the length of a slot from the events that wait at the begin of a run.
    pub fn lay_out(&mut self) {
        let mut keys: Vec<u128> = std::iter::from_fn(|| self.near.pop()).collect();
        let median = keys.get(keys.len() / 2).map_or(0, |&key| time_of(key));
        self.shift = (median / SLOTS_OF_MEDIAN).max(1).ilog2();
        for key in keys.drain(..) {
            self.place(key);
        }
    }

    #[inline(always)]
    fn slot_of(&self, key: u128) -> u64 {
        time_of(key) as u64 >> self.shift
    }

    #[inline(always)]
    fn place(&mut self, key: u128) {
        let slot = self.slot_of(key);
        if slot <= self.at {
            self.near.push(key);
        } else if self.near.len() == 0 {
            self.at = slot;
            self.near.push(key);
        } else if slot < self.at + SLOTS {
            self.put_into_ring(slot % SLOTS, key);
        } else {
            self.far.push(key);
        }
    }

    #[inline(always)]
    fn put_into_ring(&mut self, slot: u64, key: u128) {
        self.taken[slot as usize / 64] |= 1 << (slot % 64);
        self.in_ring += 1;
        let head = &mut self.heads[slot as usize];
        let waiting = Waiting { key, next: *head };
        if let Some(place) = self.waiting.get_mut(self.free as usize) {
            *head = std::mem::replace(&mut self.free, place.next);
            *place = waiting;
        } else {
            *head = self.waiting.len() as u32;
            self.waiting.push(waiting);
        }
    }

    /// Moves the next non-empty slot to `near`.
    fn come_near(&mut self) {
        let Some(slot) = self.next_taken() else {
            if let Some(key) = self.far.pop() {
                self.place(key);
                self.approach();
            }
            return;
        };
        self.at = slot;
        let slot = (slot % SLOTS) as usize;
        self.taken[slot / 64] &= !(1 << (slot % 64));
        let mut next = std::mem::replace(&mut self.heads[slot], NONE);
        while let Some(waiting) = self.waiting.get_mut(next as usize) {
            self.near.push(waiting.key);
            self.in_ring -= 1;
            let place = std::mem::replace(&mut next, waiting.next);
            waiting.next = std::mem::replace(&mut self.free, place);
        }
        self.approach();
    }

    /// Moves events from `far` that now fit into the ring.
    #[inline]
    fn approach(&mut self) {
        while let Some(key) = self.far.first() {
            if self.slot_of(key) >= self.at + SLOTS {
                return;
            }
            self.far.pop();
            self.place(key);
        }
    }

    fn next_taken(&self) -> Option<u64> {
        if self.in_ring == 0 {
            return None;
        }
        let first = self.at + 1;
        let (word, bit) = ((first % SLOTS) as usize / 64, first % 64);
        let rest = self.taken[word] >> bit;
        if rest != 0 {
            return Some(first + u64::from(rest.trailing_zeros()));
        }
        // The same word comes again at the end, for the bits before the first.
        (1..=self.taken.len()).find_map(|i| {
            let bits = self.taken[(word + i) % self.taken.len()];
            let begin = first - bit + 64 * i as u64;
            (bits != 0).then(|| begin + u64::from(bits.trailing_zeros()))
        })
    }

    #[inline(always)]
    fn pop_near(&mut self) -> Option<u128> {
        let key = self.near.pop()?;
        if self.near.len() == 0 {
            self.come_near();
        }
        Some(key)
    }

    /// When the next event is; `i64::MAX`: never.
    #[inline]
    pub fn time(&self) -> i64 {
        let near = self.near.first().map_or(i64::MAX, time_of);
        self.line
            .front()
            .map_or(near, |&key| near.min(time_of(key)))
    }

    /// The client that acts next, if the next event outside of the line is a client's: worth
    /// prefetching.
    #[inline]
    pub fn next_client(&self) -> Option<u32> {
        let payload = self.near.first()? as u32;
        (payload >> ID_BITS == Kind::Client as u32).then_some(payload & ID_MAX)
    }

    #[inline(always)]
    pub fn pop(&mut self) -> Option<(i64, Kind, u32)> {
        let near = self.near.first().unwrap_or(u128::MAX);
        let in_line = self.line.front().filter(|&&key| key < near).copied();
        let key = if let Some(key) = in_line {
            self.line.pop_front();
            key
        } else {
            self.pop_near()?
        };
        let payload = key as u32;
        let kind = KINDS[(payload >> ID_BITS) as usize % KINDS.len()];
        Some((time_of(key), kind, payload & ID_MAX))
    }
}

#[inline(always)]
fn time_of(key: u128) -> i64 {
    (key >> TIME_SHIFT) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn events_come_by_time_and_then_in_the_order_of_insertion(times in proptest::collection::vec(0i64..50, 0..300)) {
            let mut queue = Queue::default();
            for (i, &time) in times.iter().enumerate() {
                queue.push(time, KINDS[i % KINDS.len()], i as u32);
            }
            let mut expected: Vec<(i64, Kind, u32)> =
                times.iter().enumerate().map(|(i, &t)| (t, KINDS[i % KINDS.len()], i as u32)).collect();
            expected.sort_by_key(|e| e.0);
            let seen: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
            prop_assert_eq!(seen, expected);
        }

        #[test]
        fn what_is_pushed_between_pops_comes_in_order_whatever_the_slots(
            begin in proptest::collection::vec(0i64..1 << 20, 0..300),
            steps in proptest::collection::vec((0..3, 0u32..40), 1..400),
        ) {
            let mut queue = Queue::default();
            let mut model = std::collections::BTreeMap::new();
            for (i, &time) in begin.iter().enumerate() {
                queue.push(time, Kind::Client, i as u32);
                model.insert((time, i as u32), ());
            }
            queue.lay_out();
            let mut now = 0;
            for (i, (step, magnitude)) in (begin.len() as u32..).zip(steps) {
                if step == 0 {
                    let next = queue.pop();
                    prop_assert_eq!(next.map(|n| (n.0, n.2)), model.pop_first().map(|e| e.0));
                    now = next.map_or(now, |n| n.0);
                } else {
                    let time = now + (i64::from(i) << magnitude >> 10);
                    if step == 1 {
                        queue.push(time, Kind::Syn, i);
                    } else {
                        queue.push_last(time, Kind::Syn, i);
                    }
                    model.insert((time.min(TIME_MAX), i), ());
                }
                prop_assert_eq!(queue.time(), model.first_key_value().map_or(i64::MAX, |e| e.0 .0));
            }
        }
    }
}
