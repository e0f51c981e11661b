//! The protocol that reads a connection: known from its server, or inferred from the first bytes,
//! which wait meanwhile.
//! ```text
//! Listening ── a sign, or what the server is known to speak ──▶ Reading ── it cannot read what the server answers ─┐
//!     └── no sign ──▶ Opaque: by change of direction ◀──────────────────────────────────────────────────────────────┘
//!                       └── a message of the client that shows its protocol ──▶ Reading
//! ```
//!
//! A wrong protocol therefore loses no visit.

use super::exchange::{Refused, Scribe};
use super::servers::Server;
use super::wire::detect::{again, detect, Sign};
use super::wire::{opaque::Opaque, open, Chunk, Exchanges, Kind, Outcome, Protocol, Raw, Side};
use crate::record::NO_TIME;
use serde::{Deserialize, Serialize};

/// First bytes examined on each side: every protocol shows itself in its first packet.
const FIRST_BYTES: usize = 1024;
/// Chunks that wait before the connection is taken as opaque.
const CHUNKS: usize = 16;

/// The first bytes of a connection while its protocol is unknown (and, if it was opened before the
/// recording, its server).
#[derive(Debug, Default, Deserialize, Serialize)]
pub struct Listening {
    chunks: Vec<Waiting>,
    bytes: [Vec<u8>; 2],
    turns: u32,
}

#[derive(Debug, Deserialize, Serialize)]
struct Waiting {
    side: Side,
    time: i64,
    from: usize,
    to: usize,
    len: u64,
    gap: bool,
}

pub fn index(side: Side) -> usize {
    match side {
        Side::Client => 0,
        Side::Server => 1,
    }
}

impl Listening {
    pub fn push(&mut self, side: Side, chunk: Chunk<'_>, gap: bool) {
        if self.chunks.last().is_some_and(|last| last.side != side) {
            self.turns += 1;
        }
        let bytes = &mut self.bytes[index(side)];
        let from = bytes.len();
        bytes.extend_from_slice(chunk.bytes);
        let to = bytes.len();
        self.chunks.push(Waiting {
            side,
            time: chunk.time,
            from,
            to,
            len: chunk.len,
            gap,
        });
    }

    /// The first bytes of each side, client first.
    pub fn first(&self) -> [&[u8]; 2] {
        [0, 1].map(|side: usize| &self.bytes[side][..self.bytes[side].len().min(FIRST_BYTES)])
    }

    /// Both sides have sent and one of them twice, or enough was received.
    pub fn heard_enough(&self) -> bool {
        self.turns >= 2
            || self.chunks.len() >= CHUNKS
            || self
                .bytes
                .iter()
                .any(|bytes| bytes.len() >= 4 * FIRST_BYTES)
    }

    /// The protocol from the bytes, else from the server; the user's choice overrides both.
    fn choose(&self, server: &Server) -> Option<(Kind, Sign)> {
        let known = server.kind.map(|kind| (kind, Sign::Likely));
        // A server of HTTP/1 may serve HTTP/2 on the same port.
        let both = matches!(server.kind, Some(Kind::Http | Kind::Http2));
        let decided = self.chunks.is_empty() && !both;
        if server.told || decided {
            return known;
        }
        if self.chunks.is_empty() {
            return None;
        }
        let first = self.first();
        let shown = detect(server.endpoint.port, first[0], first[1]);
        match shown {
            Some((_, Sign::Certain)) => shown,
            _ => known.or(shown),
        }
    }

    fn why_opaque(&self, choice: Option<(Kind, Sign)>) -> &'static str {
        match choice {
            Some((_, Sign::Certain)) => ENCRYPTED,
            Some(_) => "as the options say",
            None if self.bytes.iter().all(Vec::is_empty) => "no payload was captured",
            None => "unknown protocol",
        }
    }

    fn chunk(&self, waiting: &Waiting) -> Chunk<'_> {
        let bytes = &self.bytes[index(waiting.side)];
        Chunk {
            time: waiting.time,
            bytes: bytes.get(waiting.from..waiting.to).unwrap_or(&[]),
            len: waiting.len,
        }
    }

    pub fn heard_something(&self) -> bool {
        !self.chunks.is_empty()
    }

    pub fn swap(&mut self) {
        self.bytes.swap(0, 1);
        for chunk in &mut self.chunks {
            chunk.side = other(chunk.side);
        }
    }
}

pub fn other(side: Side) -> Side {
    match side {
        Side::Client => Side::Server,
        Side::Server => Side::Client,
    }
}

#[derive(Deserialize, Serialize)]
pub enum Reader {
    Listening(Box<Listening>),
    Reading(Reading),
}

#[derive(Deserialize, Serialize)]
pub struct Reading {
    kind: Kind,
    #[serde(with = "super::wire::detect::state")]
    protocol: Box<dyn Protocol>,
    turn: Turn,
    /// For a connection read by change of direction: the reason, and whether a message of the
    /// client may show its protocol.
    #[serde(with = "crate::saved::fixed")]
    why: crate::saved::Fixed,
    sniffs: bool,
    /// No bytes came yet.
    untouched: bool,
    /// When the newest hole in the server's bytes had ended.
    hole: i64,
}

