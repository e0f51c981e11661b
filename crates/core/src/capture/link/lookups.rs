//! DNS over UDP: how often a resolver had to send a query again. No server's visit shows this wait: the client of a request
//! waits for a name before it connects, for 5 s where a packet was lost and the C library's default is in force.
//!
//! ```text
//! client  A? ──────────── 5 s ────────────▶ A? again
//! server      (lost)                             answer
//! ```
//! A query is known by its client, its id and its question, since the next try may go to another server. Source: RFC 1035,
//! sections 4.1 and 4.2.1; resolv.conf(5) for the timeout.

use std::hash::Hasher;
use std::net::IpAddr;

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::headers::Network;
use crate::capture::packet::u16_at;

const PORT: u16 = 53;
/// UDP's header, and that of DNS.
const UDP: usize = 8;
const HEADER: usize = 12;
/// Bytes of a question: a name, a type and a class.
const QUESTION_MAX: usize = 259;
/// Resolvers wait a second or more (musl 2.5 s, c-ares 2 s, Go and glibc 5 s), systemd-resolved 0.5 s at first. A copy on
/// another interface of the same host follows within milliseconds.
const AGAIN_MIN: i64 = 100_000_000;
/// Queries without an answer so far. When there are more, the older half is given up.
const OPEN_MAX: usize = 4096;

/// Who asks for what.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Query {
    client: IpAddr,
    id: u16,
    question: u64,
}

struct Asked {
    first: i64,
    last: i64,
}

#[derive(Default)]
pub struct Lookups {
    open: FxHashMap<Query, Asked>,
    report: Report,
}

/// The longest wait is that for an answer, since the first try.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub queries: u64,
    /// Tries after the first.
    pub repeated: u64,
    pub unanswered: u64,
    pub longest_ns: i64,
}

impl Lookups {
    pub fn report(&self) -> Report {
        Report {
            unanswered: self.report.unanswered + self.open.len() as u64,
            ..self.report
        }
    }

    /// A packet of UDP.
    pub(super) fn see(&mut self, packet: &Network<'_>, time: i64) {
        let Some((from, to)) = ports(packet.bytes) else {
            return;
        };
        if from != PORT && to != PORT {
            return;
        }
        let Some((is_response, id, question)) = packet.bytes.get(UDP..).and_then(message) else {
            return;
        };
        let query = |client| Query {
            client,
            id,
            question,
        };
        match is_response {
            false if to == PORT => self.asked(query(packet.from), time),
            true if from == PORT => self.answered(query(packet.to), time),
            _ => {}
        }
    }

    fn asked(&mut self, query: Query, time: i64) {
        if let Some(asked) = self.open.get_mut(&query) {
            if time.saturating_sub(asked.last) >= AGAIN_MIN {
                asked.last = time;
                self.report.repeated += 1;
            }
            return;
        }
        if self.open.len() >= OPEN_MAX {
            self.give_up();
        }
        self.report.queries += 1;
        self.open.insert(
            query,
            Asked {
                first: time,
                last: time,
            },
        );
    }

    fn answered(&mut self, query: Query, time: i64) {
        if let Some(asked) = self.open.remove(&query) {
            let waited = time.saturating_sub(asked.first);
            self.report.longest_ns = self.report.longest_ns.max(waited);
        }
    }

    fn give_up(&mut self) {
        let mut times: Vec<i64> = self.open.values().map(|asked| asked.last).collect();
        times.sort_unstable();
        let Some(&middle) = times.get(times.len() / 2) else {
            return;
        };
        let before = self.open.len();
        self.open.retain(|_, asked| asked.last > middle);
        self.report.unanswered += (before - self.open.len()) as u64;
    }
}

fn ports(udp: &[u8]) -> Option<(u16, u16)> {
    Some((u16_at(udp, 0, true)?, u16_at(udp, 2, true)?))
}

