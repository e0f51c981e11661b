//! Commands: their names, their kinds of answer, and the texts of prepared statements.

use super::{CLIENT_DEPRECATE_EOF, PROTOCOL_41};
use crate::capture::wire::framing::Packet;
use crate::capture::wire::Raw;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// Texts kept of a connection, and of a text: names need the command and the first table. Drivers cache 25 to 256.
const STATEMENTS_MAX: usize = 4096;
const TEXT_MAX: usize = 1024;
/// MariaDB: the statement that was prepared last.
const LAST_PREPARED: u32 = u32::MAX;

const QUIT: u8 = 0x01;
const QUERY: u8 = 0x03;
const PREPARE: u8 = 0x16;
const EXECUTE: u8 = 0x17;
const LONG_DATA: u8 = 0x18;
const CLOSE: u8 = 0x19;
const FETCH: u8 = 0x1c;
const BULK_EXECUTE: u8 = 0xfa;

const CLIENT_MYSQL: u64 = 1;
const QUERY_ATTRIBUTES: u64 = 1 << 27;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Expects {
    Login,
    /// OK, EOF or ERR.
    Ok,
    /// OK, or result sets, one after the other.
    Results,
    Prepared,
    /// Rows (or column definitions) up to an EOF.
    Rows,
    /// One packet of text.
    Text,
    Nothing,
    /// Events without end.
    Stream,
}

#[derive(Debug, Deserialize, Serialize)]
pub struct Command {
    pub expects: Expects,
    /// Of the first packet of its reply.
    pub next_sequence: u8,
    /// What is being prepared.
    pub text: Option<Box<[u8]>>,
}

impl Command {
    pub fn new(expects: Expects, next_sequence: u8) -> Self {
        Command {
            expects,
            next_sequence,
            text: None,
        }
    }
}

pub struct Asked<'a> {
    pub raw: Raw<'a>,
    pub expects: Expects,
}

/// Code, name, least and largest length of the payload, kind of answer.
const COMMANDS: [(u8, &str, u64, u64, Expects); 30] = [
    (QUIT, "QUIT", 1, 1, Expects::Nothing),
    (0x02, "INIT DB", 2, 1024, Expects::Ok),
    (QUERY, "QUERY", 2, u64::MAX, Expects::Results),
    (0x04, "FIELD LIST", 2, 2048, Expects::Rows),
    (0x05, "CREATE DB", 2, 1024, Expects::Ok),
    (0x06, "DROP DB", 2, 1024, Expects::Ok),
    (0x07, "REFRESH", 2, 2, Expects::Ok),
    (0x08, "SHUTDOWN", 1, 2, Expects::Ok),
    (0x09, "STATISTICS", 1, 1, Expects::Text),
    (0x0a, "PROCESS INFO", 1, 1, Expects::Results),
    (0x0c, "PROCESS KILL", 5, 5, Expects::Ok),
    (0x0d, "DEBUG", 1, 1, Expects::Ok),
    (0x0e, "PING", 1, 1, Expects::Ok),
    (0x11, "CHANGE USER", 2, 4096, Expects::Login),
    (0x12, "BINLOG DUMP", 11, 1024, Expects::Stream),
    (0x13, "TABLE DUMP", 3, 1024, Expects::Stream),
    (0x15, "REGISTER SLAVE", 18, 1024, Expects::Ok),
    (PREPARE, "PREPARE", 2, u64::MAX, Expects::Prepared),
    (EXECUTE, "EXECUTE", 10, u64::MAX, Expects::Results),
    (LONG_DATA, "LONG DATA", 7, u64::MAX, Expects::Nothing),
    (CLOSE, "CLOSE", 5, 5, Expects::Nothing),
    (0x1a, "RESET", 5, 5, Expects::Ok),
    (0x1b, "SET OPTION", 3, 3, Expects::Ok),
    (FETCH, "FETCH", 9, 9, Expects::Rows),
    (0x1e, "BINLOG DUMP", 11, u64::MAX, Expects::Stream),
    (0x1f, "RESET CONNECTION", 1, 1, Expects::Ok),
    (0x20, "CLONE", 1, 1024, Expects::Stream),
    (0x0b, "CONNECT", 1, 1, Expects::Ok),
    (0x1d, "DAEMON", 1, 1, Expects::Ok),
    (BULK_EXECUTE, "EXECUTE", 7, u64::MAX, Expects::Results),
];

fn known(code: u8, len: u64) -> Option<(&'static str, Expects)> {
    let found = COMMANDS.iter().find(|c| c.0 == code)?;
    (found.2 <= len && len <= found.3).then_some((found.1, found.4))
}

/// Whether a command begins with these first bytes of a segment.
pub fn here(bytes: &[u8]) -> bool {
    match bytes {
        &[a, b, c, 0, code, ..] => {
            known(code, u64::from(a) | u64::from(b) << 8 | u64::from(c) << 16).is_some()
        }
        _ => false,
    }
}

