//! MongoDB: messages with a header of 16 bytes, whose responses name the request's id.
//!
//! ```text
//! length 4 │ request id 4 │ response to 4 │ opcode 4 │ flags 4 │ kind 0 │ { find: "stories", filter: …, $db: … }
//! ```
//! The name is the command and its collection, and nothing of a document. `moreToCome` in a request means that no response
//! comes; in a response, that the server goes on by itself. What waits for news (`hello` with `maxAwaitTimeMS`, `getMore`
//! of a cursor that waits) is no exchange. Compressed commands have no name. Source: the wire protocol pages of the
//! MongoDB manual.

mod bson;
#[cfg(test)]
mod tests;

use super::detect::Sign;
use super::framing::Packet;
use super::paired::{Answers, Asks, Dialect, Reply};
use super::{Outcome, Raw};
use crate::capture::packet::u32_at;
use serde::{Deserialize, Serialize};

const HEADER: usize = 16;
/// Enough of a command for its collection and its time to wait, and of a response for its error.
const GATHERED: usize = 1024;
/// MongoDB's own bound (`maxMessageSizeBytes`).
const LEN_MAX: u32 = 48_000_000;

const REPLY: u32 = 1;
const UPDATE: u32 = 2001;
const INSERT: u32 = 2002;
const QUERY: u32 = 2004;
const GET_MORE: u32 = 2005;
const DELETE: u32 = 2006;
const KILL_CURSORS: u32 = 2007;
const COMPRESSED: u32 = 2012;
const MSG: u32 = 2013;

const MORE_TO_COME: u32 = 1 << 1;
/// Checksum, more to come, and what a server may ignore: bits below 16 that mean nothing are an error.
const KNOWN_FLAGS: u32 = 0xffff_0003;

/// A little-endian number.
fn number(bytes: &[u8], at: usize) -> Option<u32> {
    u32_at(bytes, at, false)
}

fn len(header: &[u8], opcodes: &[u32]) -> Option<u64> {
    let behind = number(header, 0).filter(|&len| len <= LEN_MAX)?;
    let behind = behind.checked_sub(HEADER as u32)?;
    let known = opcodes.contains(&number(header, 12)?);
    (known && behind >= 4).then_some(u64::from(behind))
}

/// A request answers nothing.
fn request_len(header: &[u8]) -> Option<u64> {
    const OPCODES: [u32; 8] = [
        MSG,
        COMPRESSED,
        QUERY,
        GET_MORE,
        INSERT,
        UPDATE,
        DELETE,
        KILL_CURSORS,
    ];
    len(header, &OPCODES).filter(|_| number(header, 8) == Some(0))
}

fn response_len(header: &[u8]) -> Option<u64> {
    len(header, &[MSG, COMPRESSED, REPLY])
}

/// The document of the command, behind the flags; it may follow a sequence of others.
fn document(message: &[u8]) -> Option<&[u8]> {
    let mut rest = message.get(4..)?;
    loop {
        let (&kind, section) = rest.split_first()?;
        match kind {
            0 => return Some(section),
            1 => rest = section.get(usize::try_from(number(section, 0)?).ok()?..)?,
            _ => return None,
        }
    }
}

/// The document of a legacy query: behind flags, the name of a collection, and two numbers.
fn queried(message: &[u8]) -> Option<&[u8]> {
    let name = message.get(4..)?;
    let end = name.iter().position(|&byte| byte == 0)?;
    name.get(end + 9..)
}

#[derive(Default, Deserialize, Serialize)]
pub(super) struct MongoDb {
    /// The last response that the server goes on after by itself.
    goes_on: Option<u32>,
}

impl Dialect for MongoDb {
    const KIND: crate::capture::wire::Kind = crate::capture::wire::Kind::MongoDb;
    type Note = ();
    const HEADERS: [usize; 2] = [HEADER; 2];
    const GATHERED: [usize; 2] = [GATHERED; 2];
    const NOT_A_REQUEST: &'static str = "not a MongoDB request";
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

