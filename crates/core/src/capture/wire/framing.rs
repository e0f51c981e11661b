//! Packets whose fixed header holds their length (AJP, FastCGI, HTTP/2, MySQL, PostgreSQL, TLS, and those of
//! [`super::paired`]), cut from a stream that arrives in pieces, in part, or with holes.
//!
//! ```text
//!  header  payload ─ first `limit` bytes gathered ─ the rest skipped by length
//!    │        └ reported once, as soon as all that will be known of it is there
//!    └ invisible (snap length, gap) → lost: nothing is framed until the reader finds a packet at a segment's start
//! ```
//! A hole of known length is an input of which nothing is visible: a packet that spans it survives.

use super::Chunk;
use serde::{Deserialize, Serialize};

/// The longest header of these protocols: that of memcached's binary form.
pub const HEADER: usize = 24;

/// A chunk on its way through a [`Framer`].
pub struct Input<'d> {
    pub time: i64,
    bytes: &'d [u8],
    len: u64,
}

impl<'d> Input<'d> {
    pub fn new(chunk: Chunk<'d>) -> Self {
        let visible = chunk
            .bytes
            .len()
            .min(usize::try_from(chunk.len).unwrap_or(usize::MAX));
        Input {
            time: chunk.time,
            bytes: &chunk.bytes[..visible],
            len: chunk.len,
        }
    }

    /// A hole: bytes on the wire that were never seen.
    pub fn hole(time: i64, len: u64) -> Self {
        Input {
            time,
            bytes: &[],
            len,
        }
    }

    pub fn bytes(&self) -> &'d [u8] {
        self.bytes
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether more was on the wire than can be seen.
    pub fn cut(&self) -> bool {
        (self.bytes.len() as u64) < self.len
    }

    /// What is left, as a chunk.
    pub fn rest(&self) -> Chunk<'d> {
        Chunk {
            time: self.time,
            bytes: self.bytes,
            len: self.len,
        }
    }

    pub fn skip(&mut self, n: u64) {
        let n = n.min(self.len);
        let visible = usize::try_from(n).map_or(self.bytes.len(), |n| n.min(self.bytes.len()));
        self.bytes = &self.bytes[visible..];
        self.len -= n;
    }
}

/// The known part of one packet.
#[derive(Debug)]
pub struct Packet<'s> {
    /// When its first byte came.
    pub begun: i64,
    pub header: [u8; HEADER],
    /// Length of the payload on the wire.
    pub len: u64,
    /// The payload's beginning: up to the limit, or as far as it was captured.
    pub prefix: &'s [u8],
    /// Bytes of it that came in earlier chunks, and in this one.
    pub early: u64,
    pub now: u64,
    /// No more of it will come.
    pub over: bool,
}

#[derive(Debug)]
pub enum Step<'s> {
    Packet(Packet<'s>),
    /// So many more bytes of the last packet.
    More {
        now: u64,
        over: bool,
    },
    /// This many bytes belong to no known packet.
    Lost(u64),
}

#[derive(Deserialize, Serialize)]
pub struct Framer {
    header_len: usize,
    /// How much of a payload is gathered, by its header.
    #[serde(skip)]
    limit: Limit,
    /// Payload length from the header; None: this cannot be a header.
    #[serde(skip, default = "none")]
    payload_len: fn(&[u8]) -> Option<u64>,
    header: [u8; HEADER],
    have: usize,
    begun: i64,
    early: u64,
    /// Payload still to come, once the header is there.
    rest: u64,
    prefix: Vec<u8>,
    state: State,
}

