#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::Ajp;
use crate::capture::wire::log::{
    any_events, cut_everywhere, damaged, play, play_cut, play_split, throw, whole, Log, C, S,
};
use crate::capture::wire::{path_key, Protocol, Side};
use proptest::prelude::*;

fn packet(magic: [u8; 2], payload: &[u8]) -> Vec<u8> {
    let mut packet = magic.to_vec();
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend(payload);
    packet
}

fn client(payload: &[u8]) -> Vec<u8> {
    packet([0x12, 0x34], payload)
}

fn server(payload: &[u8]) -> Vec<u8> {
    packet(*b"AB", payload)
}

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes(), text.as_bytes(), b"\0"].concat()
}

fn forward(method: u8, uri: &str, query: Option<&str>, content_length: &str) -> Vec<u8> {
    let mut payload = vec![2, method];
    for text in ["HTTP/1.1", uri, "10.0.0.1"] {
        payload.extend(string(text));
    }
    payload.extend([0xff, 0xff]); // no remote host
    payload.extend(string("host"));
    payload.extend([0, 80, 0, 0, 2, 0xa0, 0x08]);
    payload.extend(string(content_length));
    payload.extend(string("X-Other"));
    payload.extend(string("1"));
    payload.extend([&[0x0a][..], &string("AJP_REMOTE_PORT"), &string("1234")].concat());
    if let Some(query) = query {
        payload.extend([&[0x05][..], &string(query)].concat());
    }
    payload.push(0xff);
    client(&payload)
}

fn body(n: usize) -> Vec<u8> {
    client(&[&(n as u16).to_be_bytes()[..], &vec![b'x'; n]].concat())
}

fn headers(status: u16) -> Vec<u8> {
    server(&[&[4][..], &status.to_be_bytes(), &string("OK"), &[0, 0]].concat())
}

fn chunk(n: usize) -> Vec<u8> {
    server(&[&[3][..], &(n as u16).to_be_bytes(), &vec![b'y'; n], &[0]].concat())
}

const END: [u8; 6] = [b'A', b'B', 0, 2, 5, 1];

#[test]
fn a_request_and_its_answer_in_three_packets() {
    let script = [
        (C, forward(2, "/s", Some("a=1"), "0")),
        (S, headers(200)),
        (S, chunk(2000)),
        (S, END.to_vec()),
    ];
    let log = play(&mut Ajp::default(), &script);
    let (asked, answered) = (script[0].1.len(), script[1].1.len() + script[2].1.len() + 6);
    assert_eq!(
        log.lines(),
        [format!("GET /s?a=1 | {asked} {answered} | ok")]
    );
    assert_eq!(
        log.seen[0].key,
        path_key(b"/s"),
        "the same key as for HTTP in front"
    );
    assert_eq!(log.times(0), (0, 0, Some(1), 3));
}

#[test]
fn a_body_is_sent_in_requested_pieces() {
    // 514 bytes: their length begins like the code of a request.
    let script = [
        (C, [forward(4, "/form", None, "1028"), body(514)].concat()),
        (S, server(&[6, 0x1f, 0xfa])),
        (C, body(514)),
        (S, server(&[6, 0x1f, 0xfa])),
        (C, client(&[])),
        (S, [headers(503), END.to_vec()].concat()),
        (C, forward(2, "/next", None, "0")),
    ];
    let log = play(&mut Ajp::default(), &script);
    assert_eq!(log.names(), ["POST /form 503", "GET /next …"]);
    assert_eq!(log.times(0), (0, 4, Some(5), 5));
}

#[test]
fn a_ping_is_no_exchange() {
    let script = [
        (C, client(&[10])),
        (S, server(&[9])),
        (C, forward(2, "/", None, "0")),
        (S, [headers(404), END.to_vec()].concat()),
        (C, client(&[7])),
    ];
    assert_eq!(
        play(&mut Ajp::default(), &script).names(),
        ["CPING one way", "GET / 404", "SHUTDOWN one way"]
    );
}

#[test]
fn a_short_snap_length_hides_the_end_but_not_the_count() {
    let script = [
        (
            C,
            forward(2, "/a/path/that/is/longer/than/thirty", None, "0"),
        ),
        (S, headers(200)),
        (S, [chunk(1000), END.to_vec()].concat()),
        (C, forward(2, "/short", None, "0")),
        (S, [headers(500), chunk(100), chunk(1200)].concat()),
        (S, END.to_vec()),
        (C, forward(2, "/last", None, "0")),
        (S, [headers(200), chunk(7), END.to_vec()].concat()),
    ];
    let log = play_cut(&mut Ajp::default(), &script, 30);
    assert_eq!(
        log.names(),
        ["GET /a/path/tha ok", "GET /short 500", "GET /last ok"]
    );
    assert_eq!(
        log.seen.iter().map(|s| s.key).collect::<Vec<_>>(),
        [0, path_key(b"/short"), path_key(b"/last")]
    );
    assert_eq!(log.times(1), (3, 3, Some(4), 5));
}

