//! A connection whose client begins TLS: what is opened of it goes to the reader, as if it had never been sealed.
//! ```text
//! segments ──▶ Tls ──▶ content of records ──▶ Reader (HTTP, MySQL, …)
//!               └────▶ lengths of records ──▶ Reader (by change of direction), where there are no secrets
//! ```
//! The handshake is no part of any exchange. Only the time until the server answered the client's hello is the
//! server's, because a full accept queue shows there.

use super::super::exchange::Scribe;
use super::super::reader::Reader;
use super::super::tls::{self, Keys, Piece, Tls};
use super::super::wire::{Chunk, Side};
use serde::{Deserialize, Serialize};

/// Different texts by which clients ask for servers and protocols, for each server.
const ASKED_MAX: usize = 16;

#[derive(Deserialize, Serialize)]
pub(super) struct Sealed {
    tls: Tls,
    seen: Seen,
}

/// What the connection has shown so far.
#[derive(Deserialize, Serialize)]
struct Seen {
    /// Content of a record was opened.
    opened: bool,
    /// When the client's hello came; the server's answer has not yet.
    hello: Option<i64>,
}

impl Sealed {
    /// If the client begins TLS here.
    pub(super) fn begin(
        reader: &mut Reader,
        chunk: &Chunk<'_>,
        out: &mut Scribe<'_>,
    ) -> Option<Box<Sealed>> {
        let server = out.ledger.servers.get(out.parties.server)?;
        if !tls::begins(chunk.bytes) || !reader.begins() || server.is_told_opaque() {
            return None;
        }
        reader.begin_again(out);
        Some(Box::new(Sealed {
            tls: Tls::new(&out.ledger.keys),
            seen: Seen {
                opened: false,
                hello: Some(chunk.time),
            },
        }))
    }

    pub(super) fn revive(&mut self, keys: &Keys) {
        self.tls.revive(keys);
    }

    pub(super) fn data(
        &mut self,
        side: Side,
        chunk: Chunk<'_>,
        reader: &mut Reader,
        out: &mut Scribe<'_>,
    ) {
        let Sealed { tls, seen } = self;
        tls.data(side, chunk, &mut |time, piece| {
            seen.hand_on(side, time, &piece, reader, out);
        });
    }

    pub(super) fn gap(
        &mut self,
        side: Side,
        time: i64,
        len: u64,
        reader: &mut Reader,
        out: &mut Scribe<'_>,
    ) {
        let Sealed { tls, seen } = self;
        tls.gap(side, time, len, &mut |time, piece| {
            seen.hand_on(side, time, &piece, reader, out);
        });
    }
}

impl Seen {
    fn hand_on(
        &mut self,
        side: Side,
        time: i64,
        piece: &Piece<'_>,
        reader: &mut Reader,
        out: &mut Scribe<'_>,
    ) {
        match *piece {
            Piece::Asked(asked) => count(asked, out),
            Piece::Shaken => {
                let answered = self.hello.take_if(|_| side == Side::Server);
                if let Some(opening) = &mut out.queue.opening {
                    opening.shake(answered.map(|hello| time.saturating_sub(hello)), time);
                }
            }
            Piece::Opened { begun, bytes } => {
                self.opened = true;
                let (first, rest) = bytes.split_at(usize::from(begun < time).min(bytes.len()));
                for (time, bytes) in [(begun, first), (time, rest)] {
                    if !bytes.is_empty() {
                        let len = bytes.len() as u64;
                        reader.data(side, Chunk { time, bytes, len }, out);
                    }
                }
            }
            Piece::Closed(len) | Piece::Lost(len) if self.opened => {
                reader.gap(side, time, len, out);
            }
            Piece::Closed(len) => {
                reader.close(out);
                reader.data(side, Chunk::hole(time, len), out);
            }
            Piece::Lost(_) => {}
        }
    }
}

fn count(asked: &str, out: &mut Scribe<'_>) {
    out.ledger.servers.tally(out.parties.server, |tally| {
        if tally.tls.len() < ASKED_MAX || tally.tls.contains_key(asked) {
            *tally.tls.entry(asked.to_owned()).or_insert(0) += 1;
        }
    });
}
