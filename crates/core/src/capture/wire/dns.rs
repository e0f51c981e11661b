//! DNS over TCP: messages behind their length, with an id, answered in any order.
//!
//! ```text
//! length 2 │ id 2 │ flags 2 │ counts 8 │ question: name, type 2, class 2 │ …
//! ```
//! The name of an exchange is the type of its question: nothing of what it asks for. A transfer of a zone is answered by
//! the first message of it. Over UDP, where most queries go, see [`crate::capture::lookups`]. Sources: RFC 1035 and 7766.

#[cfg(test)]
mod tests;

use super::detect::Sign;
use super::framing::Packet;
use super::paired::{Answers, Asks, Dialect, Reply};
use super::{words, Outcome, Raw};
use crate::capture::packet::u16_at;
use serde::{Deserialize, Serialize};

/// The length, and the header of a message.
const HEADER: usize = 14;
const MESSAGE: u16 = 12;
/// The longest name, type and class.
const GATHERED: usize = 259;

const RESPONSE: u8 = 0x80;
const OPCODE: u8 = 0x78;
const UPDATE: u8 = 5 << 3;
const NOTIFY: u8 = 4 << 3;
const TRANSFERS: [u16; 2] = [251, 252];

/// Types of questions that have a name here; the others are `query`.
const TYPES: [(u16, &str); 18] = [
    (1, "A"),
    (2, "NS"),
    (5, "CNAME"),
    (6, "SOA"),
    (12, "PTR"),
    (15, "MX"),
    (16, "TXT"),
    (28, "AAAA"),
    (33, "SRV"),
    (35, "NAPTR"),
    (43, "DS"),
    (48, "DNSKEY"),
    (64, "SVCB"),
    (65, "HTTPS"),
    (251, "IXFR"),
    (252, "AXFR"),
    (255, "ANY"),
    (257, "CAA"),
];

/// Codes of responses (IANA's registry of DNS parameters).
pub fn outcome(code: u8) -> Outcome {
    words::error(match code {
        0 => return Outcome::Ok,
        1 => "FORMERR",
        2 => "SERVFAIL",
        3 => "NXDOMAIN",
        4 => "NOTIMP",
        5 => "REFUSED",
        6 => "YXDOMAIN",
        7 => "YXRRSET",
        8 => "NXRRSET",
        9 => "NOTAUTH",
        10 => "NOTZONE",
        _ => "OTHER",
    })
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    u16_at(bytes, at, true)
}

/// Length behind the header, of a message of this direction: one question, or at least a known purpose.
fn message_len(header: &[u8], direction: u8) -> Option<u64> {
    let behind = short(header, 0)?.checked_sub(MESSAGE)?;
    let (&flags, &code) = (header.get(4)?, header.get(5)?);
    let opcode = flags & OPCODE;
    let questions = short(header, 6)?;
    let known = matches!(opcode, 0 | NOTIFY | UPDATE) && code & 0x40 == 0;
    let asked = questions == 1 || direction == RESPONSE && questions == 0;
    (flags & RESPONSE == direction && known && asked).then_some(u64::from(behind))
}

fn is_query(first: &[u8]) -> bool {
    let plain = message_len(first, 0).is_some_and(|behind| behind >= 5) && first.len() >= HEADER;
    // A query has no answers, and its code is zero.
    plain && (first[4] & OPCODE != 0 || first[5] & 15 == 0 && first[8..10] == [0; 2])
}

/// What asks for this type is called.
pub fn type_name(asked: Option<u16>) -> &'static str {
    let known = TYPES.iter().find(|(known, _)| asked == Some(*known));
    known.map_or("query", |(_, name)| *name)
}

/// The type in a question.
pub fn question(mut bytes: &[u8]) -> Option<u16> {
    loop {
        match *bytes.first()? {
            0 => return short(bytes, 1),
            label @ 1..=63 => bytes = bytes.get(1 + usize::from(label)..)?,
            _ => return None,
        }
    }
}

#[derive(Default, Deserialize, Serialize)]
pub(super) struct Dns {
    /// The transfer of a zone that goes on.
    transfer: Option<u64>,
}

/// What is remembered of a query: it asks for a zone.
#[derive(Deserialize, Serialize)]
pub(super) struct IsTransfer(bool);

fn number(packet: &Packet<'_>) -> u64 {
    short(&packet.header, 2).map_or(0, u64::from)
}

impl Dialect for Dns {
    const KIND: crate::capture::wire::Kind = crate::capture::wire::Kind::Dns;
    type Note = IsTransfer;
    const HEADERS: [usize; 2] = [HEADER; 2];
    const GATHERED: [usize; 2] = [GATHERED, 0];
    const NOT_A_REQUEST: &'static str = "not a DNS query";
    const UNIQUE: bool = true;
    const IN_ORDER: bool = false;

    fn request_len(header: &[u8]) -> Option<u64> {
        message_len(header, 0)
    }

    fn response_len(header: &[u8]) -> Option<u64> {
        message_len(header, RESPONSE)
    }

    fn request_here(first: &[u8]) -> bool {
        is_query(first)
    }

    fn response_here(first: &[u8], is_open: &dyn Fn(u64) -> bool) -> bool {
        message_len(first, RESPONSE).is_some()
            && short(first, 2).is_some_and(|id| is_open(u64::from(id)))
    }

    fn asks<'a>(&'a mut self, packet: &'a Packet<'_>) -> Asks<'a, IsTransfer> {
        let number = number(packet);
        if self.transfer == Some(number) {
            self.transfer = None;
        }
        let asked = question(packet.prefix);
        let name = match packet.header[4] & OPCODE {
            UPDATE => "update",
            NOTIFY => "notify",
            _ => type_name(asked),
        };
        Asks::Request {
            number,
            raw: Raw::Command(name),
            note: IsTransfer(asked.is_some_and(|asked| TRANSFERS.contains(&asked))),
        }
    }

    fn answers(&mut self, packet: &Packet<'_>) -> Answers {
        match number(packet) {
            number if self.transfer == Some(number) => Answers::News,
            number => Answers::To(number),
        }
    }

    fn reads(&mut self, packet: &Packet<'_>, IsTransfer(transfer): &mut IsTransfer) -> Reply {
        if *transfer {
            self.transfer = Some(number(packet));
        }
        Reply::last(outcome(packet.header[5] & 15))
    }
}

pub(super) fn client_sign(first: &[u8]) -> Sign {
    match is_query(first) {
        true => Sign::Likely,
        false => Sign::None,
    }
}

pub(super) fn server_sign(first: &[u8]) -> Sign {
    match message_len(first, RESPONSE) {
        Some(_) => Sign::Likely,
        None => Sign::None,
    }
}
