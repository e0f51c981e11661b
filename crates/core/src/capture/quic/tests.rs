#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use super::super::flow::Flow;
use super::super::ledger::Ledger;
use super::super::merge::{segments, SourceOptions};
use super::super::tls::Keys;
use super::super::wire::Side;
use super::super::Segment;
use super::connection::{Connection, Level};
use super::packet::Id;

/// By the printed sets of numbers: 4, 14 and 22 of the server's packets on three connections.
const LOST: u64 = 40;

fn path(name: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/captures");
    PathBuf::from(folder).join(name)
}

/// The datagrams of the recorded session.
fn recorded() -> Vec<Segment<'static>> {
    let mut all = Vec::new();
    let mut keep = |segment: &Segment<'_>| {
        let payload: &'static [u8] = segment.payload.to_vec().leak();
        all.push(Segment {
            payload,
            ..segment.clone()
        });
        Ok(())
    };
    let paths = [path("quic.pcap")];
    segments(&paths, &SourceOptions::default(), |_, _| Ok(()), &mut keep).unwrap();
    all
}

fn read<'s>(datagrams: impl IntoIterator<Item = Segment<'s>>, keys: bool) -> Ledger {
    let mut flow = Flow::new(Ledger::default());
    if keys {
        flow.ledger.keys = Keys::of_file(&path("quic.keys")).unwrap();
    }
    for datagram in datagrams {
        flow.segment(&datagram);
    }
    flow.finish();
    flow.ledger
}

/// Requests with their server, status, losses and whole milliseconds.
fn requests(ledger: &Ledger) -> Vec<String> {
    let names = &ledger.names;
    let mut all: Vec<String> = ledger
        .visits
        .iter()
        .map(|visit| {
            let interaction = &names.interactions[visit.interaction as usize];
            let status = &names.statuses[visit.status as usize];
            let lost = [visit.drops, visit.data_drops];
            let took = (visit.departure - visit.sent) / 1_000_000;
            format!("{interaction} {status} {lost:?} {took}")
        })
        .collect();
    all.sort();
    all
}

#[test]
fn the_session_with_its_secrets() {
    let ledger = read(recorded(), true);
    let quic = &ledger.quic;
    assert_eq!(
        (quic.connections, quic.answered, quic.handshakes),
        (6, 6, 6)
    );
    assert_eq!(
        (quic.retries, quic.negotiations, quic.migrations),
        (1, 1, 1)
    );
    assert_eq!((quic.repeated, quic.initials_lost), (1, 1));
    assert_eq!((quic.requests, quic.closed, quic.unanswered), (19, 0, 0));
    assert_eq!((quic.packets_unread, quic.packets_unseen), (0, 0));
    assert_eq!(ledger.visits.len(), 19);
    assert_eq!(ledger.counts.copies, 0);
}

#[test]
fn without_secrets_handshakes_are_counted_and_the_lost_one_is_an_event() {
    let ledger = read(recorded(), false);
    let quic = &ledger.quic;
    assert_eq!((quic.connections, quic.handshakes), (6, 6));
    assert_eq!((quic.retries, quic.negotiations), (1, 1));
    assert_eq!((quic.repeated, quic.initials_lost), (1, 1));
    assert_eq!((quic.requests, quic.closed), (0, 6));
    assert_eq!((ledger.visits.len(), ledger.drops.len()), (0, 1));
    assert!(!ledger.drops[0].data);
    let asked: Vec<_> = ledger.servers.all().iter().map(|s| &s.tally.tls).collect();
    assert!(asked
        .iter()
        .all(|asked| asked.contains_key("shop.test (h3)")));
    let attempts: u64 = ledger.servers.all().iter().map(|s| s.tally.attempts).sum();
    assert_eq!(
        attempts, 6,
        "a hello again, a Retry and another version are no attempts of their own"
    );
}

/// The client's socket had no room for a burst of `/large`, so packets of the server were lost behind the capture.
#[test]
fn lost_packets_are_those_that_were_never_acknowledged() {
    let ledger = read(recorded(), true);
    assert_eq!(ledger.quic.packets_lost, LOST);
    assert!(ledger.counts.retransmissions >= LOST);
}

