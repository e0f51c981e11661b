#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::{client_sign, server_sign, Ldap};
use crate::capture::wire::detect::Sign;
use crate::capture::wire::log::{cut_at, play, split_anyhow, withstands, C, S};
use crate::capture::wire::paired::Paired;
use crate::capture::wire::Side;

type Reader = Paired<Ldap>;

/// An element of BER, with a length of one byte or, as OpenLDAP writes long ones, of five.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let len = match content.len() {
        len @ 0..=0x7f => vec![len as u8],
        len => [&[0x84][..], &(len as u32).to_be_bytes()].concat(),
    };
    [&[tag][..], &len, content].concat()
}

fn message(number: u32, tag: u8, content: &[u8]) -> Vec<u8> {
    let number = match number {
        0..=0x7f => vec![number as u8],
        _ => number.to_be_bytes().to_vec(),
    };
    element(0x30, &[element(2, &number), element(tag, content)].concat())
}

fn bind(number: u32) -> Vec<u8> {
    message(
        number,
        0x60,
        &[
            &[2, 1, 3][..],
            &element(4, b"cn=somebody"),
            &element(0x80, b"secret"),
        ]
        .concat(),
    )
}

fn search(number: u32, base: &str) -> Vec<u8> {
    message(number, 0x63, &element(4, base.as_bytes()))
}

fn result(number: u32, tag: u8, code: u8) -> Vec<u8> {
    message(number, tag, &[0x0a, 1, code, 4, 0, 4, 0])
}

fn script() -> Vec<(Side, Vec<u8>)> {
    vec![
        (C, bind(1)),
        (S, result(1, 0x61, 0)),
        (C, search(2, "dc=example")),
        (S, message(2, 0x64, &[4; 400])),
        (
            S,
            [message(2, 0x64, b"\x04\x01a"), result(2, 0x65, 0)].concat(),
        ),
        (C, message(300, 0x4a, b"cn=nobody")),
        (S, result(300, 0x6b, 32)),
        (C, message(4, 0x42, b"")),
    ]
}

fn names(script: &[(Side, Vec<u8>)]) -> Vec<String> {
    play(&mut Reader::default(), script).names()
}

#[test]
fn an_operation_and_its_result_are_an_exchange() {
    let log = play(&mut Reader::default(), &script());
    assert_eq!(log.names(), ["BIND ok", "SEARCH ok", "DELETE error-32"]);
    assert_eq!(log.times(1), (2, 2, Some(3), 4));
    split_anyhow::<Reader, _>(&script(), [&[1][..], &[6, 2], &[33]]);
}

#[test]
fn searches_are_answered_in_any_order() {
    let script = [
        (C, [search(2, "a"), search(3, "b")].concat()),
        (S, message(2, 0x64, b"\x04\x01a")),
        (S, result(3, 0x65, 0)),
        (S, result(2, 0x65, 4)),
    ];
    let log = play(&mut Reader::default(), &script);
    assert_eq!(log.names(), ["SEARCH error-4", "SEARCH ok"]);
    assert_eq!([log.seen[0].last, log.seen[1].last], [3, 2]);
}

#[test]
fn a_request_that_is_taken_back_is_abandoned() {
    let script = [
        (C, search(2, "a")),
        (C, message(3, 0x50, &[2])),
        (C, search(4, "b")),
        (S, result(4, 0x65, 0)),
    ];
    assert_eq!(names(&script), ["SEARCH aborted", "SEARCH ok"]);
}

#[test]
fn a_search_that_lasts_and_a_notice_are_no_exchange() {
    let lasting = [
        element(4, b"dc=example"),
        element(4, b"1.3.6.1.4.1.4203.1.9.1.1"),
    ]
    .concat();
    let script = [
        (C, message(2, 0x63, &lasting)),
        (S, message(2, 0x64, b"\x04\x01a")),
        (C, search(3, "b")),
        (S, result(3, 0x65, 0)),
        (S, result(0, 0x78, 52)),
    ];
    assert_eq!(names(&script)[0], "SEARCH ok");
    assert_eq!(
        names(&script)
            .iter()
            .filter(|name| name.contains("SEARCH"))
            .count(),
        1
    );
}

#[test]
fn start_tls_ends_the_reading() {
    let asked = message(1, 0x77, &element(0x80, b"1.3.6.1.4.1.1466.20037"));
    let script = [(C, asked.clone()), (S, result(1, 0x78, 0))];
    assert_eq!(names(&script), ["EXTENDED ok", "opaque: TLS"]);
    let refused = [(C, asked), (S, result(1, 0x78, 2)), (C, search(2, "a"))];
    assert_eq!(names(&refused), ["EXTENDED error-2", "SEARCH …"]);
}

#[test]
fn one_request_at_a_time_is_counted_at_any_snap_length() {
    let script: Vec<_> = (1..5u32)
        .flat_map(|n| {
            let base = "dc=example,".repeat(40);
            [
                (C, search(n, &base)),
                (
                    S,
                    [message(n, 0x64, &[4; 900]), result(n, 0x65, 0)].concat(),
                ),
            ]
        })
        .collect();
    cut_at::<Reader, _>(&script, &[0, 6, 7, 12, 40]);
}

#[test]
fn a_bind_is_certain_and_other_operations_are_not() {
    assert_eq!(client_sign(&bind(1)), Sign::Certain);
    assert_eq!(client_sign(&search(2, "a")), Sign::Likely);
    assert_eq!(client_sign(&result(2, 0x65, 0)), Sign::None);
    assert_eq!(server_sign(&result(2, 0x65, 0)), Sign::Likely);
    // SNMP: a community in the place of the operation.
    assert_eq!(client_sign(&message(1, 4, b"public")), Sign::None);
    assert_eq!(
        client_sign(b"\x30\x84\xff\xff\xff\xff\x02\x01\x01\x60\x10"),
        Sign::None
    );
    assert_eq!(client_sign(b"0\x03abc"), Sign::None);
}

withstands!(Reader, script());
