//! Bytes in order, holes, roles and ends.

use super::*;

#[test]
fn bytes_out_of_order_are_read_in_order() {
    let mut talk = Talk::new();
    talk.open(0)
        .up(MS, 1001, 5001, "hello")
        .down(3 * MS, 5006, 1006, "56789")
        .down(2 * MS, 5001, 1006, "01234");
    let flow = talk.flow();
    let visit = only_visit(&flow);
    assert_eq!(
        (
            visit.bytes_out,
            visit.first_byte,
            visit.departure,
            flow.ledger.counts.gaps
        ),
        (10, 2 * MS, 3 * MS, 0)
    );
}

#[test]
fn overlapping_bytes_count_once() {
    let mut talk = Talk::new();
    talk.open(0)
        .up(MS, 1001, 5001, "hello")
        .down(2 * MS, 5001, 1006, "0123456")
        .down(3 * MS, 5005, 1006, "456789");
    assert_eq!(only_visit(&talk.flow()).bytes_out, 10);
}

#[test]
fn a_hole_that_was_acknowledged_is_the_captures() {
    let mut talk = Talk::new();
    talk.open(0)
        .up(MS, 1001, 5001, "hello")
        .down(2 * MS, 5006, 1006, "56789");
    talk.packet(2 * MS + 50 * US, true, ACK, 1006, 5011, "")
        .packet(10 * MS, true, ACK, 1006, 5011, "");
    let flow = talk.flow();
    assert_eq!(
        (flow.ledger.counts.gaps, flow.ledger.counts.gap_bytes),
        (1, 5)
    );
    assert_eq!(only_visit(&flow).departure, 2 * MS);
}

#[test]
fn behind_a_hole_that_is_larger_than_any_window_it_goes_on() {
    let far = 1_u32 << 30;
    let mut talk = Talk::new();
    talk.open(0).exchange(MS);
    for turn in 0..3 {
        let (up, down, time) = (
            1006 + far + 5 * turn,
            5011 + 5 * turn,
            S + i64::from(turn) * S,
        );
        talk.up(time, up, down, "hello")
            .down(time + MS, down, up + 5, "01234");
    }
    let flow = talk.flow();
    assert_eq!(flow.ledger.counts.strays, 1);
    assert!(flow.ledger.visits.len() >= 3, "{:?}", flow.ledger.visits);
}

#[test]
fn a_byte_far_ahead_ends_no_connection() {
    let mut talk = Talk::new();
    talk.open(0).exchange(MS);
    talk.down(2 * MS, 5011 + 1_000_000, 1006, "x");
    for turn in 0..5 {
        let (up, down, time) = (1006 + 5 * turn, 5011 + 5 * turn, i64::from(turn + 1) * S);
        talk.up(time, up, down, "hello")
            .down(time + MS, down, up + 5, "01234");
    }
    assert_eq!(talk.flow().ledger.visits.len(), 6);
}

#[test]
fn a_hole_filled_by_a_retransmission_is_none() {
    let mut talk = Talk::new();
    talk.open(0)
        .up(MS, 1001, 5001, "hello")
        .down(2 * MS, 5006, 1006, "56789");
    talk.packet(2 * MS + 50 * US, true, ACK, 1006, 5001, "")
        .down(300 * MS, 5001, 1006, "01234");
    let flow = talk.flow();
    assert_eq!(
        (flow.ledger.counts.gaps, only_visit(&flow).bytes_out),
        (0, 10)
    );
    assert_eq!(only_visit(&flow).departure, 300 * MS);
}

#[test]
fn an_answer_seen_after_the_next_request_by_a_reordering_capture_is_not_lost() {
    let mut talk = Talk::new();
    talk.open(0)
        .up(MS, 1001, 5001, "hello")
        .up(2 * MS, 1006, 5011, "again")
        .down(2 * MS + 20 * US, 5001, 1006, "0123456789");
    let flow = talk.down(4 * MS, 5011, 1011, "ok").flow();
    assert_eq!(flow.ledger.counts.gaps, 0);
    assert_eq!(
        flow.ledger
            .visits
            .iter()
            .map(|v| v.bytes_out)
            .collect::<Vec<_>>(),
        [10, 2]
    );
}

#[test]
fn a_response_in_a_hole_ends_its_exchange_with_status_unknown_at_what_was_seen_last() {
    let mut talk = Talk::new();
    talk.open(0)
        .up(MS, 1001, 5001, "hello")
        .up(20 * MS, 1006, 5011, "again")
        .down(24 * MS, 5011, 1011, "ok");
    let flow = talk.flow();
    assert_eq!(flow.ledger.counts.gap_bytes, 10);
    assert_eq!(flow.ledger.visits.len(), 2);
    assert_eq!(flow.ledger.visits[0].departure, MS);
    assert_eq!(flow.ledger.visits[1].departure, 24 * MS);
    assert_eq!(status(&flow, &flow.ledger.visits[0]), "unknown");
}

