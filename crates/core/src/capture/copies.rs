//! Is a packet that was seen before a copy made by the capture, or did the sender send it again?
//!
//! Captures on several interfaces or hosts hold every packet two or more times, typically 7 to 15
//! µs apart and up to some ms between hosts. Only a packet that was really sent again may count as
//! a loss. The criteria, in this order:
//! ```text
//! IP id, both not 0:  different → sent again        (a sender counts its packets)
//! TSval, both there:  different → sent again        (its clock ticks every 1 to 10 ms, a retry comes 200 ms later)
//!                     equal     → a copy, unless a whole second lies between and no equal IP id says that it is one
//! neither differs:    the time between them alone
//! ```
//!
//! An older TSval takes precedence: that packet was sent before the one that was seen before it,
//! and only came late.
//!
//! The earliest copy counts for everything, because it is nearest to the sender.

use super::stream::distance;
use super::Segment;
use serde::{Deserialize, Serialize};

/// Without TSval, packets further apart than this are not copies: Linux never repeats sooner than
/// 200 ms (`TCP_RTO_MIN`), and two capture points of one system are closer.
pub const COPY_GAP: i64 = 150_000_000;
/// With equal TSval: the coarsest clock that RFC 7323 allows ticks once a second.
const COPY_GAP_STAMPED: i64 = 1_000_000_000;

/// The properties of a packet by which its copies are recognised.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Print {
    pub time: i64,
    pub seq: u32,
    pub len: u32,
    ts_val: Option<u32>,
    /// 0: none (IPv6, or a sender that leaves it out).
    pub ip_id: u16,
}

impl Print {
    pub const NONE: Print = Print {
        time: i64::MIN,
        seq: 0,
        len: u32::MAX,
        ts_val: None,
        ip_id: 0,
    };

    pub fn of(segment: &Segment<'_>) -> Print {
        Print {
            time: segment.time,
            seq: segment.seq,
            len: segment.len,
            ts_val: segment.ts_val,
            ip_id: segment.ip_id.unwrap_or(0),
        }
    }

    /// Whether `segment`, of the same direction and kind, carries the same bytes.
    pub fn same_bytes(&self, segment: &Segment<'_>) -> bool {
        self.seq == segment.seq && self.len == segment.len
    }

    /// Whether `segment`, which carries the same bytes, is a copy of this packet.
    pub fn is_copy(&self, segment: &Segment<'_>) -> bool {
        if let (Some(a), Some(b)) = (self.ts_val, segment.ts_val) {
            if distance(b, a) < 0 {
                return true;
            }
        }
        let id = segment.ip_id.unwrap_or(0);
        let numbered = self.ip_id != 0 && id != 0;
        if numbered && self.ip_id != id {
            return false;
        }
        let gap = segment.time.saturating_sub(self.time).saturating_abs();
        match (self.ts_val, segment.ts_val) {
            (Some(a), Some(b)) => a == b && (numbered || gap < COPY_GAP_STAMPED),
            _ => gap < COPY_GAP,
        }
    }
}

/// The last few packets with payload of one direction.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Recent {
    prints: [Print; Recent::KEPT],
    next: u8,
}

impl Recent {
    /// Copies follow their original within a few packets; a packet that falls out is only not
    /// counted as a copy.
    const KEPT: usize = 4;

    pub fn new() -> Recent {
        Recent {
            prints: [Print::NONE; Recent::KEPT],
            next: 0,
        }
    }

    #[inline]
    pub fn push(&mut self, segment: &Segment<'_>) {
        self.prints[usize::from(self.next) % Recent::KEPT] = Print::of(segment);
        self.next = (self.next + 1) % Recent::KEPT as u8;
    }

    pub fn holds_copy_of(&self, segment: &Segment<'_>) -> bool {
        self.prints
            .iter()
            .any(|print| print.same_bytes(segment) && print.is_copy(segment))
    }
}
