//! What lasts beyond a visit: a server that works on for nobody, and an answer that is lost.

use super::*;

/// The visits (status and end), and the events (kind and length).
type Seen = (Vec<(String, i64)>, Vec<(Quiet, i64)>);

/// A request at 1 ms that its client gives up after a second, and that the server does something with at `late`.
fn given_up(late: &[(i64, u8, &str)]) -> Seen {
    let mut talk = Talk::new();
    talk.open(0).up(MS, 1001, 5001, "GET / HTTP/1.1\r\n\r\n");
    talk.packet(S, true, ACK | FIN, 1019, 5001, "");
    for &(time, flags, answer) in late {
        let from_client = answer.is_empty() && flags == RST;
        let (seq, ack) = if from_client { (1020, 0) } else { (5001, 1020) };
        talk.packet(time, from_client, flags, seq, ack, answer);
    }
    let flow = talk.flow();
    let visits = flow.ledger.visits.iter();
    let visits = visits.map(|visit| (status(&flow, visit), visit.departure));
    let events = flow.ledger.silences.iter();
    let events = events.map(|one| (one.of, one.end - one.begin));
    (visits.collect(), events.collect())
}

#[test]
fn a_request_that_its_client_gives_up_ends_then_and_its_server_may_work_on() {
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let visits = vec![("abandoned".to_owned(), S)];
    let late = vec![(Quiet::LateAnswer, 2 * S)];
    let answered = [(3 * S, ACK | PSH, answer), (3 * S + MS, RST, "")];
    assert_eq!(given_up(&answered), (visits.clone(), late.clone()));
    let closed = [(3 * S, ACK | FIN, "")];
    assert_eq!(given_up(&closed), (visits.clone(), late));
    let at_once = [(S + MS, ACK | FIN, "")];
    assert_eq!(given_up(&at_once), (visits.clone(), vec![]));
    assert_eq!(given_up(&[]), (visits, vec![]), "the recording ends");
}

#[test]
fn an_answer_that_is_sent_again_had_not_arrived() {
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let mut talk = Talk::new();
    talk.open(0)
        .up(MS, 1001, 5001, "GET / HTTP/1.1\r\n\r\n")
        .down(2 * MS, 5001, 1019, answer);
    for time in [202 * MS, 602 * MS, 1402 * MS] {
        talk.down(time, 5001, 1019, answer);
    }
    let flow = talk.flow();
    assert_eq!(only_visit(&flow).departure, 2 * MS);
    let events = flow.ledger.silences.iter();
    let found: Vec<_> = events.map(|one| (one.of, one.begin, one.end)).collect();
    let repeated = |time: i64| (Quiet::RepeatedAnswer, 2 * MS, time * MS);
    assert_eq!(found, [202, 602, 1402].map(repeated));
}
