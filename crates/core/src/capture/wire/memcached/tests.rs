#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::{client_sign, server_sign, Memcached};
use crate::capture::wire::detect::Sign;
use crate::capture::wire::log::{cut_at, cut_everywhere, play, split_anyhow, withstands, C, S};
use crate::capture::wire::Side;
use crate::capture::wire::{Chunk, Exchanges, Outcome, Protocol, Raw};

fn names<T: AsRef<[u8]>>(script: &[(Side, T)]) -> Vec<String> {
    play(&mut Memcached::default(), script).names()
}

fn text(script: &[(Side, &str)]) -> Vec<String> {
    names(script)
}

/// A message of the binary form.
fn message(magic: u8, code: u8, status: u16, key: &str, value: &str, opaque: u32) -> Vec<u8> {
    let mut message = vec![magic, code];
    message.extend((key.len() as u16).to_be_bytes());
    message.extend([0, 0]);
    message.extend(status.to_be_bytes());
    message.extend(((key.len() + value.len()) as u32).to_be_bytes());
    message.extend(opaque.to_be_bytes());
    message.extend([0; 8]);
    message.extend(key.bytes().chain(value.bytes()));
    message
}

fn ask(code: u8, key: &str, opaque: u32) -> Vec<u8> {
    message(0x80, code, 0, key, "", opaque)
}

fn answer(code: u8, status: u16, value: &str, opaque: u32) -> Vec<u8> {
    message(0x81, code, status, "", value, opaque)
}

#[test]
fn a_line_and_its_reply_are_an_exchange() {
    let script = [
        (C, "set a 0 60 5\r\nhello\r\n"),
        (S, "STORED\r\n"),
        (C, "get a b\r\n"),
        (S, "VALUE a 0 5\r\nhello\r\nEND\r\n"),
        (C, "delete nothing\r\n"),
        (S, "NOT_FOUND\r\n"),
        (C, "incr a 1\r\n"),
        (
            S,
            "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
        ),
        (C, "stats\r\n"),
        (S, "STAT pid 1\r\nSTAT uptime 2\r\nEND\r\n"),
    ];
    assert_eq!(
        play(&mut Memcached::default(), &script).lines(),
        [
            "set | 21 8 | ok",
            "get | 9 25 | ok",
            "delete | 16 11 | ok",
            "incr | 10 62 | error-CLIENT_ERROR",
            "stats | 7 32 | ok"
        ]
    );
    cut_everywhere::<Memcached, _>(&script);
}

#[test]
fn commands_without_a_reply_are_no_exchange() {
    let quiet = "set a 0 0 1 noreply\r\nx\r\ndelete a noreply\r\n";
    let script = [
        (C, [quiet, "get a\r\n"].concat()),
        (S, "END\r\n".to_owned()),
    ];
    assert_eq!(names(&script), ["get ok"]);
    assert!(text(&[(C, "quit\r\n")]).is_empty());
}

#[test]
fn pipelined_commands_are_answered_in_order() {
    let script = [
        (C, "get a\r\nget b\r\nset c 0 0 2\r\n"),
        (C, "xy\r\n"),
        (S, "END\r\nVALUE b 0 5\r\nEND\r\n\r\nEN"),
        (S, "D\r\nSTORED\r\n"),
    ];
    let log = play(&mut Memcached::default(), &script);
    assert_eq!(log.names(), ["get ok", "get ok", "set ok"]);
    assert_eq!(log.times(1), (0, 0, Some(2), 3));
    split_anyhow::<Memcached, _>(&script, [&[1][..], &[2, 3], &[7]]);
}

#[test]
fn a_batch_of_quiet_meta_commands_is_one_exchange() {
    let asked = "mg a v q\r\nmg b v q\r\nmn\r\n";
    let script = [(C, asked), (S, "VA 2\r\nhi\r\nMN\r\n"), (C, "mg a v\r\n")];
    let script = [&script[..], &[(S, "VA 2 s2\r\nhi\r\n")]].concat();
    assert_eq!(text(&script), ["mg ok", "mg ok"]);
    assert_eq!(
        text(&[
            (C, "ms a 2 c\r\nhi\r\n"),
            (S, "HD c7\r\n"),
            (C, "mg b v\r\n"),
            (S, "EN\r\n")
        ]),
        ["ms ok", "mg ok"]
    );
}

