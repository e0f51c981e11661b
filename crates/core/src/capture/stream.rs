//! One direction of a connection: which bytes of a segment are new, and which are missing.
//!
//! ```text
//!      next                      what lies ahead is kept until the hole before it is
//!        │                         filled    (it was only out of order), or
//! ──read─┤..hole..├──ahead──┤      confirmed (the receiver acknowledged bytes the capture
//!                                             never saw; or the buffer is full; or nobody
//!                                             sends them any more)
//! ```

use super::copies::Recent;
use super::{Segment, FIN};
use serde::{Deserialize, Serialize};

/// Segments and bytes kept out of order per direction: a receive window of 256 KiB, the usual one,
/// fits.
const AHEAD_SEGMENTS: usize = 256;
const AHEAD_BYTES: usize = 1 << 18;
/// An acknowledgement may be captured before the bytes that it acknowledges (several queues of one
/// network card, several interfaces): only after this time does a hole count as one of the capture.
/// Such inversions are about 100 µs.
pub const REORDER: i64 = 1_000_000;
/// Without acknowledgements, a hole that is not filled for this long is final: three retries of
/// Linux's first timers (0.2 + 0.4 + 0.8 s) fit in.
pub const PATIENCE: i64 = 2_000_000_000;

/// The largest window: what Linux lets it grow to since 6.16, and five times what it did before (`net.ipv4.tcp_rmem`).
const WINDOW: u32 = 1 << 25;

/// `a - b` of sequence numbers.
#[inline]
pub fn distance(a: u32, b: u32) -> i32 {
    a.wrapping_sub(b) as i32
}

/// Whether a number is one of this connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Fits,
    /// It is further from all others than any window: the packet is damaged, or of another connection on these ports.
    Strays,
    /// The one before was as far: so much is missing in the capture.
    Jumps,
}

/// Whether two numbers lie in one window.
#[inline]
pub fn is_near(a: u32, b: u32) -> bool {
    distance(a, b).unsigned_abs() <= WINDOW
}

/// A segment kept for later.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Ahead {
    seq: u32,
    len: u32,
    time: i64,
    bytes: Box<[u8]>,
}

/// The kind of a segment with payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// New bytes; `skip` bytes of its payload are old.
    InOrder { skip: u32 },
    /// Kept until the hole before it is settled.
    Ahead,
    /// All of it was seen before: the same packet again, …
    Copy,
    /// … or bytes sent again, or a keep-alive.
    Old,
}

/// What can be read next, after a hole was filled or given up.
#[derive(Debug)]
pub enum Ready {
    Bytes {
        time: i64,
        len: u32,
        bytes: Box<[u8]>,
        skip: u32,
    },
    /// Missing; `time` is that of the bytes behind the hole.
    Gap { time: i64, len: u32 },
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Stream {
    /// The sequence number of the next byte to read; meaningless before `started`.
    next: u32,
    /// The highest acknowledgement of this direction's bytes.
    acked: u32,
    started: bool,
    fin: Option<u32>,
    /// The last number that no window reaches.
    stray: Option<u32>,
    recent: Recent,
    ahead: Vec<Ahead>,
    ahead_bytes: usize,
    ahead_since: i64,
}

impl Stream {
    pub fn new() -> Stream {
        Stream {
            next: 0,
            acked: 0,
            started: false,
            fin: None,
            stray: None,
            recent: Recent::new(),
            ahead: Vec::new(),
            ahead_bytes: 0,
            ahead_since: 0,
        }
    }

    /// The first byte will carry `seq`.
    pub fn start(&mut self, seq: u32) {
        if !self.started {
            (self.next, self.acked, self.started) = (seq, seq, true);
        }
    }

    /// Judges the number of a segment of this side, or of an acknowledgement by the other.
    #[inline]
    pub fn judge(&mut self, number: u32) -> Verdict {
        let near = |other: u32| is_near(number, other);
        if !self.started || near(self.next) || near(self.acked) {
            return Verdict::Fits;
        }
        if self.stray.replace(number).is_some_and(near) {
            Verdict::Jumps
        } else {
            Verdict::Strays
        }
    }

    /// Goes on from here: bytes before are missing, nobody knows how many.
    pub fn jump_to(&mut self, seq: u32) {
        (self.next, self.acked, self.fin) = (seq, seq, None);
        self.stray = None;
        self.ahead.clear();
        self.ahead_bytes = 0;
    }

