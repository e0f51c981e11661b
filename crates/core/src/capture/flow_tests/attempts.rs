//! Connection attempts: losses, copies, refusals, and the cost of opening for the first request.

use super::*;

#[test]
fn a_reset_of_an_earlier_connection_refuses_nothing() {
    for flags in [RST, RST | ACK] {
        let mut talk = Talk::new();
        talk.syn(0).packet(US, false, flags, 77, 88, "");
        talk.syn_ack(10 * US).packet(12 * US, true, RST, 99, 0, "");
        talk.packet(14 * US, false, RST, 99, 0, "")
            .ack(20 * US)
            .exchange(MS);
        assert_eq!(status(&talk.flow(), &only_visit(&talk.flow())), "ok");
    }
}

#[test]
fn a_request_on_a_new_connection_is_sent_with_its_syn() {
    let flow = Talk::new().open(0).exchange(MS).close(3 * MS).flow();
    let visit = only_visit(&flow);
    assert_eq!(
        (visit.sent, visit.arrival, visit.connected),
        (0, 0, 10 * US)
    );
    assert_eq!((visit.first_byte, visit.departure), (2 * MS, 2 * MS));
    assert_eq!(
        (
            visit.bytes_in,
            visit.bytes_out,
            visit.drops,
            visit.data_drops
        ),
        (5, 10, 0, 0)
    );
    assert_eq!(status(&flow, &visit), "ok");
    assert_eq!(
        (
            tally(&flow).connections,
            tally(&flow).attempts,
            tally(&flow).visits
        ),
        (1, 1, 1)
    );
}

#[test]
fn a_lost_syn_is_a_drop_and_its_repetition_the_arrival() {
    let flow = Talk::new()
        .syn(0)
        .open(S)
        .exchange(S + MS)
        .close(S + 3 * MS)
        .flow();
    let visit = only_visit(&flow);
    assert_eq!((visit.sent, visit.arrival, visit.drops), (0, S, 1));
    assert_eq!(visit.connected, S + 10 * US);
    let Drop { data, loss, .. } = flow.ledger.drops[0];
    assert_eq!((data, loss.begin, loss.end), (false, 0, S));
    assert_eq!(tally(&flow).syn_repeats, 1);
}

#[test]
fn any_retransmission_schedule_counts() {
    for times in [&[0, 1, 2, 3, 4, 5, 7][..], &[0, 3, 9], &[0, 1, 3, 7]] {
        let mut talk = Talk::new();
        for time in &times[..times.len() - 1] {
            talk.syn(time * S);
        }
        let last = times[times.len() - 1] * S;
        let flow = talk.open(last).exchange(last + MS).flow();
        let visit = only_visit(&flow);
        assert_eq!(
            (usize::from(visit.drops), visit.arrival),
            (times.len() - 1, last)
        );
    }
}

#[test]
fn copies_of_the_capture_are_no_drops() {
    for later in [7 * US, 15 * US, 3 * MS] {
        let mut talk = Talk::new();
        talk.syn(0).open(S).exchange(S + MS).close(S + 30 * MS);
        let once = talk.flow();
        let twice = flow(&doubled(&talk.packets, later));
        assert_eq!(
            once.ledger.visits, twice.ledger.visits,
            "copies {later} ns later"
        );
        assert_eq!(tally(&once).syn_repeats, tally(&twice).syn_repeats);
        assert_eq!(tally(&twice).data_drops, 0);
        assert!(twice.ledger.counts.copies >= 4, "{:?}", twice.ledger.counts);
    }
}

#[test]
fn copies_are_known_without_ip_id_and_without_timestamps() {
    let strip = |p: &Tcp, id: bool, ts: bool| {
        let mut p = p.clone();
        p.ip_id = if id { p.ip_id } else { 0 };
        p.ts_val = p.ts_val.filter(|_| ts);
        p
    };
    let mut talk = Talk::new();
    talk.syn(0).open(S).exchange(S + MS).close(S + 30 * MS);
    for (id, ts) in [(false, true), (true, false), (false, false)] {
        let packets: Vec<Tcp> = talk.packets.iter().map(|p| strip(p, id, ts)).collect();
        let twice = flow(&doubled(&packets, 15 * US));
        assert_eq!(
            (only_visit(&twice).drops, only_visit(&twice).data_drops),
            (1, 0),
            "id {id} timestamps {ts}"
        );
    }
}

