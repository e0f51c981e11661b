//! Failed attempts: some are requests of their sender, and others are only counted.
//! ```text
//!   no answer   sent again as a kernel does that, or from a host that opens other connections
//!               to a port that accepts them                        a request that was given up
//!               any other                                          counted apart
//!   refused                                                        a request
//!   answered    asked again as if unheard                          a request that was given up
//!               any other                                          half open: counted apart
//! ```
//!
//! An attempt that is given up may still be answered, so it is remembered for [`LATE`].
//! [`super::super::strangers`] removes scans from the requests.

use super::super::attempt::Attempt;
use super::super::ledger::{Ledger, Quiet, Silence, Status};
use super::super::servers::{Evidence, Tally};
use super::super::Segment;
use super::{Connection, Next, Phase};
use crate::record::{Visit, NO_ID, NO_NAME, NO_TIME};

/// Linux returns ETIMEDOUT after tcp_syn_retries = 6: the last SYN is sent 63 s (67 s) after the
/// first.
const WHOLE_SCHEDULE: i64 = 60_000_000_000;
/// How long a silent attempt is remembered: Linux waits 64 s at most before it repeats a SYN, or
/// (63 s in all) a SYN-ACK.
pub const LATE: i64 = 64_000_000_000;
/// An attempt that is answered is normally younger than this: the shortest wait for a repeated SYN.
const YOUNG: i64 = 1_000_000_000;

impl Connection {
    /// Not yet established: there is no evidence that both ends want it.
    pub fn is_half_open(&self) -> bool {
        matches!(self.phase, Phase::Asking | Phase::Answered)
    }

    pub(super) fn concerned_by(&self, segment: &Segment<'_>) -> bool {
        let attempt = self.attempt.as_ref();
        attempt.is_some_and(|attempt| attempt.concerns(segment))
    }

    /// The server has a name from now on; a SYN alone does not give it one.
    pub(super) fn enlist(&mut self, evidence: Evidence, ledger: &mut Ledger) {
        let known = self.parties.server != NO_NAME;
        if known && evidence == Evidence::Asked {
            return;
        }
        self.parties.server = match evidence {
            Evidence::Syn => ledger.servers.accept(self.ends[1], &mut ledger.names),
            _ => ledger
                .servers
                .find(self.ends[1], evidence, &mut ledger.names),
        };
        let asked = self.attempt.as_ref().is_some_and(|a| a.is_asked());
        ledger.servers.tally(self.parties.server, |tally| {
            tally.attempts += u64::from(asked && !known);
        });
    }

    /// The server answered the SYN.
    pub(super) fn accepted(&mut self, ledger: &mut Ledger) {
        self.untell(ledger);
        self.enlist(Evidence::Syn, ledger);
    }

    /// The losses before the connection was established.
    pub(super) fn tell_losses(&mut self, ledger: &mut Ledger) {
        let (Some(attempt), server) = (&mut self.attempt, self.parties.server) else {
            return;
        };
        let (syns, answers) = (attempt.take_lost(), attempt.take_answers_lost());
        ledger.servers.tally(server, |tally| {
            tally.syn_repeats += syns.len() as u64;
            tally.data_drops += answers.len() as u64;
        });
        for loss in syns {
            ledger.lost(server, false, loss);
        }
        for loss in answers {
            ledger.lost(server, true, loss);
        }
    }

    /// Whether there is evidence that a client made this attempt.
    pub fn is_of_client(&self, ledger: &Ledger) -> bool {
        let known =
            || ledger.servers.calls(self.ends[0].ip) && ledger.servers.accepts(self.ends[1]);
        let steady = |attempt: &Attempt| attempt.is_steady();
        self.was_told || self.attempt.as_ref().is_some_and(steady) || known()
    }