#[test]
fn a_stream_ends_the_reading() {
    let seen = text(&[(C, "get a\r\n"), (S, "END\r\n"), (C, "watch mutations\r\n")]);
    assert_eq!(seen, ["get ok", "opaque: a stream of messages"]);
}

#[test]
fn a_message_of_the_binary_form_and_its_answer_are_an_exchange() {
    let script = [
        (C, ask(0x00, "a", 7)),
        (S, answer(0x00, 1, "Not found", 7)),
        (C, [ask(0x01, "key", 8), ask(0x04, "key", 9)].concat()),
        (
            S,
            [answer(0x01, 3, "Too large.", 8), answer(0x04, 0, "", 9)].concat(),
        ),
        (C, ask(0x10, "", 0)),
        (
            S,
            [
                message(0x81, 0x10, 0, "pid", "17", 0),
                answer(0x10, 0, "", 0),
            ]
            .concat(),
        ),
    ];
    let log = play(&mut Memcached::default(), &script);
    assert_eq!(
        log.lines(),
        [
            "get | 25 33 | ok",
            "set | 27 34 | error-TOO_LARGE",
            "delete | 27 24 | ok",
            "stats | 24 53 | ok"
        ]
    );
    split_anyhow::<Memcached, _>(&script, [&[1][..], &[23, 2], &[30]]);
}

#[test]
fn many_clients_number_all_their_messages_zero() {
    let script = [
        (C, [ask(0x00, "a", 0), ask(0x00, "b", 0)].concat()),
        (S, answer(0x00, 0, "first", 0)),
        (S, answer(0x00, 0x85, "", 0)),
    ];
    assert_eq!(names(&script), ["get ok", "get error-BUSY"]);
}

#[test]
fn a_batch_of_quiet_messages_is_one_exchange() {
    let hit = message(0x81, 0x0d, 0, "b", "value", 2);
    let script = [
        (
            C,
            [ask(0x0d, "a", 1), ask(0x0d, "b", 2), ask(0x0a, "", 3)].concat(),
        ),
        (S, [hit, answer(0x0a, 0, "", 3)].concat()),
        (C, ask(0x0a, "", 4)),
        (S, answer(0x0a, 0, "", 4)),
    ];
    let lines = play(&mut Memcached::default(), &script).lines();
    assert_eq!(lines, ["get | 24 54 | ok", "noop | 24 24 | ok"]);
}

/// Counts the bytes that could not be read.
#[derive(Default)]
struct Unread(u64);

