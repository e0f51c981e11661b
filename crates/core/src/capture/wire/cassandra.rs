//! Cassandra's native protocol (CQL), versions 3 to 5: frames with a number of their stream, answered in any order.
//!
//! ```text
//! version 1 │ flags 1 │ stream 2 │ opcode 1 │ length 4 │ body
//! ```
//! Statements are named as SQL is, also prepared ones that the recording saw being prepared. Events belong to no request.
//! A compressed body hides its statement, and nothing else. After its login, version 5 wraps frames in segments
//! ([`segments`]); compressed ones are not read. Source: `native_protocol_v3.spec` to `v5.spec` of Cassandra 4.1.

mod errors;
mod segments;
#[cfg(test)]
mod tests;

pub use segments::Cql;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::detect::Sign;
use super::framing::Packet;
use super::paired::{Answers, Asks, Dialect, Reply};
use super::{holds, Outcome, Raw};
use crate::capture::packet::{u16_at, u32_at};

const HEADER: usize = 9;
/// Enough of a statement for its name; of a response, its error, or the id of what it prepared.
const GATHERED: [usize; 2] = [4096, 128];
/// The protocol's own bound of a frame.
const LEN_MAX: u32 = 256 << 20;
/// Prepared statements of a connection, and bytes of their texts: names need the command and the table.
const STATEMENTS_MAX: usize = 4096;
const TEXT_MAX: usize = 1024;
const ID_MAX: usize = 64;

const COMPRESSED: u8 = 1;
const TRACED: u8 = 2;
const PAYLOAD: u8 = 4;
const WARNED: u8 = 8;
/// With that of beta versions.
const FLAGS: u8 = 0x1f;

const STARTUP: u8 = 0x01;
const OPTIONS: u8 = 0x05;
const QUERY: u8 = 0x07;
const PREPARE: u8 = 0x09;
const EXECUTE: u8 = 0x0a;
const REQUESTS: [(u8, &str); 8] = [
    (STARTUP, "STARTUP"),
    (OPTIONS, "OPTIONS"),
    (QUERY, "QUERY"),
    (PREPARE, "PREPARE"),
    (EXECUTE, "EXECUTE"),
    (0x0b, "REGISTER"),
    (0x0d, "BATCH"),
    (0x0f, "AUTH_RESPONSE"),
];

const ERROR: u8 = 0x00;
const READY: u8 = 0x02;
const AUTHENTICATE: u8 = 0x03;
const RESULT: u8 = 0x08;
const EVENT: u8 = 0x0c;
const RESPONSES: [u8; 8] = [ERROR, READY, AUTHENTICATE, 0x06, RESULT, EVENT, 0x0e, 0x10];
const PREPARED: u32 = 4;

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    u32_at(bytes, at, true)
}

fn short(bytes: &[u8], at: usize) -> Option<usize> {
    u16_at(bytes, at, true).map(usize::from)
}

fn frame_len(header: &[u8], direction: u8) -> Option<u64> {
    let &[version, flags, _, _, _, ..] = header else {
        return None;
    };
    let len = number(header, 5)?;
    let sound = version & 0x80 == direction && (3..=5).contains(&(version & 0x7f));
    (sound && flags & !FLAGS == 0 && len <= LEN_MAX).then_some(u64::from(len))
}

fn name(opcode: u8) -> Option<&'static str> {
    let found = REQUESTS.iter().find(|(known, _)| *known == opcode);
    found.map(|(_, name)| *name)
}

fn request_len(header: &[u8]) -> Option<u64> {
    let len = frame_len(header, 0)?;
    // Clients number streams from 0 on.
    (name(*header.get(4)?).is_some() && header[2] & 0x80 == 0).then_some(len)
}

fn response_len(header: &[u8]) -> Option<u64> {
    let len = frame_len(header, 0x80)?;
    RESPONSES.contains(header.get(4)?).then_some(len)
}

fn stream(header: &[u8]) -> Option<u64> {
    short(header, 2).map(|stream| stream as u64)
}

/// What follows the parts of a body that flags announce; None if it cannot be seen.
fn body<'a>(packet: &'a Packet<'_>) -> Option<&'a [u8]> {
    let (flags, mut body) = (packet.header[1], packet.prefix);
    if flags & (COMPRESSED | PAYLOAD) != 0 {
        return None;
    }
    let response = packet.header[0] & 0x80 != 0;
    if flags & TRACED != 0 && response {
        body = body.get(16..)?;
    }
    if flags & WARNED != 0 && response {
        let count = short(body, 0)?;
        body = body.get(2..)?;
        for _ in 0..count {
            body = body.get(2 + short(body, 0)?..)?;
        }
    }
    Some(body)
}

