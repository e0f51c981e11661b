#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::{client_sign, server_sign, Amqp};
use crate::capture::wire::detect::Sign;
use crate::capture::wire::log::{cut_at, play, split_anyhow, withstands, C, S};
use crate::capture::wire::paired::Paired;
use crate::capture::wire::Side;

type Reader = Paired<Amqp>;

fn frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![kind];
    frame.extend(channel.to_be_bytes());
    frame.extend((payload.len() as u32).to_be_bytes());
    frame.extend(payload);
    frame.push(0xce);
    frame
}

fn method(channel: u16, class: u16, number: u16, arguments: &[u8]) -> Vec<u8> {
    frame(
        1,
        channel,
        &[&class.to_be_bytes()[..], &number.to_be_bytes(), arguments].concat(),
    )
}

fn declare(channel: u16, bits: u8) -> Vec<u8> {
    method(
        channel,
        50,
        10,
        &[&[0, 0, 5][..], b"queue", &[bits, 0, 0, 0, 0]].concat(),
    )
}

/// A publication: its method, header and body.
fn publish(channel: u16) -> Vec<u8> {
    let method = method(channel, 60, 40, b"\0\0\0\x05queue\0");
    [
        method,
        frame(2, channel, &[0; 14]),
        frame(3, channel, b"secret"),
    ]
    .concat()
}

fn ack(channel: u16, tag: u64, multiple: bool) -> Vec<u8> {
    method(
        channel,
        60,
        80,
        &[&tag.to_be_bytes()[..], &[u8::from(multiple)]].concat(),
    )
}

fn script() -> Vec<(Side, Vec<u8>)> {
    vec![
        (C, b"AMQP\0\0\x09\x01".to_vec()),
        (S, method(0, 10, 10, &[0, 9, 0, 0, 0, 0])),
        (
            C,
            method(0, 10, 11, b"\0\0\0\0\x05PLAIN\0\0\0\x05\0a\0bc\x05en_US"),
        ),
        (S, method(0, 10, 30, &[7, 0xff, 0, 2, 0, 0, 0, 60])),
        (
            C,
            [
                method(0, 10, 31, &[0; 8]),
                method(0, 10, 40, &[1, b'/', 0, 0]),
            ]
            .concat(),
        ),
        (S, method(0, 10, 41, &[0])),
        (C, method(1, 20, 10, &[0])),
        (S, method(1, 20, 11, &[0; 4])),
        (C, declare(1, 0)),
        (S, method(1, 50, 11, &[0; 12])),
        (C, method(1, 60, 70, b"\0\0\x05queue\x01")),
        (S, method(1, 60, 72, &[0])),
        (C, method(0, 10, 50, &[0; 7])),
        (S, method(0, 10, 51, &[])),
    ]
}

fn names(script: &[(Side, Vec<u8>)]) -> Vec<String> {
    play(&mut Reader::default(), script).names()
}

#[test]
fn a_method_and_its_answer_are_an_exchange() {
    let log = play(&mut Reader::default(), &script());
    assert_eq!(
        log.names(),
        [
            "connection.start-ok ok",
            "connection.open ok",
            "channel.open ok",
            "queue.declare ok",
            "basic.get ok",
            "connection.close ok"
        ]
    );
    split_anyhow::<Reader, _>(&script(), [&[1][..], &[6, 2], &[33]]);
}

/// Confirmations on channel 1, three publications on it.
fn confirmed() -> Vec<(Side, Vec<u8>)> {
    vec![
        (C, method(1, 85, 10, &[0])),
        (S, method(1, 85, 11, &[])),
        (C, publish(1)),
        (C, [publish(1), publish(1)].concat()),
    ]
}

