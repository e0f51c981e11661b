#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cut;

use super::MySql;
use crate::capture::wire::log::{any_events, damaged, play, play_split, throw, whole, Log, C, S};
use crate::capture::wire::{Protocol, Side};
use proptest::prelude::*;

const PROTOCOL_41: u32 = 1 << 9;
const DEPRECATE_EOF: u32 = 1 << 24;

fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_le_bytes();
    [&len[..3], &[sequence], payload].concat()
}

/// The packets of one side, numbered from `sequence`.
fn packets(sequence: u8, payloads: &[Vec<u8>]) -> Vec<u8> {
    payloads
        .iter()
        .zip(sequence..)
        .flat_map(|(p, i)| packet(i, p))
        .collect()
}

fn command(code: u8, rest: impl AsRef<[u8]>) -> Vec<u8> {
    packet(0, &[&[code], rest.as_ref()].concat())
}

fn query(sql: &str) -> Vec<u8> {
    command(3, sql)
}

fn prepare(sql: &str) -> Vec<u8> {
    command(0x16, sql)
}

fn execute(id: u32) -> Vec<u8> {
    command(0x17, [&id.to_le_bytes()[..], &[0, 1, 0, 0, 0]].concat())
}

fn ok(status: u16) -> Vec<u8> {
    [&[0, 0, 0][..], &status.to_le_bytes(), &[0, 0]].concat()
}

fn eof(status: u16) -> Vec<u8> {
    [&[0xfe, 0, 0][..], &status.to_le_bytes()].concat()
}

fn err(number: u16) -> Vec<u8> {
    [&[0xff][..], &number.to_le_bytes(), b"#42000no such thing"].concat()
}

fn column() -> Vec<u8> {
    b"\x03def\x04test\x01t\x01t\x02id\x02id\x0c\x3f\x00\x0b\x00\x00\x00\x03\x03\x42\x00\x00\x00"
        .to_vec()
}

/// A result set, with or without EOF packets.
fn result(columns: u8, rows: usize, row: &[u8], deprecated: bool, status: u16) -> Vec<Vec<u8>> {
    let mut packets = vec![vec![columns]];
    packets.extend((0..columns).map(|_| column()));
    if !deprecated {
        packets.push(eof(2));
    }
    packets.extend((0..rows).map(|_| row.to_vec()));
    packets.push(if deprecated {
        [&[0xfe][..], &ok(status)[1..]].concat()
    } else {
        eof(status)
    });
    packets
}

fn prepared(id: u32, columns: u16, params: u16, deprecated: bool) -> Vec<Vec<u8>> {
    let head = [
        &[0][..],
        &id.to_le_bytes(),
        &columns.to_le_bytes(),
        &params.to_le_bytes(),
        &[0, 0, 0],
    ]
    .concat();
    let mut packets = vec![head];
    for group in [params, columns].into_iter().filter(|&n| n > 0) {
        packets.extend((0..group).map(|_| column()));
        if !deprecated {
            packets.push(eof(2));
        }
    }
    packets
}

fn greeting() -> Vec<u8> {
    packet(0, b"\x0a5.5.5-10.11.19-MariaDB\0\x05\0\0\0abcdefgh\0\xfe\xf7\x2d\x02\0\xff\x81\x15\0\0\0\0\0\0\x1d\0\0\0ijklmnopqrst\0")
}

fn login(flags: u32) -> Vec<u8> {
    packet(
        1,
        &[
            &(flags | PROTOCOL_41).to_le_bytes()[..],
            &[0, 0, 0, 1, 45],
            &[0; 23],
            b"root\0\x00mysql_native_password\0",
        ]
        .concat(),
    )
}

fn opened(flags: u32) -> Vec<(Side, Vec<u8>)> {
    vec![(S, greeting()), (C, login(flags)), (S, packet(2, &ok(2)))]
}

fn after_login(flags: u32, script: Vec<(Side, Vec<u8>)>) -> Vec<String> {
    let script: Vec<_> = opened(flags).into_iter().chain(script).collect();
    play(&mut MySql::default(), &script).names()
}

