//! DNS over UDP: a query and its response are a visit of a name server. The client of a request waits for a name before it
//! connects, for 5 s where a packet was lost and the C library's default is in force.
//!
//! ```text
//! client  A? ──────────── 5 s ────────────▶ A? again        sent: the first query, arrival: the one that was answered
//! server      (lost)                             response   departure
//! ```
//! A query is known by its client, its id and its question, since the next try may go to another server. A query without
//! a response makes no visit, and is counted. Source: RFC 1035, sections 4.1 and 4.2.1; resolv.conf(5) for the timeouts.

use std::hash::Hasher;
use std::net::IpAddr;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::attempt::Loss;
use super::ledger::{Ledger, Status};
use super::packet::u16_at;
use super::servers::Evidence;
use super::wire::{dns, Kind, Raw};
use super::{Endpoint, Segment};
use crate::record::{Visit, NO_ID, NO_TIME};

pub const PORT: u16 = 53;
const HEADER: usize = 12;
/// Bytes of a question: a name, a type and a class.
const QUESTION_MAX: usize = 259;
/// Resolvers wait a second or more (musl 2.5 s, c-ares 2 s, Go and glibc 5 s), systemd-resolved 0.5 s at first. A copy on
/// another interface of the same host follows within milliseconds.
const AGAIN_MIN: i64 = 100_000_000;
/// The longest timeout that resolv.conf(5) accepts. The same id and question after it are those of another query.
const AGAIN_MAX: i64 = 30_000_000_000;
/// Five attempts at each of three servers are the most of resolv.conf(5).
const TRIES_MAX: usize = 15;
/// Queries without a response so far. When there are more, the older half is given up.
const OPEN_MAX: usize = 4096;

/// The client and what it asks for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Deserialize, Serialize)]
struct Query {
    client: IpAddr,
    id: u16,
    question: u64,
}

#[derive(Deserialize, Serialize)]
struct Asked {
    tries: Vec<Try>,
    /// The type of the question.
    #[serde(with = "crate::saved::fixed")]
    name: crate::saved::Fixed,
    bytes: u64,
    /// The server of the first try, where the query counts as a visit.
    entered: u32,
}

#[derive(Clone, Copy, Deserialize, Serialize)]
struct Try {
    time: i64,
    to: Endpoint,
}

impl Asked {
    fn last(&self) -> i64 {
        self.tries.last().map_or(i64::MIN, |last| last.time)
    }

    fn is_over(&self, now: i64) -> bool {
        now.saturating_sub(self.last()) > AGAIN_MAX
    }

    /// The try that this end answers: the last one to it, or else (behind a translation of addresses) the last one.
    fn answered_by(&self, from: Endpoint) -> usize {
        let to_it = self.tries.iter().rposition(|sent| sent.to == from);
        to_it.unwrap_or(self.tries.len().saturating_sub(1))
    }
}

#[derive(Default, Deserialize, Serialize)]
pub struct Lookups {
    open: FxHashMap<Query, Asked>,
}

/// The longest wait is that for a response, since the first try.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Report {
    pub queries: u64,
    /// Tries after the first.
    pub repeated: u64,
    pub unanswered: u64,
    pub longest_ns: i64,
}

impl Lookups {
    /// A datagram from or to [`PORT`].
    pub fn datagram(&mut self, segment: &Segment<'_>, ledger: &mut Ledger) {
        let Some(message) = Message::of(segment.payload) else {
            return;
        };
        let query = |client| Query {
            client,
            id: message.id,
            question: message.question,
        };
        match message.code {
            None if segment.to.port == PORT => {
                self.asked(query(segment.from.ip), message.name, segment, ledger);
            }
            Some(code) if segment.from.port == PORT => {
                self.answered(query(segment.to.ip), code, segment, ledger);
            }
            _ => {}
        }
    }

