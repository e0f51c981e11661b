//! AMQP 0-9-1 (RabbitMQ): methods on numbered channels, and what they carry.
//!
//! ```text
//! type 1 │ channel 2 │ size 4 │ class 2 │ method 2 │ arguments … │ 0xCE
//! client  queue.declare        │ basic.publish, header, body │ basic.publish … │
//! server  queue.declare-ok     │                                               basic.ack up to 2
//! ```
//! A method that has an answer is an exchange with it, also `basic.publish` on a channel whose publications the server
//! confirms, until the server has. What the server delivers to consumers comes when there is something: it is no exchange.
//! A method that ends its channel with an error ends the open requests on it. Source: the AMQP 0-9-1 specification, and
//! RabbitMQ's extensions of it (`confirm.select`, `basic.nack`).

mod methods;
#[cfg(test)]
mod tests;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::detect::Sign;
use super::framing::Packet;
use super::paired::{Answers, Asks, Dialect, Reply};
use super::{words, Outcome, Raw};
use crate::capture::packet::u16_at;
use methods::{Kind, Method};

const HEADER: usize = 7;
/// Enough for the names among a method's arguments, of at most 255 bytes each.
const GATHERED: usize = 1024;
/// RabbitMQ's frames have at most 128 KiB by default (`frame_max`).
const SIZE_MAX: u32 = 1 << 28;
/// Channels whose confirmations are counted: RabbitMQ's own bound (`channel_max`).
const CHANNELS_MAX: usize = 2047;
/// What a connection begins with has eight bytes, and thus the form of a frame without a payload.
const GREETING: &[u8] = b"AMQP\0";

const METHOD: u8 = 1;
const CONTENT: u8 = 2;
const BODY: u8 = 3;
const HEARTBEAT: u8 = 8;

/// Requests have numbers: the channel, and the method that answers it, or a publication's own number.
const CHANNEL: u32 = 40;
const PUBLISHED: u64 = 1 << 39;

fn channel(header: &[u8]) -> u64 {
    u16_at(header, 1, true).map_or(0, u64::from)
}

/// Length behind the header: the payload, and the byte that ends a frame.
fn frame_len(header: &[u8]) -> Option<u64> {
    let &[kind, _, _, a, b, c, d, ..] = header else {
        return None;
    };
    let size = u32::from_be_bytes([a, b, c, d]);
    let sound = match kind {
        METHOD => size >= 4,
        CONTENT => size >= 14,
        BODY => true,
        HEARTBEAT => size == 0,
        _ => false,
    };
    (sound && size <= SIZE_MAX).then_some(u64::from(size) + 1)
}

/// A method that this side sends begins here.
fn method_here(first: &[u8], by_client: bool) -> bool {
    frame_len(first).is_some()
        && first[0] == METHOD
        && Method::of(&first[HEADER..]).is_some_and(|method| method.is_of(by_client))
}

/// The number of what the method with this code answers on a channel.
fn number(channel: u64, answer: u32) -> u64 {
    channel << CHANNEL | u64::from(answer)
}

/// Numbers of all requests on a channel; on all channels if that is 0.
fn all(channel: u64) -> std::ops::RangeInclusive<u64> {
    match channel {
        0 => 0..=u64::MAX,
        channel => channel << CHANNEL..=(channel << CHANNEL) + (1 << CHANNEL) - 1,
    }
}

#[derive(Default, Deserialize, Serialize)]
pub(super) struct Amqp {
    /// Of each channel with confirmations: how many publications there were.
    published: FxHashMap<u64, u64>,
}

impl Dialect for Amqp {
    const KIND: crate::capture::wire::Kind = crate::capture::wire::Kind::Amqp;
    type Note = ();
    const HEADERS: [usize; 2] = [HEADER; 2];
    const GATHERED: [usize; 2] = [GATHERED, 32];
    const NOT_A_REQUEST: &'static str = "not an AMQP frame";
    /// Methods of a channel are answered in order.
    const UNIQUE: bool = false;
    const IN_ORDER: bool = false;

    fn request_len(header: &[u8]) -> Option<u64> {
        match header.starts_with(GREETING) {
            true => Some(1),
            false => frame_len(header),
        }
    }

    fn response_len(header: &[u8]) -> Option<u64> {
        frame_len(header)
    }