#[test]
fn after_a_hole_reading_goes_on_at_the_next_packet() {
    let mut ajp = Ajp::default();
    let mut log = Log::default();
    ajp.data(S, whole(0, b"the rest of a page"), &mut log);
    ajp.data(C, whole(1, &forward(2, "/1", None, "0")), &mut log);
    ajp.data(S, whole(2, &headers(200)), &mut log);
    log.gap(S);
    ajp.gap(S, 3, 0, &mut log);
    ajp.data(C, whole(4, &forward(2, "/2", None, "0")), &mut log);
    ajp.data(
        S,
        whole(5, &[headers(200), END.to_vec()].concat()),
        &mut log,
    );
    assert_eq!(log.names()[..2], ["GET /1 ~ok", "GET /2 ok"]);
}

#[test]
fn an_outcome_is_reported_wherever_the_snap_length_cuts() {
    for status in [200, 503] {
        for replies in [
            vec![headers(status), END.to_vec()],
            vec![headers(status), chunk(20), END.to_vec()],
            vec![headers(status), chunk(20), chunk(0), END.to_vec()],
        ] {
            let ask = (C, forward(2, "/a", Some("b=c"), "0"));
            let apart: Vec<_> = replies.iter().map(|reply| (S, reply.clone())).collect();
            let script = [vec![ask.clone()], apart].concat();
            cut_everywhere::<Ajp, _>(&[script.clone(), script].concat());
            let script = [ask, (S, replies.concat())];
            cut_everywhere::<Ajp, _>(&[script.clone(), script].concat());
        }
    }
}

fn conversation() -> impl Strategy<Value = Vec<(Side, Vec<u8>)>> {
    let exchange = (1..28u8, 0..3usize, 0..2000usize, any::<bool>());
    proptest::collection::vec(exchange, 1..6).prop_map(|exchanges| {
        let mut script = Vec::new();
        for (i, (method, chunks, n, asks)) in exchanges.into_iter().enumerate() {
            script.push((
                C,
                forward(method, &format!("/{i}"), asks.then_some("q"), "1"),
            ));
            if asks {
                script.push((S, server(&[6, 0x1f, 0xfa])));
                script.push((C, body(n)));
            }
            script.push((S, headers(200 + 100 * (n % 4) as u16)));
            script.extend((0..chunks).map(|_| (S, chunk(n))));
            script.push((S, END.to_vec()));
            script.push((C, client(&[10])));
            script.push((S, server(&[9])));
        }
        script
    })
}

proptest! {
    #[test]
    fn any_bytes_at_all_do_no_harm(events in any_events()) {
        throw(&mut Ajp::default(), &events);
    }

    #[test]
    fn any_damage_to_a_conversation_does_no_harm(
        script in conversation(), damage in proptest::collection::vec(any::<u8>(), 1..20)
    ) {
        throw(&mut Ajp::default(), &damaged(&script, &damage));
    }

    #[test]
    fn any_chunking_gives_the_same_exchanges(
        script in conversation(), cuts in proptest::collection::vec(1..200usize, 1..20)
    ) {
        let whole = play(&mut Ajp::default(), &script).lines();
        prop_assert!(whole.iter().all(|line| !line.contains('…') && !line.contains("unreadable")), "{whole:?}");
        prop_assert_eq!(play_split(&mut Ajp::default(), &script, &cuts).lines(), whole);
    }

    #[test]
    fn cut_conversations_have_the_same_exchanges(script in conversation(), snap in 7..60usize) {
        // The status is in the seventh byte.
        let sizes = |log: &Log| log.seen.iter().map(|s| (s.bytes_in, s.bytes_out, s.end.clone())).collect::<Vec<_>>();
        prop_assert_eq!(sizes(&play_cut(&mut Ajp::default(), &script, snap)), sizes(&play(&mut Ajp::default(), &script)));
    }
}

#[test]
fn a_request_whose_first_bytes_read_as_its_length_is_a_request() {
    // Code 2 and method 2 (GET) are 514, the data of a body packet of 516 bytes.
    let fixed = forward(2, "/", None, "0").len() - 1;
    let request = forward(2, &format!("/{}", "x".repeat(519 - fixed)), None, "0");
    assert_eq!(request.len(), 4 + 516);
    let script = [(C, request), (S, headers(200)), (S, END.to_vec())];
    let log = play(&mut Ajp::default(), &script);
    assert_eq!(log.lines().len(), 1, "{:?}", log.lines());
}