/// When each visit was sent and ended, and how.
fn ends(flow: &Flow) -> Vec<(i64, i64, &str)> {
    let status = |visit: &Visit| &*flow.ledger.names.statuses[visit.status as usize];
    let visits = flow.ledger.visits.iter();
    visits
        .map(|visit| (visit.sent, visit.departure, status(visit)))
        .collect()
}

#[test]
fn an_answer_behind_a_hole_of_both_sides_is_not_that_of_the_request_before() {
    let mut talk = Talk::new();
    talk.open(0)
        .up(MS, 1001, 5001, "hello")
        // Its answer and the next request are missing, as in a capture that lost all packets for six seconds.
        .down(6 * S, 5011, 1011, "ok")
        .up(7 * S, 1011, 5013, "again")
        .down(7 * S + MS, 5013, 1016, "ok");
    let flow = talk.flow();
    assert_eq!(ends(&flow), [(0, MS, "unknown"), (7 * S, 7 * S + MS, "ok")]);
    assert_eq!(flow.ledger.counts.responses_unseen, 1);
}

#[test]
fn a_client_that_pauses_behind_a_hole_does_not_make_the_response_long() {
    let mut talk = Talk::new();
    // The first half of the response was seen; the client asks again after five seconds.
    talk.open(0)
        .up(MS, 1001, 5001, "hello")
        .down(3 * MS, 5001, 1006, "01234")
        .up(5 * S, 1006, 5011, "again")
        .down(5 * S + MS, 5011, 1011, "ok");
    assert_eq!(
        ends(&talk.flow()),
        [(0, 3 * MS, "unknown"), (5 * S, 5 * S + MS, "ok")]
    );
}

#[test]
fn what_came_behind_a_hole_is_read_when_an_answer_shows_that_the_hole_stays() {
    let mut talk = Talk::new();
    talk.open(0)
        .exchange(MS)
        // One exchange is missing on both sides; the next is complete, and its answer comes in two
        // parts.
        .up(100 * MS, 1016, 5021, "third")
        .down(130 * MS, 5021, 1021, "answer")
        .up(300 * MS, 1021, 5027, "fourth")
        .down(310 * MS, 5027, 1027, "last");
    let flow = talk.flow();
    assert_eq!(
        (flow.ledger.counts.gaps, flow.ledger.counts.gap_bytes),
        (2, 20)
    );
    let visits = flow.ledger.visits.iter();
    assert_eq!(
        visits
            .map(|v| (v.sent / MS, v.departure / MS, v.bytes_out))
            .collect::<Vec<_>>()[1..],
        [(100, 130, 6), (300, 310, 4)]
    );
}

#[test]
fn keep_alive_probes_are_neither_requests_nor_losses() {
    let mut talk = Talk::new();
    talk.open(0).exchange(MS).up(5 * S, 1005, 5011, "o").packet(
        5 * S + US,
        false,
        ACK,
        5011,
        1006,
        "",
    );
    let flow = talk.up(10 * S, 1005, 5011, "o").flow();
    assert_eq!(
        (flow.ledger.visits.len(), flow.ledger.counts.retransmissions),
        (1, 0)
    );
}

#[test]
fn a_connection_open_before_the_recording_is_read_by_its_known_server() {
    let mut talk = Talk::new();
    talk.client = "10.0.0.1:40001";
    talk.open(0).exchange(MS).close(3 * MS);
    let mut pool = Talk::new();
    pool.down(5 * MS, 5001, 1001, "tail of an answer")
        .exchange(10 * MS);
    pool.packets[2].seq = 5018;
    pool.packets[1].ack = 5018;
    let flow = flow(&[talk.packets, pool.packets].concat());
    assert_eq!(flow.ledger.names.servers, [SERVER]);
    let visit = flow.ledger.visits[1].clone();
    assert_eq!(
        (visit.sent, visit.arrival, visit.departure),
        (10 * MS, 10 * MS, 11 * MS)
    );
    assert_eq!(flow.ledger.counts.connections_midstream, 1);
}