#[test]
fn a_reading_that_was_saved_goes_on() {
    for secrets in [false, true] {
        let (all, whole) = (recorded(), read(recorded(), secrets));
        let keys = match secrets {
            true => Keys::of_file(&path("quic.keys")).unwrap(),
            false => Keys::default(),
        };
        let mut flow = Flow::new(Ledger::default());
        flow.ledger.keys = keys.clone();
        for datagram in &all[..all.len() / 2] {
            flow.segment(datagram);
        }
        let mut flow: Flow = crate::saved::value(&crate::saved::bytes(&flow).unwrap()).unwrap();
        flow.revive(Default::default(), &keys);
        for datagram in &all[all.len() / 2..] {
            flow.segment(datagram);
        }
        flow.finish();
        assert_eq!(flow.ledger.quic, whole.quic);
        assert_eq!(flow.ledger.drops, whole.drops);
        assert_eq!(flow.ledger.visits.len(), whole.visits.len());
    }
}

#[test]
fn copies_and_exchanged_neighbours_change_no_request() {
    let expected = requests(&read(recorded(), true));
    let twice = recorded()
        .into_iter()
        .flat_map(|datagram| [datagram.clone(), datagram]);
    assert_eq!(requests(&read(twice, true)), expected);
    let mut exchanged = recorded();
    for pair in exchanged.chunks_exact_mut(2).skip(12) {
        let [first, second] = pair else {
            unreachable!()
        };
        if first.from == second.from && first.payload[0] & 0x80 == 0 {
            std::mem::swap(&mut first.payload, &mut second.payload);
            std::mem::swap(&mut first.len, &mut second.len);
        }
    }
    let found = requests(&read(exchanged, true));
    assert_eq!(found.len(), expected.len());
}

/// The same damages in every run.
fn draw(state: &mut u64, below: usize) -> usize {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1);
    (*state >> 33) as usize % below.max(1)
}

#[test]
fn damaged_datagrams_give_no_more_than_whole_ones() {
    let (all, mut state) = (recorded(), 7);
    for round in 0..20 {
        let mut damaged = Vec::new();
        for datagram in &all {
            let (mut datagram, mut bytes) = (datagram.clone(), datagram.payload.to_vec());
            match draw(&mut state, 12) {
                0 => continue,
                1 => bytes.truncate(draw(&mut state, bytes.len())),
                2 => {
                    let at = draw(&mut state, bytes.len());
                    bytes[at] ^= 1 << (round % 8);
                }
                _ => {}
            }
            datagram.payload = bytes.leak();
            damaged.push(datagram);
        }
        for _ in 0..40 {
            let (one, other) = (
                draw(&mut state, damaged.len()),
                draw(&mut state, damaged.len()),
            );
            damaged.swap(one, other);
        }
        let ledger = read(damaged, true);
        assert!(ledger.visits.len() <= 19, "{}", ledger.visits.len());
        assert!(ledger.quic.connections <= 8, "{:?}", ledger.quic);
    }
}

#[test]
fn a_flood_of_connections_fills_no_memory() {
    let all = recorded();
    let first = &all[0];
    let mut quic = super::Quic::default();
    let mut ledger = Ledger::default();
    for number in 0..2 * super::CONNECTIONS as u32 {
        let mut datagram = first.clone();
        datagram.from.ip = std::net::Ipv4Addr::from(number).into();
        datagram.time += i64::from(number);
        datagram.to.port = number as u16;
        quic.datagram(&datagram, &mut ledger);
        assert!(quic.open.len() <= super::CONNECTIONS);
    }
    assert!(ledger.quic.evicted > 0 && quic.by_id.len() <= 2 * super::CONNECTIONS);
}

/// Two connections of other clients, without secrets.
fn two() -> (super::Quic, Ledger, Segment<'static>) {
    let (mut quic, mut ledger) = (super::Quic::default(), Ledger::default());
    let mut first = recorded().swap_remove(0);
    for port in [1, 2] {
        // As if each had drawn an id of its own.
        quic.by_id.clear();
        first.from.port = port;
        quic.datagram(&first, &mut ledger);
    }
    assert_eq!(ledger.quic.connections, 2);
    (quic, ledger, first)
}