    fn asked(
        &mut self,
        query: Query,
        name: &'static str,
        segment: &Segment<'_>,
        ledger: &mut Ledger,
    ) {
        let sent = Try {
            time: segment.time,
            to: segment.to,
        };
        match self.open.get_mut(&query) {
            Some(asked) if asked.is_over(segment.time) => {}
            Some(asked) => {
                if segment.time.saturating_sub(asked.last()) >= AGAIN_MIN {
                    ledger.lookups.repeated += 1;
                    if asked.tries.len() < TRIES_MAX {
                        asked.tries.push(sent);
                    }
                }
                return;
            }
            None => {}
        }
        if self.open.len() >= OPEN_MAX {
            self.give_up(ledger);
        }
        ledger.lookups.queries += 1;
        let entered = ledger
            .servers
            .find(sent.to, Evidence::Asked, &mut ledger.names);
        ledger.servers.tally(entered, |tally| tally.enter());
        let asked = Asked {
            tries: vec![sent],
            name,
            bytes: u64::from(segment.len),
            entered,
        };
        if let Some(earlier) = self.open.insert(query, asked) {
            unanswered(&earlier, ledger);
        }
    }

    fn answered(&mut self, query: Query, code: u8, segment: &Segment<'_>, ledger: &mut Ledger) {
        let Some(asked) = self.open.remove(&query) else {
            return;
        };
        if asked.is_over(segment.time) {
            return unanswered(&asked, ledger);
        }
        let answered = asked.answered_by(segment.from);
        let (Some(&first), Some(&arrived)) = (asked.tries.first(), asked.tries.get(answered))
        else {
            return;
        };
        ledger.servers.tally(asked.entered, |tally| tally.leave());
        let waited = segment.time.saturating_sub(first.time);
        ledger.lookups.longest_ns = ledger.lookups.longest_ns.max(waited);
        let lost = asked.tries.iter().zip(asked.tries.iter().skip(1));
        for (sent, again) in lost.take(answered) {
            let server = ledger
                .servers
                .find(sent.to, Evidence::Asked, &mut ledger.names);
            let loss = Loss {
                begin: sent.time,
                end: again.time,
            };
            ledger.servers.tally(server, |tally| tally.data_drops += 1);
            ledger.lost(server, true, loss);
        }
        let server = ledger
            .servers
            .find(arrived.to, Evidence::Content, &mut ledger.names);
        if let Some(server) = ledger.servers.get(server) {
            server.kind = server.kind.or(Some(Kind::Dns));
        }
        let visit = Visit {
            visit: NO_ID,
            server,
            caller: ledger.servers.call(query.client, &mut ledger.names),
            connection: ledger.next_connection(),
            interaction: ledger.interaction(Raw::Command(asked.name)),
            key: 0,
            sent: first.time,
            connected: NO_TIME,
            arrival: arrived.time,
            start: NO_TIME,
            first_byte: segment.time,
            departure: segment.time.max(arrived.time),
            drops: 0,
            data_drops: u8::try_from(answered).unwrap_or(u8::MAX),
            status: ledger.status(Status::of(dns::outcome(code))),
            bytes_in: asked.bytes,
            bytes_out: u64::from(segment.len),
            served: true,
            parent: NO_ID,
            request: NO_ID,
            downstream_ns: NO_TIME,
        };
        ledger.push(visit);
    }

    fn give_up(&mut self, ledger: &mut Ledger) {
        let mut times: Vec<i64> = self.open.values().map(Asked::last).collect();
        times.sort_unstable();
        let Some(&middle) = times.get(times.len() / 2) else {
            return;
        };
        self.open.retain(|_, asked| {
            let kept = asked.last() > middle;
            if !kept {
                unanswered(asked, ledger);
            }
            kept
        });
    }

    /// The recording is over.
    pub fn finish(&mut self, ledger: &mut Ledger) {
        for (_, asked) in self.open.drain() {
            unanswered(&asked, ledger);
        }
    }
}

