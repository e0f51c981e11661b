//! The binary form. Quiet commands are answered only if there is something to say: they are no exchanges of their own, and
//! what the server says about them is a part of the response to the command behind them.

use crate::capture::packet::u32_at;
use crate::capture::wire::framing::Packet;
use crate::capture::wire::paired::{Answers, Asks, Dialect, Reply};
use crate::capture::wire::{words, Outcome, Raw};
use serde::{Deserialize, Serialize};

pub(super) const REQUEST: u8 = 0x80;
pub(super) const RESPONSE: u8 = 0x81;
const HEADER: usize = 24;
/// memcached's own bound of a value is 1 GiB (`-I`).
const BODY_MAX: u32 = 1 << 30;

const NOOP: u8 = 0x0a;
const STAT: u8 = 0x10;

/// Code and name of each command; quiet ones are marked.
const COMMANDS: [(u8, &str, bool); 37] = [
    (0x00, "get", false),
    (0x01, "set", false),
    (0x02, "add", false),
    (0x03, "replace", false),
    (0x04, "delete", false),
    (0x05, "incr", false),
    (0x06, "decr", false),
    (0x07, "quit", false),
    (0x08, "flush_all", false),
    (0x09, "get", true),
    (NOOP, "noop", false),
    (0x0b, "version", false),
    (0x0c, "get", false),
    (0x0d, "get", true),
    (0x0e, "append", false),
    (0x0f, "prepend", false),
    (STAT, "stats", false),
    (0x11, "set", true),
    (0x12, "add", true),
    (0x13, "replace", true),
    (0x14, "delete", true),
    (0x15, "incr", true),
    (0x16, "decr", true),
    (0x17, "quit", true),
    (0x18, "flush_all", true),
    (0x19, "append", true),
    (0x1a, "prepend", true),
    (0x1b, "verbosity", false),
    (0x1c, "touch", false),
    (0x1d, "gat", false),
    (0x1e, "gat", true),
    (0x20, "sasl list", false),
    (0x21, "sasl auth", false),
    (0x22, "sasl step", false),
    (0x23, "gat", false),
    (0x24, "gat", true),
    (0x1f, "hello", false),
];

fn command(code: u8) -> Option<&'static (u8, &'static str, bool)> {
    COMMANDS.iter().find(|known| known.0 == code)
}

/// Key and extras lie inside the body; there is one data type.
fn body(header: &[u8]) -> Option<u64> {
    let &[_, code, key_high, key_low, extras, 0, _, _, a, b, c, d, ..] = header else {
        return None;
    };
    let body = u32::from_be_bytes([a, b, c, d]);
    let parts = u32::from(u16::from_be_bytes([key_high, key_low])) + u32::from(extras);
    let sound = command(code).is_some() && parts <= body && body <= BODY_MAX;
    sound.then_some(u64::from(body))
}

fn number(header: &[u8]) -> u64 {
    u32_at(header, 12, true).map_or(0, u64::from)
}

pub(super) fn request_here(first: &[u8]) -> bool {
    first.len() >= HEADER && first[0] == REQUEST && first[6..8] == [0; 2] && body(first).is_some()
}

pub(super) fn response_here(first: &[u8]) -> bool {
    first.len() >= HEADER && first[0] == RESPONSE && body(first).is_some()
}

#[derive(Default, Deserialize, Serialize)]
pub struct Binary {
    /// The name of the quiet command that came last.
    #[serde(with = "crate::saved::fixed_or_none")]
    quiet: Option<crate::saved::Fixed>,
}

impl Dialect for Binary {
    const KIND: crate::capture::wire::Kind = crate::capture::wire::Kind::Memcached;
    type Note = ();
    const HEADERS: [usize; 2] = [HEADER; 2];
    const GATHERED: [usize; 2] = [0; 2];
    const NOT_A_REQUEST: &'static str = "not a memcached command";
    /// Many clients send zero in each.
    const UNIQUE: bool = false;
    const IN_ORDER: bool = true;

    fn request_len(header: &[u8]) -> Option<u64> {
        body(header).filter(|_| header[0] == REQUEST)
    }

    fn response_len(header: &[u8]) -> Option<u64> {
        body(header).filter(|_| header[0] == RESPONSE)
    }

    fn request_here(first: &[u8]) -> bool {
        request_here(first)
    }

    fn response_here(first: &[u8], _is_open: &dyn Fn(u64) -> bool) -> bool {
        response_here(first)
    }

    fn asks<'a>(&'a mut self, packet: &'a Packet<'_>) -> Asks<'a, ()> {
        let code = packet.header[1];
        let Some(&(_, name, quiet)) = command(code) else {
            return Asks::Unreadable;
        };
        if quiet {
            self.quiet = Some(name);
            return Asks::OneWay;
        }
        // A no-op ends a batch of quiet commands.
        let batch = self.quiet.take().filter(|_| code == NOOP);
        Asks::Request {
            number: number(&packet.header),
            raw: Raw::Command(batch.unwrap_or(name)),
            note: (),
        }
    }

    fn answers(&mut self, packet: &Packet<'_>) -> Answers {
        match command(packet.header[1]) {
            Some(&(_, _, true)) => Answers::ToOldest,
            Some(_) => Answers::To(number(&packet.header)),
            None => Answers::Unreadable,
        }
    }

    fn reads(&mut self, packet: &Packet<'_>, _note: &mut ()) -> Reply {
        let status = u16::from_be_bytes([packet.header[6], packet.header[7]]);
        // Statistics end with one that has no name.
        if packet.header[1] == STAT && packet.header[2..4] != [0; 2] && status == 0 {
            return Reply::part();
        }
        Reply::last(match status {
            // Nothing there, or the condition does not hold; 0x21 asks for the next step of a login.
            0 | 1 | 2 | 5 | 0x21 => Outcome::Ok,
            3 => words::error("TOO_LARGE"),
            4 | 6 => words::error("CLIENT_ERROR"),
            0x20 => words::error("UNAUTHENTICATED"),
            0x81 | 0x83 => words::error("ERROR"),
            0x82 => words::error("OUT_OF_MEMORY"),
            0x85 | 0x86 => words::error("BUSY"),
            _ => words::error("SERVER_ERROR"),
        })
    }
}