/// Whether a message is a response, its id, and a hash of its question; None if it asks nothing.
fn message(bytes: &[u8]) -> Option<(bool, u16, u64)> {
    let (&[high, low, flags, _, 0, 1, ..], question) = bytes.split_at_checked(HEADER)? else {
        return None;
    };
    // A plain query.
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
    Some((
        flags & 0x80 != 0,
        u16::from_be_bytes([high, low]),
        hasher.finish(),
    ))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{Lookups, Report, AGAIN_MIN, OPEN_MAX};
    use crate::capture::link::headers::Network;
    use std::net::IpAddr;

    const SECOND: i64 = 1_000_000_000;

    fn message(flags: u8, id: u16, name: &str) -> Vec<u8> {
        let mut message = id.to_be_bytes().to_vec();
        message.extend([flags, 0, 0, 1, 0, 0, 0, 0, 0, 0, name.len() as u8]);
        message.extend(name.bytes());
        message.extend([0, 0, 1, 0, 1]);
        message
    }

    fn see(lookups: &mut Lookups, time: i64, from: (&str, u16), to: (&str, u16), message: &[u8]) {
        let ports = [from.1.to_be_bytes(), to.1.to_be_bytes()].concat();
        let bytes = [&ports[..], &[0; 4], message].concat();
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let network = Network {
            protocol: 17,
            bytes: &bytes,
            len: bytes.len(),
            from: address(from.0),
            to: address(to.0),
            ip_id: None,
        };
        lookups.see(&network, time);
    }

    const CLIENT: (&str, u16) = ("10.0.0.9", 40_000);

    fn ask(lookups: &mut Lookups, time: i64, server: &str, id: u16, name: &str) {
        see(lookups, time, CLIENT, (server, 53), &message(1, id, name));
    }

    fn answer(lookups: &mut Lookups, time: i64, server: &str, id: u16, name: &str) {
        see(
            lookups,
            time,
            (server, 53),
            CLIENT,
            &message(0x81, id, name),
        );
    }

    #[test]
    fn a_query_that_was_lost_is_sent_again_after_five_seconds() {
        let mut lookups = Lookups::default();
        ask(&mut lookups, 0, "10.0.0.1", 7, "shop");
        answer(&mut lookups, 2_000_000, "10.0.0.1", 7, "shop");
        ask(&mut lookups, SECOND, "10.0.0.1", 8, "shop");
        ask(&mut lookups, 6 * SECOND, "10.0.0.2", 8, "Shop");
        answer(&mut lookups, 6 * SECOND + 1, "10.0.0.2", 8, "shop");
        ask(&mut lookups, 7 * SECOND, "10.0.0.1", 9, "other");
        let report = Report {
            queries: 3,
            repeated: 1,
            unanswered: 1,
            longest_ns: 5 * SECOND + 1,
        };
        assert_eq!(lookups.report(), report);
    }

    #[test]
    fn copies_are_not_repeats() {
        let mut lookups = Lookups::default();
        for time in [0, 1000, AGAIN_MIN - 1] {
            ask(&mut lookups, time, "10.0.0.1", 7, "shop");
        }
        answer(&mut lookups, SECOND, "10.0.0.1", 7, "shop");
        answer(&mut lookups, SECOND + 1000, "10.0.0.1", 7, "shop");
        assert_eq!(
            (lookups.report().queries, lookups.report().repeated),
            (1, 0)
        );
        assert_eq!(lookups.report().unanswered, 0);
    }

    #[test]
    fn what_is_no_query_is_left_out() {
        let mut lookups = Lookups::default();
        for bytes in [
            &b""[..],
            &[0; 12],
            &message(0x28, 1, "update"),
            &message(1, 1, "cut")[..14],
            &[0xff; 600],
        ] {
            see(&mut lookups, 0, CLIENT, ("10.0.0.1", 53), bytes);
        }
        see(
            &mut lookups,
            0,
            CLIENT,
            ("10.0.0.1", 443),
            &message(1, 1, "shop"),
        );
        assert_eq!(lookups.report(), Report::default());
    }

    #[test]
    fn a_flood_fills_no_memory() {
        let mut lookups = Lookups::default();
        for number in 0..3 * OPEN_MAX as i64 {
            ask(&mut lookups, number, "10.0.0.1", number as u16, "shop");
        }
        assert!(lookups.open.len() <= OPEN_MAX);
        assert_eq!(lookups.report().unanswered, 3 * OPEN_MAX as u64);
    }
}
