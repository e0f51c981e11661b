#![allow(clippy::unwrap_used)]

use super::super::http::Http;
use super::super::log::{any_events, damaged, play, play_cut, play_split, throw, whole, Log, C, S};
use super::*;
use proptest::prelude::*;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn end_headers(stream: u32, block: &[u8], flags: u8) -> Vec<u8> {
    frame(HEADERS, frame::END_HEADERS | flags, stream, block)
}

/// `GET` and a path, which enters the table.
fn get(stream: u32, path: &str) -> Vec<u8> {
    let block = [&[0x82, 0x44, path.len() as u8], path.as_bytes()].concat();
    end_headers(stream, &block, END_STREAM)
}

const OK: &[u8] = b"\x88";
const GONE: &[u8] = b"\x08\x03410";
const GRPC: &[u8] = b"\x88\x0f\x10\x10application/grpc";

fn hello() -> Vec<u8> {
    [PREFACE, &frame(4, 0, 0, b"")].concat()
}

fn settings() -> Vec<u8> {
    frame(4, 0, 0, b"\0\x03\0\0\0\x64")
}

fn data(stream: u32, bytes: usize, flags: u8) -> Vec<u8> {
    frame(DATA, flags, stream, &vec![b'x'; bytes])
}

fn joined(frames: &[Vec<u8>]) -> Vec<u8> {
    frames.concat()
}

fn two_streams() -> Vec<(Side, Vec<u8>)> {
    vec![
        (C, joined(&[hello(), get(1, "/slow"), get(3, "/fast")])),
        (S, joined(&[settings(), end_headers(3, GONE, 0)])),
        (
            S,
            joined(&[data(3, 100, END_STREAM), end_headers(1, OK, 0)]),
        ),
        (C, get(5, "/third")),
        (
            S,
            joined(&[end_headers(5, OK, END_STREAM), data(1, 50, END_STREAM)]),
        ),
    ]
}

#[test]
fn a_request_has_the_trace_of_its_fields_also_from_the_table() {
    let field = |name: &str, value: &str| {
        let lengths = [
            &[0x40, name.len() as u8][..],
            name.as_bytes(),
            &[value.len() as u8],
        ];
        [&lengths.concat(), value.as_bytes()].concat()
    };
    let b3 = field("b3", "80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-1");
    let asked = b"\x82\x04\x02/a";
    let first = end_headers(1, &[&asked[..], &b3].concat(), END_STREAM);
    let again = end_headers(3, &[&asked[..], b"\xbe"].concat(), END_STREAM);
    let script = [(C, joined(&[hello(), first, again, get(5, "/b")]))];
    let script = script.each_ref().map(|(side, bytes)| (*side, &bytes[..]));
    let mut log = Log::default();
    let mut reader = Http2::default();
    for (side, bytes) in script {
        let len = bytes.len() as u64;
        reader.data(
            side,
            Chunk {
                time: 0,
                bytes,
                len,
            },
            &mut log,
        );
    }
    let traces: Vec<u128> = log.seen.iter().map(|seen| seen.trace).collect();
    let id = 0x80f1_98ee_5634_3ba8_64fe_8b2a_57d3_eff7;
    assert_eq!(traces, [id, id, 0]);
}

#[test]
fn a_server_says_what_it_runs_by_both_tables() {
    let powered = b"\x40\x0cx-powered-by\x07Express";
    let first = [OK, b"\x76\x05envoy", powered].concat();
    let said = |block: &[u8]| {
        let script = [
            (C, joined(&[hello(), get(1, "/a")])),
            (S, joined(&[settings(), end_headers(1, block, END_STREAM)])),
        ];
        play(&mut Http2::default(), &script).software
    };
    assert_eq!(said(&first).server.as_deref(), Some("envoy"));
    assert_eq!(said(&first).powered_by.as_deref(), Some("Express"));
    assert_eq!(said(b"\x88\x7c\x071.1 a (").via.as_deref(), Some("1.1 a ("));
    assert_eq!(said(OK), Default::default());
}

#[test]
fn streams_are_answered_in_any_order() {
    let log = play(&mut Http2::default(), &two_streams());
    assert_eq!(
        log.lines(),
        [
            "GET /slow | 17 69 | ok",
            "GET /fast | 17 123 | 410",
            "GET /third | 18 10 | ok"
        ]
    );
    assert_eq!(
        [0, 1, 2].map(|i| log.times(i)),
        [(0, 0, Some(2), 4), (0, 0, Some(1), 2), (3, 3, Some(4), 4),]
    );
    assert_ne!(log.seen[0].key, 0);
}

#[test]
fn the_pieces_in_which_bytes_come_change_nothing() {
    let expected = play(&mut Http2::default(), &two_streams()).lines();
    for cuts in [&[1][..], &[2, 7, 30], &[40, 3]] {
        let mut reader = Http2::default();
        // The preface is written at once by every client.
        let mut log = play(&mut reader, &[(C, hello())]);
        let mut script = two_streams();
        script[0].1.drain(..hello().len());
        let rest = play_split(&mut reader, &script, cuts);
        log.seen.extend(rest.seen);
        assert_eq!(log.lines(), expected, "{cuts:?}");
    }
}

