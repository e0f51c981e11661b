//! LDAP: messages in BER, numbered by the client, answered in any order.
//!
//! ```text
//! 30 length │ 02 … message id │ 63 length: the operation (63 a search) …
//! ```
//! The name is that of the operation: nothing of what it searches, and nobody who binds. A search ends with its result; the
//! entries before it are parts of the response. A search that lasts until the client has enough (persistent search, content
//! synchronisation, notifications) is no exchange. Source: RFC 4511.

#[cfg(test)]
mod tests;

use super::detect::Sign;
use super::framing::Packet;
use super::paired::{Answers, Asks, Dialect, Reply};
use super::{holds, Outcome, Raw};
use serde::{Deserialize, Serialize};

/// The shortest message: its tag, length, id, and an operation without content.
const HEADER: usize = 7;
/// Bytes behind it that show the id and the operation of any message: lengths and the id have five bytes at most.
const SHOWN: usize = 11;
/// Enough for the operation of a message, and for the controls of most searches.
const GATHERED: usize = 512;
/// Servers accept far less (OpenLDAP: 16 MiB of an authenticated client).
const LEN_MAX: u64 = 1 << 28;
const NUMBER_MAX: u64 = i32::MAX as u64;

const BIND: u8 = 0x60;
const UNBIND: u8 = 0x42;
const SEARCH: u8 = 0x63;
const ABANDON: u8 = 0x50;
const EXTENDED: u8 = 0x77;
const OPERATIONS: [(u8, &str); 10] = [
    (BIND, "BIND"),
    (UNBIND, "UNBIND"),
    (SEARCH, "SEARCH"),
    (0x66, "MODIFY"),
    (0x68, "ADD"),
    (0x4a, "DELETE"),
    (0x6c, "MODIFY DN"),
    (0x6e, "COMPARE"),
    (ABANDON, "ABANDON"),
    (EXTENDED, "EXTENDED"),
];

const ENTRY: u8 = 0x64;
const REFERENCE: u8 = 0x73;
const INTERMEDIATE: u8 = 0x79;
const RESULTS: [u8; 8] = [0x61, 0x65, 0x67, 0x69, 0x6b, 0x6d, 0x6f, 0x78];
/// Results that are no errors: comparisons, referrals, and the next step of a login.
const FINE: [u32; 5] = [0, 5, 6, 10, 14];

/// Extended request that begins TLS, and controls of searches that do not end.
const START_TLS: &[u8] = b"1.3.6.1.4.1.1466.20037";
const LASTING: [&[u8]; 3] = [
    b"2.16.840.1.113730.3.4.3",
    b"1.3.6.1.4.1.4203.1.9.1.1",
    b"1.2.840.113556.1.4.528",
];

/// A number of a few bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |n, &byte| n << 8 | u64::from(byte))
}

/// Tag, length, and what follows them; the length may exceed what was captured.
fn element(bytes: &[u8]) -> Option<(u8, u64, &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (len, rest) = match first {
        0..=0x7f => (u64::from(first), rest),
        0x81..=0x84 => {
            let (len, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (number(len), rest)
        }
        _ => return None,
    };
    Some((tag, len, rest))
}

/// Length behind the header.
fn message_len(header: &[u8]) -> Option<u64> {
    let (0x30, len, rest) = element(header)? else {
        return None;
    };
    // The id must be next: a small number, or four bytes.
    let begins = matches!(*rest, [] | [2] | [2, 1..=4, ..]);
    let whole = (header.len() - rest.len()) as u64 + len;
    let behind = whole.checked_sub(HEADER as u64)?;
    (begins && len <= LEN_MAX).then_some(behind)
}

struct Message<'a> {
    number: u64,
    operation: u8,
    /// The operation's content and what follows it, as far as it was captured.
    content: &'a [u8],
}

fn message(bytes: &[u8]) -> Option<Message<'_>> {
    let (0x30, _, rest) = element(bytes)? else {
        return None;
    };
    let (2, len @ 1..=4, rest) = element(rest)? else {
        return None;
    };
    let (number, rest) = rest.split_at_checked(len as usize)?;
    let number = self::number(number);
    let (operation, _, content) = element(rest)?;
    (number <= NUMBER_MAX).then_some(Message {
        number,
        operation,
        content,
    })
}

fn name(operation: u8) -> Option<&'static str> {
    let found = OPERATIONS.iter().find(|(known, _)| *known == operation);
    found.map(|(_, name)| *name)
}

