#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::Http;
use crate::capture::wire::log::{
    any_events, cut_everywhere, damaged, play, play_cut, play_split, throw, whole, Log, C, S,
    SNAP_MIN,
};
use crate::capture::wire::{path_key, Chunk, Protocol, Side};
use proptest::prelude::*;

fn lines(script: &[(Side, &str)]) -> Vec<String> {
    play(&mut Http::default(), script).lines()
}

#[test]
fn a_kept_connection_carries_one_exchange_after_the_other() {
    let script = [
        (C, "GET /a?x=1 HTTP/1.1\r\nHost: h\r\n\r\n"),
        (S, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
        (C, "POST /b HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"),
        (S, "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"),
    ];
    let log = play(&mut Http::default(), &script);
    assert_eq!(
        log.lines(),
        ["GET /a?x=1 | 32 43 | ok", "POST /b | 42 40 | 503"]
    );
    assert_eq!(log.times(1), (2, 2, Some(3), 3));
    assert_eq!(log.seen[0].key, path_key(b"/a"));
}

#[test]
fn a_request_has_the_trace_of_its_head_whole_in_parts_or_cut() {
    let id = 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736;
    let head = "GET /a HTTP/1.1\r\nTraceParent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\nHost: h\r\n\r\n";
    let other = (C, "GET /b HTTP/1.1\r\nHost: h\r\n\r\n");
    for cut in [head.len(), 30, 90] {
        let (first, rest) = head.split_at(cut);
        let log = play(&mut Http::default(), &[(C, first), (C, rest), other]);
        let traces: Vec<u128> = log.seen.iter().map(|seen| seen.trace).collect();
        assert_eq!(traces, [id, 0], "in parts at {cut}");
    }
    let traced = |snap: usize| {
        let cut = Chunk {
            time: 0,
            bytes: &head.as_bytes()[..snap],
            len: head.len() as u64,
        };
        let mut log = Log::default();
        Http::default().data(C, cut, &mut log);
        log.seen[0].trace
    };
    assert_eq!((traced(95), traced(60)), (id, 0));
}

#[test]
fn a_server_says_what_it_runs_in_a_head_that_is_whole_in_parts_or_cut() {
    let asked = (C, "GET /a HTTP/1.1\r\n\r\n");
    let head = "HTTP/1.1 200 OK\r\nSERVER: nginx/1.24.0\r\nVia: 1.1 a, 1.1 b (Apache/2.4)\r\nx-powered-by: PHP/8.2\r\nContent-Length: 0\r\n\r\n";
    for cut in [head.len(), 20, 60] {
        let (first, rest) = head.split_at(cut);
        let log = play(&mut Http::default(), &[asked, (S, first), (S, rest)]);
        let said = log.software;
        assert_eq!(said.server.as_deref(), Some("nginx/1.24.0"), "{cut}");
        assert_eq!(said.via.as_deref(), Some("1.1 b (Apache/2.4)"), "{cut}");
        assert_eq!(said.powered_by.as_deref(), Some("PHP/8.2"), "{cut}");
    }
    let cut = |snap| play_cut(&mut Http::default(), &[asked, (S, head)], snap).software;
    assert_eq!(cut(45).server.as_deref(), Some("nginx/1.24.0"));
    assert_eq!(cut(30).server, None, "the value may go on");
}

#[test]
fn what_a_client_sends_and_an_interim_answer_say_nothing_of_the_server() {
    let script = [
        (
            C,
            "GET /a HTTP/1.1\r\nVia: 1.1 front (Varnish)\r\nServer: no\r\n\r\n",
        ),
        (S, "HTTP/1.1 103 Early Hints\r\nServer: hints\r\n\r\n"),
        (S, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ];
    let log = play(&mut Http::default(), &script);
    assert_eq!(log.software, Default::default());
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let script = [
        (C, "GET /1 HTTP/1.1\r\n\r\nHEAD /2 HTTP/1.1\r\n\r\n\r\nPURGE /3 HTTP/1.1\r\n\r\n"),
        (S, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\nHTTP/1.1 404 No"),
        (S, "pe\r\nContent-Length: 1\r\n\r\nx"),
    ];
    let log = play(&mut Http::default(), &script);
    assert_eq!(
        log.lines(),
        [
            "GET /1 | 19 40 | ok",
            "HEAD /2 | 20 40 | ok",
            "PURGE /3 | 21 41 | 404"
        ]
    );
    assert_eq!(log.times(2), (0, 0, Some(1), 2));
}

#[test]
fn chunks_and_trailers_are_skipped_to_the_end() {
    let script = [
        (C, "POST /up HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n3;x=y\r\nabc\r\n"),
        (C, "0\r\nTrailer: 1\r\n\r\nGET /next HTTP/1.1\r\n\r\n"),
        (S, "HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\nContent-Length: 7\r\n\r\nA\r\n0123456789\r\n"),
        (S, "0\r\nA: b\r\nC: d\r\n\r\n"),
        (S, "HTTP/1.1 304 Not Modified\r\nContent-Length: 70\r\n\r\n"),
    ];
    assert_eq!(
        lines(&script),
        ["POST /up | 84 98 | ok", "GET /next | 22 49 | ok"]
    );
}

#[test]
fn without_a_length_a_response_lasts_until_the_close() {
    let mut http = Http::default();
    let mut log = Log::default();
    http.data(C, whole(0, b"GET / HTTP/1.0\r\n\r\n"), &mut log);
    http.data(S, whole(1, b"HTTP/1.0 500 Oh\r\n\r\nhello"), &mut log);
    http.data(S, whole(2, b"HTTP/1.0 is what we speak"), &mut log);
    assert_eq!(log.names(), ["GET / ~500"]);
    http.end(C, 3, &mut log);
    http.end(S, 4, &mut log);
    assert_eq!(log.names(), ["GET / ~500"]);
    assert_eq!(log.times(0), (0, 0, Some(1), 2));
}

#[test]
fn interim_responses_are_not_the_answer() {
    let script = [
        (
            C,
            "PUT /x HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n",
        ),
        (S, "HTTP/1.1 100 Continue\r\n\r\n"),
        (C, "data"),
        (
            S,
            "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
        ),
    ];
    let log = play(&mut Http::default(), &script);
    assert_eq!(log.lines(), ["PUT /x | 64 27 | ok"]);
    assert_eq!(log.times(0), (0, 2, Some(3), 3));
}

#[test]
fn after_an_upgrade_messages_are_no_exchanges() {
    let script = [
        (
            C,
            "GET /ws HTTP/1.1\r\nUpgrade: websocket\r\n\r\nGET /early HTTP/1.1\r\n\r\n",
        ),
        (
            S,
            "HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\n\x01\x02",
        ),
        (C, "\x01GET / HTTP/1.1\r\n\r\n"),
        (S, "HTTP/1.1 200 OK\r\n\r\n"),
    ];
    let log = play(&mut Http::default(), &script);
    assert_eq!(log.lines()[0], "GET /ws | 40 46 | ok");
    assert_eq!(
        log.names()[1..],
        ["GET /early one way", "unreadable: upgraded to websocket"]
    );
    let whole: Vec<_> = script.map(|(side, text)| (side, text.to_string())).into();
    let cut = play_cut(&mut Http::default(), &whole[..3], 20);
    assert_eq!(cut.names(), ["GET /ws ok", "unreadable: upgraded"]);
}

#[test]
fn a_connection_that_leaves_http_is_opaque() {
    let connect = [
        (C, "CONNECT a:443 HTTP/1.1\r\n\r\n"),
        (S, "HTTP/1.1 200 OK\r\n\r\n"),
        (C, "\x16\x03\x01"),
    ];
    assert_eq!(
        lines(&connect),
        ["CONNECT a:443 | 26 19 | ok", "opaque: CONNECT tunnel"]
    );
    assert_eq!(
        play(&mut Http::default(), &[(C, b"\x16\x03\x01\x02\x00")]).lines(),
        ["opaque: TLS"]
    );
}

#[test]
fn a_stream_of_events_is_answered_by_its_head() {
    let head =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    let log = play(
        &mut Http::default(),
        &[
            (C, "GET /news HTTP/1.1\r\n\r\n".to_owned()),
            (S, head.to_owned()),
            (S, "5\r\nfirst\r\n".to_owned()),
            (S, "4\r\nlast\r\n0\r\n\r\n".to_owned()),
            (C, "GET /next HTTP/1.1\r\n\r\n".to_owned()),
            (
                S,
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_owned(),
            ),
        ],
    );
    assert_eq!(log.names(), ["GET /news ok", "GET /next ok"]);
    assert_eq!(log.times(0), (0, 0, Some(1), 1));
    assert_eq!(log.times(1), (4, 4, Some(5), 5));
}

#[test]
fn an_unreadable_request_counts_if_it_is_answered() {
    let bad = "HTTP/1.0 400 Bad Request\r\nContent-Length: 2\r\n\r\nno";
    let lines = lines(&[
        (C, "GET/ HTTP/1.1\r\nHost: h\r\n\r\n"),
        (S, bad),
        (C, "\u{c3}\u{82} /\r\n"),
        (C, "Host: h\r\n\r\n"),
        (S, bad),
        (C, "POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\n1and more"),
        (S, bad),
        (
            S,
            "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n",
        ),
    ]);
    assert_eq!(
        lines[..3],
        ["? | 26 49 | 400", "? | 19 49 | 400", "POST / | 39 49 | 400"]
    );
    assert!(lines[3..].iter().all(|note| note.starts_with("unread")));
}

#[test]
fn what_was_lost_before_a_response_is_not_made_up_from_the_rest() {
    let mut http = Http::default();
    let mut log = Log::default();
    http.data(C, whole(0, b"GET/ HTTP/1.1\r\n\r\n"), &mut log);
    log.gap(C);
    http.gap(C, 1, 100, &mut log);
    http.data(C, whole(2, b"the end of a form"), &mut log);
    http.data(S, whole(3, b"HTTP/1.1 204 No\r\n\r\n"), &mut log);
    assert!(log.seen.is_empty(), "{:?}", log.seen);
}

#[test]
fn targets_with_spaces_or_none_at_all_are_requests() {
    let ok = "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(
        lines(&[
            (C, "GET /a b  c HTTP/1.1\r\nHost: h\r\n\r\n"),
            (S, ok),
            (C, "GET HTTP/1.1\n\n"),
            (S, ok),
            (C, "CONNECT mail:25 / HTTP/1.0\r\nnonsense\r\n\r\n"),
            (S, "HTTP/1.0 200 Established\r\n\r\n"),
        ]),
        [
            "GET /a b  c | 33 38 | ok",
            "GET  | 14 38 | ok",
            "CONNECT mail:25 / | 40 28 | ok",
            "opaque: CONNECT tunnel"
        ]
    );
}

#[test]
fn heads_cut_by_the_snap_length_still_make_exchanges() {
    let script = [
        (
            C,
            "GET /servlet/story?id=17 HTTP/1.1\r\nHost: somewhere\r\n\r\n".to_string(),
        ),
        (
            S,
            format!(
                "HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n{}",
                "x".repeat(1400)
            ),
        ),
        (S, "x".repeat(600)),
        (
            C,
            "GET /a/path/that/is/longer/than/what/is/there HTTP/1.1\r\nHost: somewhere\r\n\r\n"
                .to_string(),
        ),
        (
            S,
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_string(),
        ),
    ];
    let log = play_cut(&mut Http::default(), &script, 30);
    assert_eq!(
        log.lines(),
        [
            "GET /servlet/story?id=17 | 54 2041 | ~ok",
            "GET /a/path/that/is/longer/tha | 75 45 | ~404"
        ]
    );
    assert_eq!(
        (log.seen[0].key, log.seen[1].key),
        (path_key(b"/servlet/story"), 0)
    );
    assert_eq!(log.times(0), (0, 0, Some(1), 2));
}

#[test]
fn a_whole_head_and_a_cut_body_end_by_length() {
    let mut http = Http::default();
    let mut log = Log::default();
    http.data(C, whole(0, b"GET / HTTP/1.1\r\n\r\n"), &mut log);
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n";
    http.data(
        S,
        Chunk {
            time: 1,
            bytes: head,
            len: 80,
        },
        &mut log,
    );
    http.data(
        S,
        Chunk {
            time: 2,
            bytes: b"",
            len: 60,
        },
        &mut log,
    );
    assert_eq!(log.lines(), ["GET / | 18 140 | ok"]);
}

#[test]
fn after_a_hole_reading_goes_on_at_the_next_start_line() {
    let mut http = Http::default();
    let mut log = Log::default();
    http.data(C, whole(0, b"GET /1 HTTP/1.1\r\n\r\n"), &mut log);
    http.data(
        S,
        whole(1, b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"),
        &mut log,
    );
    log.gap(S);
    http.gap(S, 2, 40, &mut log);
    http.data(S, whole(3, &[b'x'; 60]), &mut log);
    assert_eq!(
        log.names(),
        ["GET /1 ok"],
        "a hole inside a body of known length does no harm"
    );
    http.data(C, whole(4, b"GET /2 HTTP/1.1\r\n\r\n"), &mut log);
    http.data(
        S,
        whole(5, b"HTTP/1.1 500 OK\r\nContent-Length: 100\r\n\r\n"),
        &mut log,
    );
    log.gap(S);
    http.gap(S, 6, 0, &mut log);
    http.data(S, whole(7, b"the end of it"), &mut log);
    http.data(C, whole(8, b"GET /3 HTTP/1.1\r\n\r\n"), &mut log);
    http.data(
        S,
        whole(9, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        &mut log,
    );
    let lost = "unreadable: lost in the capture".to_string();
    assert_eq!(
        log.names(),
        ["GET /1 ok", "GET /2 ~500", "GET /3 ok", &lost]
    );
    assert_eq!(log.times(1).3, 7);
}

#[test]
fn a_recording_may_start_in_the_middle() {
    let script = [
        (S, "the rest of a body"),
        (S, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
        (C, "the rest of a form"),
        (C, "GET /1 HTTP/1.1\r\n\r\n"),
        (S, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
    ];
    let notes = [
        "unreadable: not an HTTP response",
        "unreadable: a response without its request",
        "unreadable: not an HTTP request",
    ];
    let log = play(&mut Http::default(), &script);
    assert_eq!(log.lines()[0], "GET /1 | 19 40 | ok");
    assert_eq!(log.notes, notes);
}

#[test]
fn a_head_without_end_is_given_up() {
    let mut script = vec![(C, format!("GET / HTTP/1.1\r\nA: {}", "a".repeat(1000)))];
    script.extend(std::iter::repeat_with(|| (C, "b".repeat(1000))).take(200));
    script.push((
        S,
        "HTTP/1.1 431 Too large\r\nContent-Length: 0\r\n\r\n".to_string(),
    ));
    let log = play(&mut Http::default(), &script);
    assert_eq!(log.lines(), ["GET / | 201019 45 | 431"]);
}

#[test]
fn one_direction_alone_is_bounded() {
    let request = b"GET / HTTP/1.1\r\n\r\n".repeat(10);
    let script: Vec<_> = std::iter::repeat_with(|| (C, request.clone()))
        .take(500)
        .collect();
    let log = play(&mut Http::default(), &script);
    assert_eq!(
        (log.seen.len(), log.notes),
        (4096, vec!["opaque: requests without responses".to_string()])
    );
}

#[test]
fn an_outcome_is_reported_wherever_the_snap_length_cuts() {
    let asks = [
        "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
        "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ];
    let answers = [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 503 Oh\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nT: u\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n",
        "HTTP/1.0 404 No\r\n\r\nhello",
    ];
    for ask in asks {
        for answer in answers {
            let script = [(C, ask), (S, answer)];
            cut_everywhere::<Http, _>(&[script, script].concat());
        }
    }
}

fn conversation() -> impl Strategy<Value = Vec<(Side, Vec<u8>)>> {
    let exchange = (0..4usize, 0..5usize, 0..3000usize, any::<bool>());
    proptest::collection::vec(exchange, 1..6).prop_map(|exchanges| {
        let mut script = Vec::new();
        let mut answers = Vec::new();
        for (i, (ask, answer, n, pipelined)) in exchanges.into_iter().enumerate() {
            let body = "b".repeat(n);
            script.push((C, match ask {
                0 => format!("GET /{i} HTTP/1.1\r\nHost: h\r\n\r\n"),
                1 => format!("POST /{i} HTTP/1.1\r\nContent-Length: {n}\r\n\r\n{body}"),
                2 => format!("PUT /{i} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}x\r\n0\r\n\r\n", n + 1),
                _ => format!("HEAD /{i} HTTP/1.1\r\nX: {body}\r\n\r\n"),
            }.into_bytes()));
            let (len, body) = if ask == 3 { (n, String::new()) } else { (n, body) };
            answers.push((S, match answer {
                0 => format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n{body}"),
                1 if ask != 3 => format!("HTTP/1.1 503 Oh\r\nTransfer-Encoding: chunked\r\n\r\n{:X}\r\n{body}y\r\n0\r\nT: u\r\n\r\n", n + 1),
                2 => "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n".to_string(),
                3 => "HTTP/1.1 304 Not\r\nContent-Length: 7\r\n\r\n".to_string(),
                _ => "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n".to_string(),
            }.into_bytes()));
            if !pipelined {
                script.append(&mut answers);
            }
        }
        script.append(&mut answers);
        script
    })
}

proptest! {
    #[test]
    fn any_bytes_at_all_do_no_harm(events in any_events()) {
        throw(&mut Http::default(), &events);
    }

    #[test]
    fn any_damage_to_a_conversation_does_no_harm(
        script in conversation(), damage in proptest::collection::vec(any::<u8>(), 1..20)
    ) {
        throw(&mut Http::default(), &damaged(&script, &damage));
    }

    #[test]
    fn any_chunking_gives_the_same_exchanges(
        script in conversation(), cuts in proptest::collection::vec(1..200usize, 1..20)
    ) {
        let whole = play(&mut Http::default(), &script).lines();
        prop_assert!(whole.iter().all(|line| !line.contains('…') && !line.contains("unreadable")), "{whole:?}");
        prop_assert_eq!(play_split(&mut Http::default(), &script, &cuts).lines(), whole);
    }

    #[test]
    fn cut_conversations_have_as_many_exchanges(script in conversation(), snap in SNAP_MIN..60) {
        // Without pipelining, and each message in one segment, as in a recording with a short snap length.
        let mut apart: Vec<_> = Vec::new();
        let (asked, answered): (Vec<_>, Vec<_>) = script.into_iter().partition(|(side, _)| *side == C);
        for (ask, mut answer) in asked.into_iter().zip(answered) {
            let interim = b"HTTP/1.1 100 Continue\r\n\r\n";
            if answer.1.starts_with(interim) {
                answer.1.drain(..interim.len());
            }
            apart.push(ask);
            apart.push(answer);
        }
        let whole = play(&mut Http::default(), &apart);
        let cut = play_cut(&mut Http::default(), &apart, snap);
        let sizes = |log: &Log| log.seen.iter().map(|s| (s.bytes_in, s.bytes_out, s.begun, s.last)).collect::<Vec<_>>();
        prop_assert_eq!(sizes(&cut), sizes(&whole));
        prop_assert!(cut.seen.iter().all(|s| !s.end.is_empty()));
    }
}
