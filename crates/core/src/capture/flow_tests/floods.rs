//! Scans and floods: they take bounded memory and become no requests, and clients are still seen
//! meanwhile.

use super::super::connection::failed::LATE;
use super::*;
use crate::capture::crowd;

/// A SYN of this sender, its sequence number made of the time.
fn bare(from: &str, to: &str, time: i64) -> Tcp {
    tcp(from, to).at(time).flags(SYN).seq(time as u32)
}

fn apart(flow: &Flow, state: &str) -> Option<crowd::Report> {
    let found = flow.ledger.apart();
    found.into_iter().find(|crowd| crowd.state == state)
}

/// A connection of another client, with a request.
fn served(time: i64) -> Vec<Tcp> {
    let mut talk = Talk::new();
    talk.open(time).exchange(time + MS).close(time + 3 * MS);
    talk.packets
}

fn at_once(parts: &[Vec<Tcp>]) -> Flow {
    let mut all = parts.concat();
    all.sort_by_key(|packet| packet.time);
    long_after(&all)
}

#[test]
fn a_flood_is_counted_and_makes_neither_requests_nor_names() {
    let flood = |i: i64| {
        bare(
            &format!("10.7.{}.{}:9", i / 250, i % 250),
            SERVER,
            S + i * MS,
        )
    };
    let flow = at_once(&[served(0), (0..1000).map(flood).collect()]);
    assert_eq!(only_visit(&flow).sent, 0);
    let crowd = apart(&flow, "unanswered").unwrap();
    assert_eq!(
        (crowd.attempts, crowd.senders, crowd.endpoints),
        (1000, 1000, 1)
    );
    assert_eq!((crowd.begin, crowd.to[0].1), (S, 1000));
    assert_eq!(
        flow.ledger.names.hosts.len(),
        2,
        "{:?}",
        flow.ledger.names.hosts
    );
    assert_eq!((tally(&flow).attempts, tally(&flow).unanswered), (1, 0));
}

#[test]
fn a_scan_of_ports_makes_no_servers() {
    let probe = |port: i64| {
        bare(
            "10.6.6.6:9",
            &format!("10.0.0.2:{}", 1000 + port),
            S + port * MS,
        )
    };
    let flow = at_once(&[served(0), (0..1000).map(probe).collect()]);
    assert_eq!(flow.ledger.names.servers, [SERVER]);
    let crowd = apart(&flow, "unanswered").unwrap();
    assert_eq!(
        (crowd.attempts, crowd.senders, crowd.endpoints),
        (1000, 1, 1000)
    );
}

#[test]
fn a_lost_syn_of_a_client_is_found_in_the_midst_of_a_flood() {
    let mut talk = Talk::new();
    talk.client = "10.0.0.7:40000";
    talk.syn(2 * S).open(3 * S).exchange(3 * S + MS);
    let flood = |i: i64| {
        bare(
            &format!("10.7.{}.{}:9", i / 250, i % 250),
            SERVER,
            S + i * MS,
        )
    };
    let flow = at_once(&[served(0), talk.packets, (0..3000).map(flood).collect()]);
    assert_eq!(flow.ledger.visits.len(), 2);
    let visit = &flow.ledger.visits[1];
    assert_eq!((visit.sent, visit.arrival, visit.drops), (2 * S, 3 * S, 1));
    assert_eq!(tally(&flow).syn_repeats, 1);
}

#[test]
fn an_attempt_sent_once_is_a_request_of_a_host_that_opens_other_connections() {
    let once = |from: &str, to: &str| bare(from, to, 10 * S);
    for (from, to, requests) in [
        ("10.0.0.1:41000", SERVER, 2),
        ("10.0.0.1:41000", "10.0.0.2:81", 1),
        ("10.0.0.3:41000", SERVER, 1),
    ] {
        for completes in [0, 20 * S] {
            let flow = at_once(&[served(completes), vec![once(from, to)]]);
            assert_eq!(
                flow.ledger.visits.len(),
                requests,
                "{from} {to} {completes}"
            );
        }
    }
}

#[test]
fn an_unanswered_client_shows_by_its_repetitions() {
    for (seconds, requests) in [
        (&[0, 1, 3, 7][..], 1),
        (&[0, 1, 2, 3, 4, 5, 7], 1),
        (&[0, 3, 9], 1),
        (&[0, 1], 1),
        (&[0], 0),
        (&[0, 20], 0),
        (&[0, 20, 21], 0),
    ] {
        let syns = seconds.iter().map(|second| {
            let id = 100 + *second as u16;
            tcp(CLIENT, SERVER).at(second * S).flags(SYN).ip_id(id)
        });
        let flow = long_after(&syns.collect::<Vec<Tcp>>());
        assert_eq!(flow.ledger.visits.len(), requests, "{seconds:?}");
        let others = apart(&flow, "unanswered").map_or(0, |crowd| crowd.attempts);
        assert_eq!(others as usize, 1 - requests, "{seconds:?}");
    }
}