#[test]
fn a_publication_ends_with_its_confirmation() {
    let one_by_one = [
        confirmed(),
        vec![
            (S, ack(1, 2, false)),
            (S, ack(1, 1, false)),
            (S, ack(1, 3, false)),
        ],
    ]
    .concat();
    let log = play(&mut Reader::default(), &one_by_one);
    let ends: Vec<_> = log
        .seen
        .iter()
        .map(|seen| (&seen.name[..], seen.bytes_in, seen.last))
        .collect();
    let bytes = publish(1).len() as u64;
    let published = |last| ("basic.publish", bytes, last);
    assert_eq!(
        ends,
        [
            ("confirm.select", 13, 1),
            published(5),
            published(4),
            published(6)
        ]
    );
    let together = [confirmed(), vec![(S, ack(1, 3, true))]].concat();
    let log = play(&mut Reader::default(), &together);
    assert!(
        log.seen
            .iter()
            .skip(1)
            .all(|seen| seen.last == 4 && seen.end == "ok"),
        "{:?}",
        log.lines()
    );
}

#[test]
fn a_refused_publication_is_an_error() {
    let nack = method(1, 60, 120, &[0, 0, 0, 0, 0, 0, 0, 2, 1]);
    let script = [confirmed(), vec![(S, nack), (S, ack(1, 3, false))]].concat();
    let ends = [
        "confirm.select ok",
        "basic.publish error-NACK",
        "basic.publish error-NACK",
        "basic.publish ok",
    ];
    assert_eq!(names(&script), ends);
}

#[test]
fn what_has_no_answer_or_was_not_asked_for_is_no_exchange() {
    let delivered = [
        method(1, 60, 60, &[0; 20]),
        frame(2, 1, &[0; 14]),
        frame(3, 1, b"secret"),
    ]
    .concat();
    let script = [
        (
            C,
            [publish(1), declare(1, 1 << 4), frame(8, 0, b"")].concat(),
        ),
        (S, delivered),
        (C, ack(1, 1, false)),
        (C, declare(1, 0)),
        (S, [frame(8, 0, b""), method(1, 50, 11, &[0; 12])].concat()),
    ];
    assert_eq!(names(&script), ["queue.declare ok"]);
}

#[test]
fn channels_are_told_apart_and_end_with_an_error() {
    let missing = method(1, 20, 40, &[&404u16.to_be_bytes()[..], &[0; 5]].concat());
    let script = [
        (C, [declare(1, 1), declare(2, 0)].concat()),
        (S, method(2, 50, 11, &[0; 12])),
        (S, missing),
        (C, method(1, 20, 41, &[])),
    ];
    let log = play(&mut Reader::default(), &script);
    assert_eq!(log.names(), ["queue.declare error-404", "queue.declare ok"]);
    assert_eq!([log.seen[0].last, log.seen[1].last], [2, 1]);
}

#[test]
fn one_request_at_a_time_is_counted_at_any_snap_length() {
    let script: Vec<_> = (0..4)
        .flat_map(|_| [(C, declare(1, 0)), (S, method(1, 50, 11, &[0; 12]))])
        .collect();
    cut_at::<Reader, _>(&script, &[0, 6, 7, 11, 12]);
}

#[test]
fn the_greeting_is_certain() {
    assert_eq!(client_sign(b"AMQP\0\0\x09\x01"), Sign::Certain);
    assert_eq!(client_sign(b"AMQP\x03\x01\0\0"), Sign::None);
    assert_eq!(client_sign(&declare(1, 0)), Sign::Likely);
    assert_eq!(server_sign(&method(1, 50, 11, &[0; 12])), Sign::Likely);
    assert_eq!(client_sign(&method(1, 50, 11, &[0; 12])), Sign::None);
    assert_eq!(client_sign(&[0; 40]), Sign::None);
    let mut endless = declare(1, 0);
    endless[3] = 0x7f;
    assert_eq!(names(&[(C, endless)]), ["unreadable: not an AMQP frame"]);
}

withstands!(
    Reader,
    script(),
    [confirmed(), vec![(S, ack(1, 3, true))]].concat()
);
