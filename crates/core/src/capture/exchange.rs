//! Requests and responses of one connection become visits.
//!
//! Answers come in the order of the requests, so the exchanges of a connection are a queue. The
//! first one includes the cost of opening the connection: `sent` is then the first SYN and
//! `arrival` the SYN that was accepted. This holds only if the client was waiting to send, in which
//! case its first byte follows promptly ([`PROMPT`]). A connection opened in advance (pools,
//! browsers) must not make its first request look slow. If the server speaks first, the first
//! exchange is the login, which belongs to opening the connection, however long a busy client takes
//! for it.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

use super::attempt::Loss;
use super::ledger::{Ledger, Quiet, Status, Traced};
use super::opening::Opening;
use super::servers::Tally;
use super::wire::software::Source;
use super::wire::trace::Trace;
use super::wire::{Exchanges, Outcome, Raw};
use crate::record::{Visit, NO_ID, NO_TIME};

/// A client that waited for its connection writes at once: of 125,000 connections in recordings of
/// a system with both cores saturated at times, the slowest first byte came 31 ms after the
/// handshake (99.9 %: 11 ms). 100 ms leaves room for a slower client, and bounds the error of this
/// rule.
pub const PROMPT: i64 = 100_000_000;
/// The trace of a visit is kept if it lasts so long: half of the shortest repetition of a lost SYN.
pub const TRACED: i64 = 500_000_000;
/// Open exchanges per connection; clients that pipeline send some ten. More means that the capture
/// lacks the responses.
const OPEN_MAX: usize = 1024;

/// Bytes that could not be read, by reason; there are few reasons.
pub type Refused = Vec<(crate::saved::Fixed, u64)>;

/// The connection of the exchanges.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Parties {
    pub server: u32,
    pub caller: u32,
    pub connection: u32,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Exchange {
    interaction: u32,
    key: u64,
    trace: Trace,
    opening: Option<Opening>,
    /// The first on its connection.
    first: bool,
    /// Losses of its bytes, on a connection that was in use.
    lost: u8,
    begin: i64,
    /// When its first bytes reached the server, if they were lost at first.
    arrived: i64,
    /// When the last bytes of the request came.
    last_asked: i64,
    bytes_in: u64,
    /// When the server first sent anything after the request had begun.
    spoke: i64,
    first_byte: i64,
    last_byte: i64,
    bytes_out: u64,
    /// Known, while the end is not.
    outcome: Option<Outcome>,
    /// A hole of the capture may hold its response; what was seen of it last before that.
    hole: i64,
    /// The last bytes of its response are in that hole.
    blind: bool,
    /// Bytes of the client behind it are missing: they may ask for something else.
    overtaken: bool,
    /// Its client stopped waiting then. Its visit ended, but its server may still work for it.
    given_up: i64,
}

impl Exchange {
    fn seen(&self) -> i64 {
        self.last_asked.max(self.last_byte)
    }

    /// The end of its response was not seen, or it may be that of a later request, for that and the answer before may be
    /// in the hole.
    fn is_lost(&self) -> bool {
        self.blind || (self.hole != NO_TIME && self.overtaken)
    }
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Queue {
    open: VecDeque<Exchange>,
    /// Until the first request takes it.
    pub opening: Option<Opening>,
    pub requests: u64,
    /// The newest answer ended here, and no request has come since.
    idle: Option<i64>,
    /// The same, also after one side has ended the connection.
    answered: Option<i64>,
}

impl Queue {
    pub fn len(&self) -> usize {
        self.open.len()
    }

    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Bytes of the newest request were lost and sent again.
    pub fn lost(&mut self, losses: Vec<Loss>, server: u32, ledger: &mut Ledger) {
        let Some(newest) = self.open.back_mut() else {
            return;
        };
        if let (Some(first), Some(last)) = (losses.first(), losses.last()) {
            if first.begin == newest.begin {
                newest.arrived = last.end;
            }
        }
        for loss in losses {
            newest.lost = newest.lost.saturating_add(1);
            ledger.servers.tally(server, |tally| tally.data_drops += 1);
            ledger.lost(server, true, loss);
        }
    }

    /// The server sends bytes.
    pub fn speak(&mut self, time: i64) {
        if let Some(newest) = self.open.back_mut().filter(|it| it.spoke == NO_TIME) {
            newest.spoke = time;
        }
    }

    /// Bytes of the server are sent again: if those of a whole answer, the client does not have it yet.
    pub fn answered_again(&self, server: u32, time: i64, ledger: &mut Ledger) {
        if let Some(since) = self.answered {
            ledger.outlasts(Quiet::RepeatedAnswer, server, since, time);
        }
    }

