//! Messages with a length and a number, by which a response names its request: MongoDB, Kafka, Cassandra, LDAP, AMQP,
//! DNS over TCP, and memcached's binary form. Each of them is a [`Dialect`]; what they have in common is here.
//!
//! ```text
//! client  request 7 │ request 8 │             request 9 │
//! server                response 8 │ response 7 │           response 9, part │ response 9, its end
//! ```
//! Responses may come in any order and in several parts. A request that waits for news by the client's wish (a long poll)
//! is no exchange: its length is no service. Where headers cannot be seen, a request is what the client sends after the
//! server has sent something.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::ops::RangeInclusive;

use super::framing::{Framer, Input, Packet, Step};
use super::waiting::Waiting;
use super::{Chunk, Exchanges, Outcome, Protocol, Raw, Side};

/// Requests that are open at once on one connection. More means that the other direction is missing
/// from the capture: clients of these protocols bound them to some hundreds, and only Cassandra's to 2,048.
const OPEN_MAX: usize = 1024;
/// Numbers of long polls whose responses are still to come.
const POLLS_MAX: usize = 64;

/// What a message of the client is.
pub(super) enum Asks<'a, N> {
    Request {
        number: u64,
        raw: Raw<'a>,
        note: N,
    },
    /// It is answered when there is news.
    Waits(u64),
    /// A part of the newest request.
    Continues,
    /// It gets no response.
    OneWay,
    /// The request of this number is taken back.
    Cancels(u64),
    /// The capture lacks what would show it.
    Unseen,
    Unreadable,
}

/// Whose response a message of the server is.
pub(super) enum Answers {
    To(u64),
    /// All open requests in a range of numbers.
    ToAll(RangeInclusive<u64>),
    /// The oldest open request's, which goes on; nobody's if there is none.
    ToOldest,
    /// It was not asked for.
    News,
    /// The capture lacks what would show it.
    Unseen,
    Unreadable,
}

/// What a message of a response says.
pub(super) struct Reply {
    pub outcome: Outcome,
    pub last: bool,
    /// What follows on the connection cannot be read, for this reason.
    pub opaque: Option<&'static str>,
}

impl Reply {
    pub fn last(outcome: Outcome) -> Reply {
        Reply {
            outcome,
            last: true,
            opaque: None,
        }
    }

    pub fn part() -> Reply {
        Reply {
            last: false,
            ..Reply::last(Outcome::Ok)
        }
    }
}

/// One of these protocols. It must accept any bytes: a packet may be cut anywhere behind its header.
pub(super) trait Dialect: Default + Send + Serialize + DeserializeOwned {
    const KIND: crate::capture::wire::Kind;
    /// What is remembered of a request until its response.
    type Note: Send + Serialize + DeserializeOwned;
    /// Lengths of the headers of requests and responses, and bytes gathered behind them.
    const HEADERS: [usize; 2];
    const GATHERED: [usize; 2];
    /// Why bytes of the client cannot be read.
    const NOT_A_REQUEST: &'static str;
    /// An open request's number is not used again.
    const UNIQUE: bool;
    /// Responses come in the order of the requests.
    const IN_ORDER: bool;