pub fn read<'a>(
    packet: &Packet<'a>,
    flags: Option<u64>,
    statements: &'a Statements,
) -> Option<Asked<'a>> {
    let Some(&code) = packet.prefix.first() else {
        // Only its header was captured.
        return (packet.len > 0).then_some(Asked {
            raw: Raw::Unknown,
            expects: Expects::Results,
        });
    };
    let (name, expects) = known(code, packet.len)?;
    let raw = match code {
        QUERY => Raw::Sql(query_text(&packet.prefix[1..], flags)),
        EXECUTE | BULK_EXECUTE => statement_id(packet.prefix)
            .and_then(|id| statements.text(id))
            .map_or(Raw::Command(name), Raw::Sql),
        _ => Raw::Command(name),
    };
    Some(Asked { raw, expects })
}

fn statement_id(payload: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(payload.get(1..5)?.try_into().ok()?))
}

/// The texts of the prepared statements of a connection, by the id that the server gave them.
#[derive(Default, Deserialize, Serialize)]
pub struct Statements {
    texts: FxHashMap<u32, Box<[u8]>>,
    last: Option<Box<[u8]>>,
}

impl Statements {
    pub fn text(&self, id: u32) -> Option<&[u8]> {
        if id == LAST_PREPARED {
            return self.last.as_deref();
        }
        self.texts.get(&id).map(|text| &**text)
    }

    /// Records a sent command; returns the text that is to be prepared.
    pub fn sent(&mut self, payload: &[u8]) -> Option<Box<[u8]>> {
        match *payload.first()? {
            PREPARE => {
                let text: Box<[u8]> = payload[1..payload.len().min(TEXT_MAX)].into();
                self.last = Some(text.clone());
                Some(text)
            }
            CLOSE => {
                let id = statement_id(payload)?;
                self.texts.remove(&id);
                None
            }
            _ => None,
        }
    }

    pub fn prepared(&mut self, id: u32, text: Box<[u8]>) {
        if self.texts.len() < STATEMENTS_MAX || self.texts.contains_key(&id) {
            self.texts.insert(id, text);
        }
    }
}

/// The capabilities in a client's login; MariaDB's own are the upper half, if the client says that
/// it is not MySQL.
pub fn login_flags(payload: &[u8]) -> u64 {
    let low = payload
        .get(..4)
        .and_then(|b| b.try_into().ok())
        .map_or(0, u32::from_le_bytes);
    let low = u64::from(low);
    if low & PROTOCOL_41 == 0 {
        return low & 0xffff;
    }
    if low & CLIENT_MYSQL != 0 {
        return low;
    }
    let high = payload
        .get(28..32)
        .and_then(|b| b.try_into().ok())
        .map_or(0, u32::from_le_bytes);
    low | u64::from(high) << 32
}

/// The text of a COM_QUERY: after the query attributes of MySQL 8.0.23, if there are any.
fn query_text(payload: &[u8], flags: Option<u64>) -> &[u8] {
    let attributes = match flags {
        Some(flags) => flags & QUERY_ATTRIBUTES != 0,
        // No statement begins with a zero and a one.
        None => payload.starts_with(&[0, 1]),
    };
    if attributes {
        after_attributes(payload).unwrap_or(payload)
    } else {
        payload
    }
}

fn after_attributes(payload: &[u8]) -> Option<&[u8]> {
    let (count, rest) = length(payload)?;
    let (_sets, mut rest) = length(rest)?;
    let count = usize::try_from(count).ok().filter(|&n| n < 1024)?;
    if count == 0 {
        return Some(rest);
    }
    let nulls = rest.get(..count.div_ceil(8))?;
    rest = rest.get(nulls.len() + 1..)?;
    let mut types = Vec::with_capacity(count);
    for _ in 0..count {
        types.push(*rest.first()?);
        let (name, after) = length(rest.get(2..)?)?;
        rest = after.get(usize::try_from(name).ok()?..)?;
    }
    for (i, kind) in types.into_iter().enumerate() {
        if nulls[i / 8] & 1 << (i % 8) != 0 {
            continue;
        }
        let size = match kind {
            1 => 1,
            2 | 13 => 2,
            3 | 4 | 9 => 4,
            5 | 8 => 8,
            6 => 0,
            7 | 10 | 11 | 12 => 1 + usize::from(*rest.first()?),
            _ => {
                let (len, after) = length(rest)?;
                rest.len() - after.len() + usize::try_from(len).ok()?
            }
        };
        rest = rest.get(size..)?;
    }
    Some(rest)
}

/// A length-encoded integer, and what follows it.
pub fn length(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    let size = match first {
        0..=0xfa => return Some((u64::from(first), rest)),
        0xfc => 2,
        0xfd => 3,
        0xfe => 8,
        _ => return None,
    };
    let (number, rest) = rest.split_at_checked(size)?;
    Some((
        number.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b)),
        rest,
    ))
}

/// Whether result sets end by an OK packet instead of an EOF; None if the login was not seen.
pub fn deprecates_eof(flags: Option<u64>) -> Option<bool> {
    flags.map(|flags| flags & CLIENT_DEPRECATE_EOF != 0)
}
