//! Connections that a client keeps after an answer.

use super::*;

#[test]
fn a_connection_that_is_kept_while_others_wait_is_an_event() {
    // One worker: it serves the second connection when the first ends.
    let silences = |kept: i64, waits: bool| {
        let (ask, answer) = (
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        );
        let (asked, answered) = (1001 + ask.len() as u32, 5001 + answer.len() as u32);
        let (mut talk, mut other) = (Talk::new(), Talk::new());
        talk.syn(0)
            .open(MS)
            .up(2 * MS, 1001, 5001, ask)
            .down(3 * MS, 5001, asked, answer);
        other.client = "10.0.0.1:4002";
        other.syn(100 * MS).open(101 * MS);
        if waits {
            other.up(102 * MS, 1001, 5001, ask);
        }
        let mut packets = [&talk.packets[..], &other.packets[..]].concat();
        talk.packet(kept, false, ACK | FIN, answered, asked, "");
        packets.push(talk.packets.last().unwrap().clone());
        let flow = flow(&packets);
        let of = |silence: &Silence| (silence.of, (silence.end - silence.begin) / (100 * MS));
        flow.ledger
            .silences
            .iter()
            .map(of)
            .filter(|it| it.0 == Quiet::Kept)
            .collect::<Vec<_>>()
    };
    assert_eq!(silences(3 * S, true), [(Quiet::Kept, 29)]);
    assert_eq!(silences(3 * S, false), []);
    assert_eq!(silences(150 * MS, true), [(Quiet::Kept, 1)]);
}