#[test]
fn a_block_in_several_frames_with_padding_and_priority() {
    let padded = [&[3, 0, 0, 0, 0, 16][..], b"\x82\x44\x03", &[0; 3]].concat();
    let log = play(
        &mut Http2::default(),
        &[
            (
                C,
                joined(&[hello(), frame(HEADERS, 0x28 | END_STREAM, 1, &padded)]),
            ),
            (C, frame(CONTINUATION, frame::END_HEADERS, 1, b"/ab")),
            (S, joined(&[settings(), end_headers(1, b"\x08\x03103", 0)])),
            (S, frame(HEADERS, 0, 1, b"\x08\x03")),
            (S, frame(CONTINUATION, frame::END_HEADERS, 1, b"503")),
            (S, frame(DATA, 0x9, 1, b"\x02body\0\0")),
        ],
    );
    assert_eq!(log.lines(), ["GET /ab | 33 39 | 503"]);
    assert_eq!(
        log.times(0),
        (0, 1, Some(3), 5),
        "an interim response is none"
    );
}

#[test]
fn grpc_has_its_status_in_the_trailers() {
    let call = |stream| {
        joined(&[
            end_headers(stream, b"\x83\x44\x0e/pkg.Svc/Hello", 0),
            data(stream, 10, END_STREAM),
        ])
    };
    let trailers = |status: &[u8]| [&b"\0\x0bgrpc-status\x02"[..], status].concat();
    let log = play(
        &mut Http2::default(),
        &[
            (C, joined(&[hello(), call(1), call(3)])),
            (
                S,
                joined(&[settings(), end_headers(1, GRPC, 0), data(1, 7, 0)]),
            ),
            (S, end_headers(1, &trailers(b"00"), END_STREAM)),
            (
                S,
                end_headers(3, &[GRPC, &trailers(b"14")].concat(), END_STREAM),
            ),
        ],
    );
    assert_eq!(
        log.names(),
        [
            "POST /pkg.Svc/Hello ok",
            "POST /pkg.Svc/Hello error-UNAVAILABLE"
        ]
    );
}

#[test]
fn streams_that_are_taken_back_or_refused() {
    let log = play(
        &mut Http2::default(),
        &[
            (
                C,
                joined(&[
                    hello(),
                    get(1, "/a"),
                    get(3, "/b"),
                    get(5, "/c"),
                    get(7, "/d"),
                ]),
            ),
            (S, joined(&[settings(), end_headers(1, OK, 0)])),
            (C, frame(RST_STREAM, 0, 1, b"\0\0\0\x08")),
            (
                S,
                joined(&[
                    data(1, 5, END_STREAM),
                    frame(RST_STREAM, 0, 3, b"\0\0\0\x02"),
                ]),
            ),
            (S, frame(GOAWAY, 0, 0, b"\0\0\0\x05\0\0\0\0")),
            (S, joined(&[end_headers(5, OK, END_STREAM)])),
        ],
    );
    assert_eq!(
        log.names(),
        [
            "GET /a aborted",
            "GET /b error-INTERNAL_ERROR",
            "GET /c ok",
            "GET /d error-REFUSED_STREAM",
        ]
    );
    assert_eq!(log.times(0).3, 2);
}

#[test]
fn pushed_responses_belong_to_no_request() {
    let promise = frame(
        PUSH_PROMISE,
        frame::END_HEADERS,
        1,
        b"\0\0\0\x02\x82\x44\x02/p",
    );
    let log = play(
        &mut Http2::default(),
        &[
            (C, joined(&[hello(), get(1, "/")])),
            (
                S,
                joined(&[
                    settings(),
                    promise,
                    end_headers(2, OK, 0),
                    data(2, 9, END_STREAM),
                ]),
            ),
            (S, end_headers(1, b"\x8d", END_STREAM)),
        ],
    );
    assert_eq!(log.lines(), ["GET / | 13 10 | 404"]);
}

#[test]
fn a_recording_that_begins_within_a_connection() {
    let mut reader = Http2::default();
    let mut log = Log::default();
    for side in [C, S] {
        reader.gap(side, 0, 0, &mut log);
    }
    let mut say = |time, side, bytes: Vec<u8>| reader.data(side, whole(time, &bytes), &mut log);
    say(1, S, b"the rest of a body".to_vec());
    // The path has an index of which nothing is known.
    say(2, C, end_headers(101, b"\x82\xc6", END_STREAM));
    say(
        3,
        S,
        joined(&[end_headers(101, GONE, 0), data(101, 4, END_STREAM)]),
    );
    say(4, C, get(103, "/new"));
    say(5, S, end_headers(103, OK, END_STREAM));
    say(6, C, end_headers(105, b"\x82\xbe", END_STREAM));
    say(7, S, end_headers(105, OK, END_STREAM));
    let lines = log.names();
    assert_eq!(lines[..3], ["? 410", "GET /new ok", "GET /new ok"]);
}

