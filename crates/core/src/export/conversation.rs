//! The packets of one visit, or of an attempt that never became one, with their times.
//! ```text
//! new:   SYN … SYN  SYN-ACK  ACK  request (… repeated)  │ response ─ response │  FIN
//!        sent       arrival                        first_byte      departure
//! kept:                  request                        │ response ─ response │
//!                        arrival                   first_byte      departure
//! ```
//!
//! Times that the tables do not contain (the time from the SYN to the request) are ten microseconds
//! for each step, or less if there is less time.

use super::stay::{Stay, NO_BYTES};
use super::talk::{Sequences, Side, Talk};
use super::wire::{self, Asked, Outcome, Protocol, Spoken};
use crate::record::NO_TIME;

const STEP: i64 = 10_000;
const SECOND: i64 = 1_000_000_000;
/// The announced length of a response that breaks off exceeds the bytes sent.
const CUT_OFF: u64 = 1000;
/// The decoder ends an unreadable response after a silence of some seconds, so there must be no
/// such silence.
const OPAQUE_SILENCE: i64 = 2 * SECOND;
/// The first segment of a response identifies it: a header and a byte of every protocol.
const TELLING: u64 = 5;

/// How a visit ends, by its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Answered(Outcome),
    /// The server resets the connection.
    Reset,
    /// The client gives up.
    Left,
    /// The response is not in the capture.
    Unseen,
    Refused,
}

impl Ending {
    /// Whether it reads back as this status.
    pub fn of(status: &str) -> (Ending, bool) {
        match status {
            "ok" => (Ending::Answered(Outcome::Ok), true),
            "reset" => (Ending::Reset, true),
            "abandoned" => (Ending::Left, true),
            "timeout" => (Ending::Left, false),
            "unknown" => (Ending::Unseen, true),
            "refused" => (Ending::Refused, true),
            _ => answered(status),
        }
    }
}

fn answered(status: &str) -> (Ending, bool) {
    let (outcome, kept) = match (status.parse(), status.strip_prefix("error-")) {
        (Ok(code @ 400..=999), _) => (Outcome::Code(code), true),
        (Ok(_), _) => (Outcome::Ok, false),
        (_, Some(number)) => match number.parse() {
            Ok(number) => (Outcome::Error(number), true),
            Err(_) => (Outcome::Error(1), false),
        },
        _ => (Outcome::Code(500), false),
    };
    (Ending::Answered(outcome), kept)
}

/// A visit and its connection.
pub struct Visit<'a> {
    pub stay: &'a Stay,
    pub ending: Ending,
    pub interaction: Option<&'a str>,
    pub host: &'a str,
    pub protocol: Protocol,
    /// The time of every SYN; empty on a kept connection.
    pub syns: Vec<i64>,
    /// The time of the SYN-ACK, if known.
    pub connected: i64,
    pub next: Sequences,
    pub segment_max: u64,
    /// The connection stays open for other visits.
    pub stays_open: bool,
}

/// The packets, and the values of the visit that they do not carry.
pub struct Told {
    pub talk: Talk,
    pub changed: Vec<&'static str>,
}