#[test]
fn a_greeting_says_what_the_server_runs() {
    let log = play(&mut MySql::default(), &[(S, greeting()), (C, login(0))]);
    let version = log.software.server;
    assert_eq!(version.as_deref(), Some("5.5.5-10.11.19-MariaDB"));
    let unended = packet(0, &[&[10][..], &[b'8'; 300]].concat());
    let log = play(&mut MySql::default(), &[(S, unended)]);
    assert_eq!(log.software.server.map(|text| text.len()), Some(100));
}

#[test]
fn a_login_is_an_exchange_however_long() {
    let script = [
        (S, greeting()),
        (C, login(0)),
        (S, packet(2, b"\xfecaching_sha2_password\0abcdefgh")),
        (C, packet(3, b"scramble")),
        (S, packet(4, &[1, 4])),
        (C, packet(5, b"secret\0")),
        (S, packet(6, &err(1045))),
    ];
    let log = play(&mut MySql::default(), &script);
    assert_eq!(log.names(), ["LOGIN error-1045"]);
    assert_eq!(log.times(0), (1, 5, Some(2), 6));
}

#[test]
fn a_login_is_read_where_the_capture_begins_with_the_greeting_or_with_its_answer() {
    let session = [
        opened(0),
        vec![(C, query("SELECT 1")), (S, packet(1, &ok(2)))],
    ]
    .concat();
    let all = ["LOGIN ok", "sql SELECT 1 ok"];
    for (seen, want) in [(0, &all[..]), (1, &all[..]), (2, &all[1..])] {
        let mut mysql = MySql::default();
        let mut log = Log::default();
        for side in [C, S] {
            mysql.gap(side, 0, 0, &mut log);
        }
        for (time, (side, bytes)) in session.iter().enumerate().skip(seen) {
            mysql.data(*side, whole(time as i64, bytes), &mut log);
        }
        let names: Vec<String> = log
            .names()
            .into_iter()
            .filter(|name| !name.starts_with("unread"))
            .collect();
        assert_eq!(names, want, "from packet {seen} on");
    }
}

#[test]
fn a_refused_connection_is_a_failed_login() {
    assert_eq!(
        play(&mut MySql::default(), &[(S, packet(0, &err(1040)))]).names(),
        ["LOGIN error-1040"]
    );
}

#[test]
fn a_connection_that_becomes_unreadable_is_opaque() {
    let ssl = packet(
        1,
        &[&(PROTOCOL_41 | 0x800).to_le_bytes()[..], &[0; 28]].concat(),
    );
    assert_eq!(
        play(&mut MySql::default(), &[(S, greeting()), (C, ssl)]).names(),
        ["opaque: TLS"]
    );
    assert_eq!(
        after_login(0x20, vec![(C, query("SELECT 1"))]),
        ["LOGIN ok", "opaque: compressed"]
    );
    let dump = command(0x12, [0; 10]);
    assert_eq!(
        after_login(0, vec![(C, dump)]),
        ["LOGIN ok", "opaque: binlog stream"]
    );
}

#[test]
fn results_end_by_eof_or_by_ok() {
    for deprecated in [false, true] {
        let flags = if deprecated { DEPRECATE_EOF } else { 0 };
        let script = vec![
            (C, query("SELECT * FROM t")),
            (S, packets(1, &result(2, 3, b"\x01a\x01b", deprecated, 2))),
            (C, query("SELECT * FROM empty")),
            (S, packets(1, &result(1, 0, b"", deprecated, 2))),
            (C, query("UPDATE t SET a=1")),
            (S, packets(1, &[ok(2)])),
            (C, query("SELEC")),
            (S, packets(1, &[err(1064)])),
            (C, query("SELECT fails_in_the_middle")),
            (
                S,
                packets(
                    1,
                    &[vec![1], column(), eof(2), b"\x01a".to_vec(), err(1317)],
                ),
            ),
        ];
        let want = [
            "LOGIN ok",
            "sql SELECT * FROM t ok",
            "sql SELECT * FROM empty ok",
            "sql UPDATE t SET a=1 ok",
            "sql SELEC error-1064",
            "sql SELECT fails_in_the_middle error-1317",
        ];
        assert_eq!(after_login(flags, script.clone()), want);
        // The same without the login.
        assert_eq!(play(&mut MySql::default(), &script).names(), want[1..]);
    }
}

