//! MySQL and MariaDB: commands of the client, each answered by packets whose sequence numbers go on from its own.
//!
//! ```text
//! len len len seq │ payload          one command a request; OK, ERR, result sets or definitions until the reply is whole
//!   Login ──► Commands ──► opaque (compressed, TLS, binlog)
//! ```
//! The sequence numbers mend what the framing cannot tell: a reply starts at the number after its command's last packet,
//! so the next reply ends one whose end was missed. Where a header was cut off by the snap length, the rest of the reply
//! is blind: it ends at the last byte before the client's next command. Sources: the client/server protocol pages of the
//! MySQL internals manual and of the MariaDB documentation.

mod client;
mod command;
mod reply;
mod server;
#[cfg(test)]
mod tests;

use super::detect::Sign;
use super::framing::{Framer, Input, Step};
use super::waiting::Waiting;
use super::{Chunk, Exchanges, Outcome, Protocol, Side};
use command::{Command, Expects};
use reply::Reply;
use serde::{Deserialize, Serialize};

/// Bytes of a command, enough of its text for a name; of a reply, its fixed fields (those of a
/// greeting follow a version string).
const COMMAND_MAX: usize = 4096;
const REPLY_MAX: usize = 128;
/// After this many commands without a reply, the other direction counts as missing from the
/// capture.
const WAITING_MAX: usize = 1024;
/// A payload of this length continues in the next packet.
const CONTINUED: u64 = 0xff_ffff;

const CLIENT_COMPRESS: u64 = 1 << 5;
const PROTOCOL_41: u64 = 1 << 9;
const CLIENT_SSL: u64 = 1 << 11;
const CLIENT_DEPRECATE_EOF: u64 = 1 << 24;
const CLIENT_ZSTD: u64 = 1 << 26;
const SSL_REQUEST_LEN: u64 = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
enum Phase {
    /// Nothing was read yet: a greeting, or the middle of a connection.
    Start,
    Login,
    Commands,
    Opaque,
}

#[derive(Deserialize, Serialize)]
pub struct MySql {
    client: Framer,
    server: Framer,
    talk: Talk,
}

/// Both directions, above the framing.
#[derive(Deserialize, Serialize)]
struct Talk {
    phase: Phase,
    /// What both sides agreed on, if the login was seen.
    client_flags: Option<u64>,
    server_flags: Option<u64>,
    waiting: Waiting<Command>,
    statements: command::Statements,
    reply: Reply,
    /// For the oldest waiting command: the number of the packet before the next of its reply.
    sequence: u8,
    outcome: Outcome,
    /// The next packet continues the last one of this side; the current packet's bytes belong to
    /// the newest request.
    client_continues: bool,
    server_continues: bool,
    client_counts: bool,
    /// The newest request is the newest that waits for its reply.
    newest_waits: bool,
    /// The server sent something since the last command; when.
    turned: bool,
    answered_at: i64,
    /// The reply is complete when the current packet is over.
    last_packet: bool,
}

impl Default for MySql {
    fn default() -> Self {
        let len = |header: &[u8]| match *header {
            [a, b, c, ..] => Some(u64::from(a) | u64::from(b) << 8 | u64::from(c) << 16),
            _ => None,
        };
        MySql {
            client: Framer::new(4, COMMAND_MAX, len),
            server: Framer::new(4, REPLY_MAX, len),
            talk: Talk {
                phase: Phase::Start,
                client_flags: None,
                server_flags: None,
                waiting: Waiting::default(),
                statements: command::Statements::default(),
                reply: Reply::default(),
                sequence: 0,
                outcome: Outcome::Ok,
                client_continues: false,
                server_continues: false,
                client_counts: false,
                newest_waits: false,
                turned: false,
                answered_at: 0,
                last_packet: false,
            },
        }
    }
}

impl Protocol for MySql {
    fn saved(&self) -> super::Result<super::State> {
        super::state(super::Kind::MySql, self)
    }

    fn revive(&mut self) {
        let new = MySql::default();
        self.client.adopt(new.client);
        self.server.adopt(new.server);
    }

    fn data(&mut self, side: Side, chunk: Chunk<'_>, out: &mut dyn Exchanges) {
        let mut input = Input::new(chunk);
        let (bytes, cut) = (input.bytes(), input.cut());
        if self.talk.begins(side, bytes) {
            self.client.resync();
            self.server.resync();
        }
        match side {
            Side::Client => {
                let here = command::here(bytes)
                    || (self.talk.phase == Phase::Start && bytes.get(3) == Some(&1));
                let due = matches!(self.talk.phase, Phase::Start | Phase::Commands)
                    && !self.talk.continues_reply();
                let expected = due && self.client.between() && !self.talk.client_continues;
                if self.client.lost() {
                    if here {
                        self.client.resync();
                    }
                } else if expected && bytes.len() >= 5 && !here {
                    let _ = self.client.lose();
                } else if expected && cut && bytes.is_empty() {
                    // Only the existence of a command was captured.
                    return self.talk.unseen_command(&input, out);
                }
                self.client_input(&mut input, out);
            }
            Side::Server => {
                let under_way = self
                    .server
                    .unreported()
                    .is_some_and(|header| self.talk.expects(header));
                if !self.server.between()
                    && !under_way
                    && self.talk.reply_here(bytes, self.server.lost(), out)
                {
                    self.server.resync();
                    self.talk.server_continues = false;
                }
                self.server_input(&mut input, false, out);
            }
        }
    }

