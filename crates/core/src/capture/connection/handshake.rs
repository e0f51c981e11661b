//! The handshake of a connection, and what becomes of an attempt that fails.

use super::super::attempt::{Answer, Attempt, Syn};
use super::super::exchange::Opening;
use super::super::ledger::{Ledger, Status};
use super::super::servers::Evidence;
use super::super::wire::Side;
use super::super::{Segment, ACK, SYN};
use super::early::Early;
use super::{Connection, Next, Phase};
use crate::record::{Visit, NO_ID, NO_NAME, NO_TIME};

/// A server that resets a connection so soon after the handshake, unasked, refuses it (tcp_abort_on_overflow).
const ABORT_ON_OVERFLOW: i64 = 1_000_000_000;
/// Linux tells its caller ETIMEDOUT after tcp_syn_retries = 6: the last SYN goes out 63 s (67 s) after the first.
const WHOLE_SCHEDULE: i64 = 60_000_000_000;
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
                    ledger
                        .servers
                        .find(self.ends[1], Evidence::Syn, &mut ledger.names);
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
            Syn::Repeat(loss) => {
                // One without data takes nothing back: the server may still answer the one before.
                self.early = Early::of(segment).or(self.early.take());
                ledger.servers.tally(server, |tally| tally.syn_repeats += 1);
                ledger.lost(server, false, loss);
            }
            Syn::AfterAnswer | Syn::Other => {}
        }
    }

    /// Segments after the SYN and before anything has gone both ways.
    pub(super) fn handshake(&mut self, segment: &Segment<'_>, side: Side, ledger: &mut Ledger) {
        let server = self.parties.server;
        let Some(attempt) = &mut self.attempt else {
            self.opening = false;
            return;
        };
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
            attempt.complete(segment);
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
        ledger.servers.tally(self.parties.server, |tally| {
            tally.connections += 1;
            tally.establish();
        });
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
        });
        self.settle_reader(false, ledger);
        self.read_early(segment, side, ledger);
    }

    pub(super) fn reset(&mut self, segment: &Segment<'_>, side: Side, ledger: &mut Ledger) {
        let by_server = side == Side::Server;
        match self.phase {
            Phase::Asking if by_server => {
                if self
                    .attempt
                    .as_ref()
                    .is_some_and(|attempt| attempt.concerns(segment))
                {
                    ledger
                        .servers
                        .tally(self.parties.server, |tally| tally.refused += 1);
                    self.fail(Status::Refused, segment.time, ledger);
                    self.close(segment.time, ledger);
                }
            }
            Phase::Asking => {}
            Phase::Answered | Phase::Open => {
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
                    ledger
                        .servers
                        .tally(self.parties.server, |tally| tally.refused += 1);
                    self.fail(Status::Reset, segment.time, ledger);
                }
                self.end_all(segment.time, side == Side::Client, ledger);
            }
            Phase::Closed => {}
        }
    }

    /// A connection attempt that came to nothing: a request of its client, and no stay in the server.
    pub(super) fn fail(&mut self, status: Status, departure: i64, ledger: &mut Ledger) {
        let Some(attempt) = &self.attempt else { return };
        let status = ledger.status(status);
        ledger.push(Visit {
            visit: NO_ID,
            server: self.parties.server,
            caller: self.parties.caller,
            connection: self.parties.connection,
            interaction: NO_NAME,
            key: 0,
            sent: attempt.first_syn,
            connected: NO_TIME,
            arrival: attempt.last_syn(),
            start: crate::record::NO_TIME,
            first_byte: NO_TIME,
            departure: departure.max(attempt.last_syn()),
            drops: attempt.drops,
            data_drops: attempt.data_repeats.saturating_add(attempt.answer_repeats),
            status,
            bytes_in: 0,
            bytes_out: 0,
            served: false,
            parent: NO_ID,
            request: NO_ID,
            downstream_ns: NO_TIME,
        });
    }

    pub(super) fn tick_attempt(&mut self, now: i64, ledger: &mut Ledger) -> Next {
        let Some(attempt) = &self.attempt else {
            return Next::Remove;
        };
        let given_up = attempt.given_up_by();
        if now < given_up {
            return Next::Watch;
        }
        let whole = attempt.last_syn().saturating_sub(attempt.first_syn) >= WHOLE_SCHEDULE;
        ledger
            .servers
            .tally(self.parties.server, |tally| tally.unanswered += 1);
        self.fail(
            if whole {
                Status::Timeout
            } else {
                Status::Abandoned
            },
            given_up,
            ledger,
        );
        self.close(now, ledger);
        Next::Watch
    }
}
