//! Which protocol reads a connection: known from its server, or found out from the first bytes, which wait meanwhile.

use super::exchange::Scribe;
use super::wire::{detect, opaque::Opaque, open, Chunk, Kind, Protocol, Side};

/// First bytes looked at per side: every protocol shows itself in its first packet.
const FIRST_BYTES: usize = 1024;
/// Chunks that wait before the connection is taken as opaque.
const CHUNKS: usize = 16;

/// The first bytes of a connection, while its protocol (and for one opened before the recording, who is the server) is
/// not known.
#[derive(Debug, Default)]
pub struct Listening {
    chunks: Vec<Waiting>,
    bytes: [Vec<u8>; 2],
    turns: u32,
}

#[derive(Debug)]
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

    /// What each side, client first, said first.
    pub fn first(&self) -> [&[u8]; 2] {
        [0, 1].map(|side: usize| &self.bytes[side][..self.bytes[side].len().min(FIRST_BYTES)])
    }

    /// Both have spoken and one of them twice, or enough was heard.
    pub fn heard_enough(&self) -> bool {
        self.turns >= 2
            || self.chunks.len() >= CHUNKS
            || self
                .bytes
                .iter()
                .any(|bytes| bytes.len() >= 4 * FIRST_BYTES)
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

pub enum Reader {
    Listening(Box<Listening>),
    Reading {
        kind: Kind,
        protocol: Box<dyn Protocol>,
    },
}

impl Reader {
    pub fn new() -> Reader {
        Reader::Listening(Box::default())
    }

    pub fn is_opaque(&self) -> bool {
        matches!(
            self,
            Reader::Reading {
                kind: Kind::Opaque,
                ..
            }
        )
    }

    /// Chooses a protocol, if it can be known by now; what waited is then read. `known` is what the server is known to
    /// speak. Returns what was newly found out about the server.
    pub fn settle(
        &mut self,
        known: Option<Kind>,
        port: u16,
        midstream: bool,
        forced: bool,
        out: &mut Scribe<'_>,
    ) -> Option<Kind> {
        let Reader::Listening(listening) = self else {
            return None;
        };
        let first = listening.first();
        let found = known
            .is_none()
            .then(|| detect(port, first[0], first[1]))
            .flatten();
        let kind = match known.or(found) {
            Some(kind) => kind,
            None if forced || listening.heard_enough() => Kind::Opaque,
            None => return None,
        };
        if kind == Kind::Opaque && listening.heard_something() {
            let reason = match (known, found) {
                (Some(_), _) => "as the options say",
                (None, Some(_)) => "encrypted (TLS)",
                _ if first.iter().all(|bytes| bytes.is_empty()) => "no payload was captured",
                _ => "unknown protocol",
            };
            out.ledger.servers.tally(out.parties.server, |tally| {
                *tally.opaque.entry(reason).or_insert(0) += 1
            });
        }
        let heard = std::mem::take(&mut **listening);
        *self = Reader::Reading {
            kind,
            protocol: open(kind),
        };
        if midstream {
            let begin = heard.chunks.first().map_or(0, |chunk| chunk.time);
            self.gap(Side::Client, begin, 0, out);
            self.gap(Side::Server, begin, 0, out);
        }
        for chunk in &heard.chunks {
            let bytes = &heard.bytes[index(chunk.side)][chunk.from..chunk.to];
            if chunk.gap {
                self.gap(chunk.side, chunk.time, chunk.len, out);
            } else {
                self.data(
                    chunk.side,
                    Chunk {
                        time: chunk.time,
                        bytes,
                        len: chunk.len,
                    },
                    out,
                );
            }
        }
        found.filter(|kind| *kind != Kind::Opaque)
    }

    #[inline]
    pub fn data(&mut self, side: Side, chunk: Chunk<'_>, out: &mut Scribe<'_>) {
        match self {
            Reader::Listening(listening) => listening.push(side, chunk, false),
            Reader::Reading { protocol, .. } => {
                protocol.data(side, chunk, out);
                if out.opaque.is_some() {
                    self.give_up(out);
                }
            }
        }
    }

    pub fn gap(&mut self, side: Side, time: i64, len: u64, out: &mut Scribe<'_>) {
        match self {
            Reader::Listening(listening) => listening.push(
                side,
                Chunk {
                    time,
                    bytes: &[],
                    len,
                },
                true,
            ),
            Reader::Reading { protocol, .. } => {
                if side == Side::Server {
                    out.queue.server_gap(time);
                }
                protocol.gap(side, time, len, out);
                if out.opaque.is_some() {
                    self.give_up(out);
                }
            }
        }
    }

    pub fn end(&mut self, side: Side, time: i64, out: &mut Scribe<'_>) {
        if let Reader::Reading { protocol, .. } = self {
            protocol.end(side, time, out);
            out.opaque = None;
        }
    }

    /// The protocol cannot go on: from here by change of direction, an exchange that is open stays so.
    fn give_up(&mut self, out: &mut Scribe<'_>) {
        let reason = out.opaque.take().unwrap_or("unreadable");
        out.ledger.servers.tally(out.parties.server, |tally| {
            *tally.opaque.entry(reason).or_insert(0) += 1
        });
        let protocol = if out.queue.is_empty() {
            Opaque::new()
        } else {
            Opaque::after_request()
        };
        *self = Reader::Reading {
            kind: Kind::Opaque,
            protocol: Box::new(protocol),
        };
    }
}