#[test]
fn copies_work_on_ipv6() {
    let mut talk = Talk::new();
    (talk.client, talk.server) = ("[fd00::1]:4000", "[fd00::2]:80");
    talk.syn(0).open(S).exchange(S + MS).close(S + 30 * MS);
    let twice = flow(&doubled(&talk.packets, 15 * US));
    assert_eq!(only_visit(&twice).drops, 1);
    assert_eq!(twice.ledger.names.servers, ["[fd00::2]:80"]);
}

#[test]
fn a_constant_ip_id_does_not_hide_a_drop() {
    let mut talk = Talk::new();
    talk.syn(0).open(S).exchange(S + MS);
    for packet in &mut talk.packets {
        (packet.ip_id, packet.ts_val) = (1, None);
    }
    assert_eq!(only_visit(&talk.flow()).drops, 1);
}

#[test]
fn a_syn_repeated_after_its_answer_is_not_dropped_by_the_server() {
    let flow = Talk::new()
        .syn(0)
        .syn_ack(MS)
        .syn(S)
        .syn_ack(S + MS)
        .ack(S + 2 * MS)
        .exchange(S + 3 * MS)
        .flow();
    let visit = only_visit(&flow);
    assert_eq!((visit.drops, visit.arrival, visit.data_drops), (0, 0, 1));
    assert_eq!(visit.connected, S + MS);
}

#[test]
fn an_answer_that_comes_a_second_late_was_sent_before_and_lost() {
    let lost = |wait: i64| {
        let flow = Talk::new()
            .syn(0)
            .syn_ack(wait)
            .syn(wait + 10 * US)
            .ack(wait + 20 * US)
            .exchange(wait + MS)
            .close(wait + 3 * MS)
            .flow();
        let visit = only_visit(&flow);
        (visit.drops, visit.data_drops)
    };
    assert_eq!(lost(S), (0, 1));
    assert_eq!(lost(600 * MS), (0, 0)); // a long way
}

#[test]
fn first_bytes_ignored_by_a_full_accept_queue_are_data_drops() {
    let mut talk = Talk::new();
    talk.open(0)
        .up(MS, 1001, 5001, "hello")
        .up(201 * MS, 1001, 5001, "hello")
        .up(601 * MS, 1001, 5001, "hello");
    let flow = talk
        .syn_ack(S)
        .ack(S + US)
        .up(S + 401 * MS, 1001, 5001, "hello")
        .down(S + 500 * MS, 5001, 1006, "x")
        .flow();
    let visit = only_visit(&flow);
    assert_eq!(
        (visit.drops, visit.data_drops, visit.sent, visit.departure),
        (0, 4, 0, S + 500 * MS)
    );
    assert_eq!(
        (tally(&flow).data_drops, tally(&flow).synack_repeats),
        (4, 1)
    );
    assert!(flow.ledger.drops.iter().all(|drop| drop.data));
}

/// The second request of a connection is sent again after 200 ms and after 600 ms, and acknowledged at the given time.
fn sent_again(acknowledged: i64) -> Flow {
    let mut talk = Talk::new();
    talk.open(0).exchange(MS);
    for time in [10 * MS, 210 * MS, 610 * MS] {
        talk.up(time, 1006, 5011, "again");
    }
    talk.packet(acknowledged, false, ACK, 5011, 1011, "")
        .down(700 * MS, 5011, 1011, "ok")
        .flow()
}