#[test]
fn several_results_are_one_exchange() {
    let more = 2 | 8;
    for deprecated in [false, true] {
        let flags = if deprecated { DEPRECATE_EOF } else { 0 };
        let sets = [
            result(1, 2, b"\x01a", deprecated, more),
            vec![ok(more)],
            result(2, 1, b"\x01a\xfb", deprecated, 2),
        ];
        let all = packets(1, &sets.concat());
        let script = vec![
            (C, query("CALL p()")),
            (S, all[..20].to_vec()),
            (S, all[20..].to_vec()),
            (C, query("DO 1")),
        ];
        assert_eq!(
            after_login(flags, script),
            ["LOGIN ok", "sql CALL p() ok", "sql DO 1 …"]
        );
    }
}

#[test]
fn a_statement_is_known_by_the_text_it_was_prepared_from() {
    for (deprecated, seen) in [(false, false), (false, true), (true, false), (true, true)] {
        let flags = if deprecated { DEPRECATE_EOF } else { 0 };
        let mut script = if seen { opened(flags) } else { Vec::new() };
        script.extend([
            (C, prepare("SELECT * FROM t WHERE id=?")),
            (S, packets(1, &prepared(7, 2, 1, deprecated))),
            (C, execute(7)),
            (S, packets(1, &result(2, 1, b"\0\0\x01\x02", deprecated, 2))),
            (C, execute(8)),
            (S, packets(1, &[ok(2)])),
            (C, command(0x18, [7, 0, 0, 0, 0, 0, b'x'])),
            (C, [command(0x19, [7, 0, 0, 0]), execute(7)].concat()),
            (S, packets(1, &[err(1243)])),
            (C, prepare("DO 1")),
            (S, packets(1, &prepared(9, 0, 0, deprecated))),
            (C, command(1, [])),
        ]);
        let names = play(&mut MySql::default(), &script)
            .names()
            .join("\n")
            .replace('~', "");
        let names: Vec<_> = names.lines().collect();
        let want = [
            "PREPARE ok",
            "sql SELECT * FROM t WHERE id=? ok",
            "EXECUTE ok",
            "LONG DATA one way",
            "CLOSE one way",
            "EXECUTE error-1243",
            "PREPARE ok",
            "QUIT one way",
        ];
        assert_eq!(
            names[usize::from(seen)..],
            want,
            "deprecated {deprecated}, login seen {seen}"
        );
    }
}

#[test]
fn pipelined_commands_are_distinguished_by_their_sequence_numbers() {
    // As MariaDB's connectors do: prepare and execute what was prepared last, in one go.
    for deprecated in [false, true] {
        let script = [
            (
                C,
                [prepare("INSERT INTO t VALUES (?)"), execute(u32::MAX)].concat(),
            ),
            (
                S,
                [
                    packets(1, &prepared(3, 0, 1, deprecated)),
                    packets(1, &[ok(2)]),
                ]
                .concat(),
            ),
            (C, [command(0x1a, [3, 0, 0, 0]), execute(3)].concat()),
            (S, packets(1, &[ok(2)])),
            (S, packets(1, &result(1, 0, b"", deprecated, 2))),
        ];
        let log = play(&mut MySql::default(), &script);
        // Only the beginning of the next reply shows that the statement is complete.
        let insert = "sql INSERT INTO t VALUES (?) ok";
        assert_eq!(
            log.names(),
            ["PREPARE ok", insert, "RESET ok", insert],
            "deprecated {deprecated}"
        );
        assert_eq!(log.times(2).3, 3);
    }
}

