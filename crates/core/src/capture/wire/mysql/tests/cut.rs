//! Segments of which the snap length left only the beginning.

use super::*;
use crate::capture::wire::log::{cut_everywhere, play_cut};

#[test]
fn a_recording_with_a_short_snap_length_that_starts_in_the_middle() {
    // As Tailrace's own recordings: a ping, then executes of which a reply's last header is cut off.
    let row = [b'r'; 659];
    let reply = packets(
        1,
        &[
            vec![3, 0],
            row.to_vec(),
            [&[0xfe][..], &ok(2)[1..]].concat(),
        ],
    );
    let large = packets(1, &[vec![1], column(), row.repeat(4), ok(2)]);
    let mut script = vec![(S, b"the end of an earlier reply".to_vec())];
    for _ in 0..3 {
        script.extend([
            (C, command(0x0e, [])),
            (S, packets(1, &[ok(2)])),
            (C, execute(1)),
            (S, reply.clone()),
            (C, query("SELECT something FROM somewhere_far")),
            (S, large[..1400].to_vec()),
            (S, large[1400..].to_vec()),
        ]);
    }
    let log = play_cut(&mut MySql::default(), &script, 30);
    let three = ["PING ok", "EXECUTE ok", "sql SELECT something FROM som ~ok"];
    assert_eq!(log.names()[..9], [three, three, three].concat());
    assert_eq!(log.times(1), (3, 3, Some(4), 4));
    assert_eq!(log.times(2), (5, 5, Some(6), 7));
}

#[test]
fn the_header_of_the_last_packet_gives_the_outcome() {
    let reply = packets(1, &result(1, 0, b"", true, 2));
    let log = play_cut(&mut MySql::default(), &[(C, execute(1)), (S, reply)], 45);
    assert_eq!(log.lines(), ["EXECUTE | 14 52 | ~ok"]);
}

#[test]
fn an_outcome_is_reported_wherever_the_snap_length_cuts() {
    let row = [b'r'; 70];
    for deprecated in [false, true] {
        let flags = if deprecated { DEPRECATE_EOF } else { 0 };
        let replies = [
            (execute(1), result(1, 0, b"", deprecated, 2)),
            (execute(1), result(2, 3, &row, deprecated, 2)),
            (query("SELECT 1"), result(1, 2, b"\x011", deprecated, 2)),
            (query("UPDATE t SET a=1"), vec![ok(2)]),
            (query("SELEC"), vec![err(1064)]),
            (prepare("SELECT ?"), prepared(1, 1, 1, deprecated)),
            (prepare("SELECT 1"), prepared(1, 2, 0, deprecated)),
            (prepare("DO 1"), prepared(1, 0, 0, deprecated)),
            (
                query("CALL p()"),
                [result(1, 1, b"\x01a", deprecated, 2 | 8), vec![ok(2)]].concat(),
            ),
            (command(9, []), vec![b"Uptime: 1".to_vec()]),
            (command(0x0e, []), vec![ok(2)]),
        ];
        for (ask, reply) in replies {
            let script = vec![(C, ask), (S, packets(1, &reply))];
            cut_everywhere::<MySql, _>(&script);
            cut_everywhere::<MySql, _>(&[opened(flags), script.clone()].concat());
            cut_everywhere::<MySql, _>(&[script.clone(), script].concat());
        }
    }
}

proptest! {
    #[test]
    fn cut_conversations_have_the_same_exchanges(script in conversation(), snap in 14..80usize) {
        // The second command of a segment begins within fourteen bytes.
        let sizes = |log: &Log| log.seen.iter().map(|s| (s.bytes_in, s.bytes_out, s.begun, s.last)).collect::<Vec<_>>();
        let cut = play_cut(&mut MySql::default(), &script, snap);
        prop_assert_eq!(sizes(&cut), sizes(&play(&mut MySql::default(), &script)));
        prop_assert!(cut.seen.iter().all(|s| !s.end.is_empty()));
    }
}