    /// Bytes of the server are missing. They came no earlier than what was seen of an exchange last. When they ended is
    /// unknown, for the next packet may follow after a long pause of the client.
    pub fn server_gap(&mut self) {
        for exchange in &mut self.open {
            exchange.hole = exchange.hole.max(exchange.seen());
        }
    }

    /// How many requests came, and the bytes of the newest.
    pub fn asked(&self) -> (u64, u64) {
        let bytes = self.open.back().map_or(0, |newest| newest.bytes_in);
        (self.requests, bytes)
    }

    /// Bytes of the client are missing, before which so much was [`asked`](Queue::asked). Those by which the newest
    /// request has grown are its own.
    pub fn client_gap(&mut self, before: (u64, u64)) {
        let now = self.asked();
        let grown = now.0 == before.0 && now.1 > before.1;
        let later = now.0.saturating_sub(before.0) as usize + usize::from(grown);
        let earlier = self.open.len().saturating_sub(later);
        for exchange in self.open.iter_mut().take(earlier) {
            exchange.overtaken = true;
        }
    }

    /// The oldest exchange is answered, its end is unknown, and nothing has come since this moment.
    pub fn answered_since(&self) -> Option<i64> {
        self.open
            .front()
            .filter(|front| front.outcome.is_some())
            .map(|front| front.last_byte)
    }
}

/// Writes what a protocol reads into the queue and the ledger.
pub struct Scribe<'a> {
    pub queue: &'a mut Queue,
    pub ledger: &'a mut Ledger,
    pub parties: Parties,
    /// Losses after the SYN so far: repeats of the first bytes, and of the SYN-ACK.
    pub data_repeats: u8,
    pub answer_repeats: u8,
    /// Set when the protocol gives up.
    pub opaque: Option<&'static str>,
    /// What it could not read.
    pub refused: Refused,
    /// The bytes that it reads are missing in the capture, so nobody knows when they came.
    pub in_hole: bool,
}

