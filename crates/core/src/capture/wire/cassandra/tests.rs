#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::segments::crc24;
use super::{client_sign, server_sign, Cql};
use crate::capture::wire::detect::Sign;
use crate::capture::wire::log::{cut_at, play, split_anyhow, withstands, C, S};
use crate::capture::wire::Side;

fn frame(version: u8, flags: u8, stream: i16, opcode: u8, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![version, flags];
    frame.extend(stream.to_be_bytes());
    frame.push(opcode);
    frame.extend((body.len() as u32).to_be_bytes());
    frame.extend(body);
    frame
}

fn statement(text: &str) -> Vec<u8> {
    [
        &(text.len() as u32).to_be_bytes()[..],
        text.as_bytes(),
        &[0, 1, 0],
    ]
    .concat()
}

fn startup(version: u8, compression: &str) -> Vec<u8> {
    let body = format!("\0\x02\0\x0bCQL_VERSION\0\x053.4.5{compression}");
    frame(version, 0, 0, 1, body.as_bytes())
}

fn query(stream: i16, text: &str) -> Vec<u8> {
    frame(4, 0, stream, 7, &statement(text))
}

fn answer(stream: i16, opcode: u8, body: &[u8]) -> Vec<u8> {
    frame(0x84, 0, stream, opcode, body)
}

const VOID: &[u8] = &[0, 0, 0, 1];

/// A segment of version 5.
fn segment(content: &[u8]) -> Vec<u8> {
    let fields = (content.len() as u32 | 1 << 17).to_le_bytes();
    let checksum = crc24(&fields[..3]).to_le_bytes();
    [&fields[..3], &checksum[..3], content, &[0; 4]].concat()
}

fn script() -> Vec<(Side, Vec<u8>)> {
    let prepared = [&[0, 0, 0, 4, 0, 2][..], b"id", &[0; 20]].concat();
    let execute = [&[0, 2][..], b"id", &[0, 1, 0]].concat();
    let unavailable = [&[0, 0, 0x10, 0][..], &[0; 10]].concat();
    vec![
        (C, frame(4, 0, 0, 5, b"")),
        (S, answer(0, 6, &[0, 0])),
        (C, startup(4, "")),
        (S, answer(0, 2, b"")),
        (C, query(1, "SELECT title FROM stories WHERE id = 17")),
        (S, answer(1, 8, VOID)),
        (
            C,
            frame(4, 0, 2, 9, &statement("UPDATE stories SET title = ?")),
        ),
        (S, answer(2, 8, &prepared)),
        (C, frame(4, 0, 3, 10, &execute)),
        (S, answer(3, 0, &unavailable)),
    ]
}

fn names<T: AsRef<[u8]>>(script: &[(Side, T)]) -> Vec<String> {
    play(&mut Cql::default(), script).names()
}

#[test]
fn statements_are_named_also_prepared_ones() {
    let log = play(&mut Cql::default(), &script());
    assert_eq!(
        log.names(),
        [
            "OPTIONS ok",
            "STARTUP ok",
            "sql SELECT title FROM stories WHERE id = 17 ok",
            "PREPARE ok",
            "sql UPDATE stories SET title = ? error-UNAVAILABLE"
        ]
    );
    split_anyhow::<Cql, _>(&script(), [&[1][..], &[8, 2], &[21]]);
}

#[test]
fn streams_are_answered_in_any_order_and_events_are_not_asked_for() {
    let script = [
        (
            C,
            [query(1, "SELECT a FROM t"), query(2, "SELECT b FROM u")].concat(),
        ),
        (
            S,
            [answer(-1, 12, b"\0\x0dSTATUS_CHANGE"), answer(2, 8, VOID)].concat(),
        ),
        (S, answer(1, 8, VOID)),
        (C, query(1, "SELECT c FROM t")),
        (S, answer(1, 8, VOID)),
    ];
    let log = play(&mut Cql::default(), &script);
    let ends: Vec<_> = log
        .seen
        .iter()
        .map(|seen| (seen.begun, seen.last))
        .collect();
    assert_eq!(ends, [(0, 2), (0, 1), (3, 4)]);
    assert_eq!(log.notes, [""; 0]);
}

#[test]
fn a_compressed_body_hides_its_statement_alone() {
    let script = [
        (C, frame(4, 1, 1, 7, &[9; 60])),
        (S, frame(0x84, 1, 1, 8, &[9; 60])),
    ];
    assert_eq!(names(&script), ["QUERY ok"]);
}

