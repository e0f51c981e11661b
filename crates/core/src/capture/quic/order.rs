//! Bytes of a stream in their order, and sets of packet numbers; both in bounded memory.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Pieces that wait for an earlier one.
const PIECES_MAX: usize = 256;
/// Ranges of a set.
const RANGES_MAX: usize = 128;
/// Packets in a row that the capture may lack.
const UNSEEN_MAX: u64 = 1 << 16;

#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    Bytes(&'a [u8]),
    /// So many bytes are missing.
    Lost(u64),
}

#[derive(Debug, Default, Deserialize, Serialize)]
pub struct Order {
    next: u64,
    held: BTreeMap<u64, Vec<u8>>,
    bytes: usize,
    end: Option<u64>,
}

impl Order {
    /// Bytes at `offset`; what is in its order now goes to `each`. More than `room` bytes do not wait: what lies before
    /// them is missing then. False: all of them had come before.
    pub fn put(
        &mut self,
        offset: u64,
        bytes: &[u8],
        room: usize,
        each: &mut dyn FnMut(Piece<'_>),
    ) -> bool {
        let end = offset.saturating_add(bytes.len() as u64);
        if end <= self.next {
            return false;
        }
        if offset <= self.next {
            let known = (self.next - offset) as usize;
            each(Piece::Bytes(bytes.get(known..).unwrap_or(&[])));
            self.next = end;
        } else {
            let longer = |held: &Vec<u8>| held.len() >= bytes.len();
            if self.held.get(&offset).is_some_and(longer) {
                return false;
            }
            let earlier = self.held.insert(offset, bytes.to_vec());
            self.bytes += bytes.len();
            self.bytes -= earlier.map_or(0, |held| held.len());
        }
        while let Some(first) = self.held.first_entry() {
            let begin = *first.key();
            let crowded = self.bytes > room || self.held.len() > PIECES_MAX;
            if begin > self.next && !crowded {
                break;
            }
            let Some((begin, held)) = self.held.pop_first() else {
                break;
            };
            self.bytes -= held.len();
            if begin > self.next {
                each(Piece::Lost(begin - self.next));
                self.next = begin;
            }
            let known = usize::try_from(self.next - begin).unwrap_or(usize::MAX);
            if let Some(new) = held.get(known..).filter(|new| !new.is_empty()) {
                each(Piece::Bytes(new));
                self.next += new.len() as u64;
            }
        }
        true
    }

    /// Bytes that wait for earlier ones.
    pub fn held(&self) -> usize {
        self.bytes
    }

    pub fn ends_at(&mut self, end: u64) {
        self.end = Some(end);
    }

    pub fn has_end(&self) -> bool {
        self.end.is_some()
    }

    pub fn is_whole(&self) -> bool {
        self.end.is_some_and(|end| self.next >= end)
    }
}

/// Numbers, as ranges: the smallest first, with a gap between any two.
#[derive(Debug, Default, Deserialize, Serialize)]
pub struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    pub fn largest(&self) -> Option<u64> {
        self.0.last().map(|&(_, to)| to)
    }

    pub fn smallest(&self) -> Option<u64> {
        self.0.first().map(|&(from, _)| from)
    }

    /// The only range.
    pub fn whole(&self) -> Option<(u64, u64)> {
        match *self.0.as_slice() {
            [one] => Some(one),
            _ => None,
        }
    }

    pub fn has(&self, number: u64) -> bool {
        self.0
            .iter()
            .rev()
            .any(|&(from, to)| from <= number && number <= to)
    }

