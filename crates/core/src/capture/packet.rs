//! One packet of a capture file, and a format reader's result for the next bytes.

use super::link::Link;

/// The largest plausible packet: BIG TCP makes 512 KiB, tcpdump captures at most 256 KiB.
pub const PACKET_MAX: u32 = 1 << 20;

/// Times are kept in [0, 2^62) ns (until the year 2116), so that no difference of two can overflow.
pub const TIME_MAX: i64 = crate::bounds::MOMENT_MAX - 1;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Packet {
    pub time: i64,
    /// Where the captured bytes begin in the window.
    pub at: usize,
    pub captured: u32,
    pub wire: u32,
    pub link: Link,
    pub interface: u16,
    /// The format has no time for it: it gets that of the previous packet.
    pub untimed: bool,
    /// How often the clock was set back before it: later packets come after it, whatever their
    /// time.
    pub turn: u32,
}

/// The meaning of the bytes at the front of the window.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A packet; the record that holds it takes `taken` bytes.
    Packet { taken: usize, packet: Packet },
    /// Something that is not a packet and needs no message.
    Skip { taken: usize },
    /// Bytes that could not be read.
    Lost { taken: usize, reason: &'static str },
    /// More bytes are needed to decide: this many from the front of the window.
    Need(usize),
}

/// `count` ticks of `per_second` a second, and `offset` seconds, as nanoseconds in [0, TIME_MAX].
pub fn nanoseconds(count: u64, per_second: u128, offset: i64) -> i64 {
    let time = u128::from(count) * 1_000_000_000 / per_second.max(1);
    let time = i128::try_from(time).unwrap_or(i128::MAX);
    let time = time.saturating_add(i128::from(offset) * 1_000_000_000);
    i64::try_from(time.clamp(0, i128::from(TIME_MAX))).unwrap_or(TIME_MAX)
}

/// Four bytes of `bytes` at `at` as a number; None beyond its end.
#[inline]
pub fn u32_at(bytes: &[u8], at: usize, big_endian: bool) -> Option<u32> {
    let four = *bytes.get(at..)?.first_chunk::<4>()?;
    Some(if big_endian {
        u32::from_be_bytes(four)
    } else {
        u32::from_le_bytes(four)
    })
}

#[inline]
pub fn u16_at(bytes: &[u8], at: usize, big_endian: bool) -> Option<u16> {
    let two = *bytes.get(at..)?.first_chunk::<2>()?;
    Some(if big_endian {
        u16::from_be_bytes(two)
    } else {
        u16::from_le_bytes(two)
    })
}