#[test]
fn traces_and_warnings_come_before_an_error() {
    let warned = [&[0; 16][..], &[0, 1, 0, 2, b'n', b'o'], &[0, 0, 0x11, 0]].concat();
    let script = [
        (C, query(1, "SELECT a FROM t")),
        (S, frame(0x84, 0x0a, 1, 0, &warned)),
    ];
    assert_eq!(names(&script), ["sql SELECT a FROM t error-WRITE_TIMEOUT"]);
}

fn script_of_version_5() -> Vec<(Side, Vec<u8>)> {
    let long = frame(
        5,
        0,
        2,
        7,
        &statement(&format!("INSERT INTO t (a) VALUES ('{}')", "x".repeat(300))),
    );
    let (first, second) = long.split_at(200);
    vec![
        (C, startup(5, "")),
        (S, frame(0x85, 0, 0, 2, b"")),
        (
            C,
            segment(&frame(5, 0, 1, 7, &statement("SELECT a FROM t"))),
        ),
        (S, segment(&frame(0x85, 0, 1, 8, VOID))),
        (C, [segment(first), segment(second)].concat()),
        (S, segment(&frame(0x85, 0, 2, 8, VOID))),
    ]
}

#[test]
fn version_5_wraps_frames_in_segments() {
    let script = script_of_version_5();
    let log = play(&mut Cql::default(), &script);
    let seen: Vec<_> = log
        .seen
        .iter()
        .map(|seen| (&seen.name[..12.min(seen.name.len())], &seen.end[..]))
        .collect();
    assert_eq!(
        seen,
        [
            ("STARTUP", "ok"),
            ("sql SELECT a", "ok"),
            ("sql INSERT I", "ok")
        ]
    );
    split_anyhow::<Cql, _>(&script, [&[1][..], &[5, 2], &[21]]);
    assert_eq!(names(&script[2..]), log.names()[1..]);
    assert_eq!(
        [client_sign(&script[2].1), server_sign(&script[3].1)],
        [Sign::Certain; 2]
    );
}

#[test]
fn reading_goes_on_behind_a_damaged_segment() {
    let mut script = script_of_version_5();
    script[2].1[4] ^= 1;
    let seen = names(&script);
    assert_eq!(
        seen.iter().filter(|name| name.ends_with("ok")).count(),
        2,
        "{seen:?}"
    );
}

#[test]
fn compressed_segments_end_the_reading() {
    let script = [
        (C, startup(5, "\0\x0bCOMPRESSION\0\x03lz4")),
        (S, frame(0x85, 0, 0, 2, b"")),
        (C, vec![1, 2, 3]),
    ];
    assert_eq!(names(&script), ["STARTUP ok", "opaque: compressed"]);
}

#[test]
fn one_request_at_a_time_is_counted_at_any_snap_length() {
    let text = format!("SELECT {} FROM t", "column, ".repeat(60));
    let script: Vec<_> = (1..5)
        .flat_map(|n| [(C, query(n, &text)), (S, answer(n, 8, &[0; 900]))])
        .collect();
    cut_at::<Cql, _>(&script, &[0, 6, 8, 9, 40]);
}

#[test]
fn a_client_that_names_its_language_is_certain() {
    assert_eq!(client_sign(&startup(4, "")), Sign::Certain);
    assert_eq!(client_sign(&query(1, "SELECT a FROM t")), Sign::Likely);
    assert_eq!(
        client_sign(&frame(2, 0, 0, 7, &statement("SELECT 1"))),
        Sign::None
    );
    assert_eq!(
        client_sign(&frame(4, 0x20, 0, 7, &statement("SELECT 1"))),
        Sign::None
    );
    assert_eq!(
        client_sign(&frame(4, 0, -1, 7, &statement("SELECT 1"))),
        Sign::None
    );
    assert_eq!(client_sign(&[0; 40]), Sign::None);
    assert_eq!(server_sign(&answer(1, 8, VOID)), Sign::Likely);
    let mut endless = query(1, "SELECT 1");
    endless[5] = 0x7f;
    assert_eq!(
        names(&[(C, endless)]),
        ["unreadable: not a frame of Cassandra's"]
    );
}

withstands!(Cql, script(), script_of_version_5());