#[test]
fn a_cursor_sends_its_rows_when_they_are_fetched() {
    let mut open = result(1, 0, b"", false, 2);
    open.truncate(2);
    open.push(eof(2 | 0x40));
    let script = vec![
        (C, execute(1)),
        (S, packets(1, &open)),
        (C, command(0x1c, [1, 0, 0, 0, 10, 0, 0, 0])),
        (S, packets(1, &[b"\0\0\x01".to_vec(), eof(2 | 0x80)])),
        (C, command(0x0e, [])),
    ];
    assert_eq!(
        after_login(0, script),
        ["LOGIN ok", "EXECUTE ok", "FETCH ok", "PING …"]
    );
}

#[test]
fn local_infile_is_part_of_its_query() {
    let script = vec![
        (C, query("LOAD DATA LOCAL INFILE 'x' INTO TABLE t")),
        (S, packet(1, b"\xfbx")),
        (C, [packet(2, b"a,b"), packet(3, b"")].concat()),
        (S, packet(4, &ok(2))),
        (C, command(0x0e, [])),
        (S, packet(1, &ok(2))),
    ];
    assert_eq!(
        after_login(0, script),
        [
            "LOGIN ok",
            "sql LOAD DATA LOCAL INFILE 'x' INTO TABLE t ok",
            "PING ok"
        ]
    );
}

#[test]
fn metadata_that_the_client_keeps_is_not_sent_again() {
    // MariaDB 10.6: count, and a zero for "no definitions follow".
    let row = b"\0\0\x01";
    let script = [
        (C, execute(1)),
        (
            S,
            packets(
                1,
                &[
                    vec![3, 0],
                    row.to_vec(),
                    row.to_vec(),
                    [&[0xfe][..], &ok(2)[1..]].concat(),
                ],
            ),
        ),
        (C, execute(1)),
        (S, packets(1, &[vec![3, 0], eof(2), row.to_vec(), eof(2)])),
        (C, execute(1)),
        (
            S,
            packets(
                1,
                &[
                    vec![1, 1],
                    column(),
                    row.to_vec(),
                    [&[0xfe][..], &ok(2)[1..]].concat(),
                ],
            ),
        ),
    ];
    assert_eq!(
        play(&mut MySql::default(), &script).names(),
        ["EXECUTE ok"; 3]
    );
}

#[test]
fn packets_of_sixteen_megabytes_go_on_in_the_next() {
    let half = vec![b'x'; 0xff_ffff];
    let insert = [b"\x03INSERT INTO t VALUES ('", &half[..half.len() - 24]].concat();
    let row = [&[0xfe, 0, 0, 0, 1, 0, 0, 0, 0][..], &half[9..]].concat();
    let script = [
        (
            C,
            [packet(0, &insert), packet(1, &half), packet(2, b"')")].concat(),
        ),
        (S, packet(3, &ok(2))),
        (C, query("SELECT big")),
        (
            S,
            packets(
                1,
                &[vec![1], column(), eof(2), row, b"rest".to_vec(), eof(2)],
            ),
        ),
        (C, query("DO 1")),
        (S, packets(1, &[ok(2)])),
    ];
    let mut log = Log::default();
    let mut mysql = MySql::default();
    for (i, (side, bytes)) in script.iter().enumerate() {
        bytes
            .chunks(60_000)
            .for_each(|piece| mysql.data(*side, whole(i as i64, piece), &mut log));
    }
    let ends: Vec<_> = log
        .seen
        .iter()
        .map(|s| (s.bytes_in as usize, s.end.as_str()))
        .collect();
    assert_eq!(ends, [(script[0].1.len(), "ok"), (15, "ok"), (9, "ok")]);
}

