//! The protocol of a connection: a wrong guess loses no visit.

use super::*;
use crate::capture::wire::Kind;

fn opaque(flow: &Flow) -> Vec<(&'static str, u64)> {
    tally(flow).opaque.into_iter().collect()
}

fn names(flow: &Flow) -> Vec<String> {
    let name = |visit: &Visit| match flow
        .ledger
        .names
        .interactions
        .get(visit.interaction as usize)
    {
        Some(name) => name.clone(),
        None => "-".to_owned(),
    };
    flow.ledger.visits.iter().map(name).collect()
}

/// Exchanges one after the other, each a message up and one down, 10 ms apart; `opened`: with a handshake before them.
fn exchanges(server: &'static str, opened: bool, messages: &[(&str, &str)]) -> Vec<Tcp> {
    let mut talk = Talk::new();
    talk.server = server;
    if opened {
        talk.open(0);
    }
    let (mut time, mut seq, mut ack) = (MS, 1001, 5001);
    for (up, down) in messages {
        talk.up(time, seq, ack, up);
        seq += up.len() as u32;
        talk.down(time + 5 * MS, ack, seq, down);
        ack += down.len() as u32;
        time += 10 * MS;
    }
    talk.packets
}

fn flow_with(hints: &[(u16, Kind)], packets: &[Tcp]) -> Flow {
    let hints = hints.iter().copied().collect();
    let servers = Servers::new(Default::default(), hints, &[]);
    let mut flow = Flow::new(Ledger::new(servers, Namer::default()));
    for packet in packets {
        flow.segment(&packet.segment());
    }
    flow.finish();
    flow
}

const WEB: &str = "10.0.0.2:80";
const GET: (&str, &str) = ("GET /a HTTP/1.1\r\n\r\n", "HTTP/1.1 204 No\r\n\r\n");
const ODD: (&str, &str) = (
    "\x07\x01 a protocol that nobody knows, with a long first message, more than enough to be sure",
    "\x07\x02 its answer",
);

#[test]
fn the_first_words_of_a_server_about_its_software_are_kept() {
    let said = |words: &'static str| (GET.0, words);
    let first = said("HTTP/1.1 204 No\r\nServer: nginx\r\n\r\n");
    let later = said("HTTP/1.1 204 No\r\nServer: other\r\nX-Powered-By: PHP\r\n\r\n");
    let software = tally(&flow(&exchanges(WEB, true, &[GET, first, later]))).software;
    assert_eq!(software.server.as_deref(), Some("nginx"));
    assert_eq!(software.powered_by.as_deref(), Some("PHP"));
}

#[test]
fn a_usual_port_is_no_reason_to_lose_a_visit() {
    for (port, opened) in [
        (WEB, true),
        (WEB, false),
        ("10.0.0.2:3306", true),
        ("10.0.0.2:6379", false),
    ] {
        let flow = flow(&exchanges(port, opened, &[ODD, ODD, ODD]));
        assert_eq!(names(&flow), ["-"; 3], "{port}");
        assert_eq!(opaque(&flow), [("unknown protocol", 1)], "{port}");
        assert!(tally(&flow).unreadable.is_empty(), "{port}");
    }
}

#[test]
fn a_server_that_spoke_http_may_speak_something_else() {
    let mut packets = exchanges(WEB, true, &[GET, GET]);
    let second = exchanges(WEB, true, &[ODD, ODD, GET]);
    packets.extend(second.into_iter().map(|mut packet| {
        packet.time += S;
        for end in [&mut packet.from, &mut packet.to] {
            if end.port() == 40_000 {
                end.set_port(40_001);
            }
        }
        packet
    }));
    let flow = flow(&packets);
    assert_eq!(names(&flow), ["GET /a", "GET /a", "-", "-", "GET /a"]);
    assert_eq!(opaque(&flow), [("not what the server seemed to speak", 1)]);
    assert!(
        tally(&flow).unreadable.is_empty(),
        "{:?}",
        tally(&flow).unreadable
    );
    let visit = &flow.ledger.visits[2];
    assert_eq!((visit.sent, visit.first_byte), (S, S + 6 * MS));
}

#[test]
fn a_wrong_option_costs_no_visit_either() {
    let flow = flow_with(
        &[(80, Kind::MySql)],
        &exchanges(WEB, true, &[GET, GET, GET]),
    );
    assert_eq!(names(&flow), ["-"; 3]);
}

#[test]
fn an_option_sets_the_protocol_of_a_port() {
    let flow = flow_with(&[(80, Kind::Opaque)], &exchanges(WEB, true, &[GET, GET]));
    assert_eq!(names(&flow), ["-"; 2]);
    let flow = flow_with(&[(80, Kind::Http)], &exchanges(WEB, true, &[GET]));
    assert_eq!(names(&flow), ["GET /a"]);
}

#[test]
fn a_connection_shows_its_protocol_in_the_middle() {
    let rest = (
        "the rest of a form, of which the beginning was not captured, and more of it",
        "ok",
    );
    let flow = flow(&exchanges(WEB, false, &[rest, rest, GET, GET]));
    assert_eq!(names(&flow), ["-", "-", "GET /a", "GET /a"]);
}

#[test]
fn messages_after_an_upgrade_stay_no_exchanges() {
    let upgrade = (
        "GET /ws HTTP/1.1\r\nUpgrade: websocket\r\n\r\n",
        "HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\n",
    );
    let flow = flow(&exchanges(
        WEB,
        true,
        &[upgrade, ("\u{1}abc", "\u{1}def"), ("\u{1}a", "\u{1}b")],
    ));
    assert_eq!(names(&flow), ["GET /ws"]);
}
