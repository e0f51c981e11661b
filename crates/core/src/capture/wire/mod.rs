//! Protocols: one file each, behind [`Protocol`].
//!
//! A protocol receives the bytes of one connection in order, in both directions, and reports where
//! requests begin and responses end. It never sees packets twice, and must handle gaps.

pub mod ajp;
pub mod amqp;
pub mod cassandra;
pub mod detect;
pub mod dns;
pub mod fastcgi;
pub(super) mod framing;
pub mod http;
pub mod http2;
pub mod kafka;
pub mod ldap;
#[cfg(test)]
mod log;
pub mod memcached;
pub mod mongodb;
pub mod mysql;
pub mod opaque;
mod paired;
pub mod postgres;
pub mod redis;
pub mod software;
pub mod trace;
mod waiting;
mod words;

pub use detect::open;

use crate::error::Result;
use serde::{Deserialize, Serialize};
use std::hash::Hasher;

/// Who sent the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Side {
    Client,
    Server,
}

/// New bytes of one segment, in order and without copies.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    pub time: i64,
    /// What was captured of it.
    pub bytes: &'a [u8],
    /// Length on the wire: `len >= bytes.len()`. The snap length cut off the rest.
    pub len: u64,
}

impl Chunk<'_> {
    /// Bytes on the wire of which nothing was captured.
    pub fn hole(time: i64, len: u64) -> Self {
        Chunk {
            time,
            bytes: &[],
            len,
        }
    }
}

/// The text that names an interaction, as found on the wire; [`crate::capture::names`] turns it
/// into a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raw<'a> {
    Http {
        method: &'a [u8],
        target: &'a [u8],
    },
    Sql(&'a [u8]),
    /// A command of the protocol, and the collection that it concerns (MongoDB).
    Collection {
        command: &'a str,
        collection: &'a str,
    },
    /// A command of the protocol itself: `PING`, `LOGIN`, `GET` (Redis).
    Command(&'a str),
    /// A word in the place of a command that is not a known command: it may be something that must
    /// not be shown.
    Word(&'a str),
    Unknown,
}

/// The key of a request: a hash of its path. A proxy passes the path on unchanged over HTTP and AJP
/// (AJP carries the query elsewhere, so the query is left out). An absolute target counts by its
/// path. Never 0.
pub fn path_key(target: &[u8]) -> u64 {
    let path = path_of(target);
    if path.is_empty() {
        return 0;
    }
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write(path);
    hasher.finish().max(1)
}

/// The path of a target: without scheme, authority, query and fragment.
pub fn path_of(target: &[u8]) -> &[u8] {
    let mut path = target;
    if !path.starts_with(b"/") {
        if let Some(scheme) = path.windows(3).take(8).position(|w| w == b"://") {
            let rest = &path[scheme + 3..];
            path = rest
                .iter()
                .position(|&b| b == b'/')
                .map_or(&b"/"[..], |slash| &rest[slash..]);
        }
    }
    let end = path
        .iter()
        .position(|&b| b == b'?' || b == b'#')
        .unwrap_or(path.len());
    &path[..end]
}

fn holds(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|part| part == text)
}

/// How an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Outcome {
    Ok,
    /// HTTP status of 400 or more.
    Http(u16),
    /// An error of the protocol with its number (MySQL 1040), SQLSTATE or word folded to one: see [`error_name`].
    Error(u32),
    /// The client took its request back (FastCGI, HTTP/2).
    Aborted,
}

/// An error in the notation of its protocol: `1040`, `42P01`, `WRONGTYPE`, `exit-255`.
pub fn error_name(number: u32) -> String {
    match number {
        0..postgres::SQLSTATES => number.to_string(),
        postgres::SQLSTATES..redis::ERROR_WORDS => postgres::sqlstate(number),
        redis::ERROR_WORDS..fastcgi::EXITS => redis::error_word(number).to_owned(),
        fastcgi::EXITS..http2::HTTP2_ERRORS => fastcgi::end_name(number),
        http2::HTTP2_ERRORS..words::WORDS => http2::error_name(number),
        _ => words::name(number).to_owned(),
    }
}