#[test]
fn a_later_request_that_is_sent_again_and_acknowledged_at_once_was_lost() {
    let flow = sent_again(611 * MS);
    let drops = flow.ledger.visits.iter().map(|visit| visit.data_drops);
    assert_eq!(drops.collect::<Vec<_>>(), [0, 2]);
    let losses = flow.ledger.drops.iter().map(|drop| drop.loss);
    assert_eq!(
        losses
            .map(|loss| (loss.begin, loss.end))
            .collect::<Vec<_>>(),
        [(10 * MS, 210 * MS), (210 * MS, 610 * MS)]
    );
    assert!(flow.ledger.drops.iter().all(|drop| drop.data));
    assert_eq!(
        (tally(&flow).data_drops, flow.ledger.counts.retransmissions),
        (2, 2)
    );
    let visit = &flow.ledger.visits[1];
    assert_eq!((visit.sent, visit.arrival), (10 * MS, 610 * MS));
}

#[test]
fn a_later_request_that_is_acknowledged_some_time_after_it_was_sent_again_may_have_arrived() {
    let flow = sent_again(650 * MS);
    assert!(flow.ledger.visits.iter().all(|visit| visit.data_drops == 0));
    assert_eq!(flow.ledger.visits[1].arrival, 10 * MS);
    assert_eq!(
        (tally(&flow).data_drops, flow.ledger.counts.retransmissions),
        (0, 2)
    );
}

#[test]
fn a_later_request_that_is_sent_again_though_acknowledged_was_not_lost() {
    let mut talk = Talk::new();
    talk.open(0)
        .exchange(MS)
        .up(10 * MS, 1006, 5011, "again")
        .packet(11 * MS, false, ACK, 5011, 1011, "")
        .up(210 * MS, 1006, 5011, "again")
        .packet(211 * MS, false, ACK, 5011, 1011, "");
    let flow = talk.down(300 * MS, 5011, 1011, "ok").flow();
    assert!(flow.ledger.visits.iter().all(|visit| visit.data_drops == 0));
}

#[test]
fn first_bytes_sent_again_though_acknowledged_are_no_drop() {
    let mut talk = Talk::new();
    talk.open(0)
        .up(MS, 1001, 5001, "hello")
        .packet(2 * MS, false, ACK, 5001, 1006, "");
    let flow = talk
        .up(203 * MS, 1001, 5001, "hello")
        .down(300 * MS, 5001, 1006, "x")
        .flow();
    assert_eq!(only_visit(&flow).data_drops, 0);
}

#[test]
fn a_server_that_waits_for_data_before_accepting_loses_nothing() {
    let flow = Talk::new()
        .open(0)
        .syn_ack(S)
        .ack(S + US)
        .exchange(S + 500 * MS)
        .flow();
    let visit = only_visit(&flow);
    assert_eq!(
        (
            visit.data_drops,
            tally(&flow).synack_repeats,
            tally(&flow).data_drops
        ),
        (0, 1, 0)
    );
}

#[test]
fn a_server_that_speaks_first_and_ignored_the_ack_lost_it() {
    let mut talk = Talk::new();
    talk.open(0)
        .syn_ack(S)
        .ack(S + US)
        .down(S + MS, 5001, 1001, "greeting");
    let flow = talk
        .up(S + 2 * MS, 1001, 5009, "login")
        .down(S + 3 * MS, 5009, 1006, "ok")
        .flow();
    let visit = only_visit(&flow);
    assert_eq!(
        (visit.data_drops, visit.sent, visit.departure),
        (1, 0, S + 3 * MS)
    );
    assert_eq!(tally(&flow).data_drops, 1);
}

#[test]
fn a_connection_opened_ahead_of_need_does_not_slow_its_first_request() {
    let flow = Talk::new()
        .syn(0)
        .open(S)
        .exchange(9 * S)
        .close(10 * S)
        .flow();
    let visit = only_visit(&flow);
    assert_eq!(
        (visit.sent, visit.arrival, visit.connected, visit.drops),
        (9 * S, 9 * S, NO_TIME, 0)
    );
    assert_eq!(flow.ledger.drops.len(), 1);
}

#[test]
fn a_login_bears_what_opening_cost_however_busy_its_client() {
    let mut talk = Talk::new();
    talk.syn(0).open(S).down(S + MS, 5001, 1001, "greeting");
    talk.up(S + 600 * MS, 1001, 5009, "login")
        .down(S + 601 * MS, 5009, 1006, "ok");
    let visit = only_visit(&talk.flow());
    // The server greeted within 1 ms and then waited for the client: only its millisecond counts as
    // its own.
    let arrival = S + 599 * MS;
    assert_eq!((visit.sent, visit.arrival, visit.drops), (0, arrival, 1));
}

