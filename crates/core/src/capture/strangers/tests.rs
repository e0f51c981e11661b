use super::*;
use crate::record::{NO_ID, NO_NAME};

const OK: u32 = 0;
const REFUSED: u32 = 1;
const ABANDONED: u32 = 2;
const S: i64 = 1_000_000_000;
/// Servers on the first host but for the last ten, which are on hosts of their own.
const SERVERS: u32 = 200;

#[derive(Default)]
struct Sink(Vec<Visit>);

impl VisitSink for Sink {
    fn push(&mut self, visit: Visit, _: &Names) -> Result<()> {
        self.0.push(visit);
        Ok(())
    }
    fn finish(&mut self, _: &Names) -> Result<()> {
        Ok(())
    }
}

fn names() -> Names {
    let host = |server: u32| (server + 10).saturating_sub(SERVERS);
    Names {
        servers: (0..SERVERS).map(|n| format!("10.0.0.2:{n}")).collect(),
        server_hosts: (0..SERVERS).map(host).collect(),
        hosts: (0..1000).map(|n| format!("10.1.0.{n}")).collect(),
        interactions: Vec::new(),
        folded: Vec::new(),
        statuses: ["ok", "refused", "abandoned"].map(str::to_owned).to_vec(),
        ..Names::default()
    }
}

fn attempt(connection: u32, caller: u32, server: u32, status: u32) -> Visit {
    let sent = i64::from(connection) * S / 100;
    Visit {
        visit: u64::from(connection),
        server,
        caller,
        connection,
        interaction: NO_NAME,
        key: 0,
        sent,
        connected: NO_TIME,
        arrival: sent,
        start: NO_TIME,
        first_byte: NO_TIME,
        departure: sent + S,
        drops: 1,
        data_drops: 0,
        status,
        bytes_in: 0,
        bytes_out: 0,
        served: false,
        parent: NO_ID,
        request: NO_ID,
        downstream_ns: NO_TIME,
    }
}

fn served(connection: u32, caller: u32, server: u32) -> Visit {
    let attempt = attempt(connection, caller, server, OK);
    Visit {
        served: true,
        connected: attempt.sent,
        ..attempt
    }
}

/// How many of the failed attempts are requests, and how many are counted apart, by state.
fn judged(visits: impl IntoIterator<Item = Visit>) -> (usize, Vec<(&'static str, u64)>) {
    let mut strangers = Strangers::new(Sink::default());
    let names = names();
    for visit in visits {
        strangers.push(visit, &names).unwrap();
    }
    strangers.finish(&names).unwrap();
    let report = strangers.report(&names);
    let kept = strangers
        .next
        .0
        .iter()
        .filter(|visit| !visit.served)
        .count();
    let counts = report.kept.values();
    let counted: u64 = counts
        .map(|kept| kept.refused + kept.unanswered + kept.reset)
        .sum();
    assert_eq!(counted as usize, kept);
    let apart = report
        .apart
        .iter()
        .map(|crowd| (crowd.state, crowd.attempts));
    (kept, apart.collect())
}

#[test]
fn a_sender_to_many_unserved_ports_scans_and_one_to_few_does_not() {
    for (status, state) in [(REFUSED, "refused"), (ABANDONED, "unanswered")] {
        for count in [MANY as u32 - 1, MANY as u32] {
            // The scanner is a client elsewhere, which does not make its scan a request.
            let others = [served(999, 7, 0), served(998, 7, 0)];
            let tried = (1..=count).map(|n| attempt(n, 7, n, status));
            let found = judged(others.into_iter().chain(tried));
            let all = (count as usize, vec![]);
            let none = (0, vec![(state, u64::from(count))]);
            assert_eq!(found, if count < MANY as u32 { all } else { none });
        }
    }
}

#[test]
fn an_address_of_which_many_ports_were_tried_is_scanned_by_many() {
    let tried = |first: u32| (0..40).map(move |n| attempt(n + 1, 100 + n, first + n, REFUSED));
    assert_eq!(judged(tried(1)), (0, vec![("refused", 40)]));
    // Ten of these are on ten other hosts, and thirty on the first.
    assert_eq!(judged(tried(SERVERS - 40)), (40, vec![]));
}

#[test]
fn a_port_that_serves_others_and_refuses_has_an_outage() {
    let refused = (1..=100).map(|n| attempt(n, 7, 0, REFUSED));
    let others = (101..=105).map(|n| served(n, 8, 0));
    assert_eq!(judged(refused.chain(others)), (100, vec![]));
}

#[test]
fn attempts_of_a_client_are_requests_whatever_other_clients_do() {
    let lost = (1..=100).map(|n| attempt(n, 7, 0, ABANDONED));
    let others = (1..=5)
        .map(|n| served(200 + n, 7, 1))
        .chain((1..=90).map(|n| served(300 + n, 8, 0)));
    assert_eq!(judged(lost.chain(others)), (100, vec![]));
}

#[test]
fn a_sender_that_completes_none_of_many_is_passed_over_if_others_are_accepted() {
    let lost = || (1..=100).map(|n| attempt(n, 7, 0, ABANDONED));
    let meanwhile = (1..=100).map(|n| served(n + 1000, 8, 0)).map(|mut visit| {
        visit.connected -= 10 * S;
        visit
    });
    assert_eq!(
        judged(lost().chain(meanwhile)),
        (0, vec![("unanswered", 100)])
    );
    // A server that accepts nothing for a while is no reason to classify its clients as strangers,
    // …
    let afterwards = (500..=600).map(|n| served(n, 8, 0));
    assert_eq!(judged(lost().chain(afterwards)), (100, vec![]));
    // … and neither are a few attempts.
    let others = (1..=20).map(|n| served(n + 1000, 8, 0)).map(|mut visit| {
        visit.connected -= 10 * S;
        visit
    });
    assert_eq!(judged(lost().take(20).chain(others)), (20, vec![]));
}

#[test]
fn a_later_report_of_a_connection_replaces_the_earlier_one() {
    let first = attempt(1, 7, 0, ABANDONED);
    let again = Visit {
        departure: 9 * S,
        ..first.clone()
    };
    let mut strangers = Strangers::new(Sink::default());
    for visit in [first.clone(), again.clone()] {
        strangers.push(visit, &names()).unwrap();
    }
    strangers.finish(&names()).unwrap();
    assert_eq!(strangers.next.0, [again]);
    assert_eq!(judged([first, served(1, 7, 0)]), (0, vec![]));
}

#[test]
fn what_waits_is_bounded() {
    let count = 3 * HELD as u32;
    let scan = (1..=count).map(|n| attempt(n, 7, n % 150, REFUSED));
    assert_eq!(judged(scan), (0, vec![("refused", u64::from(count))]));
}
