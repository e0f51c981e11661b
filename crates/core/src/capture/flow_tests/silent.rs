//! Connections on which a client sends nothing, or a server says nothing.

use super::*;

#[test]
fn a_client_is_silent_until_it_leaves_and_no_refusal_is_a_greeting() {
    let refusals = ["HTTP/1.1 400 Bad request\r\n\r\n", "\u{15}\u{3}\u{1}"];
    for refusal in refusals {
        for leaves_first in [false, true] {
            let mut talk = Talk::new();
            talk.syn(0).open(MS);
            let said = 5001 + refusal.len() as u32;
            if leaves_first {
                talk.packet(2 * S, true, ACK | FIN, 1001, 5001, "").down(
                    3 * S,
                    5001,
                    1002,
                    refusal,
                );
            } else {
                talk.down(S, 5001, 1001, refusal)
                    .packet(2 * S, true, ACK | FIN, 1001, said, "");
            }
            let flow = talk.flow();
            let of = |silence: &Silence| (silence.of, silence.end / S);
            let silences: Vec<_> = flow.ledger.silences.iter().map(of).collect();
            assert_eq!(
                (silences, tally(&flow).greeted),
                (vec![(Quiet::Client, 2)], 0)
            );
        }
    }
}

#[test]
fn a_server_that_speaks_first_and_says_nothing_is_an_event_of_its_own() {
    let mut talk = Talk::new();
    for connection in 0..3 {
        talk.client = ["10.0.0.1:4001", "10.0.0.1:4002", "10.0.0.1:4003"][connection];
        let begin = connection as i64 * S;
        talk.syn(begin).open(begin + MS);
        if connection < 2 {
            talk.down(begin + 2 * MS, 5001, 1001, "greeting")
                .up(begin + 3 * MS, 1001, 5009, "login")
                .down(begin + 4 * MS, 5009, 1006, "ok");
        } else {
            talk.packet(begin + 9 * S, true, ACK | FIN, 1001, 5001, "");
        }
    }
    let flow = talk.flow();
    let found: Vec<_> = flow.ledger.silences.iter().collect();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].of, Quiet::Server);
    let tally = tally(&flow);
    assert_eq!((tally.greeted, tally.unheard), (2, 1));
    assert_eq!(tally.unheard_longest_ns, found[0].end - found[0].begin);
}

#[test]
fn a_short_request_that_comes_in_parts_is_an_event() {
    let slow = |body: usize, last: i64| {
        let mut talk = Talk::new();
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {body}\r\n\r\n");
        let behind = 1001 + head.len() as u32;
        talk.syn(0)
            .open(MS)
            .up(2 * MS, 1001, 5001, &head)
            .up(3 * MS, behind, 5001, &"a".repeat(body - 1))
            .up(last, behind + body as u32 - 1, 5001, "a")
            .down(
                last + MS,
                5001,
                behind + body as u32,
                "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            );
        let flow = talk.flow();
        let of = |silence: &Silence| (silence.of, silence.end);
        flow.ledger.silences.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(slow(9, 2 * S), [(Quiet::SlowRequest, 2 * S)]);
    assert_eq!(slow(9, 50 * MS), []);
    // A server that does not read keeps such a client waiting.
    assert_eq!(slow(70_000, 2 * S), []);
}

#[test]
fn a_client_that_waits_for_the_server_or_a_connection_before_it_sends_is_not_slow() {
    let head = "PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n";
    let goes_on = "HTTP/1.1 100 Continue\r\n\r\n";
    let behind = (1001 + head.len() as u32, 5001 + goes_on.len() as u32);
    let mut talk = Talk::new();
    talk.syn(0)
        .open(S)
        .up(S + MS, 1001, 5001, head)
        .down(3 * S, 5001, behind.0, goes_on)
        .up(3 * S + MS, behind.0, behind.1, "a")
        .down(
            3 * S + 2 * MS,
            behind.1,
            behind.0 + 1,
            "HTTP/1.1 204 No Content\r\n\r\n",
        );
    assert!(talk.flow().ledger.silences.is_empty());
    let mut late = Talk::new();
    late.syn(0).open(S).exchange(S + MS);
    assert!(late.flow().ledger.silences.is_empty());
}

#[test]
fn a_failed_attempt_is_an_event_if_a_server_made_it_at_a_port_that_accepted_others() {
    let calls = |serves: bool, accepted: bool| {
        let (mut asked, mut served, mut refused) = (Talk::new(), Talk::new(), Talk::new());
        if serves {
            (asked.server, asked.client) = ("10.0.0.1:80", "10.0.0.9:4000");
        }
        asked.syn(0).open(MS).exchange(2 * MS);
        served.client = "10.0.0.8:4000";
        if accepted {
            served.syn(S).open(S + MS).exchange(S + 2 * MS);
        }
        refused.client = "10.0.0.1:4001";
        refused
            .syn(2 * S)
            .packet(2 * S + MS, false, RST | ACK, 0, 1001, "");
        let flow = flow(&[asked.packets, served.packets, refused.packets].concat());
        let of = |one: &Silence| (one.of, one.begin, one.end);
        flow.ledger.silences.iter().map(of).collect::<Vec<_>>()
    };
    let refused = (Quiet::RefusedCall, 2 * S, 2 * S + MS);
    assert_eq!(calls(true, true), [refused]);
    assert_eq!(calls(true, false), []);
    assert_eq!(calls(false, true), []);
}