    /// False: all of them were there.
    pub fn add(&mut self, from: u64, to: u64) -> bool {
        // The newest range grows nearly always.
        let begin = self
            .0
            .iter()
            .rposition(|range| range.1.saturating_add(1) < from);
        let begin = begin.map_or(0, |before| before + 1);
        let joined = self.0.iter().skip(begin);
        let joined = joined
            .take_while(|range| range.0 <= to.saturating_add(1))
            .count();
        let one = self.0.get(begin).filter(|_| joined == 1);
        if one.is_some_and(|range| range.0 <= from && to <= range.1) {
            return false;
        }
        let earlier = self.0.drain(begin..begin + joined);
        let whole = earlier.fold((from, to), |whole, range| {
            (whole.0.min(range.0), whole.1.max(range.1))
        });
        self.0.insert(begin, whole);
        if self.0.len() > RANGES_MAX {
            // The oldest gap is forgotten.
            let first = self.0.remove(0);
            if let Some(second) = self.0.first_mut() {
                second.0 = first.0;
            }
        }
        true
    }

    /// How many of these numbers, up to `most`, are not in `others`.
    pub fn without(&self, others: &Ranges, most: u64) -> u64 {
        let mut count: u64 = 0;
        for &(from, to) in self.0.iter().filter(|range| range.0 <= most) {
            let to = to.min(most);
            count = count.saturating_add(to - from + 1);
            for &(begin, end) in &others.0 {
                let (begin, end) = (begin.max(from), end.min(to));
                count = count.saturating_sub((end + 1).saturating_sub(begin));
            }
        }
        count
    }
}

/// Packet numbers that one side has used in one space.
#[derive(Default, Deserialize, Serialize)]
pub struct Numbers {
    pub seen: Ranges,
    /// Those that must be acknowledged: packets with acknowledgements alone need not be.
    pub asking: Ranges,
    pub acked: Ranges,
}

impl Numbers {
    /// Nobody sends numbers that are far from the captured ones: who acknowledges them invents them.
    pub fn acknowledge(&mut self, ranges: &[(u64, u64)]) {
        let Some((least, most)) = self.seen.smallest().zip(self.seen.largest()) else {
            return;
        };
        let least = least.saturating_sub(UNSEEN_MAX);
        let most = most.saturating_add(UNSEEN_MAX);
        for &(from, to) in ranges.iter().rev() {
            let (from, to) = (from.max(least), to.min(most));
            if from <= to {
                self.acked.add(from, to);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(order: &mut Order, offset: u64, bytes: &[u8], room: usize) -> (bool, String) {
        let mut seen = String::new();
        let new = order.put(offset, bytes, room, &mut |piece| match piece {
            Piece::Bytes(bytes) => seen.push_str(&String::from_utf8_lossy(bytes)),
            Piece::Lost(n) => seen.push_str(&format!("[{n}]")),
        });
        (new, seen)
    }

    #[test]
    fn pieces_in_any_order() {
        let mut order = Order::default();
        assert_eq!(put(&mut order, 2, b"cd", 9), (true, String::new()));
        assert_eq!(put(&mut order, 2, b"cd", 9), (false, String::new()));
        assert_eq!(put(&mut order, 0, b"abc", 9), (true, "abcd".to_owned()));
        assert_eq!(put(&mut order, 1, b"bcd", 9), (false, String::new()));
        assert_eq!(put(&mut order, 10, b"klm", 9), (true, String::new()));
        assert_eq!(put(&mut order, 13, b"nopqrst", 9).1, "[6]klmnopqrst");
        order.ends_at(20);
        assert!(order.is_whole() && order.bytes == 0);
    }

    #[test]
    fn sets() {
        let mut set = Ranges::default();
        for number in [0, 1, 5, 3, 2] {
            assert!(set.add(number, number));
        }
        assert!(!set.add(1, 3) && set.has(5) && !set.has(4));
        assert_eq!(set.0, [(0, 3), (5, 5)]);
        let mut acked = Ranges::default();
        acked.add(1, 2);
        assert_eq!(set.without(&acked, 5), 3);
        assert_eq!(set.without(&acked, 3), 2);
        assert_eq!(acked.without(&set, 9), 0);
        assert!(set.add(4, 4));
        assert_eq!(set.0, [(0, 5)]);
        for number in 0..3 * RANGES_MAX as u64 {
            set.add(100 + 2 * number, 100 + 2 * number);
        }
        assert_eq!(set.0.len(), RANGES_MAX);
    }
}