#[test]
fn query_attributes_are_not_part_of_the_text() {
    let flags = DEPRECATE_EOF | 1 << 27;
    let with = [
        &[1, 1, 0, 1, 0xfe, 0, 2][..],
        b"tp",
        b"\x03abc",
        b"SELECT 1",
    ]
    .concat();
    let script = vec![
        (C, command(3, with)),
        (S, packets(1, &[ok(2)])),
        (C, command(3, b"\0\x01SELECT 2")),
    ];
    assert_eq!(
        after_login(flags, script),
        ["LOGIN ok", "sql SELECT 1 ok", "sql SELECT 2 …"]
    );
}

#[test]
fn after_a_hole_reading_goes_on_at_the_next_command() {
    let mut mysql = MySql::default();
    let mut log = Log::default();
    let answer = packets(1, &result(1, 50, b"\x01a", false, 2));
    mysql.data(C, whole(0, &query("SELECT 1")), &mut log);
    mysql.data(S, whole(1, &answer[..60]), &mut log);
    log.gap(S);
    mysql.gap(S, 2, 0, &mut log);
    mysql.data(S, whole(3, b"rows and rows"), &mut log);
    mysql.data(C, whole(4, &query("SELECT 2")), &mut log);
    mysql.data(S, whole(5, &answer), &mut log);
    mysql.gap(C, 6, 20, &mut log);
    mysql.data(S, whole(7, &answer), &mut log);
    mysql.data(C, whole(8, &query("SELECT 3")), &mut log);
    mysql.data(S, whole(9, &answer), &mut log);
    assert_eq!(
        log.names()[..3],
        ["sql SELECT 1 ~ok", "sql SELECT 2 ok", "sql SELECT 3 ok"]
    );
    assert_eq!(log.times(0).3, 3);
}

fn conversation() -> impl Strategy<Value = Vec<(Side, Vec<u8>)>> {
    let one = (0..8usize, 1..5u8, 0..20usize, 0..300usize);
    (
        any::<bool>(),
        any::<bool>(),
        proptest::collection::vec(one, 1..8),
    )
        .prop_map(|(deprecated, seen, commands)| {
            let flags = if deprecated { DEPRECATE_EOF } else { 0 };
            let mut script = if seen { opened(flags) } else { Vec::new() };
            for (kind, columns, rows, n) in commands {
                let row = vec![0u8; n + 1];
                let text = format!("SELECT {}", "x".repeat(n));
                let (ask, answer) = match kind {
                    0 => (command(0x0e, []), vec![ok(2)]),
                    1 => (
                        prepare(&text),
                        prepared(1, u16::from(columns), (n % 3) as u16, deprecated),
                    ),
                    2 => (execute(1), result(columns, rows, &row, deprecated, 2)),
                    3 => (
                        query(&text),
                        [result(columns, rows, &row, deprecated, 10), vec![ok(2)]].concat(),
                    ),
                    4 => (query(&text), vec![err(1064)]),
                    5 => (
                        [command(0x19, [9, 0, 0, 0]), query(&text)].concat(),
                        vec![ok(2)],
                    ),
                    6 => (command(9, []), vec![b"Uptime: 1".to_vec()]),
                    _ => (query(&text), result(columns, rows, &row, deprecated, 2)),
                };
                script.extend([(C, ask), (S, packets(1, &answer))]);
            }
            script
        })
}

proptest! {
    #[test]
    fn any_bytes_at_all_do_no_harm(events in any_events()) {
        throw(&mut MySql::default(), &events);
    }

    #[test]
    fn any_damage_to_a_conversation_does_no_harm(
        script in conversation(), damage in proptest::collection::vec(any::<u8>(), 1..20)
    ) {
        throw(&mut MySql::default(), &damaged(&script, &damage));
    }

    #[test]
    fn any_chunking_gives_the_same_exchanges(
        script in conversation(), cuts in proptest::collection::vec(1..200usize, 1..20)
    ) {
        let all = play(&mut MySql::default(), &script).lines();
        prop_assert!(all.iter().all(|line| !line.contains('…') && !line.contains("unreadable")), "{all:?}");
        prop_assert_eq!(play_split(&mut MySql::default(), &script, &cuts).lines(), all);
    }
}
