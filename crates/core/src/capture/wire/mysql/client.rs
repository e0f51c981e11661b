//! The client's side: logins, commands, and their continuation in further packets.
//!
//! If these return false, the bytes were not a command and the framing is lost.

use super::command::{self, Command, Expects};
use super::reply::Reply;
use super::{Phase, Talk, CLIENT_SSL, CONTINUED, SSL_REQUEST_LEN, WAITING_MAX};
use crate::capture::wire::framing::{Input, Packet};
use crate::capture::wire::{Exchanges, Raw};

impl Talk {
    pub(super) fn client_packet(
        &mut self,
        packet: &Packet<'_>,
        time: i64,
        out: &mut dyn Exchanges,
    ) -> bool {
        let sequence = packet.header[3];
        let continued = std::mem::replace(&mut self.client_continues, packet.len == CONTINUED);
        if continued || (sequence != 0 && self.continues_reply()) {
            if let Some(newest) = self.waiting.back_mut().filter(|_| self.newest_waits) {
                newest.next_sequence = sequence.wrapping_add(1);
            }
            if self.waiting.answering() && self.continues_reply() {
                self.sequence = sequence;
            }
        } else if sequence != 0
            && (self.phase == Phase::Login || (self.phase == Phase::Start && sequence == 1))
        {
            if !self.login(packet, sequence, out) {
                return true;
            }
        } else {
            self.phase = Phase::Commands;
            let statements = std::mem::take(&mut self.statements);
            let asked =
                command::read(packet, self.client_flags, &statements).filter(|_| sequence == 0);
            let good = match &asked {
                Some(asked) => self.ask(packet.begun, asked, out),
                None => false,
            };
            self.statements = statements;
            if !good {
                self.client_continues = false;
                self.client_counts = false;
                if self.phase != Phase::Opaque {
                    out.unreadable("not a MySQL command", packet.early + packet.now);
                }
                return false;
            }
            let text = self.statements.sent(packet.prefix);
            if let Some(newest) = self.waiting.back_mut().filter(|_| self.newest_waits) {
                newest.text = text;
            }
        }
        if packet.early > 0 {
            self.client_bytes(packet.begun, packet.early, out);
        }
        self.client_bytes(time, packet.now, out);
        true
    }

    pub(super) fn client_bytes(&mut self, time: i64, n: u64, out: &mut dyn Exchanges) {
        if self.client_counts && self.phase != Phase::Opaque {
            out.request_bytes(time, n);
        }
    }

    /// The client's answer to the greeting; false: it requests TLS.
    pub(super) fn login(
        &mut self,
        packet: &Packet<'_>,
        sequence: u8,
        out: &mut dyn Exchanges,
    ) -> bool {
        self.phase = Phase::Login;
        let flags = command::login_flags(packet.prefix);
        if packet.len == SSL_REQUEST_LEN && flags & CLIENT_SSL != 0 {
            self.become_opaque("TLS", out);
            return false;
        }
        self.client_flags = Some(flags);
        self.client_counts = true;
        self.newest_waits = true;
        self.waiting.before_request();
        self.waiting
            .push(Command::new(Expects::Login, sequence.wrapping_add(1)));
        out.request(packet.begun, Raw::Command("LOGIN"), 0);
        true
    }

    /// False: the connection is opaque from now on.
    pub(super) fn ask(
        &mut self,
        time: i64,
        asked: &command::Asked<'_>,
        out: &mut dyn Exchanges,
    ) -> bool {
        self.close_before_command(out);
        let opaque = match asked.expects {
            Expects::Stream => "binlog stream",
            _ if self.waiting.len() >= WAITING_MAX => "requests without responses",
            _ => "",
        };
        if !opaque.is_empty() {
            self.become_opaque(opaque, out);
            return false;
        }
        self.waiting.before_request();
        out.request(time, asked.raw, 0);
        self.client_counts = true;
        self.newest_waits = asked.expects != Expects::Nothing;
        if self.newest_waits {
            self.waiting.push(Command::new(asked.expects, 1));
        } else {
            out.one_way();
        }
        true
    }

    /// A command is sent when the previous replies are complete, unless commands are pipelined. It
    /// therefore ends replies whose end could not be seen.
    pub(super) fn close_before_command(&mut self, out: &mut dyn Exchanges) {
        let login = self.waiting.len() == 1 && self.continues_reply();
        let blind = self.turned && self.waiting.answering() && self.reply == Reply::Blind;
        if blind {
            // Those behind it were answered in the part that was cut off.
            self.waiting.tell_all(self.outcome, self.answered_at, out);
        } else if login && !self.waiting.closes_at_request() {
            self.waiting.tell(self.outcome, out);
        }
        if self.waiting.closes_at_request() {
            self.begin_reply();
        }
        self.turned = false;
    }

    pub(super) fn unseen_command(&mut self, input: &Input<'_>, out: &mut dyn Exchanges) {
        let asked = command::Asked {
            raw: Raw::Unknown,
            expects: Expects::Results,
        };
        if self.ask(input.time, &asked, out) {
            out.request_bytes(input.time, input.len());
        }
    }
}