#[test]
fn a_wrong_guess_is_taken_back_when_a_syn_shows_the_server() {
    // 40000 is the server here; the lower port is its client's.
    let pool = |n: u32, at: i64| {
        [
            tcp("10.0.0.2:3000", "10.0.0.1:40000")
                .at(at)
                .payload("question")
                .seq(1 + n * 8),
            tcp("10.0.0.1:40000", "10.0.0.2:3000")
                .at(at + MS)
                .payload("answer")
                .seq(1 + n * 6),
        ]
    };
    let mut all: Vec<Tcp> = (0..3).flat_map(|n| pool(n, i64::from(n) * S)).collect();
    let mut talk = Talk::new();
    (talk.client, talk.server) = ("10.0.0.9:50000", "10.0.0.1:40000");
    talk.open(4 * S).exchange(4 * S + MS);
    all.extend(talk.packets);
    all.extend((3..6).flat_map(|n| pool(n, i64::from(n + 2) * S)));
    let flow = flow(&all);
    assert_eq!(flow.ledger.counts.roles_corrected, 1);
    let servers = &flow.ledger.names.servers;
    let last = flow
        .ledger
        .visits
        .iter()
        .find(|visit| visit.sent == 7 * S)
        .unwrap();
    assert_eq!(servers[last.server as usize], "10.0.0.1:40000");
}

#[test]
fn what_is_open_at_the_end_is_counted_and_not_failed() {
    let mut talk = Talk::new();
    talk.open(0).up(MS, 1001, 5001, "hello");
    let flow = talk.flow();
    assert_eq!((flow.ledger.visits.len(), tally(&flow).visits_now), (0, 1));
}

#[test]
fn a_reset_in_the_middle_ends_the_exchange() {
    let mut talk = Talk::new();
    talk.open(0)
        .up(MS, 1001, 5001, "hello")
        .packet(2 * MS, false, ACK, 5001, 1006, "");
    let flow = talk.packet(5 * MS, false, RST, 5001, 0, "").flow();
    let visit = only_visit(&flow);
    assert_eq!(
        (
            visit.served,
            visit.departure,
            status(&flow, &visit).as_str()
        ),
        (true, 5 * MS, "reset")
    );
}

#[test]
fn a_client_that_resets_within_an_answer_gave_it_up() {
    let mut talk = Talk::new();
    talk.open(0)
        .up(MS, 1001, 5001, "GET / HTTP/1.1\r\n\r\n")
        .down(
            2 * MS,
            5001,
            1019,
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
        );
    let flow = talk.packet(3 * MS, true, RST, 1019, 0, "").flow();
    let visit = only_visit(&flow);
    assert_eq!(
        (visit.departure, status(&flow, &visit).as_str()),
        (3 * MS, "abandoned")
    );
}

#[test]
fn a_fin_captured_before_the_last_bytes_ends_after_them() {
    let mut talk = Talk::new();
    talk.open(0)
        .up(MS, 1001, 5001, "hello")
        .down(2 * MS, 5001, 1006, "01234");
    talk.packet(3 * MS, false, ACK | FIN, 5011, 1006, "")
        .down(3 * MS + US, 5006, 1006, "56789");
    let flow = talk.packet(4 * MS, true, ACK | FIN, 1006, 5012, "").flow();
    assert_eq!(
        (only_visit(&flow).bytes_out, flow.ledger.counts.gaps),
        (10, 0)
    );
    assert_eq!(tally(&flow).established_now, 0);
}

#[test]
fn requests_that_wait_behind_holes_do_not_move_the_answers_of_those_after_them() {
    let mut talk = Talk::new();
    talk.open(0)
        .exchange(MS)
        // The connection goes on behind a hole, and again behind the next one, without a pause between them.
        .up(100 * MS, 1106, 5211, "hello")
        .up(120 * MS, 1206, 5411, "again")
        .down(124 * MS, 5411, 1211, "ok")
        .up(128 * MS, 1211, 5413, "third")
        .down(129 * MS, 5413, 1216, "ok");
    assert_eq!(
        ends(&talk.flow())[1..],
        [
            (100 * MS, 100 * MS, "unknown"),
            (120 * MS, 124 * MS, "ok"),
            (128 * MS, 129 * MS, "ok")
        ]
    );
}

#[test]
fn a_request_whose_connection_ends_in_a_hole_was_not_given_up() {
    let mut talk = Talk::new();
    talk.open(0).up(MS, 1001, 5001, "hello");
    // The answer and the end are missing: the reset of a later request shows bytes that were not seen.
    talk.packet(3 * S, true, RST | ACK, 1201, 5401, "");
    let flow = talk.flow();
    assert_eq!(status(&flow, &only_visit(&flow)), "unknown");
    assert_eq!(only_visit(&flow).departure, MS);
}
