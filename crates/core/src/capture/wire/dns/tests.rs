#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::{client_sign, server_sign, Dns};
use crate::capture::wire::detect::Sign;
use crate::capture::wire::log::{play, split_anyhow, withstands, C, S};
use crate::capture::wire::paired::Paired;
use crate::capture::wire::Side;

type Reader = Paired<Dns>;

fn message(id: u16, flags: u16, answers: u16, kind: u16) -> Vec<u8> {
    let head = [id, flags, 1, answers, 0, 0];
    let mut content: Vec<u8> = head.iter().flat_map(|n| n.to_be_bytes()).collect();
    content.extend(b"\x06secret\x07example\0");
    content.extend(kind.to_be_bytes());
    content.extend([0, 1]);
    [&(content.len() as u16).to_be_bytes()[..], &content].concat()
}

fn query(id: u16, kind: u16) -> Vec<u8> {
    message(id, 0x0100, 0, kind)
}

fn answer(id: u16, code: u16) -> Vec<u8> {
    message(id, 0x8180 | code, 1, 1)
}

fn script() -> Vec<(Side, Vec<u8>)> {
    vec![
        (C, [query(7, 1), query(8, 28)].concat()),
        (S, answer(8, 3)),
        (S, answer(7, 0)),
        (C, query(9, 999)),
        (S, answer(9, 2)),
    ]
}

#[test]
fn a_query_is_named_by_its_type() {
    let log = play(&mut Reader::default(), &script());
    assert_eq!(
        log.names(),
        ["A ok", "AAAA error-NXDOMAIN", "query error-SERVFAIL"]
    );
    assert_eq!([log.seen[0].last, log.seen[1].last], [2, 1]);
    split_anyhow::<Reader, _>(&script(), [&[1][..], &[13, 2], &[33]]);
}

#[test]
fn a_zone_is_answered_by_its_first_message() {
    let script = [
        (C, query(1, 252)),
        (S, answer(1, 0)),
        (S, answer(1, 0)),
        (C, query(2, 6)),
        (S, answer(2, 0)),
    ];
    assert_eq!(
        play(&mut Reader::default(), &script).names(),
        ["AXFR ok", "SOA ok"]
    );
}

#[test]
fn a_query_is_never_certain() {
    assert_eq!(client_sign(&query(1, 1)), Sign::Likely);
    assert_eq!(client_sign(&answer(1, 0)), Sign::None);
    assert_eq!(client_sign(&message(1, 0x0100, 3, 1)), Sign::None);
    assert_eq!(client_sign(&[0; 40]), Sign::None);
    assert_eq!(client_sign(&query(1, 1)[..10]), Sign::None);
    assert_eq!(server_sign(&answer(1, 0)), Sign::Likely);
}

withstands!(Reader, script());