impl Visit<'_> {
    pub fn is_login(&self) -> bool {
        wire::is_login(self.protocol, self.interaction)
    }

    pub fn talk(&self) -> Told {
        let spoken = wire::speak(self.protocol, &self.asked());
        let mut changed = self.changed(&spoken);
        let mut talk = Talk::new(
            [spoken.up.clone(), spoken.down.clone()],
            self.next,
            self.segment_max,
        );
        self.request(&mut talk, spoken.greeting);
        self.response(&mut talk, &spoken, &mut changed);
        Told { talk, changed }
    }

    fn asked(&self) -> Asked<'_> {
        let known = |bytes: u64| Some(bytes).filter(|&bytes| bytes != NO_BYTES);
        let bytes_out = known(self.stay.bytes_out);
        let (outcome, bytes_out) = match self.ending {
            Ending::Answered(outcome) => (outcome, bytes_out),
            _ => (Outcome::Ok, bytes_out.map(|bytes| bytes.max(CUT_OFF) * 2)),
        };
        Asked {
            interaction: self.interaction,
            host: self.host,
            bytes_in: known(self.stay.bytes_in),
            bytes_out,
            outcome,
        }
    }

    fn changed(&self, spoken: &Spoken) -> Vec<&'static str> {
        let stay = self.stay;
        let waited = stay.drops == 0 && stay.sent < stay.arrival && !self.is_login();
        let answering = stay.first_byte != NO_TIME;
        // Some ends cannot be distinguished: a client that leaves during an answer, and errors on
        // an unreadable connection.
        let unlike = match self.ending {
            Ending::Left => answering,
            Ending::Reset => self.protocol == Protocol::Opaque && answering,
            Ending::Unseen => self.protocol == Protocol::Opaque,
            Ending::Answered(_) | Ending::Refused => !spoken.kept.outcome,
        };
        // Nobody knows when the bytes in a hole came.
        let hidden = self.ending == Ending::Unseen;
        [
            (!spoken.kept.name, "interaction"),
            (!spoken.kept.bytes, "bytes"),
            (unlike, "status"),
            (waited, "sent"),
            (hidden && answering, "first byte"),
            (hidden && stay.arrival < stay.departure, "end"),
        ]
        .into_iter()
        .filter_map(|(is_so, what)| is_so.then_some(what))
        .collect()
    }

    /// The time by which the server begins to answer.
    fn limit(&self) -> i64 {
        match self.stay.first_byte {
            NO_TIME => self.stay.departure,
            first_byte => first_byte,
        }
    }

    fn request(&self, talk: &mut Talk, greeting: u64) {
        let (arrival, limit) = (self.stay.arrival, self.limit());
        let mut begin = arrival;
        if !self.syns.is_empty() {
            begin = if greeting > 0 {
                self.greet(talk, greeting)
            } else {
                self.open(talk)
            };
        }
        let up = (0, talk.messages[0].len());
        let repeats = if self.syns.is_empty() || greeting > 0 {
            0
        } else {
            self.stay.data_drops
        };
        talk.bytes(Side::Client, (begin, begin), up, 1, repeats == 0);
        let mut last = begin;
        for time in super::losses::repetitions(begin, limit, repeats) {
            talk.first_again(time);
            last = time;
        }
        if limit > last {
            talk.ack(limit.min(last.saturating_add(STEP)), Side::Server);
        }
    }

    /// From SYN to ACK; returns when the request is sent.
    fn open(&self, talk: &mut Talk) -> i64 {
        let (arrival, limit) = (self.stay.arrival, self.limit());
        talk.syns(&self.syns);
        let connected = if (arrival..=limit).contains(&self.connected) {
            self.connected
        } else {
            arrival + STEP.min((limit - arrival) / 4)
        };
        let step = STEP.min((limit - connected) / 3);
        talk.syn_ack(connected);
        talk.ack(connected + step, Side::Client);
        connected + 2 * step
    }

    /// The server speaks first. The login arrives after the greeting at the same distance as the
    /// visit after its SYN, because the time of a busy client is not the server's.
    fn greet(&self, talk: &mut Talk, greeting: u64) -> i64 {
        let (stay, limit) = (self.stay, self.limit());
        let accepted = if stay.drops == 0 {
            stay.sent
        } else {
            stay.arrival
        };
        let step = STEP.min((limit - stay.arrival) / 8);
        talk.syns(&self.syns);
        talk.syn_ack(accepted + step);
        talk.ack(accepted + 2 * step, Side::Client);
        for _ in 0..stay.data_drops {
            talk.syn_ack_again(accepted + 3 * step);
        }
        let greeted = accepted + 4 * step;
        talk.bytes(Side::Server, (greeted, greeted), (0, greeting), 1, false);
        stay.arrival + 4 * step
    }

    fn response(&self, talk: &mut Talk, spoken: &Spoken, changed: &mut Vec<&'static str>) {
        let departure = self.stay.departure;
        match self.ending {
            Ending::Answered(_) => {
                self.answer(talk, spoken, changed);
                self.end(talk);
            }
            Ending::Reset | Ending::Left | Ending::Refused => {
                self.part_of_answer(talk, spoken);
                let side = match self.ending {
                    Ending::Left => Side::Client,
                    _ => Side::Server,
                };
                talk.reset(departure, side);
            }
            Ending::Unseen => {
                let len = Some(self.stay.bytes_out).filter(|&bytes| bytes != NO_BYTES);
                talk.unseen(Side::Server, len.unwrap_or(1).max(1));
                talk.fin(departure, Side::Client);
                talk.fin(departure, Side::Server);
                talk.ack(departure, Side::Client);
            }
        }
    }

    fn answer(&self, talk: &mut Talk, spoken: &Spoken, changed: &mut Vec<&'static str>) {
        let (from, to) = (spoken.greeting, spoken.down.len());
        let (first, last) = (self.limit(), self.stay.departure);
        let tail = spoken.tail.min(to - from);
        let (cut, pieces) = match to - from {
            _ if tail > 0 => (to - tail, 1),
            1 if first < last => {
                changed.push("first byte");
                (from, 1)
            }
            _ if first == last => (to, 1),
            len if self.protocol == Protocol::Opaque => {
                let pieces = 2 + (last - first) / OPAQUE_SILENCE;
                (to, (pieces as u64).min(len))
            }
            len if len <= self.segment_max => (from + (len / 2).max(TELLING.min(len - 1)), 1),
            _ => (to, 1),
        };
        let mut end = last;
        if cut < to {
            // The first part leaves its last share of the time to what follows.
            let segments = (cut - from).div_ceil(self.segment_max).max(1) as i64;
            end = first + ((last - first) / segments) * (segments - 1);
        }
        talk.bytes(Side::Server, (first, end), (from, cut), pieces, true);
        talk.bytes(Side::Server, (last, last), (cut, to), 1, true);
    }

    /// A response that breaks off.
    fn part_of_answer(&self, talk: &mut Talk, spoken: &Spoken) {
        let (first, last) = (self.stay.first_byte, self.stay.departure);
        if first == NO_TIME {
            return;
        }
        let head = spoken.down.head.len() as u64;
        let came = match self.stay.bytes_out {
            NO_BYTES => head,
            bytes => bytes,
        };
        let to = came.clamp(1, spoken.down.len().saturating_sub(1).max(1));
        talk.bytes(Side::Server, (first, last), (0, to), 1, true);
    }

    /// The client acknowledges and keeps the connection, or both sides close it.
    fn end(&self, talk: &mut Talk) {
        let departure = self.stay.departure;
        if self.stays_open {
            return talk.ack(departure, Side::Client);
        }
        let [first, second] = match self.protocol {
            Protocol::Http => [Side::Server, Side::Client],
            _ => [Side::Client, Side::Server],
        };
        let after = |steps: i64| departure.saturating_add(steps * STEP);
        talk.fin(after(1), first);
        talk.fin(after(2), second);
        talk.ack(after(3), first);
    }
}

/// An attempt that never became a visit: the SYNs, and the failure that the client sees.
pub fn failed(status: &str, syns: &[i64], end: i64, next: Sequences) -> Talk {
    let mut talk = Talk::new(Default::default(), next, 1);
    talk.syns(syns);
    let last = syns.last().copied().unwrap_or(end);
    match status {
        "refused" => talk.reset(end.max(last), Side::Server),
        "reset" => {
            let answered = last.max(end.saturating_sub(2 * STEP));
            talk.syn_ack(answered);
            talk.ack(answered, Side::Client);
            talk.reset(end.max(answered), Side::Server);
        }
        _ => {}
    }
    talk
}