    fn gap(&mut self, side: Side, time: i64, len: u64, out: &mut dyn Exchanges) {
        if self.talk.phase == Phase::Opaque {
            return;
        }
        if self.talk.phase == Phase::Start {
            self.talk.phase = Phase::Commands;
        }
        out.unreadable("lost in the capture", len);
        if side == Side::Server {
            self.talk.waiting.hole();
        }
        if len == 0 {
            self.lose(side, time, out);
        }
        let mut hole = Input::hole(time, len);
        match side {
            Side::Client => self.client_input(&mut hole, out),
            Side::Server => self.server_input(&mut hole, true, out),
        }
    }

    fn end(&mut self, side: Side, time: i64, out: &mut dyn Exchanges) {
        if self.talk.phase == Phase::Opaque {
            return;
        }
        self.lose(side, time, out);
    }
}

impl MySql {
    /// This side breaks off: the gathered part of a packet is used.
    fn lose(&mut self, side: Side, time: i64, out: &mut dyn Exchanges) {
        match side {
            Side::Client => {
                if let Some(packet) = self.client.lose() {
                    self.talk.client_packet(&packet, time, out);
                }
            }
            Side::Server => {
                if let Some(packet) = self.server.lose() {
                    self.talk.server_packet(&packet, time, out);
                }
                if self.talk.waiting.answering() {
                    self.talk.reply = Reply::Blind;
                }
            }
        }
    }

    fn client_input(&mut self, input: &mut Input<'_>, out: &mut dyn Exchanges) {
        while self.talk.phase != Phase::Opaque {
            let good = match self.client.next(input) {
                None => break,
                Some(Step::Packet(packet)) => self.talk.client_packet(&packet, input.time, out),
                Some(Step::More { now, .. }) => {
                    self.talk.client_bytes(input.time, now, out);
                    true
                }
                Some(Step::Lost(n)) => {
                    let growing = self.talk.client_counts
                        && self.talk.waiting.len() > usize::from(self.talk.waiting.answering());
                    if growing {
                        out.request_bytes(input.time, n);
                    } else {
                        out.unreadable("not a MySQL command", n);
                    }
                    self.talk.client_continues = false;
                    true
                }
            };
            if !good {
                let _ = self.client.lose();
            }
        }
    }

    fn server_input(&mut self, input: &mut Input<'_>, hole: bool, out: &mut dyn Exchanges) {
        while self.talk.phase != Phase::Opaque {
            let between = self.server.between();
            let good = match self.server.next(input) {
                None => break,
                Some(Step::Packet(packet)) => self.talk.server_packet(&packet, input.time, out),
                Some(Step::More { now, over }) => {
                    self.talk.server_bytes(input.time, now, over, out);
                    true
                }
                Some(Step::Lost(n)) => {
                    self.talk.server_lost(input.time, n, between, hole, out);
                    true
                }
            };
            if !good {
                let _ = self.server.lose();
            }
        }
    }
}

impl Talk {
    fn become_opaque(&mut self, reason: &'static str, out: &mut dyn Exchanges) {
        self.phase = Phase::Opaque;
        self.waiting.clear();
        self.statements = command::Statements::default();
        out.opaque(reason);
    }

    /// Whether the connection begins here although its opening was not captured: with the server's
    /// greeting, or the client's answer to it.
    fn begins(&mut self, side: Side, bytes: &[u8]) -> bool {
        let untouched = self.phase == Phase::Commands
            && !self.turned
            && !self.client_counts
            && self.waiting.is_empty();
        if !untouched {
            return false;
        }
        let phase = match side {
            Side::Server if is_greeting(bytes) => Phase::Start,
            Side::Client if is_login(bytes) => Phase::Login,
            _ => return false,
        };
        self.phase = phase;
        true
    }

    /// The client's next packets are part of the exchange under way: a login, or the lines of LOCAL INFILE.
    fn continues_reply(&self) -> bool {
        self.reply == Reply::Infile
            || self
                .waiting
                .front()
                .is_some_and(|c| c.expects == Expects::Login)
    }
}

/// A command, or a login.
pub(super) fn client_sign(first: &[u8]) -> Sign {
    if is_login(first) || command::here(first) {
        Sign::Likely
    } else {
        Sign::None
    }
}

/// A greeting (its version is a number), or a packet that may be the first of a reply.
pub(super) fn server_sign(first: &[u8]) -> Sign {
    match first {
        _ if is_greeting(first) => Sign::Certain,
        [_, 0, 0, 0, 0xff, _, _, ..] => Sign::Likely,
        &[a, b, c, 1, byte, ..] if a | b | c != 0 && reply::first_byte(byte, a, b, c) => {
            Sign::Likely
        }
        _ => Sign::None,
    }
}

fn is_greeting(bytes: &[u8]) -> bool {
    matches!(bytes, [_, _, 0, 0, 10, b'0'..=b'9', ..])
}

fn is_login(bytes: &[u8]) -> bool {
    matches!(bytes, [_, _, 0, 1, ..])
        && bytes.len() > 8
        && command::login_flags(&bytes[4..]) & PROTOCOL_41 != 0
}
