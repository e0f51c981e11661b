#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::{client_sign, server_sign, MongoDb};
use crate::capture::wire::detect::Sign;
use crate::capture::wire::log::{cut_at, play, split_anyhow, withstands, C, S};
use crate::capture::wire::paired::Paired;
use crate::capture::wire::Side;

type Reader = Paired<MongoDb>;

/// A field, ready to be joined to a document.
fn field(kind: u8, name: &str, value: &[u8]) -> Vec<u8> {
    [&[kind][..], name.as_bytes(), &[0], value].concat()
}

fn text(name: &str, value: &str) -> Vec<u8> {
    let len = (value.len() as u32 + 1).to_le_bytes();
    field(2, name, &[&len[..], value.as_bytes(), &[0]].concat())
}

fn int(name: &str, value: i32) -> Vec<u8> {
    field(0x10, name, &value.to_le_bytes())
}

fn double(name: &str, value: f64) -> Vec<u8> {
    field(1, name, &value.to_le_bytes())
}

fn document(fields: &[Vec<u8>]) -> Vec<u8> {
    let fields = fields.concat();
    [&(fields.len() as u32 + 5).to_le_bytes()[..], &fields, &[0]].concat()
}

fn message(id: u32, to: u32, opcode: u32, content: &[u8]) -> Vec<u8> {
    let head = [content.len() as u32 + 16, id, to, opcode];
    let head: Vec<u8> = head.iter().flat_map(|n| n.to_le_bytes()).collect();
    [&head[..], content].concat()
}

fn msg(id: u32, to: u32, flags: u32, fields: &[Vec<u8>]) -> Vec<u8> {
    let content = [&flags.to_le_bytes()[..], &[0], &document(fields)].concat();
    message(id, to, 2013, &content)
}

fn ask(id: u32, command: &str, collection: &str) -> Vec<u8> {
    msg(id, 0, 0, &[text(command, collection), text("$db", "shop")])
}

fn answer(id: u32, to: u32) -> Vec<u8> {
    msg(id, to, 0, &[double("ok", 1.0)])
}

fn names(script: &[(Side, Vec<u8>)]) -> Vec<String> {
    play(&mut Reader::default(), script).names()
}

fn script() -> Vec<(Side, Vec<u8>)> {
    let refused = [
        double("ok", 0.0),
        text("errmsg", "no"),
        int("code", 59),
        text("codeName", "CommandNotFound"),
    ];
    vec![
        (C, ask(1, "find", "stories")),
        (
            S,
            msg(
                9,
                1,
                0,
                &[
                    field(3, "cursor", &document(&[text("ns", "shop.stories")])),
                    double("ok", 1.0),
                ],
            ),
        ),
        (
            C,
            msg(
                2,
                0,
                0,
                &[
                    field(0x12, "getMore", &[7; 8]),
                    text("collection", "stories"),
                ],
            ),
        ),
        (S, answer(10, 2)),
        (C, msg(3, 0, 0, &[int("ping", 1)])),
        (S, msg(11, 3, 0, &refused)),
        (C, ask(4, "notACommand", "secret")),
        (S, answer(12, 4)),
    ]
}

#[test]
fn a_command_is_named_with_its_collection() {
    let log = play(&mut Reader::default(), &script());
    let expected = [
        "find stories ok",
        "getMore stories ok",
        "ping error-59",
        "notACommand ok",
    ];
    assert_eq!(log.names(), expected);
    split_anyhow::<Reader, _>(&script(), [&[1][..], &[15, 2], &[33]]);
}

#[test]
fn documents_may_come_before_the_command() {
    let inserted = document(&[text("name", "secret")]);
    let sequence = [&b"documents\0"[..], &inserted].concat();
    let sequence = [&(sequence.len() as u32 + 4).to_le_bytes()[..], &sequence].concat();
    let body = document(&[text("insert", "stories"), text("$db", "shop")]);
    let content = [&[0; 4][..], &[1], &sequence, &[0], &body].concat();
    let script = [(C, message(1, 0, 2013, &content)), (S, answer(2, 1))];
    assert_eq!(names(&script), ["insert stories ok"]);
}

