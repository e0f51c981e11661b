//! Requests in the SYN (TCP fast open).

use super::*;

/// A SYN that carries the request, and what acknowledges all of it.
fn fast_open(talk: &mut Talk, time: i64) -> &mut Talk {
    talk.packet(time, true, SYN, 1000, 0, "hello")
}

fn taken(talk: &mut Talk, time: i64) -> &mut Talk {
    talk.packet(time, false, SYN | ACK, 5000, 1006, "")
}

fn course(visit: &Visit) -> (i64, i64, i64, u64, u64) {
    let Visit { sent, arrival, .. } = *visit;
    (
        sent,
        arrival,
        visit.departure,
        visit.bytes_in,
        visit.bytes_out,
    )
}

#[test]
fn a_request_in_the_syn_is_read_when_the_server_acknowledges_it() {
    let mut talk = Talk::new();
    fast_open(&mut talk, 0);
    taken(&mut talk, 10 * US);
    talk.packet(20 * US, true, ACK, 1006, 5001, "")
        .down(MS, 5001, 1006, "0123456789")
        .close(3 * MS);
    let visit = only_visit(&talk.flow());
    assert_eq!(course(&visit), (0, 0, MS, 5, 10));
    assert_eq!(
        (visit.drops, visit.data_drops, visit.connected),
        (0, 0, 10 * US)
    );
    let twice = flow(&doubled(&talk.packets, 15 * US));
    assert_eq!(only_visit(&twice), visit);
}

#[test]
fn the_response_may_come_before_the_client_completes_the_handshake() {
    let mut talk = Talk::new();
    fast_open(&mut talk, 0);
    taken(&mut talk, 10 * US)
        .down(15 * US, 5001, 1006, "0123456789")
        .packet(20 * US, true, ACK, 1006, 5011, "")
        .close(3 * MS);
    assert_eq!(course(&only_visit(&talk.flow())), (0, 0, 15 * US, 5, 10));
}

#[test]
fn a_syn_ack_may_carry_the_response() {
    let mut talk = Talk::new();
    fast_open(&mut talk, 0)
        .packet(10 * US, false, SYN | ACK, 5000, 1006, "0123456789")
        .packet(20 * US, true, ACK, 1006, 5011, "")
        .close(3 * MS);
    assert_eq!(course(&only_visit(&talk.flow())), (0, 0, 10 * US, 5, 10));
}

#[test]
fn a_request_may_be_split_between_the_syn_and_the_first_segment() {
    let mut talk = Talk::new();
    talk.packet(0, true, SYN, 1000, 0, "GET /a HT")
        .packet(10 * US, false, SYN | ACK, 5000, 1010, "")
        .up(20 * US, 1010, 5001, "TP/1.1\r\n\r\n")
        .down(MS, 5001, 1020, "HTTP/1.1 204 \r\n\r\n");
    let flow = talk.flow();
    assert_eq!(course(&only_visit(&flow)), (0, 0, MS, 19, 17));
    assert_eq!(flow.ledger.names.interactions[0], "GET /a");
}

#[test]
fn what_the_server_does_not_take_is_read_when_it_is_sent_again() {
    for (ack, kept) in [(1001, 0), (1003, 2)] {
        let mut talk = Talk::new();
        fast_open(&mut talk, 0)
            .packet(10 * US, false, SYN | ACK, 5000, ack, "")
            .up(20 * US, ack, 5001, &"hello"[kept..])
            .down(MS, 5001, 1006, "0123456789")
            .close(3 * MS);
        let visit = only_visit(&talk.flow());
        assert_eq!(course(&visit), (0, 0, MS, 5, 10), "acknowledged {kept}");
        assert_eq!((visit.drops, visit.data_drops), (0, 0));
    }
}

#[test]
fn a_lost_syn_is_a_drop_whether_or_not_the_next_carries_the_request() {
    let mut again = Talk::new();
    fast_open(&mut again, 0);
    fast_open(&mut again, S);
    taken(&mut again, S + 10 * US)
        .down(S + MS, 5001, 1006, "0123456789")
        .close(S + 3 * MS);
    let mut without = Talk::new();
    fast_open(&mut without, 0)
        .open(S)
        .exchange(S + 30 * US)
        .close(S + 3 * MS);
    for talk in [again, without] {
        let visit = only_visit(&talk.flow());
        assert_eq!((visit.sent, visit.arrival, visit.drops), (0, S, 1));
        assert_eq!((visit.bytes_in, visit.bytes_out), (5, 10));
    }
}

#[test]
fn without_a_captured_syn_ack_the_next_segment_shows_what_was_accepted() {
    let mut by_server = Talk::new();
    fast_open(&mut by_server, 0)
        .down(MS, 5001, 1006, "0123456789")
        .close(3 * MS);
    let mut by_client = Talk::new();
    fast_open(&mut by_client, 0)
        .packet(20 * US, true, ACK, 1006, 5001, "")
        .down(MS, 5001, 1006, "0123456789")
        .close(3 * MS);
    let mut refused = Talk::new();
    fast_open(&mut refused, 0)
        .ack(20 * US)
        .exchange(30 * US)
        .close(3 * MS);
    for talk in [by_server, by_client, refused] {
        let visit = only_visit(&talk.flow());
        assert_eq!((visit.bytes_in, visit.bytes_out), (5, 10));
        assert_eq!((visit.sent, visit.arrival), (0, 0));
    }
}

#[test]
fn a_request_that_was_taken_and_reset_is_a_visit_that_was_reset() {
    let mut talk = Talk::new();
    fast_open(&mut talk, 0);
    taken(&mut talk, 10 * US).packet(MS, false, ACK | RST, 5001, 1006, "");
    let flow = talk.flow();
    let visit = only_visit(&flow);
    assert_eq!(
        (status(&flow, &visit).as_str(), visit.departure),
        ("reset", MS)
    );
    assert!(visit.served);
}

#[test]
fn a_flood_of_syns_with_data_keeps_one_frame_of_each() {
    let mut talk = Talk::new();
    let long = "x".repeat(60_000);
    talk.packet(0, true, SYN, 1000, 0, &long)
        .packet(10 * US, false, SYN | ACK, 5000, 61_001, "")
        .down(MS, 5001, 61_001, "0123456789");
    assert_eq!(only_visit(&talk.flow()).bytes_in, 60_000);
}