/// The client's bytes since the server's last.
#[derive(Debug, Default, Deserialize, Serialize)]
struct Turn {
    over: bool,
    begun: i64,
    time: i64,
    len: u64,
    /// Requests before it.
    requests: u64,
    #[serde(with = "crate::saved::fixed_list")]
    refused: Refused,
    /// It may be the rest of something that began before the recording, or in a hole.
    excused: bool,
}

impl Reading {
    fn of(kind: Kind, excused: bool) -> Reading {
        Reading {
            kind,
            protocol: open(kind),
            turn: Turn {
                over: true,
                excused,
                ..Turn::default()
            },
            why: "",
            sniffs: false,
            untouched: true,
            hole: NO_TIME,
        }
    }

    /// By change of direction, which is counted.
    fn opaque(protocol: Opaque, why: &'static str, sniffs: bool, out: &mut Scribe<'_>) -> Reading {
        let server = out.parties.server;
        out.ledger.servers.tally(server, |tally| {
            *tally.opaque.entry(why).or_insert(0) += 1;
        });
        Reading {
            protocol: Box::new(protocol),
            why,
            sniffs,
            ..Reading::of(Kind::Opaque, false)
        }
    }

    #[inline]
    fn data(&mut self, side: Side, chunk: Chunk<'_>, out: &mut Scribe<'_>) {
        self.untouched = false;
        if side == Side::Client {
            if self.turn.over {
                if self.sniffs {
                    self.sniff(chunk.bytes, out);
                }
                self.turn = Turn {
                    begun: chunk.time,
                    requests: out.queue.requests,
                    excused: self.turn.excused,
                    ..Turn::default()
                };
            }
            self.turn.time = chunk.time;
            self.turn.len += chunk.len;
        }
        self.protocol.data(side, chunk, out);
        let refused = std::mem::take(&mut out.refused);
        match side {
            // With an open request, it belongs to that.
            Side::Client if out.queue.is_empty() => self.turn.refused.extend(refused),
            Side::Client => {}
            Side::Server => {
                self.turn.over = true;
                if out.queue.requests != self.turn.requests {
                    self.turn.excused = false;
                } else if !self.turn.refused.is_empty() && out.queue.is_empty() {
                    self.misread(chunk, refused, out);
                }
            }
        }
    }

    /// The client's missing bytes may hold requests, whose answers would look like those of the requests before. Numbers
    /// of requests prevent this, unless so much is missing that it may be another connection.
    fn client_gap(&mut self, time: i64, len: u64, out: &mut Scribe<'_>) {
        let before = match self.kind {
            // Nobody knows whose bytes they are.
            Kind::Opaque => (out.queue.requests, u64::MAX),
            _ => out.queue.asked(),
        };
        self.protocol.gap(Side::Client, time, len, out);
        if len == 0 || !self.protocol.correlates() {
            out.queue.client_gap(before);
        }
    }

    /// The server answered what the protocol could not read: it was an exchange after all, of
    /// another protocol.
    #[cold]
    fn misread(&mut self, answer: Chunk<'_>, refused: Refused, out: &mut Scribe<'_>) {
        let turn = std::mem::take(&mut self.turn);
        self.turn.over = true;
        if self.protocol.left() || turn.excused || out.opaque.is_some() {
            return;
        }
        out.read_after_all(turn.refused);
        out.read_after_all(refused);
        out.request(turn.begun, Raw::Unknown, 0);
        out.request_bytes(turn.time, turn.len);
        out.response_bytes(answer.time, answer.len);
        out.open_ended(Outcome::Ok);
        if let Some(server) = out.ledger.servers.get(out.parties.server) {
            if !server.told && server.tally.visits == 0 {
                server.kind = None;
            }
        }
        *self = Reading::opaque(Opaque::in_response(), NOT_AS_TAKEN, true, out);
    }

    /// A message of the client begins: it may show the protocol.
    fn sniff(&mut self, bytes: &[u8], out: &mut Scribe<'_>) {
        let Some(server) = out.ledger.servers.get(out.parties.server) else {
            return;
        };
        let Some(kind) = again(server.endpoint.port, server.kind, bytes) else {
            return;
        };
        if server.told && server.kind != Some(kind) {
            return;
        }
        server.kind = server.kind.or(Some(kind));
        if out.queue.requests == 0 {
            server.tally.is_read(self.why);
        }
        *self = Reading::of(kind, false);
    }
}

/// Why a connection whose content stays closed is read by change of direction.
const ENCRYPTED: &str = "encrypted (TLS)";
/// Why a connection is read by change of direction although its server's protocol is known.
const NOT_AS_TAKEN: &str = "not what the server seemed to speak";

impl Reader {
    pub fn new() -> Reader {
        Reader::Listening(Box::default())
    }

    pub fn is_opaque(&self) -> bool {
        matches!(self, Reader::Reading(reading) if reading.kind == Kind::Opaque)
    }