#[test]
fn a_client_that_moves_all_the_time_fills_no_memory() {
    let (mut quic, mut ledger, first) = two();
    let id = quic.open.values().next().unwrap().ids[0];
    let moved = [&b"\x40"[..], id.bytes(), &[7; 40]].concat();
    for port in 3..1000 {
        let mut datagram = first.clone();
        (datagram.from.port, datagram.payload) = (port, &moved);
        quic.datagram(&datagram, &mut ledger);
    }
    assert_eq!(ledger.quic.migrations, 997);
    assert!(quic.by_ends.len() <= 4, "{}", quic.by_ends.len());
}

#[test]
fn a_short_id_takes_no_packets_of_others() {
    let (mut quic, _, mut segment) = two();
    let here = quic.by_ends[&super::ends(&segment)];
    let other = *quic.open.keys().find(|&&serial| serial != here).unwrap();
    quic.know(other, Id::of(b"x").unwrap());
    assert_eq!(quic.known_id(b"\x40x1234567", &segment), None);
    segment.from.port = 1;
    assert_eq!(quic.known_id(b"\x40x1234567", &segment), Some((1, other)));
}

#[test]
fn datagrams_with_a_short_header_are_cut_too() {
    let (mut datagrams, mut cut) = (recorded(), 0);
    // Without secrets, nobody knows the ids that a client has after its move.
    let mut known = std::collections::HashSet::new();
    for datagram in &mut datagrams {
        if datagram.payload[0] & 0x80 != 0 {
            known.insert(super::ends(datagram));
        } else if datagram.payload.len() > 60 {
            datagram.payload = &datagram.payload[..60];
            cut += u64::from(known.contains(&super::ends(datagram)));
        }
    }
    assert!(cut > 0);
    assert_eq!(read(datagrams, false).quic.cut, cut);
}

#[test]
fn invented_acknowledgements_count_as_nothing() {
    let all = [&b"\x02"[..], &[0xff; 8], b"\0\0", &[0xff; 8]].concat();
    let payloads = [
        (Side::Client, &b"\x01"[..]),
        (Side::Server, &all),
        (Side::Client, &all),
    ];
    let ledger = super::read_plain(false, payloads.map(|(side, payload)| (side, true, payload)));
    assert!(ledger.quic.packets_unseen < 1 << 18, "{:?}", ledger.quic);
}

#[test]
fn a_late_answer_is_one_to_the_hello_that_it_acknowledges() {
    let mut ledger = Ledger::default();
    let first = recorded().swap_remove(0);
    let mut connection = Connection::new(first.from, first.to, 1, Id::default(), 0);
    let hello = b"\x06\0\x01\x01";
    let mut send = |side, number, payload: &[u8], milliseconds: i64| {
        let opened = Some((number, payload));
        connection.packet(
            side,
            Level::Initial,
            opened,
            milliseconds * 1_000_000,
            &mut ledger,
        );
    };
    send(Side::Client, 0, hello, 0);
    send(Side::Client, 1, hello, 1000);
    send(Side::Server, 0, b"\x02\0\0\0\0", 1500);
    connection.finish(&mut ledger);
    assert_eq!((ledger.quic.repeated, ledger.quic.initials_lost), (1, 0));
    assert_eq!(ledger.quic.answer_max_ns, 1_500_000_000);
}

/// Milliseconds, the number of a packet, and what it holds: a part of the hello, or an acknowledgement.
type Sent<'a> = (i64, u64, Result<[u8; 2], &'a [u8]>);

/// What the client sent at these milliseconds in packets of these numbers: a part of its hello of 10 bytes, from here to
/// there; or what the server acknowledged then. The losses, and when the hello had reached the server.
fn settled(packets: &[Sent]) -> (u64, u64, Option<i64>) {
    let mut ledger = Ledger::default();
    let first = recorded().swap_remove(0);
    let mut connection = Connection::new(first.from, first.to, 1, Id::default(), 0);
    let hello = b"\x01\0\0\x06abcdef";
    for &(milliseconds, number, ref what) in packets {
        let (side, payload) = match *what {
            Ok([from, to]) => {
                let part = &hello[usize::from(from)..usize::from(to)];
                (Side::Client, [&[6, from, to - from][..], part].concat())
            }
            Err(acknowledged) => (Side::Server, acknowledged.to_vec()),
        };
        let opened = Some((number, &payload[..]));
        let time = milliseconds * 1_000_000;
        connection.packet(side, Level::Initial, opened, time, &mut ledger);
    }
    let arrived = connection.arrived.map(|time| time / 1_000_000);
    connection.finish(&mut ledger);
    let quic = &ledger.quic;
    (quic.repeated, quic.initials_lost, arrived)
}

