#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::{client_sign, Kafka};
use crate::capture::wire::detect::Sign;
use crate::capture::wire::log::{cut_at, play, split_anyhow, withstands, C, S};
use crate::capture::wire::paired::Paired;
use crate::capture::wire::Side;

type Reader = Paired<Kafka>;

fn framed(content: &[u8]) -> Vec<u8> {
    [&(content.len() as u32).to_be_bytes()[..], content].concat()
}

/// A request of client `me`; `body` is what follows the client's id.
fn ask(api: u16, version: u16, number: u32, body: &[u8]) -> Vec<u8> {
    let head = [&api.to_be_bytes()[..], &version.to_be_bytes()].concat();
    framed(&[&head[..], &number.to_be_bytes(), b"\0\x02me", body].concat())
}

fn answer(number: u32, body: &[u8]) -> Vec<u8> {
    framed(&[&number.to_be_bytes()[..], body].concat())
}

/// The body of a Produce request without a transaction, old and flexible.
fn produce(version: u16, acks: i16) -> Vec<u8> {
    let id: &[u8] = if version < 9 { &[0xff, 0xff] } else { &[0, 0] };
    [id, &acks.to_be_bytes(), &[0; 40]].concat()
}

/// The body of a Fetch request that may wait so long.
fn fetch(version: u16, wait: u32) -> Vec<u8> {
    let replica: &[u8] = if version < 15 { &[0xff; 4] } else { &[] };
    let tags: &[u8] = if version < 12 { &[] } else { &[0] };
    [tags, replica, &wait.to_be_bytes(), &[0; 20]].concat()
}

fn script() -> Vec<(Side, Vec<u8>)> {
    vec![
        (C, ask(18, 3, 1, b"\0\0")),
        (S, answer(1, &[0; 300])),
        (
            C,
            [ask(3, 1, 2, &[0; 8]), ask(0, 7, 3, &produce(7, -1))].concat(),
        ),
        (S, [answer(2, &[0; 20]), answer(3, &[0; 30])].concat()),
        (C, ask(0, 9, 4, &produce(9, 1))),
        (S, answer(4, &[])),
    ]
}

fn names(script: &[(Side, Vec<u8>)]) -> Vec<String> {
    play(&mut Reader::default(), script).names()
}

#[test]
fn a_request_is_named_by_its_api() {
    let log = play(&mut Reader::default(), &script());
    let lines = [
        "ApiVersions | 18 308 | ok",
        "Metadata | 24 28 | ok",
        "Produce | 60 38 | ok",
        "Produce | 60 8 | ok",
    ];
    assert_eq!(log.lines(), lines);
    split_anyhow::<Reader, _>(&script(), [&[1][..], &[5, 11], &[40]]);
}

#[test]
fn what_is_not_answered_is_no_exchange() {
    for version in [3, 7, 9, 13] {
        let script = [
            (C, ask(0, version, 1, &produce(version, 0))),
            (C, ask(3, 1, 2, &[0; 4])),
            (S, answer(2, &[])),
        ];
        assert_eq!(names(&script), ["Metadata ok"], "version {version}");
    }
}

#[test]
fn what_waits_for_records_or_for_a_group_is_no_exchange() {
    for (api, version, body) in [
        (1, 4, fetch(4, 500)),
        (1, 12, fetch(12, 500)),
        (1, 17, fetch(17, 500)),
        (11, 5, vec![0; 30]),
        (14, 3, vec![0; 30]),
    ] {
        let script = [
            (C, ask(api, version, 7, &body)),
            (C, ask(12, 1, 8, &[0; 20])),
            (S, answer(7, &[0; 90])),
            (S, answer(8, &[0; 4])),
        ];
        assert_eq!(
            names(&script),
            ["Heartbeat ok"],
            "api {api}, version {version}"
        );
    }
    let at_once = [(C, ask(1, 12, 1, &fetch(12, 0))), (S, answer(1, &[0; 50]))];
    assert_eq!(names(&at_once), ["Fetch ok"]);
}

#[test]
fn one_request_at_a_time_is_counted_at_any_snap_length() {
    let script: Vec<_> = (0..4u32)
        .flat_map(|n| [(C, ask(3, 1, n, &[0; 500])), (S, answer(n, &[0; 3000]))])
        .collect();
    cut_at::<Reader, _>(&script, &[0, 6, 11, 12, 40]);
}

#[test]
fn a_response_that_was_missed_delays_no_other() {
    let script = [
        (C, [ask(3, 1, 1, &[0; 4]), ask(12, 1, 2, &[0; 4])].concat()),
        (S, answer(2, &[0; 4])),
    ];
    assert_eq!(names(&script), ["Metadata ok", "Heartbeat ok"]);
    let log = play(&mut Reader::default(), &script);
    assert_eq!(log.seen[0].bytes_out, 0);
}

#[test]
fn only_a_question_for_versions_is_certain() {
    assert_eq!(client_sign(&ask(18, 3, 1, b"\0\0")), Sign::Certain);
    assert_eq!(client_sign(&ask(3, 1, 1, &[0; 4])), Sign::Likely);
    assert_eq!(client_sign(&ask(3, 99, 1, &[0; 4])), Sign::None);
    assert_eq!(client_sign(&ask(200, 1, 1, &[0; 4])), Sign::None);
    for (api, newest) in [(0, 13), (1, 18), (12, 4), (17, 1), (47, 0), (92, 0)] {
        assert_eq!(client_sign(&ask(api, newest, 1, &[0; 4])), Sign::Likely);
        assert_eq!(client_sign(&ask(api, newest + 1, 1, &[0; 4])), Sign::None);
    }
    assert_eq!(
        client_sign(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        Sign::None
    );
    assert_eq!(client_sign(&[0; 64]), Sign::None);
    let mut unprintable = ask(3, 1, 1, &[0; 4]);
    unprintable[14] = 7;
    assert_eq!(client_sign(&unprintable), Sign::None);
    let mut endless = ask(3, 1, 1, &[0; 4]);
    endless[0] = 0x7f;
    assert_eq!(client_sign(&endless), Sign::None);
}

withstands!(Reader, script());
