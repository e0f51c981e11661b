#![allow(clippy::unwrap_used)]

use std::path::Path;

use super::super::source::Source;
use super::super::testing::{pcap, tcp, Record, Tcp, MS, S, US};
use super::*;

const BEGIN: i64 = 1_700_000_000 * S;

/// Message `i` between two hosts: (when the client's side sees it, when the server's side does,
/// itself). One way takes 100 µs and up to as much again.
fn talk(i: i64, client: &str, server: &str) -> [(i64, i64, Tcp); 2] {
    let (sent, jitter) = (BEGIN + i * 5 * MS, |k: i64| {
        100 * US + (i * 7919 + k * 104_729) % (100 * US)
    });
    let request = tcp(client, server)
        .seq(i as u32)
        .ts_val(i as u32)
        .payload([1; 20]);
    let response = tcp(server, client)
        .seq(i as u32)
        .ts_val(i as u32 + 7)
        .payload([2; 30]);
    let (there, answered) = (sent + jitter(1), sent + jitter(1) + MS);
    [
        (sent, there, request),
        (answered + jitter(2), answered, response),
    ]
}

fn sketched(records: Vec<(i64, Tcp)>) -> Sketch {
    let mut records: Vec<Record> = records
        .into_iter()
        .map(|(time, packet)| packet.at(time).record())
        .collect();
    records.sort_by_key(|record| record.time);
    let stream = Box::new(std::io::Cursor::new(pcap(&records)));
    let file = CaptureFile::new(Source::new(Path::new("test"), stream, 0).unwrap(), 0).unwrap();
    sketch(file, 1000, &mut || Ok(())).unwrap()
}

/// Both ends of `count` exchanges; `clock` is the reading of the second host's clock.
fn both_ends(count: i64, clock: impl Fn(i64) -> i64) -> Vec<Sketch> {
    let talks = || (0..count).flat_map(|i| talk(i, "10.0.0.1:4000", "10.0.0.2:80"));
    let near = talks().map(|(near, _, packet)| (near, packet)).collect();
    let far = talks()
        .map(|(_, far, packet)| (clock(far), packet))
        .collect();
    vec![sketched(near), sketched(far)]
}

#[test]
fn an_offset_is_found_within_its_bound() {
    for offset in [0, 37 * S, -3 * MS, -86_400 * S] {
        let clock = compare(&both_ends(3000, |t| t - offset), &[])[1].clone();
        assert_eq!((clock.basis, clock.drift_ppm), (ClockBasis::Matched, None));
        let bound = clock.bound_ns.unwrap();
        assert!((clock.offset_ns - offset).abs() <= bound, "{clock:?}");
        // Half of two shortest ways of 100 µs each.
        assert!((95 * US..105 * US).contains(&bound), "{clock:?}");
    }
}

#[test]
fn no_reply_comes_before_its_request_afterwards() {
    let ends = both_ends(1000, |t| t + 2 * S);
    let clock = compare(&ends, &[])[1].clone();
    for i in 0..1000 {
        let [(sent, there, _), (back, answered, _)] = talk(i, "10.0.0.1:4000", "10.0.0.2:80");
        assert!(sent <= clock.shift(there + 2 * S) && clock.shift(answered + 2 * S) <= back);
    }
}

#[test]
fn drift_is_found_and_taken_out() {
    let drifting = |t: i64| t - 5 * S - (t - BEGIN) / 20_000;
    let clock = compare(&both_ends(12_000, drifting), &[])[1].clone();
    assert!((clock.drift_ppm.unwrap() - 50.0).abs() < 3.0, "{clock:?}");
    for i in [0, 6000, 11_999] {
        let far = talk(i, "10.0.0.1:4000", "10.0.0.2:80")[0].1;
        assert!(
            (clock.shift(drifting(far)) - far).abs() <= clock.bound_ns.unwrap(),
            "{clock:?}"
        );
    }
}

#[test]
fn captures_that_share_nothing_with_the_first_are_joined_over_others() {
    let front = || (0..500).flat_map(|i| talk(i, "10.0.0.1:4000", "10.0.0.2:80"));
    let back = || (0..500).flat_map(|i| talk(i, "10.0.0.2:5000", "10.0.0.3:3306"));
    let client = front().map(|(near, _, p)| (near, p)).collect();
    let web = front()
        .map(|(_, far, p)| (far + S, p))
        .chain(back().map(|(near, _, p)| (near + S, p)))
        .collect();
    let db = back().map(|(_, far, p)| (far - 9 * S, p)).collect();
    let clocks = compare(&[sketched(client), sketched(db), sketched(web)], &[]);
    assert!(clocks[1..]
        .iter()
        .all(|clock| clock.basis == ClockBasis::Matched));
    assert!((clocks[1].offset_ns - 9 * S).abs() <= clocks[1].bound_ns.unwrap());
    assert!((clocks[2].offset_ns + S).abs() <= clocks[2].bound_ns.unwrap());
    assert!(clocks[1].bound_ns > clocks[2].bound_ns);
}

#[test]
fn captures_without_a_shared_packet_are_unknown() {
    let one = (0..500).map(|i| {
        (
            BEGIN + i * MS,
            tcp("10.0.0.1:4000", "10.0.0.2:80").seq(i as u32).ts_val(1),
        )
    });
    let other = (0..500).map(|i| {
        (
            BEGIN + i * MS,
            tcp("10.0.0.3:4000", "10.0.0.4:80").seq(i as u32).ts_val(1),
        )
    });
    let clocks = compare(&[sketched(one.collect()), sketched(other.collect())], &[]);
    assert_eq!(
        (clocks[1].basis, clocks[1].offset_ns),
        (ClockBasis::Unknown, 0)
    );
}

#[test]
fn repetitions_in_one_capture_do_not_mislead() {
    let mut ends = both_ends(500, |t| t);
    // The first capture saw each request twice, 200 ms apart; the second only the repetition.
    let talks = || (0..500).flat_map(|i| talk(i, "10.0.0.1:4000", "10.0.0.2:80"));
    let twice = talks()
        .flat_map(|(near, _, p)| [(near - 200 * MS, p.clone()), (near, p)])
        .collect();
    ends[0] = sketched(twice);
    assert_eq!(compare(&ends, &[])[1].basis, ClockBasis::Unknown);
}

#[test]
fn one_direction_alone_gives_an_estimate_without_a_bound() {
    let requests = || (0..500).map(|i| talk(i, "10.0.0.1:4000", "10.0.0.2:80")[0].clone());
    let near = sketched(requests().map(|(near, _, p)| (near, p)).collect());
    let far = sketched(requests().map(|(_, far, p)| (far - S, p)).collect());
    let clock = compare(&[near, far], &[])[1].clone();
    assert_eq!((clock.basis, clock.bound_ns), (ClockBasis::Matched, None));
    assert!((clock.offset_ns - S).abs() < 200 * US);
}