    fn request_here(first: &[u8]) -> bool {
        first.starts_with(GREETING) || method_here(first, true)
    }

    fn response_here(first: &[u8], _is_open: &dyn Fn(u64) -> bool) -> bool {
        method_here(first, false)
    }

    fn asks<'a>(&'a mut self, packet: &'a Packet<'_>) -> Asks<'a, ()> {
        let channel = channel(&packet.header);
        match packet.header[0] {
            METHOD if packet.prefix.len() < 4 => return Asks::Unseen,
            METHOD => {}
            CONTENT | BODY => return Asks::Continues,
            _ => return Asks::OneWay,
        }
        let Some(method) = Method::of(packet.prefix).filter(|method| method.is_of(true)) else {
            return Asks::Unreadable;
        };
        match method.code {
            methods::CONFIRM_SELECT if self.published.len() < CHANNELS_MAX => {
                self.published.insert(channel, 0);
            }
            methods::CHANNEL_CLOSE => {
                self.published.remove(&channel);
            }
            _ => {}
        }
        let number = match method.kind {
            Kind::Asks(answer) if !method.forgoes_answer(packet.prefix) => number(channel, answer),
            // The method of the next number confirms it.
            Kind::Closes => number(channel, method.code + 1),
            Kind::Publishes => match self.published.get_mut(&channel) {
                Some(count) => {
                    *count = (*count + 1) & (PUBLISHED - 1);
                    channel << CHANNEL | PUBLISHED | *count
                }
                None => return Asks::OneWay,
            },
            _ => return Asks::OneWay,
        };
        Asks::Request {
            number,
            raw: Raw::Command(method.name),
            note: (),
        }
    }

    fn answers(&mut self, packet: &Packet<'_>) -> Answers {
        let channel = channel(&packet.header);
        match packet.header[0] {
            METHOD if packet.prefix.len() < 4 => return Answers::Unseen,
            METHOD => {}
            _ => return Answers::News,
        }
        let Some(method) = Method::of(packet.prefix).filter(|method| method.is_of(false)) else {
            return Answers::Unreadable;
        };
        match method.kind {
            Kind::Answers(code) => Answers::To(number(channel, code)),
            Kind::Confirms => self.confirms(channel, packet.prefix),
            Kind::Closes => {
                self.published.remove(&channel);
                Answers::ToAll(all(channel))
            }
            _ => Answers::News,
        }
    }

    fn reads(&mut self, packet: &Packet<'_>, _note: &mut ()) -> Reply {
        let method = Method::of(packet.prefix);
        Reply::last(match method.map(|method| (method.kind, method.code)) {
            // Behind the method: a code as those of HTTP.
            Some((Kind::Closes, _)) => match u16_at(packet.prefix, 4, true) {
                Some(code) => Outcome::Error(u32::from(code)),
                None => words::error("OTHER"),
            },
            Some((_, methods::NACK)) => words::error("NACK"),
            _ => Outcome::Ok,
        })
    }
}

impl Amqp {
    /// The publication of this number, or all up to it.
    fn confirms(&self, channel: u64, arguments: &[u8]) -> Answers {
        let tag = arguments.get(4..12).and_then(|tag| tag.try_into().ok());
        let (Some(tag), true) = (
            tag.map(u64::from_be_bytes),
            self.published.contains_key(&channel),
        ) else {
            return Answers::News;
        };
        let first = channel << CHANNEL | PUBLISHED;
        let tag = tag & (PUBLISHED - 1);
        match arguments.get(12).is_some_and(|bits| bits & 1 == 1) {
            true if tag == 0 => Answers::ToAll(first..=first | (PUBLISHED - 1)),
            true => Answers::ToAll(first..=first | tag),
            false => Answers::To(first | tag),
        }
    }
}

pub(super) fn client_sign(first: &[u8]) -> Sign {
    match first {
        [b'A', b'M', b'Q', b'P', 0, 0, 9, 1, ..] => Sign::Certain,
        _ if method_here(first, true) => Sign::Likely,
        _ => Sign::None,
    }
}

pub(super) fn server_sign(first: &[u8]) -> Sign {
    match method_here(first, false) {
        true => Sign::Likely,
        false => Sign::None,
    }
}