impl Scribe<'_> {
    fn close_front(&mut self, status: Status, departure: i64) {
        let Some(exchange) = self.queue.open.pop_front() else {
            return;
        };
        self.ledger
            .servers
            .tally(self.parties.server, |tally| tally.leave());
        if exchange.given_up != NO_TIME {
            let until = departure.max(exchange.given_up);
            let server = self.parties.server;
            return self
                .ledger
                .outlasts(Quiet::LateAnswer, server, exchange.given_up, until);
        }
        let departure = self.write(&exchange, status, departure);
        let answered = matches!(status, Status::Ok | Status::Http(_)) && self.queue.open.is_empty();
        self.queue.idle = answered.then_some(departure);
        self.queue.answered = self.queue.idle;
    }

    /// Writes the visit of an exchange, and returns its departure.
    fn write(&mut self, exchange: &Exchange, status: Status, departure: i64) -> i64 {
        let opening = exchange.opening;
        let repeats = self.data_repeats.saturating_add(if opening.is_some() {
            self.answer_repeats
        } else {
            0
        });
        let lost_first = if exchange.first { repeats } else { 0 };
        let arrival = opening.map_or(exchange.begin, |o| o.arrival(exchange.begin));
        let arrival = arrival.max(exchange.arrived);
        let visit = Visit {
            visit: NO_ID,
            server: self.parties.server,
            caller: self.parties.caller,
            connection: self.parties.connection,
            interaction: exchange.interaction,
            key: exchange.key,
            sent: opening.map_or(exchange.begin, |o| o.sent),
            connected: opening.map_or(NO_TIME, |o| o.connected),
            arrival,
            start: crate::record::NO_TIME,
            first_byte: exchange.first_byte,
            departure: departure.max(exchange.begin).max(arrival),
            drops: opening.map_or(0, |o| o.drops),
            data_drops: lost_first.saturating_add(exchange.lost),
            status: self.ledger.status(status),
            bytes_in: exchange.bytes_in,
            bytes_out: exchange.bytes_out,
            served: true,
            parent: NO_ID,
            request: NO_ID,
            downstream_ns: NO_TIME,
        };
        if exchange.trace.known() && visit.departure.saturating_sub(visit.sent) >= TRACED {
            self.ledger.traced.push(Traced {
                server: visit.server,
                begin: visit.sent,
                end: visit.departure,
                trace: exchange.trace,
            });
        }
        self.sent_slowly(exchange, &visit);
        let departure = visit.departure;
        self.ledger.push(visit);
        departure
    }

    /// A client may send a short request in parts. The kernel of the server takes so much, also if the server reads
    /// nothing (RFC 9293: a window without scaling). A client that waits for the server between the parts is not slow.
    fn sent_slowly(&mut self, exchange: &Exchange, visit: &Visit) {
        let until = exchange.last_asked;
        let asked_for = exchange.spoke != NO_TIME && exchange.spoke < until;
        let short = visit.bytes_in <= u64::from(u16::MAX);
        let lasted = until.saturating_sub(exchange.begin);
        if short && !asked_for && visit.data_drops == 0 && lasted > PROMPT {
            self.ledger
                .outlasts(Quiet::SlowRequest, visit.server, visit.arrival, until);
        }
    }

    /// The client ends the connection, so it waits no longer for the answers that have not begun. The server may not
    /// know that yet: it answers nobody later, or closes the connection when it is done.
    pub fn give_up(&mut self, time: i64) {
        for at in 0..self.queue.open.len() {
            let Some(exchange) = self.queue.open.get_mut(at) else {
                return;
            };
            let waits = exchange.first_byte == NO_TIME && exchange.outcome.is_none();
            if waits && exchange.hole == NO_TIME {
                exchange.given_up = time;
                let exchange = exchange.clone();
                self.write(&exchange, Status::Abandoned, time);
            }
        }
    }

    /// Bytes that one protocol could not read, and another could.
    pub fn read_after_all(&mut self, refused: Refused) {
        self.ledger.servers.tally(self.parties.server, |tally| {
            for (reason, len) in refused {
                if let Some(count) = tally.unreadable.get_mut(reason) {
                    *count = count.saturating_sub(len);
                }
            }
            tally.unreadable.retain(|_, count| *count > 0);
        });
    }

    /// The client asks again, or one side ends the connection, which was kept until now.
    pub fn resume(&mut self, time: i64) {
        let since = self.queue.idle.take().or(self.queue.answered_since());
        if let Some(since) = since.filter(|_| !self.in_hole) {
            self.ledger.kept(self.parties.server, since, time);
        }
    }

    /// Closes the oldest exchange if its outcome is known.
    pub fn close_answered(&mut self) -> bool {
        let Some((outcome, last)) = self
            .queue
            .open
            .front()
            .and_then(|front| Some((front.outcome?, front.last_byte)))
        else {
            return false;
        };
        self.close_as(outcome, last);
        true
    }

    /// The response of the oldest exchange ended, as far as it was seen.
    fn close_as(&mut self, outcome: Outcome, departure: i64) {
        if self.queue.open.front().is_some_and(Exchange::is_lost) {
            self.close_lost();
        } else {
            self.close_front(Status::of(outcome), departure);
        }
    }

    /// The response of the oldest exchange was in a hole of the capture.
    fn close_lost(&mut self) {
        let Some(front) = self.queue.open.front() else {
            return;
        };
        let seen = front.hole.max(front.last_byte);
        self.ledger.counts.responses_unseen += 1;
        self.close_front(Status::Unknown, seen);
    }

    /// The connection is over: every open exchange ends now, complete or not.
    pub fn close_all(&mut self, time: i64, by_client: bool) {
        while let Some(front) = self.queue.open.front() {
            if front.outcome.is_some() {
                self.close_answered();
            } else if front.hole != NO_TIME {
                self.close_lost();
            } else if by_client {
                self.close_front(Status::Abandoned, time);
            } else {
                self.close_front(Status::Reset, time);
            }
        }
    }

    /// The recording is over: answered exchanges are reported, others remain open.
    pub fn close_recording(&mut self) {
        while self.close_answered() {}
        self.close_unseen();
        if let Some(oldest) = self.queue.open.front() {
            let sent = oldest.opening.map_or(oldest.begin, |o| o.sent);
            self.ledger.servers.tally(self.parties.server, |tally| {
                let since = tally.unfinished_since.unwrap_or(sent);
                tally.unfinished_since = Some(since.min(sent));
            });
        }
    }

    /// What was read so far was no exchange, but led to TLS: the first request is still to come.
    pub fn take_back(&mut self) {
        for exchange in self.queue.open.drain(..) {
            self.queue.opening = self.queue.opening.or(exchange.opening);
            self.queue.requests -= 1;
            self.ledger
                .servers
                .tally(self.parties.server, |tally| tally.leave());
        }
    }

    /// Forgets open exchanges, which were read with the roles reversed.
    pub fn forget(&mut self) {
        for _ in self.queue.open.drain(..) {
            self.ledger
                .servers
                .tally(self.parties.server, |tally| tally.leave());
        }
    }

    /// A request comes, or the recording ends, while the oldest one has no complete response, and the capture has a hole
    /// since: the response was in there.
    fn close_unseen(&mut self) {
        while self
            .queue
            .open
            .front()
            .is_some_and(|front| front.hole != NO_TIME)
        {
            self.close_lost();
        }
    }
}