fn unanswered(asked: &Asked, ledger: &mut Ledger) {
    ledger.lookups.unanswered += 1;
    ledger.servers.tally(asked.entered, |tally| tally.leave());
}

/// A plain query, or the response to one.
struct Message {
    id: u16,
    /// The hash of its question, and the name of the question's type.
    question: u64,
    name: &'static str,
    /// Of a response.
    code: Option<u8>,
}

impl Message {
    fn of(bytes: &[u8]) -> Option<Message> {
        let (&[_, _, flags, code, 0, 1, ..], question) = bytes.split_at_checked(HEADER)? else {
            return None;
        };
        if flags & 0x78 != 0 {
            return None;
        }
        let end = question
            .iter()
            .take(QUESTION_MAX)
            .position(|&byte| byte == 0)?;
        let question = question.get(..end + 5)?;
        let mut hasher = rustc_hash::FxHasher::default();
        // Some resolvers draw the letters' case at random, and servers repeat it; others do not.
        hasher.write(&question.to_ascii_lowercase());
        Some(Message {
            id: u16_at(bytes, 0, true)?,
            question: hasher.finish(),
            name: dns::type_name(dns::question(question)),
            code: (flags & 0x80 != 0).then_some(code & 15),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::flow::Flow;
    use super::super::testing::{tcp, MS, S};
    use super::{Ledger, Report, AGAIN_MAX, AGAIN_MIN, OPEN_MAX};
    use crate::record::Visit;

    const CLIENT: &str = "10.0.0.9:40000";
    const FIRST: &str = "10.0.0.1:53";
    const SECOND: &str = "10.0.0.2:53";

    fn message(flags: u8, id: u16, name: &str) -> Vec<u8> {
        let mut message = id.to_be_bytes().to_vec();
        message.extend([flags, 0, 0, 1, 0, 0, 0, 0, 0, 0, name.len() as u8]);
        message.extend(name.bytes());
        message.extend([0, 0, 1, 0, 1]);
        message
    }

    struct Seen(Flow);

    impl Seen {
        fn new() -> Seen {
            Seen(Flow::new(Ledger::default()))
        }
        fn see(&mut self, time: i64, from: &'static str, to: &'static str, message: &[u8]) {
            let packet = tcp(from, to).at(time).payload(message);
            let mut segment = packet.segment();
            segment.datagram = true;
            self.0.segment(&segment);
        }
        fn ask(&mut self, time: i64, server: &'static str, id: u16, name: &str) {
            self.see(time, CLIENT, server, &message(1, id, name));
        }
        fn answer(&mut self, time: i64, server: &'static str, id: u16, name: &str) {
            self.see(time, server, CLIENT, &message(0x81, id, name));
        }
        fn report(&self) -> Report {
            self.0.ledger.lookups
        }
        /// Server, sent, arrival, departure and losses of each visit.
        fn visits(&self) -> Vec<(&str, i64, i64, i64, u8)> {
            let names = &self.0.ledger.names;
            let row = |visit: &Visit| {
                let server = names.servers[visit.server as usize].as_str();
                let times = (visit.sent, visit.arrival, visit.departure);
                (server, times.0, times.1, times.2, visit.data_drops)
            };
            self.0.ledger.visits.iter().map(row).collect()
        }
    }

    #[test]
    fn a_query_and_its_response_are_a_visit() {
        let mut seen = Seen::new();
        seen.ask(S, FIRST, 7, "shop");
        seen.ask(S, FIRST, 8, "other");
        seen.answer(S + 2 * MS, FIRST, 8, "other");
        seen.answer(S + 3 * MS, FIRST, 7, "shop");
        let visits = [(FIRST, S, S, S + 2 * MS, 0), (FIRST, S, S, S + 3 * MS, 0)];
        assert_eq!(seen.visits(), visits);
        let ledger = &seen.0.ledger;
        assert_eq!(ledger.names.interactions, ["A"]);
        let tally = &ledger.servers.all()[0].tally;
        assert_eq!(
            (tally.visits, tally.visits_max, tally.visits_now),
            (2, 2, 0)
        );
    }

    #[test]
    fn a_query_that_was_lost_is_sent_again_after_five_seconds() {
        let mut seen = Seen::new();
        seen.ask(S, FIRST, 8, "shop");
        seen.ask(6 * S, SECOND, 8, "Shop");
        seen.answer(6 * S + 1, SECOND, 8, "shop");
        seen.ask(7 * S, FIRST, 9, "other");
        seen.0.finish();
        assert_eq!(seen.visits(), [(SECOND, S, 6 * S, 6 * S + 1, 1)]);
        let drops = &seen.0.ledger.drops;
        let server = &seen.0.ledger.names.servers[drops[0].server as usize];
        assert_eq!((drops.len(), server.as_str()), (1, FIRST));
        assert_eq!((drops[0].loss.begin, drops[0].loss.end), (S, 6 * S));
        let report = Report {
            queries: 2,
            repeated: 1,
            unanswered: 1,
            longest_ns: 5 * S + 1,
        };
        assert_eq!(seen.report(), report);
    }

    #[test]
    fn the_address_of_a_response_may_be_translated() {
        let mut seen = Seen::new();
        seen.ask(S, FIRST, 8, "shop");
        seen.answer(S + MS, SECOND, 8, "shop");
        assert_eq!(seen.visits(), [(FIRST, S, S, S + MS, 0)]);
    }

    #[test]
    fn copies_are_not_repeats() {
        let mut seen = Seen::new();
        for time in [0, 1000, AGAIN_MIN - 1] {
            seen.ask(time, FIRST, 7, "shop");
        }
        seen.answer(S, FIRST, 7, "shop");
        seen.answer(S + 1000, FIRST, 7, "shop");
        seen.0.finish();
        assert_eq!((seen.report().queries, seen.report().repeated), (1, 0));
        assert_eq!((seen.report().unanswered, seen.visits().len()), (0, 1));
    }

    #[test]
    fn an_id_that_comes_again_long_after_is_another_query() {
        let mut seen = Seen::new();
        seen.ask(S, FIRST, 7, "shop");
        let later = S + AGAIN_MAX + 1;
        seen.ask(later, FIRST, 7, "shop");
        seen.answer(later + MS, FIRST, 7, "shop");
        seen.ask(2 * later, FIRST, 8, "shop");
        seen.answer(2 * later + AGAIN_MAX + 1, FIRST, 8, "shop");
        assert_eq!(seen.visits(), [(FIRST, later, later, later + MS, 0)]);
        let report = Report {
            queries: 3,
            repeated: 0,
            unanswered: 2,
            longest_ns: MS,
        };
        assert_eq!(seen.report(), report);
    }

    #[test]
    fn what_is_no_query_is_left_out() {
        let mut seen = Seen::new();
        for bytes in [
            &b""[..],
            &[0; 12],
            &message(0x28, 1, "update"),
            &message(1, 1, "cut")[..14],
            &[0xff; 600],
        ] {
            seen.see(0, CLIENT, FIRST, bytes);
        }
        seen.see(0, FIRST, CLIENT, &message(1, 1, "shop"));
        seen.see(0, CLIENT, FIRST, &message(0x81, 1, "shop"));
        assert_eq!(seen.report(), Report::default());
        assert!(seen.visits().is_empty());
    }

    #[test]
    fn a_flood_fills_no_memory() {
        let mut seen = Seen::new();
        for number in 0..3 * OPEN_MAX as i64 {
            seen.ask(number, FIRST, number as u16, "shop");
        }
        assert!(seen.0.ledger.servers.all()[0].tally.visits_now <= OPEN_MAX as u64);
        seen.0.finish();
        assert_eq!(seen.report().unanswered, 3 * OPEN_MAX as u64);
        assert_eq!(seen.0.ledger.servers.all()[0].tally.visits_now, 0);
    }
}
