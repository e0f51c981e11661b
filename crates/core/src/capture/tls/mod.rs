//! TLS in the way of a protocol (RFC 5246, 8446): records are opened with the secrets of their session and the content is
//! passed on; without secrets, the length of application data is.
//!
//! ```text
//! client  hello              Finished │ data …        handshake records  → Shaken
//! server         hello … Finished     │       data …  application data   → Opened, or Closed
//! ```
//! In TLS 1.3 everything behind the hellos looks like application data. Without secrets, what the server sends before
//! the client's Finished, and a record that is as long as a Finished or an alert, counts as handshake.

mod crypt;
pub(super) mod hello;
mod keys;

pub(super) use crypt::Suite;
pub use keys::Keys;
pub(super) use keys::{Random, Secret, Secrets};

use super::reader::index;
use super::wire::framing::{Framer, Input, Packet, Step};
use super::wire::{Chunk, Side};
use crypt::Opener;
use hello::Hello;
use serde::{Deserialize, Serialize};

const HEADER_LEN: usize = 5;
/// RFC 8446, section 5.2; TLS 1.2 allows 1,792 bytes more.
const RECORD_MAX: usize = (16 << 10) + 2048;
const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;
/// An encrypted Finished of TLS 1.3: a header of 4 bytes, a hash, the kind, and a tag.
const FINISHED: [u64; 2] = [4 + 32 + 1 + 16, 4 + 48 + 1 + 16];
const ENCRYPTED_ALERT: u64 = 2 + 1 + 16;