impl Exchanges for Scribe<'_> {
    fn no_login(&mut self) {
        if let Some(opening) = &mut self.queue.opening {
            opening.greeted = false;
        }
    }

    fn request(&mut self, time: i64, raw: Raw<'_>, key: u64) {
        if self.queue.open.len() <= 1 {
            self.resume(time);
        }
        while self.close_answered() {}
        self.close_unseen();
        (self.queue.idle, self.queue.answered) = (None, None);
        if self.queue.open.len() >= OPEN_MAX {
            self.ledger.counts.requests_lost += 1;
            self.queue.open.pop_front();
            self.ledger
                .servers
                .tally(self.parties.server, |tally| tally.leave());
        }
        let opening = self
            .queue
            .opening
            .take()
            .filter(|o| o.greeted || time.saturating_sub(o.ready) <= PROMPT);
        self.queue.requests += 1;
        self.queue.open.push_back(Exchange {
            interaction: self.ledger.interaction(raw),
            key,
            trace: Trace::default(),
            opening,
            first: self.queue.requests == 1,
            lost: 0,
            begin: time,
            arrived: NO_TIME,
            last_asked: time,
            bytes_in: 0,
            spoke: NO_TIME,
            first_byte: NO_TIME,
            last_byte: NO_TIME,
            bytes_out: 0,
            outcome: None,
            hole: NO_TIME,
            blind: false,
            overtaken: false,
            given_up: NO_TIME,
        });
        self.ledger
            .servers
            .tally(self.parties.server, |tally| tally.enter());
    }

    fn rename(&mut self, raw: Raw<'_>, key: u64) {
        let interaction = self.ledger.interaction(raw);
        if let Some(newest) = self.queue.open.back_mut() {
            (newest.interaction, newest.key) = (interaction, key);
        }
    }

    fn trace(&mut self, trace: Trace) {
        if let Some(newest) = self.queue.open.back_mut() {
            newest.trace = trace;
        }
    }

    fn runs(&mut self, source: Source, text: &[u8]) {
        let learn = |tally: &mut Tally| tally.software.take(source, text);
        self.ledger.servers.tally(self.parties.server, learn);
    }

    fn request_bytes(&mut self, time: i64, len: u64) {
        if let Some(newest) = self.queue.open.back_mut() {
            newest.bytes_in += len;
            if !self.in_hole {
                newest.last_asked = newest.last_asked.max(time);
            }
        }
    }

    fn cut_short(&mut self, time: i64) {
        let unanswered = |newest: &&Exchange| newest.first_byte == NO_TIME;
        if let Some(newest) = self.queue.open.back().filter(unanswered) {
            self.ledger
                .silent(self.parties.server, true, newest.last_asked, time);
        }
    }

    fn response_bytes(&mut self, time: i64, len: u64) {
        if let Some(oldest) = self.queue.open.front_mut() {
            if oldest.hole != NO_TIME && oldest.overtaken {
                return;
            }
            oldest.bytes_out += len;
            oldest.blind = self.in_hole;
            if self.in_hole {
                return;
            }
            if oldest.first_byte == NO_TIME {
                oldest.first_byte = time;
            }
            oldest.last_byte = oldest.last_byte.max(time);
        }
    }

    fn turn_to(&mut self, nth: usize) {
        if let Some(exchange) = self.queue.open.remove(nth) {
            self.queue.open.push_front(exchange);
        }
    }

    fn finish(&mut self, outcome: Outcome) {
        if let Some((begin, last)) = self
            .queue
            .open
            .front()
            .map(|front| (front.begin, front.last_byte))
        {
            self.close_as(outcome, last.max(begin));
        }
    }

    fn break_off(&mut self, time: i64, outcome: Outcome) {
        self.close_as(outcome, time);
    }

    fn open_ended(&mut self, outcome: Outcome) {
        if let Some(oldest) = self.queue.open.front_mut() {
            oldest.outcome = Some(outcome);
            oldest.last_byte = oldest.last_byte.max(oldest.begin);
        }
    }

    fn one_way(&mut self) {
        if self.queue.open.pop_back().is_some() {
            self.ledger
                .servers
                .tally(self.parties.server, |tally| tally.leave());
        }
    }

    fn unreadable(&mut self, reason: &'static str, len: u64) {
        if len > 0 {
            let count = |tally: &mut Tally| *tally.unreadable.entry(reason).or_insert(0) += len;
            self.ledger.servers.tally(self.parties.server, count);
            match self.refused.iter_mut().find(|known| known.0 == reason) {
                Some(known) => known.1 += len,
                None => self.refused.push((reason, len)),
            }
        }
    }

    fn opaque(&mut self, reason: &'static str) {
        self.opaque = Some(reason);
    }
}