#[test]
fn a_hole_within_the_body_of_a_response_does_not_end_it() {
    let mut reader = Http2::default();
    let mut log = play(
        &mut reader,
        &[
            (C, joined(&[hello(), get(1, "/")])),
            (
                S,
                joined(&[settings(), end_headers(1, OK, 0), data(1, 0, 0)]),
            ),
            (
                S,
                [&frame(DATA, END_STREAM, 1, &[])[..6], b"\0\0\x01"].concat(),
            ),
        ],
    );
    assert_eq!(log.names(), ["GET / ok"]);
    let long = data(3, 3000, END_STREAM);
    reader.data(C, whole(9, &get(3, "/")), &mut log);
    reader.data(
        S,
        whole(10, &joined(&[end_headers(3, OK, 0), long[..1000].to_vec()])),
        &mut log,
    );
    log.gap(S);
    reader.gap(S, 11, 1000, &mut log);
    reader.data(S, whole(12, &long[2000..]), &mut log);
    assert_eq!(log.seen[1].end, "ok");
    assert_eq!(log.times(1).3, 12);
}

#[test]
fn cut_segments_keep_streams_and_times() {
    let script = [
        (C, hello()),
        (C, get(1, "/a/path/that/is/not/captured/to/its/end")),
        (
            S,
            joined(&[
                settings(),
                end_headers(1, GONE, 0),
                data(1, 400, END_STREAM),
            ]),
        ),
        (C, joined(&[get(3, "/b"), data(3, 0, END_STREAM)])),
        (
            S,
            joined(&[end_headers(3, OK, 0), data(3, 2000, END_STREAM)]),
        ),
        (C, get(5, "/c")),
        (S, end_headers(5, OK, END_STREAM)),
    ];
    for snap in 30..60 {
        let log = play_cut(&mut Http2::default(), &script, snap);
        let ends: Vec<_> = log
            .seen
            .iter()
            .map(|s| (s.begun, s.last, s.end.trim_start_matches('~')))
            .collect();
        assert_eq!(ends, [(1, 2, "410"), (3, 4, "ok"), (5, 6, "ok")], "{snap}");
    }
}

#[test]
fn a_request_that_was_cut_off_counts_if_it_is_answered() {
    let script = [
        (C, joined(&[hello(), get(1, "/a")])),
        (S, joined(&[settings(), end_headers(1, OK, END_STREAM)])),
    ];
    let log = play_cut(&mut Http2::default(), &script, 28);
    assert_eq!(log.names()[0], "? ok");
    assert_eq!(log.times(0), (0, 0, Some(1), 1));
}

#[test]
fn an_upgrade_from_http_1_is_answered_on_stream_1() {
    let log = play(
        &mut Http::default(),
        &[
            (
                C,
                b"GET /up HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n"
                    .to_vec(),
            ),
            (
                S,
                [
                    &b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n"[..],
                    &settings(),
                ]
                .concat(),
            ),
            (C, hello()),
            (
                S,
                joined(&[end_headers(1, GONE, 0), data(1, 3, END_STREAM)]),
            ),
            (C, get(3, "/next")),
            (S, end_headers(3, OK, END_STREAM)),
        ],
    );
    assert_eq!(log.names(), ["GET /up 410", "GET /next ok"]);
    assert_eq!(log.times(0), (0, 0, Some(3), 3));
}

#[test]
fn streams_of_events_and_tunnels_are_answered_by_their_heads() {
    let events = b"\x88\x0f\x10\x11text/event-stream";
    let connect = end_headers(3, b"\x02\x07CONNECT\x44\x03/ws", 0);
    let log = play(
        &mut Http2::default(),
        &[
            (C, joined(&[hello(), get(1, "/news"), connect])),
            (S, joined(&[settings(), end_headers(1, events, 0)])),
            (S, joined(&[end_headers(3, OK, 0), data(1, 10, 0)])),
            (C, data(3, 10, 0)),
            (S, joined(&[data(3, 10, 0), data(1, 10, END_STREAM)])),
        ],
    );
    assert_eq!(log.names(), ["GET /news ok", "CONNECT /ws ok"]);
    assert_eq!([log.times(0).3, log.times(1).3], [1, 2]);
}

#[test]
fn requests_without_responses_are_given_up() {
    let script: Vec<_> = (0..=OPEN_MAX as u32)
        .map(|i| (C, get(2 * i + 1, "/")))
        .collect();
    let log = play(&mut Http2::default(), &script);
    assert_eq!(
        log.names().pop().as_deref(),
        Some("opaque: requests without responses")
    );
}

proptest! {
    #[test]
    fn anything_is_accepted(events in any_events()) {
        throw(&mut Http2::default(), &events);
    }

    #[test]
    fn damaged_conversations_are_accepted(damage in prop::collection::vec(any::<u8>(), 1..12)) {
        throw(&mut Http2::default(), &damaged(&two_streams(), &damage));
    }
}