#[test]
fn the_query_of_a_handshake_and_its_reply() {
    let query = [
        &[0; 4][..],
        b"admin.$cmd\0",
        &[0; 4],
        &[0xff; 4],
        &document(&[int("isMaster", 1)]),
    ]
    .concat();
    let reply = [&[8, 0, 0, 0][..], &[0; 16], &document(&[double("ok", 1.0)])].concat();
    let script = [
        (C, message(1, 0, 2004, &query)),
        (S, message(2, 1, 1, &reply)),
    ];
    assert_eq!(names(&script), ["isMaster ok"]);
    assert_eq!(client_sign(&script[0].1), Sign::Certain);
    assert_eq!(server_sign(&script[1].1), Sign::Likely);
}

#[test]
fn compressed_commands_have_no_name() {
    let content = [&2013u32.to_le_bytes()[..], &[40, 0, 0, 0, 2], &[9; 30]].concat();
    let script = [
        (C, message(1, 0, 2012, &content)),
        (S, message(2, 1, 2012, &content)),
    ];
    assert_eq!(names(&script), ["? ok"]);
}

#[test]
fn what_waits_for_news_or_gets_no_answer_is_no_exchange() {
    let hello = msg(
        1,
        0,
        1 << 16,
        &[int("hello", 1), int("maxAwaitTimeMS", 10_000)],
    );
    let tail = msg(
        5,
        0,
        0,
        &[
            field(0x12, "getMore", &[7; 8]),
            text("collection", "log"),
            int("maxTimeMS", 1000),
        ],
    );
    let silent = msg(6, 0, 2, &[text("insert", "stories")]);
    let script = [
        (C, hello),
        (S, msg(20, 1, 2, &[double("ok", 1.0)])),
        (S, msg(21, 20, 2, &[double("ok", 1.0)])),
        (S, msg(22, 21, 0, &[double("ok", 1.0)])),
        (C, tail),
        (S, answer(23, 5)),
        (C, silent),
        (C, ask(7, "find", "stories")),
        (S, answer(24, 7)),
    ];
    assert_eq!(names(&script), ["find stories ok"]);
}

#[test]
fn responses_may_come_in_another_order() {
    let script = [
        (C, [ask(1, "find", "a"), ask(2, "find", "b")].concat()),
        (S, answer(9, 2)),
        (S, answer(10, 1)),
    ];
    let log = play(&mut Reader::default(), &script);
    assert_eq!(log.names(), ["find a ok", "find b ok"]);
    assert_eq!([log.seen[0].last, log.seen[1].last], [2, 1]);
}

#[test]
fn one_command_at_a_time_is_counted_at_any_snap_length() {
    let script: Vec<_> = (1..5u32)
        .flat_map(|n| {
            let long = text("comment", &"x".repeat(3000));
            [
                (C, msg(n, 0, 0, &[text("find", "a"), long.clone()])),
                (S, msg(9, n, 0, &[long])),
            ]
        })
        .collect();
    cut_at::<Reader, _>(&script, &[0, 6, 15, 16, 24, 60]);
}

#[test]
fn hostile_documents_have_no_name() {
    let endless = [&[0; 4][..], &[0], &[0xff; 4], b"\x02find\0\xff\xff\xff\xff"].concat();
    assert_eq!(names(&[(C, message(1, 0, 2013, &endless))]), ["? …"]);
    let mut long = ask(1, "find", "a");
    long[3] = 0x7f;
    assert_eq!(names(&[(C, long)]), ["unreadable: not a MongoDB request"]);
    assert_eq!(
        names(&[(C, message(1, 0, 2013, b""))]),
        ["unreadable: not a MongoDB request"]
    );
}

#[test]
fn a_message_is_certain_and_a_header_is_not() {
    assert_eq!(client_sign(&ask(1, "find", "a")), Sign::Certain);
    assert_eq!(client_sign(&ask(1, "find", "a")[..20]), Sign::Likely);
    assert_eq!(client_sign(&answer(2, 1)), Sign::None);
    assert_eq!(server_sign(&answer(2, 1)), Sign::Certain);
    assert_eq!(client_sign(&[0; 40]), Sign::None);
}

withstands!(Reader, script());