/// Acknowledgements of packets 0; of 1; of 0 and 1; of 2 and 0; of 2 and 1; of 0 to 3.
const ACKS: [&[u8]; 6] = [
    b"\x02\0\0\0\0",
    b"\x02\x01\0\0\0",
    b"\x02\x01\0\0\x01",
    b"\x02\x02\0\x01\0\0\0",
    b"\x02\x02\0\0\x01",
    b"\x02\x03\0\0\x03",
];

#[test]
fn a_hello_in_two_packets_arrives_with_the_later_one() {
    let flight = [(0, 0, Ok([0, 5])), (0, 1, Ok([5, 10]))];
    let lost = |again: [u8; 2], acks: [usize; 2]| {
        let rest = [
            (100, 0, Err(ACKS[acks[0]])),
            (1000, 2, Ok(again)),
            (1100, 1, Err(ACKS[acks[1]])),
        ];
        settled(&[&flight[..], &rest].concat())
    };
    assert_eq!(
        lost([5, 10], [0, 3]),
        (1, 1, Some(1000)),
        "the second was lost"
    );
    assert_eq!(
        lost([0, 5], [1, 4]),
        (1, 1, Some(1000)),
        "the first was lost"
    );
    let both = [&flight[..], &[(100, 0, Err(ACKS[2]))]].concat();
    assert_eq!(settled(&both), (0, 0, Some(0)));
    let late = [
        (1000, 2, Ok([0, 5])),
        (1000, 3, Ok([5, 10])),
        (1500, 0, Err(ACKS[5])),
    ];
    assert_eq!(settled(&[&flight[..], &late].concat()), (1, 0, Some(0)));
}

/// The capture lacks the second packet: the server's own hello shows that it had all of it.
#[test]
fn a_hello_of_which_a_part_was_not_captured_arrives_with_what_was() {
    let answer = [ACKS[2], b"\x06\0\x01\x02"].concat();
    let packets = [(0, 0, Ok([0, 5])), (100, 0, Err(&answer[..]))];
    assert_eq!(settled(&packets), (0, 0, Some(0)));
}

/// Everybody can send a datagram to a client.
#[test]
fn forged_answers_change_nothing() {
    let mut datagrams = recorded();
    let first = datagrams[0].clone();
    let id = &first.payload[6..6 + usize::from(first.payload[5])];
    let retry = [&b"\xf0\0\0\0\x01\0\x04away"[..], b"token", &[7; 16]].concat();
    let same = [&b"\x80\0\0\0\0\0"[..], &[id.len() as u8], id, b"\0\0\0\x01"].concat();
    let other = b"\x80\0\0\0\0\0\x04away\x6b\x33\x43\xcf";
    let forged = [&retry[..], &same, other].map(|payload| Segment {
        from: first.to,
        to: first.from,
        payload: payload.to_vec().leak(),
        len: payload.len() as u32,
        ..first.clone()
    });
    datagrams.splice(1..1, forged);
    let (found, expected) = (read(datagrams, true), read(recorded(), true));
    assert_eq!(found.quic, expected.quic);
    assert_eq!(requests(&found), requests(&expected));
}

/// More requests stay open between others than the set of closed ones has ranges.
#[test]
fn slow_requests_between_fast_ones_are_found_when_they_end() {
    let whole = |id: u16| [&[0x0b][..], &(0x4000 | id).to_be_bytes(), b"\x01x"].concat();
    let fast = (0..300).filter(|number| number % 2 == 0);
    let slow = (0..300).filter(|number| number % 2 == 1);
    let answers: Vec<Vec<u8>> = fast.chain(slow).map(|number| whole(4 * number)).collect();
    let asked: Vec<Vec<u8>> = (0..300).map(|number| whole(4 * number)).collect();
    let asked = asked
        .iter()
        .map(|payload| (Side::Client, false, &payload[..]));
    let answers = answers
        .iter()
        .map(|payload| (Side::Server, false, &payload[..]));
    assert_eq!(
        super::read_plain(false, asked.chain(answers)).visits.len(),
        300
    );
}
