//! The server's side: the greeting, and replies put in order by their sequence numbers.
//!
//! If these return false, the bytes were not a reply and the framing is lost.

use super::command::{Command, Expects};
use super::reply::{self, Reply, Verdict};
use super::{Phase, Talk, CLIENT_COMPRESS, CLIENT_ZSTD, CONTINUED};
use crate::capture::wire::framing::Packet;
use crate::capture::wire::software::Source;
use crate::capture::wire::{Exchanges, Outcome, Raw};

impl Talk {
    /// Whether a packet with this header (or its beginning) is due.
    pub(super) fn expects(&self, header: &[u8]) -> bool {
        let next = match self.waiting.front() {
            _ if self.waiting.answering() => self.sequence.wrapping_add(1),
            Some(command) => command.next_sequence,
            None => 0,
        };
        header.get(3).is_none_or(|&sequence| sequence == next)
    }

    /// Whether a reply starts with these first bytes of a segment, if the framing is lost or at
    /// odds with it.
    pub(super) fn reply_here(&mut self, bytes: &[u8], lost: bool, out: &mut dyn Exchanges) -> bool {
        let &[a, b, c, sequence, first, ..] = bytes else {
            return false;
        };
        if a | b | c == 0 || (self.phase != Phase::Commands && !lost) {
            return false;
        }
        let starts =
            |command: Option<&Command>| command.is_some_and(|c| c.next_sequence == sequence);
        if !self.waiting.answering() {
            return starts(self.waiting.front()) && reply::first_byte(first, a, b, c);
        }
        if self.reply == Reply::Blind
            && starts(self.waiting.get(1))
            && reply::first_byte(first, a, b, c)
        {
            self.close(out);
            return true;
        }
        false
    }

    pub(super) fn server_packet(
        &mut self,
        packet: &Packet<'_>,
        time: i64,
        out: &mut dyn Exchanges,
    ) -> bool {
        let sequence = packet.header[3];
        self.server_seen(time);
        if std::mem::replace(&mut self.server_continues, packet.len == CONTINUED) {
            self.sequence = sequence;
            self.response_bytes(packet, time, out);
            return true;
        }
        if self.phase == Phase::Start && !self.greeting(packet, time, out) {
            return true;
        }
        let known = self.waiting.answering() && sequence == self.sequence.wrapping_add(1);
        if self.waiting.answering() && (!known || self.unless_eof_is_over(packet)) {
            if known
                || self
                    .waiting
                    .get(1)
                    .is_some_and(|c| c.next_sequence == sequence)
                || self.waiting.len() == 1
            {
                self.close(out);
            } else {
                self.reply = Reply::Blind;
                self.response_bytes(packet, time, out);
                return false;
            }
        }
        if !self.waiting.answering() {
            if self
                .waiting
                .front()
                .is_none_or(|c| c.next_sequence != sequence)
            {
                self.server_continues = false;
                if self.phase != Phase::Login {
                    out.unreadable("a response without its request", packet.early + packet.now);
                }
                return self.phase == Phase::Login;
            }
            self.begin_reply();
        }
        self.sequence = sequence;
        self.response_bytes(packet, time, out);
        self.read_reply(packet, out);
        true
    }

    pub(super) fn unless_eof_is_over(&self, packet: &Packet<'_>) -> bool {
        self.reply == Reply::WholeUnlessEof && !reply::is_eof(packet)
    }

    /// The first packet of a connection, sent by the server; false: that was all of it.
    pub(super) fn greeting(
        &mut self,
        packet: &Packet<'_>,
        time: i64,
        out: &mut dyn Exchanges,
    ) -> bool {
        match (packet.header[3], packet.prefix.first()) {
            (0, Some(10)) => {
                self.phase = Phase::Login;
                self.server_flags = reply::greeting_flags(packet.prefix);
                out.runs(Source::Server, reply::greeting_version(packet.prefix));
                false
            }
            (0, Some(0xff)) => {
                // Refused before it could log in, as with 1040 (too many connections): the connection was its request.
                self.phase = Phase::Commands;
                if self.waiting.is_empty() {
                    self.waiting.push(Command::new(Expects::Login, 0));
                    out.request(packet.begun, Raw::Command("LOGIN"), 0);
                }
                self.response_bytes(packet, time, out);
                self.waiting.finish(reply::error(packet.prefix), out);
                false
            }
            _ => {
                self.phase = Phase::Commands;
                true
            }
        }
    }

    pub(super) fn read_reply(&mut self, packet: &Packet<'_>, out: &mut dyn Exchanges) {
        let Some(command) = self.waiting.front() else {
            return;
        };
        let verdict = self
            .reply
            .advance(packet, command.expects, self.client_flags);
        let whole = match verdict {
            Verdict::More => false,
            Verdict::Unsure => {
                self.waiting.tell(self.outcome, out);
                false
            }
            Verdict::Whole(outcome) => {
                self.outcome = outcome;
                true
            }
            Verdict::Prepared { id, whole } => {
                if let Some(text) = self.waiting.front_mut().and_then(|c| c.text.take()) {
                    self.statements.prepared(id, text);
                }
                whole
            }
        };
        if whole && packet.over {
            self.close(out);
        } else {
            self.last_packet = whole;
        }
        if self.reply == Reply::WholeUnlessEof {
            self.waiting.tell(Outcome::Ok, out);
        }
    }

    pub(super) fn response_bytes(
        &mut self,
        packet: &Packet<'_>,
        time: i64,
        out: &mut dyn Exchanges,
    ) {
        if packet.early > 0 {
            self.waiting.bytes(packet.begun, packet.early, out);
        }
        self.waiting.bytes(time, packet.now, out);
    }

    pub(super) fn server_seen(&mut self, time: i64) {
        self.turned = true;
        self.answered_at = time;
    }

    pub(super) fn server_bytes(&mut self, time: i64, n: u64, over: bool, out: &mut dyn Exchanges) {
        if self.waiting.answering() {
            self.waiting.bytes(time, n, out);
            if over && self.last_packet {
                self.close(out);
            }
        }
    }

    /// `between`: the loss begins with a packet; `hole`: its content is unknown.
    pub(super) fn server_lost(
        &mut self,
        time: i64,
        n: u64,
        between: bool,
        hole: bool,
        out: &mut dyn Exchanges,
    ) {
        self.server_continues = false;
        self.server_seen(time);
        let reply = std::mem::replace(&mut self.reply, Reply::Blind);
        self.last_packet = false;
        if !self.waiting.bytes(time, n, out) {
            return;
        }
        if !hole && between && reply.may_end_in(n, self.client_flags) {
            self.close(out);
        } else if !hole || matches!(reply, Reply::AfterColumns | Reply::Rows) {
            self.waiting.tell(self.outcome, out);
        }
    }

    pub(super) fn begin_reply(&mut self) {
        self.reply = Reply::First;
        self.outcome = Outcome::Ok;
        self.last_packet = false;
    }

    /// The reply of the oldest command is whole.
    pub(super) fn close(&mut self, out: &mut dyn Exchanges) {
        let outcome = self.outcome;
        self.begin_reply();
        let Some(command) = self.waiting.finish(outcome, out) else {
            return;
        };
        if command.expects == Expects::Login && self.phase == Phase::Login {
            self.phase = Phase::Commands;
            let agreed = self.client_flags.unwrap_or(0) & self.server_flags.unwrap_or(u64::MAX);
            if agreed & (CLIENT_COMPRESS | CLIENT_ZSTD) != 0 && outcome == Outcome::Ok {
                self.become_opaque("compressed", out);
            }
        }
    }
}