    /// Length behind the header; None: this cannot be a header.
    fn request_len(header: &[u8]) -> Option<u64>;
    fn response_len(header: &[u8]) -> Option<u64>;
    /// Whether a message begins with these first bytes of a segment.
    fn request_here(first: &[u8]) -> bool;
    fn response_here(first: &[u8], is_open: &dyn Fn(u64) -> bool) -> bool;
    fn asks<'a>(&'a mut self, packet: &'a Packet<'_>) -> Asks<'a, Self::Note>;
    fn answers(&mut self, packet: &Packet<'_>) -> Answers;
    fn reads(&mut self, packet: &Packet<'_>, note: &mut Self::Note) -> Reply;
}

#[derive(Deserialize, Serialize)]
#[serde(bound = "")]
pub(super) struct Paired<D: Dialect> {
    client: Framer,
    server: Framer,
    talk: Talk<D>,
}

#[derive(Deserialize, Serialize)]
#[serde(bound = "")]
struct Talk<D: Dialect> {
    dialect: D,
    waiting: Waiting<Asked<D::Note>>,
    polls: VecDeque<u64>,
    /// Of the newest request; whether the client's current bytes belong to it.
    newest: u64,
    growing: bool,
    /// The server sent something since the newest request.
    turned: bool,
    /// The server's current message, and the serial of its request.
    part: Part,
    answering: u64,
    /// Bytes of the server could not be read.
    unseen: bool,
    opaque: bool,
}

#[derive(Deserialize, Serialize)]
struct Asked<N> {
    serial: u64,
    /// None: its header was not captured.
    asked: Option<(u64, N)>,
    answered: bool,
    outcome: Outcome,
}

impl<N> Asked<N> {
    fn is_in(&self, numbers: &RangeInclusive<u64>) -> bool {
        let asked = self.asked.as_ref();
        asked.is_some_and(|(number, _)| numbers.contains(number))
    }
}

/// What the server's current message is.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize)]
enum Part {
    OfNone,
    OfResponse,
    /// The end of the responses to these requests, the first of which is the oldest.
    Last(RangeInclusive<u64>),
}

impl<D: Dialect> Default for Paired<D> {
    fn default() -> Self {
        Paired {
            client: Framer::new(D::HEADERS[0], D::GATHERED[0], D::request_len),
            server: Framer::new(D::HEADERS[1], D::GATHERED[1], D::response_len),
            talk: Talk {
                dialect: D::default(),
                waiting: Waiting::default(),
                polls: VecDeque::new(),
                newest: 0,
                growing: false,
                turned: false,
                part: Part::OfNone,
                answering: 0,
                unseen: false,
                opaque: false,
            },
        }
    }
}

impl<D: Dialect> Protocol for Paired<D> {
    fn saved(&self) -> super::Result<super::State> {
        super::state(D::KIND, self)
    }

    fn correlates(&self) -> bool {
        D::UNIQUE
    }

    fn revive(&mut self) {
        let new = Self::default();
        self.client.adopt(new.client);
        self.server.adopt(new.server);
    }

    fn data(&mut self, side: Side, chunk: Chunk<'_>, out: &mut dyn Exchanges) {
        let mut input = Input::new(chunk);
        match side {
            Side::Client => {
                if self.client.lost() && D::request_here(input.bytes()) {
                    self.client.resync();
                }
                self.client_input(&mut input, false, out);
            }
            Side::Server => {
                if self.server.lost() && self.talk.response_here(input.bytes()) {
                    self.server.resync();
                }
                self.server_input(&mut input, false, out);
            }
        }
    }

    fn gap(&mut self, side: Side, time: i64, len: u64, out: &mut dyn Exchanges) {
        if self.talk.opaque {
            return;
        }
        if len == 0 {
            self.lose(side, out);
        }
        out.unreadable("lost in the capture", len);
        let mut hole = Input::hole(time, len);
        match side {
            Side::Client => self.client_input(&mut hole, true, out),
            Side::Server => {
                self.talk.waiting.hole();
                self.server_input(&mut hole, true, out);
            }
        }
    }

    fn end(&mut self, side: Side, _time: i64, out: &mut dyn Exchanges) {
        if self.talk.opaque {
            return;
        }
        self.lose(side, out);
        if side == Side::Server && !self.talk.opaque {
            self.talk.end(out);
        }
    }
}

impl<D: Dialect> Paired<D> {
    pub(super) fn dialect(&self) -> &D {
        &self.talk.dialect
    }

    /// This side breaks off: the gathered part of a message is used.
    fn lose(&mut self, side: Side, out: &mut dyn Exchanges) {
        match side {
            Side::Client => {
                if let Some(packet) = self.client.lose() {
                    let time = packet.begun;
                    self.talk.request(&packet, time, out);
                }
                self.talk.growing = false;
            }
            Side::Server => {
                let _ = self.server.lose();
                self.talk.part = Part::OfNone;
                self.talk.tell(out);
            }
        }
    }

    fn client_input(&mut self, input: &mut Input<'_>, hole: bool, out: &mut dyn Exchanges) {
        while !self.talk.opaque {
            let cut = input.cut();
            match self.client.next(input) {
                None => break,
                Some(Step::Packet(packet)) => self.talk.request(&packet, input.time, out),
                Some(Step::More { now, .. }) => {
                    self.talk.grow(now, input.time, out);
                }
                Some(Step::Lost(_)) if hole => {}
                Some(Step::Lost(n)) => self.talk.unread(n, cut, input.time, out),
            }
        }
    }

    fn server_input(&mut self, input: &mut Input<'_>, hole: bool, out: &mut dyn Exchanges) {
        self.talk.turned |= input.len() > 0;
        while !self.talk.opaque {
            match self.server.next(input) {
                None => break,
                Some(Step::Packet(packet)) => self.talk.response(&packet, input.time, out),
                Some(Step::More { now, over }) => self.talk.more(now, over, input.time, out),
                Some(Step::Lost(_)) if hole => self.talk.unseen = true,
                Some(Step::Lost(n)) => self.talk.unseen(n, input.time, out),
            }
        }
    }
}

impl<D: Dialect> Talk<D> {
    fn become_opaque(&mut self, reason: &'static str, out: &mut dyn Exchanges) {
        self.opaque = true;
        self.waiting.clear();
        out.opaque(reason);
    }

    // The client's side.

    fn request(&mut self, packet: &Packet<'_>, time: i64, out: &mut dyn Exchanges) {
        let bytes = packet.early + packet.now;
        match self.dialect.asks(packet) {
            Asks::Request { number, raw, note } => {
                ask::<D>(
                    (&mut self.waiting, &mut self.newest),
                    Some((number, note)),
                    packet.begun,
                    raw,
                    out,
                );
                self.asked(out);
                self.grow(bytes, time, out);
            }
            Asks::Continues => {
                self.grow(bytes, time, out);
            }
            Asks::Waits(number) => {
                self.growing = false;
                if self.polls.len() >= POLLS_MAX {
                    self.polls.pop_front();
                }
                self.polls.push_back(number);
            }
            Asks::OneWay => self.growing = false,
            Asks::Cancels(number) => {
                self.growing = false;
                self.polls.retain(|&poll| poll != number);
                if let Some(nth) = self.nth(&(number..=number)) {
                    self.turn_to(nth, out);
                    self.waiting.break_off(time, Outcome::Aborted, out);
                }
            }
            Asks::Unseen => self.unread(bytes, true, time, out),
            Asks::Unreadable => {
                self.growing = false;
                out.unreadable(D::NOT_A_REQUEST, bytes);
            }
        }
    }

    /// A request was reported.
    fn asked(&mut self, out: &mut dyn Exchanges) {
        (self.growing, self.turned) = (true, false);
        if self.waiting.len() > OPEN_MAX {
            self.become_opaque("requests without responses", out);
        }
    }

    /// Bytes of the newest request. Of several simultaneous requests, only the newest can grow.
    fn grow(&mut self, n: u64, time: i64, out: &mut dyn Exchanges) -> bool {
        let newest = self.newest;
        let open = self.waiting.back_mut();
        let grows = self.growing && !self.opaque && open.is_some_and(|open| open.serial == newest);
        if grows {
            out.request_bytes(time, n);
        }
        grows
    }

    /// Bytes of the client without a header that can be read: of the newest request if the server has not sent anything
    /// since, else of a new one, if it was the capture that left out the header.
    fn unread(&mut self, n: u64, cut: bool, time: i64, out: &mut dyn Exchanges) {
        if cut && (self.turned || self.waiting.is_empty()) {
            ask::<D>(
                (&mut self.waiting, &mut self.newest),
                None,
                time,
                Raw::Unknown,
                out,
            );
            self.asked(out);
        }
        self.growing &= !self.turned;
        if !self.opaque && !self.grow(n, time, out) {
            out.unreadable(D::NOT_A_REQUEST, n);
        }
    }

    // The server's side.

    fn response(&mut self, packet: &Packet<'_>, time: i64, out: &mut dyn Exchanges) {
        self.part = Part::OfNone;
        let bytes = packet.early + packet.now;
        let numbers = match self.dialect.answers(packet) {
            Answers::To(number) => number..=number,
            Answers::ToAll(numbers) => numbers,
            Answers::ToOldest if self.waiting.is_empty() => return,
            Answers::ToOldest => {
                self.part = Part::OfResponse;
                return self.add(packet, time, out);
            }
            Answers::Unseen if self.is_due() => {
                self.part = Part::OfResponse;
                self.add(packet, time, out);
                return self.tell(out);
            }
            Answers::Unseen => return self.unseen(bytes, time, out),
            Answers::News => return,
            Answers::Unreadable => {
                return out.unreadable("not a response of its protocol", bytes);
            }
        };
        if let Some(at) = self.polls.iter().position(|poll| numbers.contains(poll)) {
            self.polls.remove(at);
            return;
        }
        let nth = self.nth(&numbers);
        let Some(nth) = nth.or_else(|| self.waiting.position(|open| open.asked.is_none())) else {
            if numbers.start() == numbers.end() {
                out.unreadable("a response without its request", bytes);
            }
            return;
        };
        self.turn_to(nth, out);
        let reply = match self.waiting.front_mut() {
            Some(Asked {
                asked: Some((_, note)),
                ..
            }) => self.dialect.reads(packet, note),
            _ => Reply::last(Outcome::Ok),
        };
        if let Some(front) = self.waiting.front_mut() {
            (front.answered, front.outcome) = (true, reply.outcome);
        }
        self.part = match reply.last {
            true => Part::Last(numbers),
            false => Part::OfResponse,
        };
        self.add(packet, time, out);
        if let (Some(reason), false) = (reply.opaque, self.opaque) {
            self.become_opaque(reason, out);
        }
    }

    fn add(&mut self, packet: &Packet<'_>, time: i64, out: &mut dyn Exchanges) {
        self.answering = self.waiting.front().map_or(0, |front| front.serial);
        if packet.early > 0 {
            self.waiting.bytes(packet.begun, packet.early, out);
        }
        self.more(packet.now, packet.over, time, out);
    }

    /// Bytes of the current message.
    fn more(&mut self, n: u64, over: bool, time: i64, out: &mut dyn Exchanges) {
        let front = self.waiting.front();
        let known = front.is_some_and(|front| front.serial == self.answering);
        if !known || self.part == Part::OfNone {
            return;
        }
        self.waiting.bytes(time, n, out);
        if !over {
            return;
        }
        if let Part::Last(numbers) = std::mem::replace(&mut self.part, Part::OfNone) {
            self.answered(&numbers, time, out);
        }
    }

    /// The oldest request is answered, and so are all of these numbers.
    fn answered(&mut self, numbers: &RangeInclusive<u64>, time: i64, out: &mut dyn Exchanges) {
        let outcome = self.outcome();
        self.waiting.finish(outcome, out);
        let several = numbers.start() < numbers.end();
        while let Some(nth) = self.nth(numbers).filter(|_| several) {
            self.turn_to(nth, out);
            out.response_bytes(time, 0);
            self.waiting.finish(outcome, out);
        }
    }

    /// Bytes without a header that can be read: of the response that is under way, or due.
    fn unseen(&mut self, n: u64, time: i64, out: &mut dyn Exchanges) {
        self.part = Part::OfNone;
        self.unseen = true;
        if self.is_due() {
            self.waiting.bytes(time, n, out);
            self.tell(out);
        } else {
            out.unreadable("not a response of its protocol", n);
        }
    }

    /// What the server sends is the response to the oldest request.
    fn is_due(&self) -> bool {
        self.waiting.answering() || self.waiting.len() == 1
    }

    /// The server sends no more. Bytes of it that could not be read may have held the ends of the open responses, or all
    /// of them.
    fn end(&mut self, out: &mut dyn Exchanges) {
        if !std::mem::take(&mut self.unseen) {
            return;
        }
        while let Some(nth) = self.waiting.position(|open| open.answered) {
            self.turn_to(nth, out);
            self.finish(out);
        }
        if self.waiting.told() {
            self.finish(out);
        }
        while self.waiting.pop_back().is_some() {
            out.one_way();
        }
    }

    fn nth(&self, numbers: &RangeInclusive<u64>) -> Option<usize> {
        self.waiting.position(|open| open.is_in(numbers))
    }

    /// The nth oldest becomes the oldest. The oldest is over if its end could not be seen; and if responses come in
    /// order, so are all before the nth.
    fn turn_to(&mut self, mut nth: usize, out: &mut dyn Exchanges) {
        while nth > 0 && (self.waiting.told() || D::IN_ORDER) {
            self.finish(out);
            nth -= 1;
        }
        self.waiting.turn_to(nth, out);
    }

    /// Of the oldest request, as far as it is known.
    fn outcome(&self) -> Outcome {
        let oldest = self.waiting.front();
        oldest.map_or(Outcome::Ok, |asked| asked.outcome)
    }

    fn finish(&mut self, out: &mut dyn Exchanges) {
        self.waiting.finish(self.outcome(), out);
    }

    fn tell(&mut self, out: &mut dyn Exchanges) {
        if self.waiting.answering() {
            self.waiting.tell(self.outcome(), out);
        }
    }

    /// Whether a response to an open request begins with these first bytes of a segment.
    fn response_here(&self, first: &[u8]) -> bool {
        let is_open =
            |number: u64| self.polls.contains(&number) || self.nth(&(number..=number)).is_some();
        D::response_here(first, &is_open)
    }
}

/// Reports a request. One that is still open with the same number is over, if numbers are unique: its end was missed.
fn ask<D: Dialect>(
    (waiting, newest): (&mut Waiting<Asked<D::Note>>, &mut u64),
    asked: Option<(u64, D::Note)>,
    time: i64,
    raw: Raw<'_>,
    out: &mut dyn Exchanges,
) {
    let number = asked.as_ref().map(|(number, _)| *number);
    let again = number.filter(|_| D::UNIQUE).and_then(|number| {
        let numbers = number..=number;
        waiting.position(|open| open.is_in(&numbers))
    });
    if let Some(nth) = again {
        waiting.turn_to(nth, out);
        waiting.finish(Outcome::Ok, out);
    }
    *newest += 1;
    waiting.before_request();
    waiting.push(Asked {
        serial: *newest,
        asked,
        answered: false,
        outcome: Outcome::Ok,
    });
    out.request(time, raw, 0);
}