enum Limit {
    Of(usize),
    By(fn(&[u8]) -> usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
enum State {
    Header,
    /// The header is known, the packet not yet reported.
    Prefix,
    /// Reported; the rest is skipped.
    Payload,
    Lost,
}

impl Default for Limit {
    fn default() -> Self {
        Limit::Of(0)
    }
}

fn none() -> fn(&[u8]) -> Option<u64> {
    |_| None
}

impl Framer {
    pub fn new(header_len: usize, limit: usize, payload_len: fn(&[u8]) -> Option<u64>) -> Self {
        Framer::limited(header_len, Limit::Of(limit), payload_len)
    }

    /// With a limit that depends on the header.
    pub fn with(
        header_len: usize,
        limit: fn(&[u8]) -> usize,
        payload_len: fn(&[u8]) -> Option<u64>,
    ) -> Self {
        Framer::limited(header_len, Limit::By(limit), payload_len)
    }

    fn limited(header_len: usize, limit: Limit, payload_len: fn(&[u8]) -> Option<u64>) -> Self {
        Framer {
            header_len,
            limit,
            payload_len,
            header: [0; HEADER],
            have: 0,
            begun: 0,
            early: 0,
            rest: 0,
            prefix: Vec::new(),
            state: State::Header,
        }
    }

    /// Takes the rules of a new one: they are code, which is not saved.
    pub fn adopt(&mut self, new: Framer) {
        (self.limit, self.payload_len) = (new.limit, new.payload_len);
    }

    pub fn lost(&self) -> bool {
        self.state == State::Lost
    }

    /// Whether the next byte is the first of a packet.
    pub fn between(&self) -> bool {
        self.state == State::Header && self.have == 0
    }

    /// The header, as far as it came, of a packet that is not reported yet.
    pub fn unreported(&self) -> Option<&[u8]> {
        match self.state {
            State::Header if self.have > 0 => Some(&self.header[..self.have]),
            State::Prefix => Some(&self.header[..self.header_len]),
            _ => None,
        }
    }

    /// A packet begins with the next byte.
    pub fn resync(&mut self) {
        self.state = State::Header;
        self.have = 0;
        self.early = 0;
        self.prefix.clear();
    }

    /// The stream breaks here: returns what was gathered, and is lost from now on.
    pub fn lose(&mut self) -> Option<Packet<'_>> {
        let gathered = self.state == State::Prefix;
        self.state = State::Lost;
        let (early, len) = (self.early, self.prefix.len() as u64 + self.rest);
        self.early = 0;
        self.have = 0;
        gathered.then_some(Packet {
            begun: self.begun,
            header: self.header,
            len,
            prefix: &self.prefix,
            early,
            now: 0,
            over: false,
        })
    }

    pub fn next<'s, 'd: 's>(&'s mut self, input: &mut Input<'d>) -> Option<Step<'s>> {
        if input.len == 0 {
            return None;
        }
        match self.state {
            State::Lost => {
                let n = input.len;
                input.skip(n);
                Some(Step::Lost(n))
            }
            State::Payload => {
                let now = self.rest.min(input.len);
                input.skip(now);
                self.rest -= now;
                if self.rest == 0 {
                    self.resync();
                }
                Some(Step::More {
                    now,
                    over: self.rest == 0,
                })
            }
            State::Header => self.begin(input),
            State::Prefix => self.gather(input, 0),
        }
    }

    fn begin<'s, 'd: 's>(&'s mut self, input: &mut Input<'d>) -> Option<Step<'s>> {
        if self.have == 0 {
            self.begun = input.time;
        }
        let n = (self.header_len - self.have).min(input.bytes.len());
        self.header[self.have..self.have + n].copy_from_slice(&input.bytes[..n]);
        self.have += n;
        let incomplete = self.have < self.header_len;
        if incomplete && !input.cut() {
            input.skip(n as u64);
            self.early += n as u64;
            return None;
        }
        let payload = if incomplete {
            None
        } else {
            (self.payload_len)(&self.header[..self.header_len])
        };
        let Some(payload) = payload else {
            let n = self.early + input.len;
            input.skip(input.len);
            self.state = State::Lost;
            self.have = 0;
            self.early = 0;
            return Some(Step::Lost(n));
        };
        input.skip(n as u64);
        self.have = 0;
        self.rest = payload;
        self.state = State::Prefix;
        self.prefix.clear();
        self.gather(input, n as u64)
    }

    /// Reports the packet if no more of it will be known; `now` of its bytes were already taken
    /// from this chunk.
    fn gather<'s, 'd: 's>(&'s mut self, input: &mut Input<'d>, now: u64) -> Option<Step<'s>> {
        let len = self.prefix.len() as u64 + self.rest;
        let limit = match self.limit {
            Limit::Of(limit) => limit,
            Limit::By(limit) => limit(&self.header[..self.header_len]),
        };
        let want = usize::try_from(len).unwrap_or(usize::MAX).min(limit) - self.prefix.len();
        let visible = input.bytes;
        let n = want.min(visible.len());
        if n < want && !input.cut() {
            self.prefix.extend_from_slice(&visible[..n]);
            input.skip(n as u64);
            self.rest -= n as u64;
            self.early += now + n as u64;
            return None;
        }
        let whole_here = self.prefix.is_empty();
        if !whole_here {
            self.prefix.extend_from_slice(&visible[..n]);
        }
        let taken = self.rest.min(input.len);
        input.skip(taken);
        self.rest -= taken;
        let over = self.rest == 0;
        let early = std::mem::take(&mut self.early);
        self.state = if over { State::Header } else { State::Payload };
        Some(Step::Packet(Packet {
            begun: self.begun,
            header: self.header,
            len,
            prefix: if whole_here {
                &visible[..n]
            } else {
                &self.prefix
            },
            early,
            now: now + taken,
            over,
        }))
    }
}