/// A text behind its length of four bytes.
fn text(body: &[u8]) -> Option<&[u8]> {
    let len = usize::try_from(number(body, 0)?).ok()?;
    let text = body.get(4..)?;
    Some(&text[..text.len().min(len)])
}

/// Bytes behind their length of two bytes.
fn id(body: &[u8]) -> Option<&[u8]> {
    let len = short(body, 0).filter(|&len| len <= ID_MAX)?;
    body.get(2..2 + len)
}

/// What is remembered of a request.
#[derive(Deserialize, Serialize)]
pub(super) enum Asked {
    Other,
    /// The text that is being prepared.
    Prepares(Box<[u8]>),
}

#[derive(Default, Deserialize, Serialize)]
pub(super) struct Cassandra {
    statements: FxHashMap<Box<[u8]>, Box<[u8]>>,
    /// The client asked for compression.
    compresses: bool,
    /// The server has answered the first request of version 5: segments follow.
    begun: bool,
}

impl Dialect for Cassandra {
    const KIND: crate::capture::wire::Kind = crate::capture::wire::Kind::Cassandra;
    type Note = Asked;
    const HEADERS: [usize; 2] = [HEADER; 2];
    const GATHERED: [usize; 2] = GATHERED;
    const NOT_A_REQUEST: &'static str = "not a frame of Cassandra's";
    const UNIQUE: bool = true;
    const IN_ORDER: bool = false;

    fn request_len(header: &[u8]) -> Option<u64> {
        request_len(header)
    }

    fn response_len(header: &[u8]) -> Option<u64> {
        response_len(header)
    }

    fn request_here(first: &[u8]) -> bool {
        request_len(first).is_some()
    }

    fn response_here(first: &[u8], is_open: &dyn Fn(u64) -> bool) -> bool {
        response_len(first).is_some() && stream(first).is_some_and(is_open)
    }

    fn asks<'a>(&'a mut self, packet: &'a Packet<'_>) -> Asks<'a, Asked> {
        let opcode = packet.header[4];
        let (Some(number), Some(name)) = (stream(&packet.header), name(opcode)) else {
            return Asks::Unreadable;
        };
        let body = body(packet);
        self.compresses |= opcode == STARTUP && holds(packet.prefix, b"COMPRESSION");
        let statement = match opcode {
            QUERY => body.and_then(text),
            EXECUTE => body
                .and_then(id)
                .and_then(|id| self.statements.get(id))
                .map(|text| &**text),
            _ => None,
        };
        let prepares = body.and_then(text).filter(|_| opcode == PREPARE);
        Asks::Request {
            number,
            raw: statement.map_or(Raw::Command(name), Raw::Sql),
            note: match prepares {
                Some(text) => Asked::Prepares(text[..text.len().min(TEXT_MAX)].into()),
                None => Asked::Other,
            },
        }
    }

    fn answers(&mut self, packet: &Packet<'_>) -> Answers {
        self.begun |= packet.header[0] == 0x85 && matches!(packet.header[4], READY | AUTHENTICATE);
        match (packet.header[4], stream(&packet.header)) {
            (EVENT, _) | (_, None) => Answers::News,
            (_, Some(number)) => Answers::To(number),
        }
    }

    fn reads(&mut self, packet: &Packet<'_>, asked: &mut Asked) -> Reply {
        let (opcode, body) = (packet.header[4], body(packet));
        let kind = body.and_then(|body| number(body, 0));
        if let (RESULT, Some(PREPARED), Asked::Prepares(text)) = (opcode, kind, &mut *asked) {
            let id = body.and_then(|body| id(body.get(4..)?));
            if let Some(id) = id.filter(|_| self.statements.len() < STATEMENTS_MAX) {
                self.statements.insert(id.into(), std::mem::take(text));
            }
        }
        Reply::last(match opcode {
            ERROR => errors::outcome(kind),
            _ => Outcome::Ok,
        })
    }
}

/// The client says which version of the language it speaks.
pub(super) fn client_sign(first: &[u8]) -> Sign {
    if segments::begins(first, 5) && first.len() > 9 {
        return Sign::Certain;
    }
    let Some(len) = request_len(first) else {
        return Sign::None;
    };
    let body = &first[HEADER..];
    match first[4] {
        STARTUP if holds(body, b"CQL_VERSION") => Sign::Certain,
        OPTIONS if len == 0 => Sign::Likely,
        STARTUP | OPTIONS => Sign::None,
        // Bodies begin with the length of a statement or an id.
        _ if len >= 2 => Sign::Likely,
        _ => Sign::None,
    }
}

pub(super) fn server_sign(first: &[u8]) -> Sign {
    match response_len(first) {
        _ if segments::begins(first, 0x85) && first.len() > 9 => Sign::Certain,
        Some(_) => Sign::Likely,
        None => Sign::None,
    }
}