fn request_here(first: &[u8]) -> bool {
    first.len() >= HEADER
        && message_len(&first[..HEADER]).is_some()
        && message(first)
            .is_some_and(|message| message.number > 0 && name(message.operation).is_some())
}

fn response(first: &[u8]) -> Option<Message<'_>> {
    message_len(first.get(..HEADER)?)?;
    message(first).filter(|message| {
        let parts = [ENTRY, REFERENCE, INTERMEDIATE];
        parts.contains(&message.operation) || RESULTS.contains(&message.operation)
    })
}

/// The bytes of a message, header first.
fn bytes(packet: &Packet<'_>) -> Vec<u8> {
    [&packet.header[..HEADER], packet.prefix].concat()
}

/// What is remembered of a request: it begins TLS.
#[derive(Deserialize, Serialize)]
pub(super) struct BeginsTls(bool);

#[derive(Default, Deserialize, Serialize)]
pub(super) struct Ldap;

impl Dialect for Ldap {
    const KIND: crate::capture::wire::Kind = crate::capture::wire::Kind::Ldap;
    type Note = BeginsTls;
    const HEADERS: [usize; 2] = [HEADER; 2];
    const GATHERED: [usize; 2] = [GATHERED, 64];
    const NOT_A_REQUEST: &'static str = "not an LDAP request";
    const UNIQUE: bool = true;
    const IN_ORDER: bool = false;

    fn request_len(header: &[u8]) -> Option<u64> {
        message_len(header)
    }

    fn response_len(header: &[u8]) -> Option<u64> {
        message_len(header)
    }

    fn request_here(first: &[u8]) -> bool {
        request_here(first)
    }

    fn response_here(first: &[u8], is_open: &dyn Fn(u64) -> bool) -> bool {
        response(first).is_some_and(|message| is_open(message.number))
    }

    fn asks<'a>(&'a mut self, packet: &'a Packet<'_>) -> Asks<'a, BeginsTls> {
        let bytes = bytes(packet);
        let Some(message) = message(&bytes) else {
            return match packet.prefix.len() {
                0..SHOWN => Asks::Unseen,
                _ => Asks::Unreadable,
            };
        };
        let number = message.number;
        let Some(name) = name(message.operation) else {
            return Asks::Unreadable;
        };
        let lasts = |control: &&[u8]| holds(message.content, control);
        match message.operation {
            UNBIND => Asks::OneWay,
            ABANDON => {
                let abandoned = &message.content[..message.content.len().min(4)];
                Asks::Cancels(self::number(abandoned))
            }
            SEARCH if LASTING.iter().any(lasts) => Asks::Waits(number),
            operation => Asks::Request {
                number,
                raw: Raw::Command(name),
                note: BeginsTls(operation == EXTENDED && holds(message.content, START_TLS)),
            },
        }
    }

    fn answers(&mut self, packet: &Packet<'_>) -> Answers {
        match response(&bytes(packet)) {
            // The server ends the connection.
            Some(Message { number: 0, .. }) => Answers::News,
            Some(message) => Answers::To(message.number),
            None if packet.prefix.len() < SHOWN => Answers::Unseen,
            None => Answers::Unreadable,
        }
    }

    fn reads(&mut self, packet: &Packet<'_>, BeginsTls(begins): &mut BeginsTls) -> Reply {
        let bytes = bytes(packet);
        let Some(message) = message(&bytes).filter(|message| RESULTS.contains(&message.operation))
        else {
            return Reply::part();
        };
        let code = match *message.content {
            [0x0a, 1, code, ..] => u32::from(code),
            [0x0a, 2, high, low, ..] => u32::from(u16::from_be_bytes([high, low])),
            _ => 0,
        };
        let outcome = match code {
            code if FINE.contains(&code) => Outcome::Ok,
            code => Outcome::Error(code),
        };
        Reply {
            opaque: (*begins && code == 0).then_some("TLS"),
            ..Reply::last(outcome)
        }
    }
}

/// A bind of version 3 begins most connections.
pub(super) fn client_sign(first: &[u8]) -> Sign {
    if !request_here(first) {
        return Sign::None;
    }
    match message(first) {
        Some(Message {
            operation: BIND,
            content: [2, 1, 3, 4, ..],
            ..
        }) => Sign::Certain,
        _ => Sign::Likely,
    }
}

pub(super) fn server_sign(first: &[u8]) -> Sign {
    match response(first) {
        Some(_) => Sign::Likely,
        None => Sign::None,
    }
}
