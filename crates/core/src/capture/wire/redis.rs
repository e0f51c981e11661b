//! Redis, RESP2 and RESP3: one reply for each command, in order; pushed messages (`>`) answer
//! nothing.
//!
//! `CLIENT REPLY OFF` and `SKIP` silence the server: a command without a reply is not an exchange.
//!
//! A connection that subscribes or monitors carries a stream from then on: it is opaque, unless
//! RESP3 separates the messages from the replies. Source: the Redis serialization protocol
//! specification.

mod commands;
mod resp;
#[cfg(test)]
mod tests;

use super::detect::Sign;
use super::framing::Input;
use super::waiting::Waiting;
use super::{Chunk, Exchanges, Outcome, Protocol, Raw, Side};
use resp::{Progress, Replies, Resp};
use serde::{Deserialize, Serialize};

/// After this many commands without a reply, the other direction counts as missing from the
/// capture. Clients that load data pipeline ten thousand at a time.
const WAITING_MAX: usize = 1 << 16;

/// An error is known by its first word, as a number from here on: the word's place in [`ERRORS`].
/// These are above every folded SQLSTATE (36^5 + 100,000).
pub const ERROR_WORDS: u32 = 1_000_000_000;
const ERRORS: [&str; 23] = [
    "OTHER",
    "ERR",
    "WRONGTYPE",
    "NOAUTH",
    "WRONGPASS",
    "NOPERM",
    "MOVED",
    "ASK",
    "TRYAGAIN",
    "CLUSTERDOWN",
    "CROSSSLOT",
    "LOADING",
    "BUSY",
    "OOM",
    "READONLY",
    "MISCONF",
    "MASTERDOWN",
    "NOREPLICAS",
    "NOSCRIPT",
    "EXECABORT",
    "BUSYGROUP",
    "NOGROUP",
    "UNKILLABLE",
];
const SUBSCRIPTIONS: [&str; 6] = [
    "SUBSCRIBE",
    "PSUBSCRIBE",
    "SSUBSCRIBE",
    "UNSUBSCRIBE",
    "PUNSUBSCRIBE",
    "SUNSUBSCRIBE",
];
const STREAMS: [&str; 6] = [
    "SUBSCRIBE",
    "PSUBSCRIBE",
    "SSUBSCRIBE",
    "MONITOR",
    "SYNC",
    "PSYNC",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
enum Asked {
    Command,
    Hello,
    /// After its reply, the connection is a stream.
    Stream,
}

#[derive(Default, Deserialize, Serialize)]
pub struct Redis {
    client: Resp,
    server: Resp,
    client_lost: bool,
    server_lost: bool,
    waiting: Waiting<Asked>,
    /// The current command was made a request.
    announced: bool,
    resp3: bool,
    /// Which commands the server replies to.
    replies: Replies,
    opaque: bool,
    fresh: bool,
    /// Since the last command: the server sent something unreadable; it sent something; when.
    blind: bool,
    turned: bool,
    answered_at: i64,
}

impl Protocol for Redis {
    fn saved(&self) -> super::Result<super::State> {
        super::state(super::Kind::Redis, self)
    }

    fn data(&mut self, side: Side, chunk: Chunk<'_>, out: &mut dyn Exchanges) {
        let mut input = Input::new(chunk);
        match side {
            Side::Client => {
                if !self.fresh && input.bytes().starts_with(&[0x16, 3]) && !self.opaque {
                    return self.become_opaque("TLS", out);
                }
                self.fresh = true;
                if self.client_lost && resp::command_here(input.bytes()) {
                    self.client_lost = false;
                    self.client = Resp::default();
                }
                self.client_input(&mut input, out);
            }
            Side::Server => {
                // A segment of a long reply may look like one: with a single open command, it
                // belongs to its reply.
                let due = !self.waiting.answering() || self.waiting.len() > 1;
                if self.server_lost && due && resp::reply_here(input.bytes()) {
                    if self.waiting.told() {
                        self.waiting.finish(Outcome::Ok, out);
                    }
                    self.server_lost = false;
                    self.server = Resp::default();
                }
                self.server_input(&mut input, false, out);
            }
        }
    }

    fn gap(&mut self, side: Side, time: i64, len: u64, out: &mut dyn Exchanges) {
        if self.opaque {
            return;
        }
        out.unreadable("lost in the capture", len);
        let mut hole = Input::hole(time, len);
        match side {
            Side::Client => {
                self.fresh = true;
                self.client_lost |= len == 0;
                self.client_input(&mut hole, out);
            }
            Side::Server => {
                self.waiting.hole();
                self.server_lost |= len == 0;
                self.blind |= len == 0;
                self.server_input(&mut hole, true, out);
            }
        }
    }

    fn end(&mut self, _side: Side, _time: i64, _out: &mut dyn Exchanges) {}
}

impl Redis {
    fn become_opaque(&mut self, reason: &'static str, out: &mut dyn Exchanges) {
        self.opaque = true;
        self.waiting.clear();
        out.opaque(reason);
    }

    fn client_input(&mut self, input: &mut Input<'_>, out: &mut dyn Exchanges) {
        while input.len() > 0 && !self.opaque {
            if self.client_lost {
                let n = input.len();
                input.skip(n);
                if self.waiting.len() > usize::from(self.waiting.answering()) {
                    out.request_bytes(input.time, n);
                } else {
                    out.unreadable("not a Redis command", n);
                }
                continue;
            }
            let (begun, early) = self.client.begin(input.time);
            let before = input.len();
            let progress = self.client.advance(input, true);
            let mut now = before - input.len();
            if progress == Progress::Lost {
                self.client_lost = true;
                let cut = input.cut();
                if !cut && !self.announced {
                    out.unreadable("not a Redis command", early + before);
                    input.skip(input.len());
                    continue;
                }
                now += input.len();
                input.skip(input.len());
            }
            if !self.announced && (self.client.name().is_some() || progress != Progress::More) {
                let named = std::mem::take(&mut self.client);
                self.ask(begun, named.name(), out);
                self.client = named;
                if self.opaque {
                    return;
                }
                self.announced = true;
                if early > 0 {
                    out.request_bytes(begun, early);
                }
            }
            if self.announced {
                self.client.told();
                out.request_bytes(input.time, now);
            }
            if progress != Progress::More {
                self.announced = false;
                let command = std::mem::take(&mut self.client);
                self.asked(&command, out);
            }
        }
    }

    /// A command is complete: a `CLIENT` may set which ones are replied to, itself included.
    fn asked(&mut self, command: &Resp, out: &mut dyn Exchanges) {
        if command.name() != Some("CLIENT") {
            return;
        }
        let said = command.replies();
        let silent = self.replies != Replies::On || said.is_some();
        self.replies = match (self.replies, said) {
            (_, Some(Replies::On)) => Replies::On,
            (Replies::Off, _) => Replies::Off,
            (_, Some(other)) => other,
            (_, None) => Replies::On,
        };
        if silent && said != Some(Replies::On) && self.waiting.pop_back().is_some() {
            out.one_way();
        }
    }

    fn ask(&mut self, time: i64, name: Option<&str>, out: &mut dyn Exchanges) {
        if self.waiting.len() >= WAITING_MAX {
            return self.become_opaque("requests without responses", out);
        }
        if self.turned && self.blind && self.waiting.answering() {
            self.waiting.tell_all(Outcome::Ok, self.answered_at, out);
        }
        self.waiting.before_request();
        self.turned = false;
        self.blind &= !self.waiting.is_empty();
        let raw = match name {
            Some("") | None => Raw::Unknown,
            Some(name) if commands::is_known(name) => Raw::Command(name),
            Some(name) => Raw::Word(name),
        };
        out.request(time, raw, 0);
        let name = name.unwrap_or("");
        if self.replies != Replies::On && name != "CLIENT" {
            if self.replies == Replies::Skip {
                self.replies = Replies::On;
            }
            return out.one_way();
        }
        if self.resp3 && SUBSCRIPTIONS.contains(&name) {
            return out.one_way();
        }
        self.waiting.push(match name {
            "HELLO" => Asked::Hello,
            _ if STREAMS.contains(&name) => Asked::Stream,
            _ => Asked::Command,
        });
    }

    fn server_input(&mut self, input: &mut Input<'_>, hole: bool, out: &mut dyn Exchanges) {
        if input.len() > 0 {
            self.turned = true;
            self.answered_at = input.time;
        }
        while input.len() > 0 && !self.opaque {
            if self.server_lost {
                let n = input.len();
                input.skip(n);
                self.waiting.bytes(input.time, n, out);
                continue;
            }
            let (begun, early) = self.server.begin(input.time);
            let before = input.len();
            let progress = self.server.advance(input, false);
            let mut now = before - input.len();
            if progress == Progress::Lost {
                self.server_lost = true;
                self.blind = true;
                now += input.len();
                input.skip(input.len());
            }
            if self.server.kind() == b'>' {
                if progress != Progress::More {
                    self.server = Resp::default();
                }
                continue;
            }
            self.server.told();
            if early > 0 {
                self.waiting.bytes(begun, early, out);
            }
            self.waiting.bytes(input.time, now, out);
            match progress {
                Progress::More => {}
                Progress::Done => self.replied(out),
                Progress::Lost => {
                    if !hole || self.server.kind() != 0 {
                        self.waiting.tell(outcome(&self.server), out);
                    }
                    self.server = Resp::default();
                }
            }
        }
    }

    fn replied(&mut self, out: &mut dyn Exchanges) {
        let reply = std::mem::take(&mut self.server);
        match self.waiting.finish(outcome(&reply), out) {
            // The server replies after all: it did not accept the silence.
            None => self.replies = Replies::On,
            Some(Asked::Hello) => self.resp3 |= reply.kind() == b'%',
            Some(Asked::Stream) if outcome(&reply) == Outcome::Ok => {
                self.become_opaque("a stream of messages", out)
            }
            _ => {}
        }
    }
}

fn outcome(reply: &Resp) -> Outcome {
    if !matches!(reply.kind(), b'-' | b'!') {
        return Outcome::Ok;
    }
    let known = ERRORS
        .iter()
        .position(|word| word.as_bytes() == reply.error())
        .unwrap_or(0);
    Outcome::Error(ERROR_WORDS + u32::try_from(known).unwrap_or(0))
}

/// The word of an error with this `number`; `OTHER` for those of modules and scripts.
pub fn error_word(number: u32) -> &'static str {
    let place = usize::try_from(number.saturating_sub(ERROR_WORDS)).unwrap_or(0);
    ERRORS.get(place).copied().unwrap_or(ERRORS[0])
}

/// An array of strings.
pub(super) fn client_sign(first: &[u8]) -> Sign {
    if first.len() >= 8 && resp::command_here(first) {
        Sign::Certain
    } else if matches!(first, [b'*', b'1'..=b'9', ..]) && resp::command_here(first) {
        Sign::Likely
    } else {
        Sign::None
    }
}

pub(super) fn server_sign(first: &[u8]) -> Sign {
    if first.len() >= 4 && resp::reply_here(first) {
        Sign::Likely
    } else {
        Sign::None
    }
}