#[test]
fn refused_attempts_are_requests_that_were_not_served() {
    let flow = Talk::new()
        .syn(0)
        .packet(MS, false, RST | ACK, 0, 1001, "")
        .flow();
    let visit = only_visit(&flow);
    assert_eq!(
        (
            visit.served,
            visit.departure,
            status(&flow, &visit).as_str()
        ),
        (false, MS, "refused")
    );
    assert_eq!((tally(&flow).refused, tally(&flow).visits), (1, 0));
}

#[test]
fn a_reset_right_after_the_handshake_is_a_refusal_of_a_full_queue() {
    let flow = Talk::new()
        .open(0)
        .packet(MS, false, RST, 5001, 0, "")
        .flow();
    let visit = only_visit(&flow);
    assert_eq!(
        (visit.served, status(&flow, &visit).as_str()),
        (false, "reset")
    );
}

#[test]
fn a_health_check_without_data_is_no_request() {
    let mut checks = Talk::new();
    checks
        .open(0)
        .packet(MS, true, ACK | FIN, 1001, 5001, "")
        .packet(2 * MS, false, ACK | FIN, 5001, 1002, "");
    assert_eq!(checks.flow().ledger.visits, []);
    let reset = Talk::new()
        .open(0)
        .packet(MS, true, RST, 1001, 0, "")
        .flow();
    assert_eq!(reset.ledger.visits, []);
}

#[test]
fn attempts_given_up_are_distinguished_from_those_cut_off() {
    let mut talk = Talk::new();
    talk.syn(0).syn(S).syn(2 * S);
    let cut = talk.flow();
    assert_eq!(
        (cut.ledger.visits.len(), tally(&cut).attempts_unfinished),
        (0, 1)
    );
    // Another connection lets time pass.
    let later = tcp("10.0.0.9:1", SERVER).at(60 * S).flags(SYN);
    let given_up = flow(&[talk.packets.clone(), vec![later]].concat());
    let visit = only_visit(&given_up);
    assert_eq!(
        (
            visit.served,
            visit.drops,
            status(&given_up, &visit).as_str()
        ),
        (false, 2, "abandoned")
    );
    assert_eq!(visit.departure, 2 * S);
    assert_eq!(tally(&given_up).unanswered, 1);
}

#[test]
fn a_whole_schedule_without_an_answer_is_a_timeout() {
    let mut talk = Talk::new();
    for time in [0, 1, 3, 7, 15, 31, 63] {
        talk.syn(time * S);
    }
    let later = tcp("10.0.0.9:1", SERVER).at(300 * S).flags(SYN);
    let flow = flow(&[talk.packets.clone(), vec![later]].concat());
    assert_eq!(status(&flow, &only_visit(&flow)), "timeout");
}

#[test]
fn an_answer_that_was_not_captured_is_seen_from_what_follows() {
    let flow = Talk::new().syn(0).ack(2 * MS).exchange(3 * MS).flow();
    let visit = only_visit(&flow);
    assert_eq!(
        (visit.sent, visit.arrival, visit.connected, visit.departure),
        (0, 0, 2 * MS, 4 * MS)
    );
}

#[test]
fn ports_are_used_again() {
    let mut talk = Talk::new();
    talk.open(0).exchange(MS).close(3 * MS);
    let again: Vec<Tcp> = talk
        .packets
        .iter()
        .map(|p| p.clone().at(p.time + 100 * MS))
        .collect();
    for gap in [1, 100_000] {
        let moved = again.iter().map(|p| {
            let up = p.from == CLIENT.parse().unwrap();
            let (seq, ack) = if up { (gap, 2 * gap) } else { (2 * gap, gap) };
            p.clone()
                .seq(p.seq + seq)
                .ack(p.ack + ack)
                .ip_id(p.ip_id + 100)
        });
        let flow = flow(
            &talk
                .packets
                .iter()
                .cloned()
                .chain(moved)
                .collect::<Vec<_>>(),
        );
        assert_eq!(flow.ledger.visits.len(), 2);
        assert_eq!(flow.ledger.visits[1].sent, 100 * MS);
        assert_eq!(tally(&flow).syn_repeats, 0);
    }
}