/// Receives a protocol's reports. Exchanges are answered in the order of the requests (pipelining),
/// so every call about a response means the oldest unfinished exchange; if the order differs,
/// `turn_to` says which one is next.
///
/// The receiver closes an exchange at `finish`; after `open_ended`, at the next `request` (or the
/// close); and, if only a hole in the server's bytes has come since, at the next `request`, as one
/// whose end was not seen. Until then `response_bytes` still means it, and `finish` may still
/// follow `open_ended` (another response begins, so it was complete).
pub trait Exchanges {
    /// The server's first bytes, if they came before the client's, ask for no login: the first request belongs to
    /// opening the connection only if it follows at once. To be called before that request.
    fn no_login(&mut self);
    /// The first byte of a request. `key` identifies the request on both sides of a proxy (hash of
    /// path or of a request-id header), 0 if there is none.
    fn request(&mut self, time: i64, raw: Raw<'_>, key: u64);
    /// A better name for the newest request, known later than its first byte.
    fn rename(&mut self, raw: Raw<'_>, key: u64);
    /// The newest request belongs to this trace, by its headers.
    fn trace(&mut self, _trace: trace::Trace) {}
    /// The server says what it runs, or passes it on.
    fn runs(&mut self, _source: software::Source, _text: &[u8]) {}
    /// The last byte of the newest request so far (may be called again while it grows).
    fn request_bytes(&mut self, time: i64, len: u64);
    /// The client ends before the newest request is complete: it has kept the server waiting since the last bytes.
    fn cut_short(&mut self, _time: i64) {}
    /// Bytes of the response of the oldest unfinished exchange; the first call sets its first byte.
    fn response_bytes(&mut self, time: i64, len: u64);
    /// The nth oldest unfinished exchange becomes the oldest: its response comes before those of others.
    fn turn_to(&mut self, nth: usize);
    /// The response is complete: the exchange ends at the last `response_bytes`.
    fn finish(&mut self, outcome: Outcome);
    /// The oldest unfinished exchange ends at `time`, without a further byte of its response.
    fn break_off(&mut self, time: i64, outcome: Outcome);
    /// The outcome is known but the end of the response is not (the snap length cut off the length,
    /// or the response lasts until the connection closes): it ends at the last byte before the next
    /// request or the close.
    fn open_ended(&mut self, outcome: Outcome);
    /// The newest request has no response and is not an exchange (MySQL COM_QUIT, COM_STMT_CLOSE).
    fn one_way(&mut self);
    /// Bytes that could not be read as this protocol, counted by reason in the report.
    fn unreadable(&mut self, reason: &'static str, len: u64);
    /// From now on the bytes cannot be read (TLS, compression, an upgraded connection): treat the
    /// rest as opaque.
    fn opaque(&mut self, reason: &'static str);
}

/// A protocol, and the bytes of its state.
pub type State = (Kind, Vec<u8>);

/// The state of a reader of this protocol.
fn state(kind: Kind, reader: &impl Serialize) -> Result<State> {
    Ok((kind, crate::saved::bytes(reader)?))
}

/// One connection's reader. It must accept any bytes: no panic, bounded memory, time linear in the
/// input.
pub trait Protocol: Send {
    fn data(&mut self, side: Side, chunk: Chunk<'_>, out: &mut dyn Exchanges);
    /// `len` bytes of this side are missing (0: unknown how many); the reader must find the next message by itself.
    fn gap(&mut self, side: Side, time: i64, len: u64, out: &mut dyn Exchanges);
    /// This side sends no more (FIN, RST, or the end of the recording).
    fn end(&mut self, side: Side, time: i64, out: &mut dyn Exchanges);
    /// Whether the connection has left its protocol for messages that do not answer each other and
    /// are not read.
    fn left(&self) -> bool {
        false
    }
    /// Whether a response carries the number of its request (a correlation id, or a stream).
    fn correlates(&self) -> bool {
        false
    }
    /// Its state, from which [`detect::reopen`] makes it again.
    fn saved(&self) -> Result<State>;
    /// Its parts take what is code, which no state holds, from new ones.
    fn revive(&mut self) {}
}

/// The protocols, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize)]
pub enum Kind {
    Http,
    Http2,
    Ajp,
    FastCgi,
    MySql,
    Postgres,
    Redis,
    Memcached,
    MongoDb,
    Kafka,
    Cassandra,
    Amqp,
    Ldap,
    Dns,
    Opaque,
}
