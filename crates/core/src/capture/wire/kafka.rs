//! Kafka: requests with an API key, a version and a correlation id, answered in order.
//!
//! ```text
//! client  length 4 │ api key 2 │ version 2 │ correlation id 4 │ client id …
//! server  length 4 │ correlation id 4 │ …
//! ```
//! The name is that of the API. What waits for records or for other members of a group (`Fetch` with a time to wait,
//! `JoinGroup`, `SyncGroup`, `ShareFetch`) is no exchange. Statuses are those of partitions, deep inside a response: they
//! are not read. Source: the Kafka protocol guide and the message definitions of Kafka 4.2.

mod apis;
#[cfg(test)]
mod tests;

use super::detect::Sign;
use super::framing::Packet;
use super::paired::{Answers, Asks, Dialect, Reply};
use super::{Outcome, Raw};
use crate::capture::packet::{u16_at, u32_at};
use apis::{API_VERSIONS, FETCH, JOIN_GROUP, PRODUCE, SHARE_FETCH, SYNC_GROUP};
use serde::{Deserialize, Serialize};

const REQUEST: usize = 12;
const RESPONSE: usize = 8;
/// Enough for the ids of a client and of a transaction, behind which `acks` and the time to wait are.
const GATHERED: usize = 512;
/// Ten times the broker's default (`socket.request.max.bytes`).
const LEN_MAX: u32 = 1 << 30;
const CLIENT_ID_MAX: usize = 255;

/// API key and version of a header that can be one.
struct Head {
    api: u16,
    version: u16,
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    u16_at(bytes, at, true)
}

fn long(bytes: &[u8], at: usize) -> Option<u32> {
    u32_at(bytes, at, true)
}

fn head(header: &[u8]) -> Option<Head> {
    let (api, version) = (short(header, 4)?, short(header, 6)?);
    apis::has(api, version).then_some(Head { api, version })
}

/// The client id is printable, as far as it was captured.
fn names_its_client(rest: &[u8]) -> bool {
    match short(rest, 0).map(usize::from) {
        Some(0xffff) => true,
        Some(len @ 0..=CLIENT_ID_MAX) => {
            let id = &rest[2..rest.len().min(2 + len)];
            id.iter().all(u8::is_ascii_graphic)
        }
        _ => false,
    }
}

fn request_here(first: &[u8]) -> bool {
    let rest = first.get(REQUEST..);
    Kafka::request_len(first).is_some() && rest.is_some_and(names_its_client)
}

/// What follows the header: behind the client's id, and the tagged fields of newer versions.
fn body<'a>(rest: &'a [u8], head: &Head) -> Option<&'a [u8]> {
    let rest = match short(rest, 0)? {
        0xffff => rest.get(2..)?,
        len => rest.get(2 + usize::from(len)..)?,
    };
    match apis::is_flexible(head.api, head.version) {
        // Clients send no tagged fields here.
        true if rest.first() == Some(&0) => rest.get(1..),
        true => None,
        false => Some(rest),
    }
}

/// `acks` of a Produce request is 0: the broker does not answer.
fn wants_no_answer(rest: &[u8], head: &Head) -> Option<bool> {
    let body = body(rest, head)?;
    let at = match head.version {
        0..3 => 0,
        3..9 => match short(body, 0)? {
            0xffff => 2,
            len => 2 + usize::from(len),
        },
        // A compact string of fewer than 127 bytes.
        _ => match *body.first()? {
            0 => 1,
            len @ 1..=127 => usize::from(len),
            _ => return None,
        },
    };
    Some(short(body, at)? == 0)
}

/// The time that a Fetch request may wait for records.
fn waits(rest: &[u8], head: &Head) -> Option<bool> {
    let body = body(rest, head)?;
    let at = if head.version < 15 { 4 } else { 0 };
    Some(long(body, at)? > 0)
}

#[derive(Default, Deserialize, Serialize)]
pub(super) struct Kafka;

impl Dialect for Kafka {
    const KIND: crate::capture::wire::Kind = crate::capture::wire::Kind::Kafka;
    type Note = ();
    const HEADERS: [usize; 2] = [REQUEST, RESPONSE];
    const GATHERED: [usize; 2] = [GATHERED, 0];
    const NOT_A_REQUEST: &'static str = "not a Kafka request";
    const UNIQUE: bool = true;
    const IN_ORDER: bool = true;

    fn request_len(header: &[u8]) -> Option<u64> {
        let len = long(header, 0)?;
        let behind = len.checked_sub(REQUEST as u32 - 4)?;
        let sound = len <= LEN_MAX && behind >= 2 && head(header).is_some();
        sound.then_some(u64::from(behind))
    }

    fn response_len(header: &[u8]) -> Option<u64> {
        let len = long(header, 0)?;
        let behind = len.checked_sub(RESPONSE as u32 - 4)?;
        (len <= LEN_MAX).then_some(u64::from(behind))
    }

    fn request_here(first: &[u8]) -> bool {
        request_here(first)
    }

    fn response_here(first: &[u8], is_open: &dyn Fn(u64) -> bool) -> bool {
        Kafka::response_len(first).is_some()
            && long(first, 4).is_some_and(|number| is_open(u64::from(number)))
    }

    fn asks<'a>(&'a mut self, packet: &'a Packet<'_>) -> Asks<'a, ()> {
        let (Some(head), Some(number)) = (head(&packet.header), long(&packet.header, 8)) else {
            return Asks::Unreadable;
        };
        if !names_its_client(packet.prefix) && packet.prefix.len() >= 2 {
            return Asks::Unreadable;
        }
        let number = u64::from(number);
        match head.api {
            PRODUCE if wants_no_answer(packet.prefix, &head) == Some(true) => Asks::OneWay,
            FETCH if waits(packet.prefix, &head) != Some(false) => Asks::Waits(number),
            JOIN_GROUP | SYNC_GROUP | SHARE_FETCH => Asks::Waits(number),
            api => Asks::Request {
                number,
                raw: apis::name(api).map_or(Raw::Unknown, Raw::Command),
                note: (),
            },
        }
    }

    fn answers(&mut self, packet: &Packet<'_>) -> Answers {
        long(&packet.header, 4).map_or(Answers::Unreadable, |number| Answers::To(u64::from(number)))
    }

    fn reads(&mut self, _packet: &Packet<'_>, _note: &mut ()) -> Reply {
        Reply::last(Outcome::Ok)
    }
}

/// Clients ask for the versions first; the broker's messages have nothing to know them by.
pub(super) fn client_sign(first: &[u8]) -> Sign {
    match head(first).filter(|_| request_here(first)) {
        Some(head) if head.api == API_VERSIONS && first.len() > REQUEST + 2 => Sign::Certain,
        Some(_) => Sign::Likely,
        None => Sign::None,
    }
}

pub(super) fn server_sign(_first: &[u8]) -> Sign {
    Sign::None
}
