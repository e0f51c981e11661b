#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::FastCgi;
use crate::capture::wire::log::{
    any_events, cut_everywhere, damaged, play, play_cut, play_split, throw, whole, Log, C, S,
};
use crate::capture::wire::{path_key, Protocol, Side};
use proptest::prelude::*;

fn record(kind: u8, id: u16, content: &[u8]) -> Vec<u8> {
    // As libfcgi does: to a multiple of eight bytes.
    let padding = content.len().wrapping_neg() % 8;
    let mut record = vec![1, kind];
    record.extend(id.to_be_bytes());
    record.extend((content.len() as u16).to_be_bytes());
    record.extend([padding as u8, 0]);
    record.extend(content);
    record.extend(vec![0; padding]);
    record
}

fn begin(id: u16) -> Vec<u8> {
    record(1, id, &[0, 1, 1, 0, 0, 0, 0, 0])
}

fn variables(pairs: &[(&str, &str)]) -> Vec<u8> {
    let length = |text: &str| match text.len() {
        n @ 0..=0x7f => vec![n as u8],
        n => (n as u32 | 1 << 31).to_be_bytes().to_vec(),
    };
    let pair = |(name, value): &(&str, &str)| {
        [
            length(name),
            length(value),
            name.as_bytes().to_vec(),
            value.as_bytes().to_vec(),
        ]
        .concat()
    };
    pairs.iter().flat_map(pair).collect()
}

/// As nginx writes a request, in one piece.
fn ask(id: u16, method: &str, uri: &str) -> Vec<u8> {
    let variables = variables(&[
        ("QUERY_STRING", "id=17"),
        ("REQUEST_METHOD", method),
        ("CONTENT_LENGTH", ""),
        ("SCRIPT_NAME", "/index.php"),
        ("REQUEST_URI", uri),
        ("HTTP_COOKIE", &"c".repeat(300)),
    ]);
    let ends = [record(4, id, b""), record(5, id, b"")].concat();
    [begin(id), record(4, id, &variables), ends].concat()
}

fn stdout(id: u16, text: &str) -> Vec<u8> {
    record(6, id, text.as_bytes())
}

fn end(id: u16, exit: u32, refusal: u8) -> Vec<u8> {
    record(
        3,
        id,
        &[&exit.to_be_bytes()[..], &[refusal, 0, 0, 0]].concat(),
    )
}

const PAGE: &str = "X-Powered-By: PHP\r\nContent-type: text/html\r\n\r\n<html>Status: 500</html>";

fn page(id: u16) -> Vec<u8> {
    [stdout(id, PAGE), stdout(id, ""), end(id, 0, 0)].concat()
}

fn names(script: &[(Side, Vec<u8>)]) -> Vec<String> {
    play(&mut FastCgi::default(), script).names()
}

#[test]
fn a_request_is_what_its_variables_say() {
    let (asked, page) = (ask(1, "GET", "/story/17?page=2"), page(1));
    let log = play(
        &mut FastCgi::default(),
        &[(C, asked.clone()), (S, page.clone())],
    );
    let line = format!("GET /story/17?page=2 | {} {} | ok", asked.len(), page.len());
    assert_eq!(log.lines(), [line]);
    assert_eq!(log.seen[0].key, path_key(b"/story/17"));
    assert_eq!(log.times(0), (0, 0, Some(1), 1));
    for (pairs, name) in [
        (
            &[("SCRIPT_FILENAME", "/web/a.php"), ("SCRIPT_NAME", "/a.php")][..],
            "? /a.php",
        ),
        (&[("SCRIPT_NAME", "/a.php"), ("DOCUMENT_URI", "/a")], "? /a"),
        (
            &[("REQUEST_METHOD", "GET"), ("SCRIPT_FILENAME", "/web/a.php")],
            "GET /web/a.php",
        ),
        (&[("REQUEST_METHOD", "POST")], "?"),
    ] {
        let script = [begin(1), record(4, 1, &variables(pairs)), record(4, 1, b"")].concat();
        assert_eq!(names(&[(C, script)]), [format!("{name} …")]);
    }
}