impl Exchanges for Unread {
    fn no_login(&mut self) {}
    fn request(&mut self, _time: i64, _raw: Raw<'_>, _key: u64) {}
    fn rename(&mut self, _raw: Raw<'_>, _key: u64) {}
    fn request_bytes(&mut self, _time: i64, _len: u64) {}
    fn response_bytes(&mut self, _time: i64, _len: u64) {}
    fn turn_to(&mut self, _nth: usize) {}
    fn finish(&mut self, _outcome: Outcome) {}
    fn break_off(&mut self, _time: i64, _outcome: Outcome) {}
    fn open_ended(&mut self, _outcome: Outcome) {}
    fn one_way(&mut self) {}
    fn unreadable(&mut self, _reason: &'static str, len: u64) {
        self.0 += len;
    }
    fn opaque(&mut self, _reason: &'static str) {}
}

#[test]
fn all_bytes_that_are_lost_before_the_first_one_are_counted() {
    for first in [b"get a\r\n".to_vec(), ask(0x00, "a", 1)] {
        let (mut reader, mut out) = (Memcached::default(), Unread::default());
        for (time, len) in [(0, 0), (1, 10), (2, 200), (3, 3000), (4, 0), (5, 40_000)] {
            reader.gap(C, time, len, &mut out);
            reader.gap(S, time, 2 * len, &mut out);
        }
        let bytes = &first[..];
        let len = bytes.len() as u64;
        reader.data(
            C,
            Chunk {
                time: 9,
                bytes,
                len,
            },
            &mut out,
        );
        assert_eq!(out.0, 3 * 43_210, "{first:?}");
    }
}

#[test]
fn one_command_at_a_time_is_counted_at_any_snap_length() {
    let value = "x".repeat(3000);
    let script: Vec<_> = (0..4u32)
        .flat_map(|n| [(C, ask(0x00, "key", n)), (S, answer(0x00, 0, &value, n))])
        .collect();
    cut_at::<Memcached, _>(&script, &[0, 6, 23, 24, 40]);
}

#[test]
fn what_looks_like_a_command_is_one_only_with_a_reply_or_on_its_port() {
    for (first, sign) in [
        (&b"set a 0 0 5\r\nhello\r\n"[..], Sign::Certain),
        (b"cas a 0 0 5 7\r\nhello\r\n", Sign::Certain),
        (b"get a\r\n", Sign::Likely),
        (b"version\r\n", Sign::Likely),
        (b"get a", Sign::None),
        (b"get\r\n", Sign::None),
        (b"set a b c d\r\n", Sign::None),
        (b"GET / HTTP/1.1\r\n", Sign::None),
        (b"getting on\r\n", Sign::None),
        (b"EHLO me\r\n", Sign::None),
        (b"delete 1\0\r\n", Sign::None),
    ] {
        assert_eq!(
            client_sign(first),
            sign,
            "{:?}",
            String::from_utf8_lossy(first)
        );
    }
    assert_eq!(client_sign(&ask(0x00, "a", 1)), Sign::Likely);
    assert_eq!(
        client_sign(&message(0x80, 0x00, 0, "", "", 0)[..20]),
        Sign::None
    );
    assert_eq!(server_sign(&answer(0x00, 1, "", 1)), Sign::Likely);
    assert_eq!(server_sign(b"220 welcome\r\n"), Sign::None);
}

#[test]
fn hostile_lengths_are_no_messages() {
    let mut long = ask(0x00, "a", 1);
    long[8] = 0xff;
    assert_eq!(names(&[(C, long)]), ["unreadable: not a memcached command"]);
    let lines = text(&[(C, "set a 0 0 99999999999\r\n"), (C, "set a 0 0 -1\r\n")]);
    assert_eq!(lines, ["unreadable: not a memcached command"]);
    let endless = "get ".to_owned() + &"k ".repeat(100_000) + "\r\n";
    let script = [
        (C, endless),
        (S, "END\r\n".to_owned()),
        (C, "get a\r\n".to_owned()),
    ];
    assert_eq!(names(&script), ["get ok", "get …"]);
}

fn text_script() -> Vec<(Side, Vec<u8>)> {
    [
        (C, "set a 0 0 5\r\nhello\r\n"),
        (S, "STORED\r\n"),
        (C, "get a b\r\n"),
        (C, "get c\r\n"),
        (S, "VALUE a 0 5\r\nhello\r\nEND\r\nEND\r\n"),
        (C, "mg a v q\r\nmn\r\n"),
        (S, "VA 2\r\nhi\r\nMN\r\n"),
    ]
    .map(|(side, text)| (side, text.as_bytes().to_vec()))
    .to_vec()
}

fn binary_script() -> Vec<(Side, Vec<u8>)> {
    vec![
        (C, ask(0x0d, "a", 0)),
        (C, ask(0x0a, "", 1)),
        (S, message(0x81, 0x0d, 0, "a", "v", 0)),
        (S, answer(0x0a, 0, "", 1)),
        (C, ask(0x00, "a", 2)),
        (S, answer(0x00, 0, "value", 2)),
    ]
}

withstands!(Memcached, text_script(), binary_script());