#[test]
fn incomplete_handshakes_are_half_open_and_no_losses() {
    let mut packets = served(0);
    for i in 0..100 {
        let (from, begin) = (format!("10.7.0.{i}:9"), S + i * MS);
        let syn = bare(&from, SERVER, begin);
        let answer = |wait: i64, id| {
            let answer = tcp(SERVER, &from).flags(SYN | ACK).ack(syn.seq + 1);
            answer.at(begin + US + wait * S).ip_id(id)
        };
        let answers = [(0, 1), (1, 2), (3, 3), (7, 4)].map(|(wait, id)| answer(wait, id));
        packets.push(syn.clone());
        packets.extend(answers);
    }
    let flow = at_once(&[packets]);
    assert_eq!(flow.ledger.visits.len(), 1);
    assert_eq!(flow.ledger.drops, []);
    assert_eq!((tally(&flow).half_open, tally(&flow).data_drops), (100, 0));
    let crowd = apart(&flow, "half-open").unwrap();
    assert_eq!(
        (crowd.attempts, crowd.senders, crowd.endpoints),
        (100, 100, 1)
    );
}

#[test]
fn a_scan_that_resets_what_was_answered_is_half_open() {
    let mut talk = Talk::new();
    talk.syn(0)
        .syn_ack(US)
        .packet(2 * US, true, RST, 1001, 0, "");
    let flow = talk.flow();
    assert_eq!((flow.ledger.visits.len(), tally(&flow).half_open), (0, 1));
}

#[test]
fn a_client_that_hears_no_answer_gives_up_a_request() {
    let mut talk = Talk::new();
    for second in [0, 1, 3, 7] {
        talk.syn(second * S).syn_ack(second * S + US);
    }
    let flow = long_after(&talk.packets);
    let visit = only_visit(&flow);
    assert_eq!((visit.served, visit.drops, visit.data_drops), (false, 0, 3));
    assert_eq!(status(&flow, &visit), "abandoned");
}

#[test]
fn an_answer_after_all_makes_a_request_of_an_attempt_given_up() {
    // The first is not a client until it is answered, and the second has been reported as failed by
    // then.
    for (syns, answer) in [(&[0][..], 20), (&[0, 1, 3], 40)] {
        let mut talk = Talk::new();
        for second in syns {
            talk.syn(second * S);
        }
        let other = tcp("10.0.9.9:1", SERVER).at((answer - 1) * S).flags(SYN);
        talk.packets.push(other);
        talk.syn_ack(answer * S)
            .ack(answer * S + US)
            .exchange(answer * S + MS);
        let flow = talk.flow();
        let visit = flow
            .ledger
            .visits
            .iter()
            .find(|visit| visit.served)
            .unwrap();
        let last = syns[syns.len() - 1] * S;
        assert_eq!((visit.sent, visit.arrival), (0, last));
        assert_eq!(visit.connected, answer * S);
        assert_eq!(usize::from(visit.drops), syns.len() - 1);
        assert_eq!(tally(&flow).unanswered, 0);
        let told = flow.ledger.visits.iter().filter(|visit| !visit.served);
        assert!(told
            .into_iter()
            .all(|told| told.connection == visit.connection));
    }
}

#[test]
fn the_oldest_attempts_make_room_and_established_connections_stay() {
    let mut flow = Flow::new(Ledger::new(Servers::default(), Namer::default()));
    let mut honest = Talk::new();
    honest.open(0).up(MS, 1001, 5001, "hello");
    for packet in &honest.packets {
        flow.segment(&packet.segment());
    }
    for i in 0..200_000_u32 {
        let [_, a, b, c] = i.to_be_bytes();
        let syn = bare(&format!("11.{a}.{b}.{c}:9"), SERVER, S + i64::from(i) * US);
        flow.segment(&syn.segment());
    }
    let mut rest = Talk::new();
    rest.down(2 * S, 5001, 1006, "0123456789");
    // A client whose SYN is lost in the middle of it.
    rest.client = "10.0.0.8:40000";
    rest.syn(2 * S).open(3 * S).exchange(3 * S + MS);
    for packet in &rest.packets {
        flow.segment(&packet.segment());
    }
    flow.finish();
    let counts = &flow.ledger.counts;
    assert_eq!(
        (counts.segments_unfollowed, counts.connections_evicted),
        (0, 0)
    );
    let visits = &flow.ledger.visits;
    assert_eq!(
        visits.iter().map(|v| (v.sent, v.drops)).collect::<Vec<_>>(),
        [(0, 0), (2 * S, 1)]
    );
    assert_eq!(apart(&flow, "unanswered").unwrap().attempts, 200_000);
}

#[test]
fn a_clock_that_is_set_back_stops_nothing() {
    let begin = 1_000_000 * S;
    let mut packets: Vec<Tcp> = (0..50).flat_map(|i| served(begin + i * MS * 10)).collect();
    packets.push(bare("10.7.0.1:9", SERVER, begin + S));
    packets.extend(served(begin - 3600 * S));
    let later = bare("10.7.0.2:9", SERVER, begin - 3600 * S + LATE + 5 * S);
    packets.push(later);
    let mut flow = Flow::new(Ledger::new(Servers::default(), Namer::default()));
    for packet in &packets {
        flow.segment(&packet.segment());
    }
    assert_eq!(
        apart(&flow, "unanswered").map(|crowd| crowd.attempts),
        Some(1)
    );
    flow.finish();
    assert!(flow.ledger.visits.iter().all(|v| v.departure - v.sent < S));
}
