//! Documents of commands and responses, as far as they were captured: names, never values of fields.

use super::number;
use crate::capture::wire::{postgres, Raw};

const DOUBLE: u8 = 0x01;
const TEXT: u8 = 0x02;
const INT: u8 = 0x10;
const LONG: u8 = 0x12;
const BOOL: u8 = 0x08;
/// Fields looked at: those that matter are at the top of commands and of errors.
const FIELDS_MAX: usize = 32;

/// Commands that concern a collection: their value, or for `getMore` a field of its own.
const OF_COLLECTIONS: [&str; 21] = [
    "find",
    "insert",
    "update",
    "delete",
    "aggregate",
    "findAndModify",
    "findandmodify",
    "count",
    "distinct",
    "mapReduce",
    "mapreduce",
    "killCursors",
    "create",
    "drop",
    "createIndexes",
    "dropIndexes",
    "listIndexes",
    "collStats",
    "collMod",
    "validate",
    "getMore",
];
/// Other commands.
const OTHERS: [&str; 38] = [
    "bulkWrite",
    "listCollections",
    "listDatabases",
    "dropDatabase",
    "dbStats",
    "renameCollection",
    "explain",
    "hello",
    "isMaster",
    "ismaster",
    "ping",
    "buildInfo",
    "buildinfo",
    "hostInfo",
    "serverStatus",
    "connectionStatus",
    "currentOp",
    "killOp",
    "getParameter",
    "setParameter",
    "getLog",
    "getCmdLineOpts",
    "top",
    "saslStart",
    "saslContinue",
    "authenticate",
    "logout",
    "getnonce",
    "startSession",
    "refreshSessions",
    "endSessions",
    "abortTransaction",
    "commitTransaction",
    "usersInfo",
    "createUser",
    "replSetGetStatus",
    "replSetHeartbeat",
    "replSetUpdatePosition",
];

struct Field<'a> {
    kind: u8,
    name: &'a str,
    value: &'a [u8],
}

impl<'a> Field<'a> {
    fn text(&self) -> Option<&'a str> {
        let text = self.value.get(4..).filter(|_| self.kind == TEXT)?;
        std::str::from_utf8(text.strip_suffix(&[0])?).ok()
    }

    fn number(&self) -> Option<i64> {
        match self.kind {
            INT => Some(i64::from(i32::from_le_bytes(self.value.try_into().ok()?))),
            LONG => Some(i64::from_le_bytes(self.value.try_into().ok()?)),
            // Shells send every number so; the fraction does not matter.
            DOUBLE => Some(f64::from_le_bytes(self.value.try_into().ok()?) as i64),
            BOOL => Some(i64::from(*self.value.first()?)),
            _ => None,
        }
    }
}

/// The fields of a document that were captured whole.
fn fields(document: &[u8]) -> impl Iterator<Item = Field<'_>> {
    let mut rest = document.get(4..).unwrap_or_default();
    let next = move || {
        let (&kind, named) = rest.split_first().filter(|(&kind, _)| kind != 0)?;
        let end = named.iter().position(|&byte| byte == 0)?;
        let name = std::str::from_utf8(&named[..end]).ok()?;
        let value = &named[end + 1..];
        let len = || usize::try_from(number(value, 0)?).ok();
        let size = match kind {
            DOUBLE | LONG | 0x09 | 0x11 => 8,
            TEXT | 0x0d | 0x0e => len()?.checked_add(4)?,
            0x03 | 0x04 => len()?,
            0x05 => len()?.checked_add(5)?,
            0x06 | 0x0a | 0x7f | 0xff => 0,
            0x07 => 12,
            BOOL => 1,
            INT => 4,
            0x13 => 16,
            _ => return None,
        };
        let (value, after) = value.split_at_checked(size)?;
        rest = after;
        Some(Field { kind, name, value })
    };
    std::iter::from_fn(next).take(FIELDS_MAX)
}

pub struct Command<'a> {
    pub raw: Raw<'a>,
    pub waits: bool,
}

pub fn command(document: &[u8]) -> Option<Command<'_>> {
    let first = fields(document).next()?;
    // Drivers of old servers wrap a command with their preference of a server.
    if let ("$query" | "query", 0x03) = (first.name, first.kind) {
        return command(first.value);
    }
    let mut known = OF_COLLECTIONS.iter().chain(&OTHERS);
    let Some(&name) = known.find(|known| **known == first.name) else {
        return Some(Command {
            raw: Raw::Word(first.name),
            waits: false,
        });
    };
    let collection = match name {
        "getMore" => fields(document)
            .skip(1)
            .find(|field| field.name == "collection")
            .and_then(|field| field.text()),
        _ => first.text(),
    };
    let collection = collection.filter(|_| OF_COLLECTIONS.contains(&name));
    let waiting = match name {
        "hello" | "isMaster" | "ismaster" => "maxAwaitTimeMS",
        "getMore" => "maxTimeMS",
        _ => "",
    };
    let waits = fields(document).any(|field| field.name == waiting && field.number() > Some(0));
    let raw = match collection {
        Some(collection) => Raw::Collection {
            command: name,
            collection,
        },
        None => Raw::Command(name),
    };
    Some(Command { raw, waits })
}

/// The code of an error; None if the command succeeded.
pub fn error(document: &[u8]) -> Option<u32> {
    let (mut failed, mut code) = (false, None);
    for field in fields(document) {
        match field.name {
            "ok" => failed = field.number() == Some(0),
            "code" => code = field.number(),
            _ => {}
        }
    }
    let code = u32::try_from(code.unwrap_or(0)).unwrap_or(0);
    failed.then_some(code.min(postgres::SQLSTATES - 1))
}