#[test]
fn a_kept_connection_carries_one_request_after_the_other() {
    let script = [
        (C, ask(1, "GET", "/1")),
        (S, page(1)),
        (C, begin(1)),
        (
            C,
            record(
                4,
                1,
                &variables(&[("REQUEST_URI", "/2"), ("REQUEST_METHOD", "POST")]),
            ),
        ),
        (C, [record(4, 1, b""), record(5, 1, &[b'x'; 1000])].concat()),
        (C, record(5, 1, b"")),
        (S, stdout(1, PAGE)),
        (S, [stdout(1, ""), end(1, 0, 0)].concat()),
    ];
    let log = play(&mut FastCgi::default(), &script);
    assert_eq!(log.names(), ["GET /1 ok", "POST /2 ok"]);
    assert_eq!(log.times(1), (2, 5, Some(6), 7));
    assert_eq!(log.seen[1].bytes_in, 16 + 48 + 8 + 1008 + 8);
}

#[test]
fn the_outcome_is_the_status_or_what_ended_the_request() {
    let not_found = "Status: 404 Not Found\r\nContent-type: text/html\r\n\r\n";
    for (head, exit, refusal, want) in [
        (PAGE, 0, 0, "ok"),
        (not_found, 0, 0, "404"),
        ("Content-type: text/html\r\nstatus:503\r\n\r\n", 0, 0, "503"),
        ("Status: 302 Found\r\nLocation: /\r\n\r\n", 0, 0, "ok"),
        ("HTTP/1.1 500 Oh\r\n\r\n", 0, 0, "500"),
        (PAGE, 255, 0, "error-exit-255"),
        (not_found, 255, 0, "404"),
        (PAGE, 0, 2, "error-overloaded"),
        (PAGE, 0, 1, "error-cannot-multiplex"),
    ] {
        let reply = [stdout(1, head), end(1, exit, refusal)].concat();
        let script = [(C, ask(1, "GET", "/")), (S, reply)];
        assert_eq!(names(&script), [format!("GET / {want}")], "{head}");
        let split = play_split(&mut FastCgi::default(), &script, &[1]);
        assert_eq!(split.names(), [format!("GET / {want}")], "{head}");
    }
}

#[test]
fn simultaneous_requests_are_distinguished_by_their_ids() {
    let script = [
        (C, [begin(1), begin(2)].concat()),
        (C, record(4, 2, &variables(&[("REQUEST_URI", "/two")]))),
        (C, record(4, 1, &variables(&[("REQUEST_URI", "/one")]))),
        (
            C,
            [
                record(4, 1, b""),
                record(4, 2, b""),
                ask(3, "GET", "/three"),
            ]
            .concat(),
        ),
        (S, stdout(2, "Status: 500 No\r\n\r\n")),
        (S, stdout(1, PAGE)),
        (S, stdout(2, "more")),
        (S, end(2, 0, 0)),
        (S, page(3)),
        (S, end(1, 0, 0)),
    ];
    let log = play(&mut FastCgi::default(), &script);
    assert_eq!(log.names(), ["? /one ok", "? /two 500", "GET /three ok"]);
    assert_eq!([0, 1, 2].map(|i| log.times(i).3), [9, 7, 8]);
    assert_eq!([0, 1].map(|i| log.times(i).2), [Some(5), Some(4)]);
}

#[test]
fn what_the_client_takes_back_is_aborted() {
    let script = [
        (C, ask(1, "GET", "/slow")),
        (C, record(2, 1, b"")),
        (S, end(1, 1, 0)),
        (C, ask(1, "GET", "/next")),
        (S, page(1)),
    ];
    assert_eq!(names(&script), ["GET /slow aborted", "GET /next ok"]);
}

#[test]
fn stderr_is_not_a_response() {
    let script = [
        (C, ask(1, "GET", "/")),
        (
            S,
            record(7, 1, b"PHP message: PHP Warning: undefined variable"),
        ),
        (S, page(1)),
    ];
    let log = play(&mut FastCgi::default(), &script);
    assert_eq!(log.times(0), (0, 0, Some(2), 2));
    assert_eq!(log.seen[0].bytes_out, page(1).len() as u64);
}

#[test]
fn questions_about_limits_are_exchanges() {
    let script = [
        (C, record(9, 0, &variables(&[("FCGI_MAX_CONNS", "")]))),
        (S, record(10, 0, &variables(&[("FCGI_MAX_CONNS", "5")]))),
        (C, ask(1, "GET", "/")),
        (S, page(1)),
    ];
    assert_eq!(names(&script), ["GET_VALUES ok", "GET / ok"]);
}