    /// A failed connection attempt: a request of its client, and not a stay in the server.
    pub(super) fn fail(&mut self, status: Status, departure: i64, ledger: &mut Ledger) {
        self.enlist(Evidence::Asked, ledger);
        self.parties.caller = ledger.host(self.ends[0].ip);
        let accepts = ledger.servers.accepts(self.ends[1]);
        ledger
            .servers
            .tally(self.parties.server, |tally| match status {
                Status::Refused | Status::Reset => tally.refused += 1,
                _ => tally.unanswered += 1,
            });
        let Some(attempt) = &mut self.attempt else {
            return;
        };
        attempt.count_once(None);
        let (sent, last) = (attempt.first_syn, attempt.last_syn());
        let (drops, unheard) = (attempt.drops, attempt.unheard());
        let repeats = attempt.data_repeats.saturating_add(attempt.answer_repeats);
        // At a port that accepts nothing, a SYN cannot be said to be lost.
        if accepts {
            self.tell_losses(ledger);
        }
        (self.told, self.was_told) = (true, true);
        if accepts && ledger.servers.serves(self.ends[0].ip) {
            ledger.silences.push(Silence {
                server: self.parties.server,
                of: match status {
                    Status::Refused | Status::Reset => Quiet::RefusedCall,
                    _ => Quiet::UnansweredCall,
                },
                begin: sent,
                end: departure.max(last),
            });
        }
        let status = ledger.status(status);
        ledger.push(Visit {
            visit: NO_ID,
            server: self.parties.server,
            caller: self.parties.caller,
            connection: self.parties.connection,
            interaction: NO_NAME,
            key: 0,
            sent,
            connected: NO_TIME,
            arrival: last,
            start: NO_TIME,
            first_byte: NO_TIME,
            departure: departure.max(last),
            drops,
            data_drops: repeats.max(unheard),
            status,
            bytes_in: 0,
            bytes_out: 0,
            served: false,
            parent: NO_ID,
            request: NO_ID,
            downstream_ns: NO_TIME,
        });
    }

    /// It was reported as given up, and continues. Its outcome is reported again, and
    /// [`super::super::strangers`] uses the newest report.
    pub(super) fn untell(&mut self, ledger: &mut Ledger) {
        if std::mem::take(&mut self.told) {
            let take_back = |tally: &mut Tally| {
                tally.unanswered = tally.unanswered.saturating_sub(1);
            };
            ledger.servers.tally(self.parties.server, take_back);
        }
    }

    /// The kernel of the client gives up at the end of its schedule, which is known. A client that
    /// gives up before that does so at an unknown time after its last SYN, so the request ends there:
    /// it lasted at least so long.
    fn give_up(&mut self, end_of_schedule: i64, ledger: &mut Ledger) {
        let Some(attempt) = &self.attempt else { return };
        let last = attempt.last_syn();
        if last.saturating_sub(attempt.first_syn) >= WHOLE_SCHEDULE {
            self.fail(Status::Timeout, end_of_schedule, ledger);
        } else {
            self.fail(Status::Abandoned, last, ledger);
        }
    }

    pub(super) fn tick_attempt(&mut self, now: i64, ledger: &mut Ledger) -> Next {
        let Some(attempt) = &self.attempt else {
            return Next::Remove;
        };
        let given_up = attempt.given_up_by();
        if now < given_up {
            return Next::Watch;
        }
        if !self.told && self.is_of_client(ledger) {
            self.give_up(given_up, ledger);
        }
        Next::Keep
    }

    /// No more can come for a connection that was not established.
    pub fn expire(&mut self, now: i64, ledger: &mut Ledger) {
        let Some(attempt) = &self.attempt else { return };
        let (begin, last) = (attempt.first_syn, attempt.last_syn());
        let given_up = attempt.given_up_by().min(now.max(last));
        let (sender, server) = (self.ends[0].ip, self.ends[1]);
        match self.phase {
            Phase::Asking if self.told => {}
            Phase::Asking if self.is_of_client(ledger) => self.give_up(given_up, ledger),
            Phase::Asking => ledger.apart.unanswered.count(sender, server, begin, last),
            Phase::Answered if self.was_told || attempt.unheard() > 0 && attempt.is_steady() => {
                self.give_up(given_up, ledger);
            }
            Phase::Answered => {
                ledger.apart.half_open.count(sender, server, begin, last);
                let count = |tally: &mut Tally| tally.half_open += 1;
                ledger.servers.tally(self.parties.server, count);
            }
            Phase::Open | Phase::Closed => return,
        }
        self.close(now, ledger);
    }

    /// The recording ends while the connection is half open. `flooded`: among so many that it
    /// counts as the others do, unless it shows signs of a client.
    pub fn attempt_ends(&mut self, now: i64, flooded: bool, ledger: &mut Ledger) {
        let Some(attempt) = &self.attempt else { return };
        let under_way = match self.phase {
            Phase::Asking => now < attempt.given_up_by(),
            _ => now.saturating_sub(attempt.last_syn()) < YOUNG,
        };
        let waits = self.is_of_client(ledger) || (!flooded && ledger.servers.accepts(self.ends[1]));
        if !under_way || !waits {
            self.expire(now, ledger);
        } else if !self.told {
            self.enlist(Evidence::Asked, ledger);
            let count = |tally: &mut Tally| tally.attempts_unfinished += 1;
            ledger.servers.tally(self.parties.server, count);
        }
    }
}