    /// The other side has this direction's bytes up to `ack`.
    #[inline]
    pub fn acknowledge(&mut self, ack: u32) {
        if !self.started {
            self.start(ack);
        } else if distance(ack, self.acked) > 0 {
            self.acked = ack;
        }
    }

    /// Whether some bytes of a segment are not acknowledged.
    pub fn is_open(&self, segment: &Segment<'_>) -> bool {
        distance(segment.seq.wrapping_add(segment.len), self.acked) > 0
    }

    /// How many bytes the other side acknowledged that were never seen.
    #[inline]
    pub fn missing_before(&self, ack: u32) -> u32 {
        let beyond = distance(ack, self.next);
        if !self.started || beyond <= 0 {
            return 0;
        }
        beyond as u32 - u32::from(self.fin.is_some_and(|fin| distance(ack, fin) > 0))
    }

    #[inline]
    pub fn place(&mut self, segment: &Segment<'_>) -> Place {
        self.start(segment.seq);
        let end = segment.seq.wrapping_add(segment.len);
        let offset = distance(self.next, segment.seq);
        if offset == 0 || (offset > 0 && distance(end, self.next) > 0) {
            self.recent.push(segment);
            self.next = end;
            // The sender is here, so what lies ahead does not follow a hole yet.
            self.ahead_since = segment.time;
            return Place::InOrder {
                skip: offset as u32,
            };
        }
        let copy = self.recent.holds_copy_of(segment);
        if !copy {
            self.recent.push(segment);
        }
        if copy {
            Place::Copy
        } else if offset > 0 {
            Place::Old
        } else {
            self.keep(segment);
            Place::Ahead
        }
    }

    fn keep(&mut self, segment: &Segment<'_>) {
        let at = self
            .ahead
            .partition_point(|kept| distance(kept.seq, segment.seq) < 0);
        if self
            .ahead
            .get(at)
            .is_some_and(|kept| kept.seq == segment.seq && kept.len >= segment.len)
        {
            return;
        }
        if self.ahead.is_empty() {
            self.ahead_since = segment.time;
        }
        self.ahead_bytes += segment.payload.len();
        let bytes = Box::from(segment.payload);
        self.ahead.insert(
            at,
            Ahead {
                seq: segment.seq,
                len: segment.len,
                time: segment.time,
                bytes,
            },
        );
    }

    pub fn waits(&self) -> bool {
        !self.ahead.is_empty()
    }

    /// The next readable piece; `now` is the time of the newest packet.
    pub fn ready(&mut self, now: i64) -> Option<Ready> {
        let first = self.ahead.first()?;
        let hole = distance(first.seq, self.next);
        if hole > 0 {
            let confirmed = distance(self.acked, self.next) > 0
                && now.saturating_sub(self.ahead_since) >= REORDER;
            let full = self.ahead.len() >= AHEAD_SEGMENTS || self.ahead_bytes >= AHEAD_BYTES;
            if !confirmed && !full && now.saturating_sub(self.ahead_since) < PATIENCE {
                return None;
            }
            self.next = first.seq;
            return Some(Ready::Gap {
                time: first.time,
                len: hole as u32,
            });
        }
        let first = self.ahead.remove(0);
        self.ahead_bytes -= first.bytes.len();
        self.ahead_since = now;
        let skip = hole.unsigned_abs().min(first.len);
        if skip < first.len {
            self.next = first.seq.wrapping_add(first.len);
        }
        Some(Ready::Bytes {
            time: first.time,
            len: first.len,
            bytes: first.bytes,
            skip,
        })
    }

    /// Gives up the next bytes before `ack` that were never seen: how many, and the time by which
    /// they had passed, at the latest `time`. Bytes behind them can be read now.
    pub fn skip_to(&mut self, ack: u32, time: i64) -> (i64, u32) {
        let mut hole = (time, self.missing_before(ack));
        if let Some(kept) = self.ahead.first() {
            let before = distance(kept.seq, self.next).max(0) as u32;
            if before < hole.1 {
                hole = (kept.time, before);
            }
        }
        self.next = self.next.wrapping_add(hole.1);
        hole
    }

    pub fn finish_at(&mut self, segment: &Segment<'_>) {
        if segment.flags & FIN != 0 && self.fin.is_none() {
            self.start(segment.seq);
            self.fin = Some(segment.seq.wrapping_add(segment.len));
        }
    }

    /// Whether the FIN has come and every byte before it.
    #[inline]
    pub fn finished(&self) -> bool {
        self.fin.is_some_and(|fin| distance(self.next, fin) >= 0)
    }
}