/// What TLS hands on.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// The client's hello: the server and the protocols that it asks for.
    Asked(&'a str),
    /// A record of the handshake ended.
    Shaken,
    /// Content, in a record that began then.
    Opened { begun: i64, bytes: &'a [u8] },
    /// Application data that stay closed: their length on the wire.
    Closed(u64),
    /// Bytes that are missing in the capture, or are no records.
    Lost(u64),
}

/// Receives pieces with their time.
type Out<'o> = &'o mut dyn FnMut(i64, Piece<'_>);

#[derive(Deserialize, Serialize)]
pub struct Tls {
    halves: [Half; 2],
    #[serde(skip)]
    keys: Keys,
    client: Option<Random>,
    is_13: bool,
    /// The client has sent application data, or what looks like it.
    client_heard: bool,
    scratch: Vec<u8>,
}

#[derive(Deserialize, Serialize)]
struct Half {
    framer: Framer,
    #[serde(skip)]
    opener: Option<Opener>,
    /// Records are encrypted from here on (TLS 1.2).
    sealed: bool,
    /// The rest of the current record is application data that stay closed.
    closed: bool,
}

/// Whether a client begins TLS here: a record with a ClientHello.
pub fn begins(bytes: &[u8]) -> bool {
    matches!(bytes, [HANDSHAKE, 3, 0..=4, 0..=0x48, _, 1, ..])
}

fn record_len(header: &[u8]) -> Option<u64> {
    match *header {
        [CHANGE_CIPHER_SPEC..=DATA, 3, 0..=4, high, low] => {
            let len = u16::from_be_bytes([high, low]);
            (usize::from(len) <= RECORD_MAX).then_some(u64::from(len))
        }
        _ => None,
    }
}

/// Without any secrets, only handshakes are gathered.
fn shown(header: &[u8]) -> usize {
    match header.first() {
        Some(&HANDSHAKE) => RECORD_MAX,
        _ => 0,
    }
}

impl Tls {
    pub fn new(keys: &Keys) -> Tls {
        let half = || Half {
            framer: match keys.is_empty() {
                true => Framer::with(HEADER_LEN, shown, record_len),
                false => Framer::new(HEADER_LEN, RECORD_MAX, record_len),
            },
            opener: None,
            sealed: false,
            closed: false,
        };
        Tls {
            halves: [half(), half()],
            keys: keys.clone(),
            client: None,
            is_13: false,
            client_heard: false,
            scratch: Vec::new(),
        }
    }

    /// After it was saved, which secrets are not.
    pub fn revive(&mut self, keys: &Keys) {
        let new = Tls::new(keys);
        self.keys = new.keys;
        for (half, new) in self.halves.iter_mut().zip(new.halves) {
            half.framer.adopt(new.framer);
        }
    }

    pub fn data(&mut self, side: Side, chunk: Chunk<'_>, out: Out<'_>) {
        let half = &mut self.halves[index(side)];
        let mut input = Input::new(chunk);
        if half.framer.lost() && record_here(input.bytes()) {
            half.framer.resync();
        }
        self.input(side, &mut input, out);
    }

    /// `len` bytes are missing (0: unknown how many).
    pub fn gap(&mut self, side: Side, time: i64, len: u64, out: Out<'_>) {
        if len == 0 {
            let half = &mut self.halves[index(side)];
            let _ = half.framer.lose();
            half.miss();
            return out(time, Piece::Lost(0));
        }
        self.input(side, &mut Input::hole(time, len), out);
    }

    fn input(&mut self, side: Side, input: &mut Input<'_>, out: Out<'_>) {
        // The framer leaves its place while its packets, which borrow from it, are read.
        let empty = Framer::new(HEADER_LEN, 0, record_len);
        let mut framer = std::mem::replace(&mut self.halves[index(side)].framer, empty);
        while let Some(step) = framer.next(input) {
            match step {
                Step::Packet(packet) => self.record(side, &packet, input.time, out),
                Step::More { now, .. } if self.halves[index(side)].closed => {
                    out(input.time, Piece::Closed(now));
                }
                Step::More { .. } => {}
                Step::Lost(n) => {
                    self.halves[index(side)].miss();
                    out(input.time, Piece::Lost(n));
                }
            }
        }
        self.halves[index(side)].framer = framer;
    }

    fn record(&mut self, side: Side, packet: &Packet<'_>, time: i64, out: Out<'_>) {
        let [kind, major, minor, high, low, ..] = packet.header;
        let header = [kind, major, minor, high, low];
        let whole = packet.prefix.len() as u64 == packet.len;
        let shaken = match (self.is_shaking(side, packet.len), side) {
            (false, _) => 0,
            (true, Side::Client) => 1,
            (true, Side::Server) => u64::MAX,
        };
        let half = &mut self.halves[index(side)];
        half.closed = false;
        match kind {
            HANDSHAKE if !half.sealed => {
                self.handshake(packet.prefix, time, out);
                out(time, Piece::Shaken);
            }
            CHANGE_CIPHER_SPEC => {
                half.sealed = !self.is_13;
                out(time, Piece::Shaken);
            }
            HANDSHAKE | ALERT | DATA => {
                let sealed = half.sealed || self.is_13;
                let opener = half.opener.as_mut().filter(|_| sealed);
                let opened = match opener {
                    Some(opener) if whole => {
                        opener.open(header, packet.prefix, shaken, &mut self.scratch)
                    }
                    Some(opener) => {
                        opener.skip();
                        None
                    }
                    None => None,
                };
                match opened {
                    Some((DATA, len)) => {
                        self.client_heard |= side == Side::Client;
                        let bytes = self.scratch.get(..len).unwrap_or(&[]);
                        out(
                            time,
                            Piece::Opened {
                                begun: packet.begun,
                                bytes,
                            },
                        );
                    }
                    Some((HANDSHAKE, _)) => out(time, Piece::Shaken),
                    Some(_) => {}
                    None if kind == HANDSHAKE => out(time, Piece::Shaken),
                    None if kind == ALERT => {}
                    None if self.is_13 && self.looks_like_handshake(side, packet.len) => {
                        out(time, Piece::Shaken);
                    }
                    None => {
                        self.halves[index(side)].closed = true;
                        if packet.early > 0 {
                            out(packet.begun, Piece::Closed(packet.early));
                        }
                        out(time, Piece::Closed(packet.now));
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether a record of TLS 1.3 is of the handshake, as far as its place and length show.
    fn is_shaking(&self, side: Side, len: u64) -> bool {
        !self.client_heard
            && match side {
                Side::Client => FINISHED.contains(&len),
                Side::Server => len != ENCRYPTED_ALERT,
            }
    }

    /// A closed record of TLS 1.3 that is not application data, as far as its place and length show.
    fn looks_like_handshake(&mut self, side: Side, len: u64) -> bool {
        let is_shaking = self.is_shaking(side, len);
        self.client_heard |= side == Side::Client;
        is_shaking || len == ENCRYPTED_ALERT
    }

    fn handshake(&mut self, message: &[u8], time: i64, out: Out<'_>) {
        match hello::read(message) {
            Some(Hello::Client { random, asked }) => {
                // After a retry, the second hello asks for the same.
                let retried = self.client.replace(random).is_some();
                let piece = Piece::Asked(&asked);
                out(time, if retried { Piece::Shaken } else { piece });
            }
            Some(Hello::Server {
                random,
                suite,
                is_13,
            }) => {
                self.is_13 = is_13;
                self.agree(&random, suite);
            }
            Some(Hello::Retry) => self.is_13 = true,
            None => {}
        }
    }

    /// The session is known: its secrets may be, too.
    fn agree(&mut self, server: &Random, suite: u16) {
        let Some((client, suite)) = self.client.zip(Suite::of(suite)) else {
            return;
        };
        let Some(secrets) = self.keys.of(&client) else {
            return;
        };
        if self.is_13 {
            for ((half, handshake), traffic) in self
                .halves
                .iter_mut()
                .zip(secrets.handshake)
                .zip(secrets.traffic)
            {
                half.opener = Opener::of_secrets(suite, handshake, traffic);
            }
        } else if let Some(openers) = secrets
            .master
            .and_then(|master| Opener::of_master(suite, &master, &client, server))
        {
            for (half, opener) in self.halves.iter_mut().zip(openers) {
                half.opener = Some(opener);
            }
        }
    }
}

impl Half {
    /// An unknown number of records is missing.
    fn miss(&mut self) {
        self.closed = false;
        if let Some(opener) = &mut self.opener {
            opener.skipped = true;
        }
    }
}

/// Whether a record begins with these first bytes of a segment.
fn record_here(bytes: &[u8]) -> bool {
    bytes
        .get(..HEADER_LEN)
        .is_some_and(|header| record_len(header).is_some_and(|len| len > 0))
}