#[test]
fn a_recording_may_start_in_the_middle() {
    let mut fastcgi = FastCgi::default();
    let mut log = Log::default();
    for side in [C, S] {
        fastcgi.gap(side, 0, 0, &mut log);
    }
    fastcgi.data(C, whole(1, b"the rest of a form"), &mut log);
    fastcgi.data(S, whole(2, &page(1)), &mut log);
    fastcgi.data(C, whole(3, &ask(1, "GET", "/1")), &mut log);
    fastcgi.data(S, whole(4, b"the middle of a page"), &mut log);
    fastcgi.data(C, whole(5, &ask(1, "GET", "/2")), &mut log);
    fastcgi.data(S, whole(6, &page(1)), &mut log);
    assert_eq!(log.names()[..2], ["GET /1 ~ok", "GET /2 ok"]);
}

#[test]
fn variables_that_were_cut_name_what_they_show() {
    let log = |snap| {
        play_cut(
            &mut FastCgi::default(),
            &[(C, ask(1, "GET", "/story/17"))],
            snap,
        )
    };
    assert_eq!(log(200).names(), ["GET /story/17 …"]);
    assert_eq!(log(115).names(), ["GET /index.php …"]);
    assert_eq!(log(90).names(), ["? …"]);
    assert_eq!(
        log(20).seen[0].bytes_in,
        ask(1, "GET", "/story/17").len() as u64
    );
}

#[test]
fn an_outcome_is_reported_wherever_the_snap_length_cuts() {
    for head in [PAGE, "Status: 404 Not Found\r\n\r\n"] {
        for replies in [
            vec![stdout(1, head), end(1, 0, 0)],
            vec![
                stdout(1, head),
                stdout(1, PAGE),
                stdout(1, ""),
                end(1, 0, 0),
            ],
        ] {
            let apart: Vec<_> = replies.iter().map(|reply| (S, reply.clone())).collect();
            let script = [vec![(C, ask(1, "GET", "/a"))], apart].concat();
            cut_everywhere::<FastCgi, _>(&[script.clone(), script].concat());
            let script = [(C, ask(1, "GET", "/a")), (S, replies.concat())];
            cut_everywhere::<FastCgi, _>(&[script.clone(), script].concat());
        }
    }
}

#[test]
fn variables_without_end_take_a_bounded_memory() {
    let mut fastcgi = FastCgi::default();
    let mut log = Log::default();
    let mut send = |bytes: &[u8]| fastcgi.data(C, whole(0, bytes), &mut log);
    for id in 0..2000 {
        send(&begin(id));
        for _ in 0..4 {
            send(&record(4, id, &[b'x'; 8000]));
        }
    }
    let gathered: usize = fastcgi
        .talk
        .begun
        .iter()
        .map(|begun| begun.params.len())
        .sum();
    assert!(
        gathered <= super::GATHERED_MAX * super::PARAMS_MAX,
        "{gathered}"
    );
    assert!(fastcgi.talk.waiting.len() <= super::OPEN_MAX);
}

fn conversation() -> impl Strategy<Value = Vec<(Side, Vec<u8>)>> {
    let exchange = (1..4u16, 0..3usize, 0..2000usize, any::<bool>());
    proptest::collection::vec(exchange, 1..6).prop_map(|exchanges| {
        let mut script = Vec::new();
        for (i, (id, records, n, body)) in exchanges.into_iter().enumerate() {
            script.push((C, ask(id, "GET", &format!("/{i}"))));
            if body {
                script.push((C, record(5, id, &vec![b'x'; n])));
            }
            script.push((S, stdout(id, &format!("Status: {}00\r\n\r\n", 2 + n % 4))));
            script.extend((0..records).map(|_| (S, stdout(id, &"y".repeat(n)))));
            script.push((S, end(id, (n % 2) as u32, 0)));
        }
        script
    })
}

proptest! {
    #[test]
    fn any_bytes_at_all_do_no_harm(events in any_events()) {
        throw(&mut FastCgi::default(), &events);
    }

    #[test]
    fn any_damage_to_a_conversation_does_no_harm(
        script in conversation(), damage in proptest::collection::vec(any::<u8>(), 1..20)
    ) {
        throw(&mut FastCgi::default(), &damaged(&script, &damage));
    }

    #[test]
    fn any_chunking_gives_the_same_exchanges(
        script in conversation(), cuts in proptest::collection::vec(1..200usize, 1..20)
    ) {
        let whole = play(&mut FastCgi::default(), &script).lines();
        prop_assert!(whole.iter().all(|line| !line.contains('…') && !line.contains("unreadable")), "{whole:?}");
        prop_assert_eq!(play_split(&mut FastCgi::default(), &script, &cuts).lines(), whole);
    }
}
