//! When the client's hello reached the server: it may take several packets, and the client sends again what nobody
//! acknowledges.

use serde::{Deserialize, Serialize};

use super::Connection;
use crate::capture::attempt::Loss;
use crate::capture::ledger::Ledger;
use crate::capture::quic::order::Ranges;

/// A client waits for 3 round trips of 333 ms at first (RFC 9002); some begin with less. The packets of one flight, and a
/// copy on another interface of the same host, follow within milliseconds.
const AGAIN_MIN: i64 = 20_000_000;
const TRIES_MAX: usize = 32;
/// Packets with parts of a hello that are kept.
const SENT_MAX: usize = 64;

/// The client sends its hello, or a part of it again: the first packet.
#[derive(Clone, Copy, Deserialize, Serialize)]
pub struct Try {
    pub time: i64,
    pub number: u64,
}

/// A packet with a part of the client's hello.
#[derive(Clone, Copy, Deserialize, Serialize)]
pub struct Sent {
    pub number: u64,
    pub from: u64,
    pub to: u64,
}

impl Connection {
    /// The client sends its hello or a part of it, again if nobody has answered it. A hello may take several packets.
    pub(super) fn try_again(&mut self, sent: Sent, time: i64, ledger: &mut Ledger) {
        let again = self
            .sent
            .iter()
            .any(|before| sent.from < before.to && before.from < sent.to);
        if self.sent.len() < SENT_MAX {
            let place = self
                .sent
                .partition_point(|before| before.number <= sent.number);
            self.sent.insert(place, sent);
        }
        let server = self.server(ledger);
        match self.tries.last() {
            Some(_) if !again || self.arrived.is_some() => return,
            Some(last) if time.saturating_sub(last.time) < AGAIN_MIN => return,
            Some(_) => ledger.quic.repeated += 1,
            None => {}
        }
        if !std::mem::replace(&mut self.attempted, true) {
            ledger.servers.tally(server, |tally| tally.attempts += 1);
        }
        if self.tries.len() < TRIES_MAX {
            let number = sent.number;
            self.tries.push(Try { time, number });
        }
    }

    /// The number of the packet with which the client's hello had reached the server as a whole, as its acknowledgements
    /// show.
    fn completed(&self) -> Option<u64> {
        let [message, _] = &self.messages;
        let end = match *message.as_slice() {
            [_, a, b, c, ..] => 4 + u64::from(u32::from_be_bytes([0, a, b, c])),
            _ => self
                .sent
                .iter()
                .map(|sent| sent.to)
                .max()
                .filter(|&end| end > 0)?,
        };
        let mut reached = Ranges::default();
        let acked = &self.spaces[0][0].acked;
        let came = |sent: &&Sent| sent.from < sent.to && acked.has(sent.number);
        self.sent.iter().filter(came).find_map(|sent| {
            reached.add(sent.from, sent.to - 1);
            let whole = |(from, to)| from == 0 && to >= end - 1;
            reached.whole().is_some_and(whole).then_some(sent.number)
        })
    }

    /// The server's first acknowledgements show which packets of the hello reached it. `answered`: it has all of them.
    pub(super) fn settle(&mut self, answered: bool, ledger: &mut Ledger) {
        if self.arrived.is_some() {
            return;
        }
        let first = || self.spaces[0][0].acked.smallest().filter(|_| answered);
        let Some(number) = self.completed().or_else(first) else {
            return;
        };
        let Some(at) = self.tries.iter().rposition(|sent| sent.number <= number) else {
            return;
        };
        self.arrived = Some(self.tries[at].time);
        let server = self.server(ledger);
        for pair in self.tries.windows(2).take(at) {
            let loss = Loss {
                begin: pair[0].time,
                end: pair[1].time,
            };
            ledger.lost(server, false, loss);
        }
        self.drops = u8::try_from(at).unwrap_or(u8::MAX);
        ledger.quic.initials_lost += at as u64;
    }

    /// When the client's hello reached the server: the last one, if no acknowledgement shows which.
    pub(super) fn reached(&self) -> i64 {
        let last = self.tries.last().map(|last| last.time);
        self.arrived.or(last).unwrap_or(self.begun)
    }
}