    /// Chooses a protocol, if it can be known by now; then the waiting bytes are read.
    pub fn settle(&mut self, midstream: bool, forced: bool, out: &mut Scribe<'_>) {
        let Reader::Listening(listening) = self else {
            return;
        };
        let Some(server) = out.ledger.servers.get(out.parties.server) else {
            return;
        };
        let choice = listening.choose(server);
        if choice.is_none() && !forced && !listening.heard_enough() {
            return;
        }
        let heard = std::mem::take(&mut **listening);
        let reading = match choice {
            Some((kind, _)) if kind != Kind::Opaque => {
                server.kind = server.kind.or(Some(kind));
                Reading::of(kind, midstream)
            }
            _ if !heard.heard_something() => Reading {
                sniffs: choice.is_none(),
                ..Reading::of(Kind::Opaque, false)
            },
            _ => {
                let why = heard.why_opaque(choice);
                Reading::opaque(Opaque::new(), why, choice.is_none(), out)
            }
        };
        *self = Reader::Reading(reading);
        if midstream {
            let begin = heard.chunks.first().map_or(0, |chunk| chunk.time);
            self.gap(Side::Client, begin, 0, out);
            self.gap(Side::Server, begin, 0, out);
        }
        for chunk in &heard.chunks {
            if chunk.gap {
                self.gap(chunk.side, chunk.time, chunk.len, out);
            } else {
                self.data(chunk.side, heard.chunk(chunk), out);
            }
        }
    }

    /// Whether the client's next bytes may begin something else: nothing was read yet, or only what led to it.
    pub fn begins(&self) -> bool {
        match self {
            Reader::Listening(listening) => !listening.heard_something(),
            Reader::Reading(reading) if reading.kind == Kind::Opaque => reading.turn.over,
            Reader::Reading(reading) => reading.untouched,
        }
    }

    /// What follows is read as if it were the first on the connection.
    pub fn begin_again(&mut self, out: &mut Scribe<'_>) {
        let Reader::Reading(reading) = &*self else {
            return;
        };
        if reading.kind != Kind::Opaque {
            return;
        }
        out.take_back();
        let server = out.ledger.servers.get(out.parties.server);
        let kind = server.and_then(|server| {
            server.tally.is_read(reading.why);
            server.kind
        });
        match kind {
            Some(Kind::MySql) => {
                // The server has greeted before; the login, which goes on inside, is not read.
                *self = Reader::Reading(Reading::of(Kind::MySql, true));
                self.gap(Side::Client, 0, 0, out);
                self.gap(Side::Server, 0, 0, out);
            }
            Some(kind) if kind != Kind::Opaque => {
                *self = Reader::Reading(Reading::of(kind, false));
            }
            _ => *self = Reader::new(),
        }
    }

    /// Nothing of the connection can be opened: it is read by change of direction.
    pub fn close(&mut self, out: &mut Scribe<'_>) {
        if !self.is_opaque() {
            *self = Reader::Reading(Reading::opaque(Opaque::new(), ENCRYPTED, false, out));
        }
    }

    #[inline]
    pub fn data(&mut self, side: Side, chunk: Chunk<'_>, out: &mut Scribe<'_>) {
        match self {
            Reader::Listening(listening) => listening.push(side, chunk, false),
            Reader::Reading(reading) => {
                // It waited behind a hole of its own, so the server's hole is behind it.
                let hole = reading.hole;
                let earlier = side == Side::Client && chunk.time < hole;
                reading.data(side, chunk, out);
                if out.opaque.is_some() {
                    self.give_up(out);
                }
                if earlier {
                    self.gap(Side::Server, hole, 0, out);
                }
            }
        }
    }

    pub fn gap(&mut self, side: Side, time: i64, len: u64, out: &mut Scribe<'_>) {
        match self {
            Reader::Listening(listening) => {
                listening.push(side, Chunk::hole(time, len), true);
            }
            Reader::Reading(reading) => {
                reading.turn.excused = true;
                out.in_hole = true;
                match side {
                    Side::Client => reading.client_gap(time, len, out),
                    Side::Server => {
                        reading.hole = time;
                        out.queue.server_gap();
                        reading.protocol.gap(side, time, len, out);
                    }
                }
                out.in_hole = false;
                out.refused.clear();
                if out.opaque.is_some() {
                    self.give_up(out);
                }
            }
        }
    }

    pub fn end(&mut self, side: Side, time: i64, out: &mut Scribe<'_>) {
        if let Reader::Reading(reading) = self {
            reading.protocol.end(side, time, out);
            out.opaque = None;
        }
    }

    /// The protocol cannot continue: from here by change of direction; an open exchange stays open.
    fn give_up(&mut self, out: &mut Scribe<'_>) {
        let reason = out.opaque.take().unwrap_or("unreadable");
        let protocol = if out.queue.is_empty() {
            Opaque::new()
        } else {
            Opaque::after_request()
        };
        *self = Reader::Reading(Reading::opaque(protocol, reason, false, out));
    }
}