    fn response_here(first: &[u8], _is_open: &dyn Fn(u64) -> bool) -> bool {
        response_len(first).is_some()
    }

    fn asks<'a>(&'a mut self, packet: &'a Packet<'_>) -> Asks<'a, ()> {
        let (Some(id), Some(opcode)) = (number(&packet.header, 4), number(&packet.header, 12))
        else {
            return Asks::Unreadable;
        };
        let document = match opcode {
            MSG => document(packet.prefix),
            QUERY => queried(packet.prefix),
            _ => None,
        };
        let more = opcode == MSG && number(packet.prefix, 0).unwrap_or(0) & MORE_TO_COME != 0;
        if more || matches!(opcode, INSERT | UPDATE | DELETE | KILL_CURSORS) {
            return Asks::OneWay;
        }
        let command = document.and_then(bson::command);
        if command.as_ref().is_some_and(|command| command.waits) {
            return Asks::Waits(u64::from(id));
        }
        Asks::Request {
            number: u64::from(id),
            raw: command.map_or(Raw::Unknown, |command| command.raw),
            note: (),
        }
    }

    fn answers(&mut self, packet: &Packet<'_>) -> Answers {
        let [id, to] = [4, 8].map(|at| number(&packet.header, at));
        let opcode = number(&packet.header, 12);
        let follows = to.is_some() && to == self.goes_on;
        let flags = number(packet.prefix, 0).unwrap_or(0);
        if opcode == Some(MSG) && flags & MORE_TO_COME != 0 {
            self.goes_on = id;
        }
        match to {
            Some(to) if !follows => Answers::To(u64::from(to)),
            _ => Answers::News,
        }
    }

    fn reads(&mut self, packet: &Packet<'_>, _note: &mut ()) -> Reply {
        let document = match number(&packet.header, 12) {
            Some(MSG) => document(packet.prefix),
            // Behind flags, a cursor's id, and two numbers.
            Some(REPLY) => packet.prefix.get(20..),
            _ => None,
        };
        let code = document.and_then(bson::error);
        Reply::last(code.map_or(Outcome::Ok, Outcome::Error))
    }
}

/// A message whose document has the length that its message leaves to it.
fn is_message(first: &[u8], header: Option<u64>) -> bool {
    let (Some(behind), Some(MSG)) = (header, number(first, 12)) else {
        return false;
    };
    let Some(flags) = number(first, HEADER).filter(|flags| flags & !KNOWN_FLAGS == 0) else {
        return false;
    };
    let checksum = if flags & 1 == 1 { 4 } else { 0 };
    let document = number(first, HEADER + 5).map(u64::from);
    match first.get(HEADER + 4) {
        Some(0) => document.is_some_and(|document| document + 5 + checksum <= behind),
        Some(1) => true,
        _ => false,
    }
}

pub(super) fn client_sign(first: &[u8]) -> Sign {
    let header = request_len(first);
    match (is_message(first, header), number(first, 12)) {
        (true, _) => Sign::Certain,
        // A command that is sent as a query.
        (_, Some(QUERY)) if header.is_some() && names_commands(first) => Sign::Certain,
        _ if header.is_some() => Sign::Likely,
        _ => Sign::None,
    }
}

/// The query is of a collection that stands for commands (`admin.$cmd`).
fn names_commands(first: &[u8]) -> bool {
    let name = first.get(HEADER + 4..).unwrap_or_default();
    name.split(|&byte| byte == 0)
        .next()
        .is_some_and(|name| name.ends_with(b".$cmd"))
}

pub(super) fn server_sign(first: &[u8]) -> Sign {
    let header = response_len(first).filter(|_| number(first, 8) != Some(0));
    match is_message(first, header) {
        true => Sign::Certain,
        false if header.is_some() => Sign::Likely,
        false => Sign::None,
    }
}
