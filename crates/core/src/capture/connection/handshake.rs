//! The handshake of a connection.

use super::super::attempt::{Answer, Attempt, Syn};
use super::super::ledger::{Ledger, Status};
use super::super::opening::Opening;
use super::super::reader::{index, other};
use super::super::servers::Evidence;
use super::super::wire::Side;
use super::super::{Segment, ACK, SYN};
use super::early::Early;
use super::{Connection, Phase};
use crate::record::NO_NAME;

/// If a server resets a connection this soon after the handshake, without data, it refuses it
/// (tcp_abort_on_overflow).
const ABORT_ON_OVERFLOW: i64 = 1_000_000_000;
impl Connection {
    pub(super) fn syn(&mut self, segment: &Segment<'_>, side: Side, ledger: &mut Ledger) {
        let server = self.parties.server;
        let Some(attempt) = &mut self.attempt else {
            return;
        };
        if segment.flags & ACK != 0 {
            if side == Side::Client || !attempt.concerns(segment) {
                return;
            }
            match attempt.answered(segment) {
                Answer::First => {
                    self.phase = Phase::Answered;
                    self.accepted(ledger);
                    if self.takes_early(segment) {
                        self.establish(segment, side, ledger);
                        self.answer_data(segment, ledger);
                    }
                }
                Answer::Copy => ledger.counts.copies += 1,
                Answer::Repeat(loss) => {
                    ledger
                        .servers
                        .tally(server, |tally| tally.synack_repeats += 1);
                    if let Some(loss) = loss {
                        ledger.servers.tally(server, |tally| tally.data_drops += 1);
                        ledger.lost(server, true, loss);
                    }
                }
            }
            return;
        }
        if side == Side::Server {
            return;
        }
        match attempt.syn(segment) {
            Syn::Copy => ledger.counts.copies += 1,
            Syn::Repeat => {
                // A SYN without data cancels nothing: the server may still answer the previous one.
                self.early = Early::of(segment).or(self.early.take());
                self.untell(ledger);
            }
            Syn::AfterAnswer | Syn::Other => {}
        }
    }

    /// Segments after the SYN, until data have gone both ways.
    pub(super) fn handshake(&mut self, segment: &Segment<'_>, side: Side, ledger: &mut Ledger) {
        let server = self.parties.server;
        let Some(attempt) = &mut self.attempt else {
            self.opening = false;
            return;
        };
        if segment.flags & ACK != 0 && !attempt.goes_on(segment, side == Side::Server) {
            ledger.counts.strays += 1;
            return;
        }
        if side == Side::Server {
            if self.phase == Phase::Asking {
                if !attempt.concerns(segment) {
                    return;
                }
                // Its SYN-ACK was not captured.
                attempt.complete(segment);
            }
            let losses = attempt.server_segment(segment);
            ledger
                .servers
                .tally(server, |tally| tally.data_drops += u64::from(losses));
        } else {
            if segment.flags & ACK == 0 {
                return;
            }
            if attempt.complete(segment) {
                attempt.count_once(segment.ip_id);
            }
            if segment.len > 0 {
                if let Some(loss) = attempt.client_data(segment) {
                    ledger.servers.tally(server, |tally| tally.data_drops += 1);
                    ledger.lost(server, true, loss);
                }
            }
        }
        self.establish(segment, side, ledger);
        self.opening = !self.attempt.as_ref().is_some_and(Attempt::server_heard);
    }

    pub(super) fn establish(&mut self, segment: &Segment<'_>, side: Side, ledger: &mut Ledger) {
        if self.phase == Phase::Open {
            return;
        }
        self.phase = Phase::Open;
        self.embody();
        if self.told || self.parties.server == NO_NAME {
            self.untell(ledger);
            self.enlist(Evidence::Guess, ledger);
        }
        self.parties.caller = ledger.servers.call(self.ends[0].ip, &mut ledger.names);
        ledger.servers.tally(self.parties.server, |tally| {
            tally.connections += 1;
            tally.establish();
        });
        self.tell_losses(ledger);
        let (Some(attempt), Some(body)) = (&self.attempt, &mut self.body) else {
            return;
        };
        body.streams[0].start(attempt.first_byte());
        if side == Side::Client {
            body.streams[1].start(segment.ack);
        } else if segment.flags & SYN != 0 {
            body.streams[1].start(segment.seq.wrapping_add(1));
        }
        body.queue.opening = Some(Opening {
            sent: attempt.first_syn,
            accepted: attempt.accepted,
            connected: attempt.connected,
            drops: attempt.drops,
            ready: attempt.completed.max(attempt.accepted),
            asked: false,
            greeted: false,
            shaken: None,
        });
        self.settle_reader(false, ledger);
        self.read_early(segment, side, ledger);
    }

    pub(super) fn reset(&mut self, segment: &Segment<'_>, side: Side, ledger: &mut Ledger) {
        let by_server = side == Side::Server;
        match self.phase {
            Phase::Asking if by_server => {
                if self.concerned_by(segment) {
                    self.untell(ledger);
                    self.fail(Status::Refused, segment.time, ledger);
                    self.close(segment.time, ledger);
                }
            }
            Phase::Asking => {}
            // The kernel of a scanner does not know the connection.
            Phase::Answered => {
                let attempt = self.attempt.as_ref();
                if attempt.is_some_and(|attempt| attempt.is_reset(segment, by_server)) {
                    self.expire(segment.time, ledger);
                }
            }
            Phase::Open => {
                let soon = self.attempt.as_ref().is_some_and(|attempt| {
                    !attempt.server_heard()
                        && segment.time.saturating_sub(attempt.connected) < ABORT_ON_OVERFLOW
                });
                let asked = self
                    .body
                    .as_ref()
                    .is_some_and(|body| body.queue.requests > 0);
                let ended = self
                    .body
                    .as_ref()
                    .is_some_and(|body| body.streams[0].finished());
                if by_server && soon && !asked && !ended {
                    self.fail(Status::Reset, segment.time, ledger);
                }
                let by_client = self.left().unwrap_or(side) == Side::Client;
                self.look_back(segment, side, ledger);
                self.end_all(segment.time, by_client, ledger);
            }
            Phase::Closed => {}
        }
    }

    /// The numbers of a reset may show bytes that are missing in the capture; an answer may be among them.
    fn look_back(&mut self, segment: &Segment<'_>, side: Side, ledger: &mut Ledger) {
        self.settle_reader(true, ledger);
        let Some(body) = &mut self.body else { return };
        let (mine, theirs) = (index(side), index(other(side)));
        let acked =
            segment.flags & ACK != 0 && body.streams[theirs].missing_before(segment.ack) > 0;
        if acked || body.streams[mine].missing_before(segment.seq) > 0 {
            body.queue.server_gap();
        }
    }
}