#[test]
fn a_connection_without_its_end_makes_room_for_the_next() {
    let mut talk = Talk::new();
    talk.open(0).up(MS, 1001, 5001, "hello");
    talk.packet(S, true, SYN, 9000, 0, "");
    let flow = talk.flow();
    assert_eq!(status(&flow, &only_visit(&flow)), "unknown");
    assert_eq!(only_visit(&flow).departure, MS);
    assert_eq!((tally(&flow).attempts, tally(&flow).syn_repeats), (2, 0));
}

/// A request at 1 ms that gets no answer; then one side closes after a second, and the other does `next`.
fn unanswered(client_first: bool, next: u8) -> String {
    let mut talk = Talk::new();
    talk.open(0).up(MS, 1001, 5001, "GET / HTTP/1.1\r\n\r\n");
    let (client, server) = (1019, 5001);
    let (seq, ack) = if client_first {
        (client, server)
    } else {
        (server, client)
    };
    talk.packet(S, client_first, ACK | FIN, seq, ack, "")
        .packet(S + MS, !client_first, ACK | next, ack, seq + 1, "");
    let flow = talk.flow();
    status(&flow, &only_visit(&flow))
}

#[test]
fn the_side_that_closes_first_ends_a_request_without_an_answer() {
    for next in [FIN, RST] {
        assert_eq!(unanswered(true, next), "abandoned");
        assert_eq!(unanswered(false, next), "reset");
    }
}

#[test]
fn a_client_that_closes_its_direction_with_the_request_waits_for_the_answer() {
    let mut talk = Talk::new();
    talk.open(0)
        .packet(
            MS,
            true,
            ACK | PSH | FIN,
            1001,
            5001,
            "GET / HTTP/1.1\r\n\r\n",
        )
        .packet(S, false, ACK | RST, 5001, 1020, "");
    let flow = talk.flow();
    assert_eq!(status(&flow, &only_visit(&flow)), "reset");
}

#[test]
fn a_client_that_opens_a_connection_and_sends_nothing_is_an_event() {
    let silent = |asks: Option<i64>, end: i64| {
        let mut talk = Talk::new();
        talk.syn(0).open(MS);
        match asks {
            Some(time) => talk.exchange(time).close(end),
            None => talk.packet(end, true, ACK | FIN, 1001, 5001, "").packet(
                end + MS,
                false,
                ACK | FIN,
                5001,
                1002,
                "",
            ),
        };
        let flow = talk.flow();
        let lasted = |silence: &Silence| silence.end - silence.begin;
        flow.ledger.silences.iter().map(lasted).collect::<Vec<_>>()
    };
    let about = |found: Vec<i64>, lasted: i64| match found[..] {
        [one] => (one - lasted).abs() <= 2 * MS,
        _ => false,
    };
    assert!(about(silent(Some(900 * MS), S), 900 * MS));
    assert!(about(silent(None, 2 * S), 2 * S));
    assert!(silent(Some(20 * MS), S).is_empty());
}

#[test]
fn a_client_that_stops_in_the_middle_of_its_request_is_an_event() {
    let silences = |request: &str| {
        let mut talk = Talk::new();
        talk.syn(0)
            .open(MS)
            .packet(2 * MS, true, ACK | PSH, 1001, 5001, request)
            .packet(
                2 * S,
                true,
                ACK | FIN,
                1001 + request.len() as u32,
                5001,
                "",
            );
        let flow = talk.flow();
        let lasted = |silence: &Silence| silence.end - silence.begin;
        flow.ledger.silences.iter().map(lasted).collect::<Vec<_>>()
    };
    let half = silences("GET / HTTP/1.1\r\nHost: a\r\n");
    let body = silences("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nab");
    assert_eq!((half, body), (vec![2 * S - 2 * MS], vec![2 * S - 2 * MS]));
    assert!(silences("GET / HTTP/1.1\r\nHost: a\r\n\r\n").is_empty());
}
