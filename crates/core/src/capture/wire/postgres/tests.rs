#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::Postgres;
use crate::capture::wire::log::{
    any_events, cut_everywhere, damaged, play, play_cut, play_split, throw, whole, Log, C, S,
    SNAP_MIN,
};
use crate::capture::wire::{Protocol, Side};
use proptest::prelude::*;

fn message(kind: u8, payload: impl AsRef<[u8]>) -> Vec<u8> {
    let payload = payload.as_ref();
    [
        &[kind][..],
        &(payload.len() as u32 + 4).to_be_bytes(),
        payload,
    ]
    .concat()
}

fn startup(code: u32, rest: &[u8]) -> Vec<u8> {
    [
        &(rest.len() as u32 + 8).to_be_bytes()[..],
        &code.to_be_bytes(),
        rest,
    ]
    .concat()
}

fn query(sql: &str) -> Vec<u8> {
    message(b'Q', format!("{sql}\0"))
}

fn parse(name: &str, sql: &str) -> Vec<u8> {
    message(b'P', format!("{name}\0{sql}\0\0\0"))
}

fn bind(name: &str) -> Vec<u8> {
    message(b'B', format!("\0{name}\0\0\0\0\0\0\0"))
}

fn execute() -> Vec<u8> {
    message(b'E', b"\0\0\0\0\0")
}

fn sync() -> Vec<u8> {
    message(b'S', b"")
}

fn ready() -> Vec<u8> {
    message(b'Z', b"I")
}

fn error(state: &str) -> Vec<u8> {
    message(b'E', format!("SERROR\0VERROR\0C{state}\0Mno\0\0"))
}

fn rows(n: usize, size: usize) -> Vec<u8> {
    let row = message(
        b'D',
        [&[0, 1][..], &(size as u32).to_be_bytes(), &vec![b'x'; size]].concat(),
    );
    [
        message(
            b'T',
            b"\0\x01id\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0",
        ),
        row.repeat(n),
        message(b'C', b"SELECT 1\0"),
    ]
    .concat()
}

fn login() -> Vec<(Side, Vec<u8>)> {
    vec![
        (C, startup(196_608, b"user\0me\0\0")),
        (S, message(b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0")),
        (C, message(b'p', b"SCRAM-SHA-256\0\0\0\0\x01x")),
        (
            S,
            [
                message(b'R', b"\0\0\0\0"),
                message(b'S', b"a\0b\0"),
                message(b'K', [0; 8]),
                ready(),
            ]
            .concat(),
        ),
    ]
}

#[test]
fn a_parameter_says_what_the_server_runs() {
    let said = |text: &str| {
        let mut script = login();
        script.push((S, message(b'S', text)));
        play(&mut Postgres::default(), &script).software.server
    };
    let version = said("server_version\x0014.10 (Debian 14.10-1)\0");
    assert_eq!(version.as_deref(), Some("14.10 (Debian 14.10-1)"));
    assert_eq!(said("server_version\0\0"), None);
    assert_eq!(said("server_encoding\0UTF8\0"), None);
}

#[test]
fn a_login_and_simple_queries() {
    let mut script = login();
    script.extend([
        (C, query("SELECT * FROM t")),
        (S, [rows(3, 10), ready()].concat()),
        (
            S,
            [
                message(b'N', b"SNOTICE\0\0"),
                message(b'A', b"\0\0\0\x01c\0p\0"),
            ]
            .concat(),
        ),
        (C, query("SELEC")),
        (S, [error("42601"), ready()].concat()),
        (C, query("INSERT INTO t VALUES (1); SELECT 1")),
        (
            S,
            [message(b'C', b"INSERT 0 1\0"), rows(1, 1), ready()].concat(),
        ),
        (C, message(b'X', b"")),
    ]);
    let log = play(&mut Postgres::default(), &script);
    let want = [
        "LOGIN ok",
        "sql SELECT * FROM t ok",
        "sql SELEC error-42601",
        "sql INSERT INTO t VALUES (1); SELECT 1 ok",
        "TERMINATE one way",
    ];
    assert_eq!(log.names(), want);
    assert_eq!(log.times(0), (0, 2, Some(1), 3));
    assert_eq!(log.times(1), (4, 4, Some(5), 5));
}

#[test]
fn encryption_is_opaque_unless_refused() {
    let request = startup(80_877_103, b"");
    let script = [vec![(C, request.clone()), (S, b"N".to_vec())], login()].concat();
    assert_eq!(
        play(&mut Postgres::default(), &script).names(),
        ["LOGIN ok"]
    );
    let script = [
        (C, request.clone()),
        (S, b"S".to_vec()),
        (C, b"\x16\x03\x01".to_vec()),
    ];
    assert_eq!(
        play(&mut Postgres::default(), &script).names(),
        ["opaque: TLS"]
    );
    let script = [
        (C, startup(80_877_104, b"")),
        (S, b"N".to_vec()),
        (C, request),
        (S, b"N".to_vec()),
    ];
    assert_eq!(
        play(&mut Postgres::default(), &[&script[..], &login()].concat()).names(),
        ["LOGIN ok"]
    );
    assert_eq!(
        play(&mut Postgres::default(), &[(C, b"\x16\x03\x01")]).names(),
        ["opaque: TLS"]
    );
}

#[test]
fn a_failed_login_and_a_cancel() {
    let mut script = login();
    script[3] = (S, error("28P01"));
    let names = play(&mut Postgres::default(), &script).names();
    assert_eq!(names, ["LOGIN error-28P01"]);
    let cancel = [(C, startup(80_877_102, &[0; 8]))];
    assert_eq!(
        play(&mut Postgres::default(), &cancel).names(),
        ["CANCEL one way"]
    );
}

#[test]
fn a_batch_is_named_by_the_statement_it_executes() {
    let answer = [message(b'1', b""), message(b'2', b""), rows(1, 5), ready()].concat();
    let script = [
        (
            C,
            [
                parse("s1", "SELECT a FROM t WHERE id=$1"),
                message(b'D', b"Ss1\0"),
                sync(),
            ]
            .concat(),
        ),
        (
            S,
            [message(b'1', b""), message(b't', b"\0\0"), ready()].concat(),
        ),
        (C, [bind("s1"), execute(), sync()].concat()),
        (S, answer.clone()),
        (
            C,
            [
                parse("", "BEGIN"),
                bind(""),
                execute(),
                parse("", "SELECT b FROM u"),
                bind(""),
                execute(),
                sync(),
            ]
            .concat(),
        ),
        (S, answer.clone()),
        (
            C,
            [parse("", "UPDATE v SET x=1"), bind(""), execute()].concat(),
        ),
        (C, sync()),
        (S, [message(b'1', b""), error("40P01"), ready()].concat()),
        (C, [bind("gone"), execute(), sync()].concat()),
        (S, answer),
        (C, sync()),
        (S, ready()),
    ];
    let log = play(&mut Postgres::default(), &script);
    assert_eq!(log.seen[3].end, "error-40P01");
    let names: Vec<_> = log.seen.iter().map(|s| s.name.as_str()).collect();
    let want = [
        "PREPARE",
        "sql SELECT a FROM t WHERE id=$1",
        "sql SELECT b FROM u",
        "sql UPDATE v SET x=1",
        "EXECUTE",
        "SYNC",
    ];
    assert_eq!(names, want);
}

#[test]
fn pipelined_batches_are_one_exchange_a_sync() {
    let batch = |table: &str| {
        [
            parse("", &format!("SELECT * FROM {table}")),
            bind(""),
            execute(),
            sync(),
        ]
        .concat()
    };
    let answer = [
        message(b'1', b""),
        message(b'2', b""),
        message(b'C', b"SELECT 0\0"),
        ready(),
    ]
    .concat();
    let script = [
        (C, [batch("a"), batch("b")].concat()),
        (S, answer.repeat(2)),
    ];
    assert_eq!(
        play(&mut Postgres::default(), &script).names(),
        ["sql SELECT * FROM a ok", "sql SELECT * FROM b ok"]
    );
}

#[test]
fn copying_is_part_of_its_query() {
    let script = [
        (C, query("COPY t FROM STDIN")),
        (S, message(b'G', b"\0\0\0")),
        (C, message(b'd', b"1\n").repeat(3)),
        (C, message(b'c', b"")),
        (S, [message(b'C', b"COPY 3\0"), ready()].concat()),
        (C, query("COPY t TO STDOUT")),
        (
            S,
            [
                message(b'H', b"\0\0\0"),
                message(b'd', b"1\n"),
                message(b'c', b""),
                message(b'C', b"COPY 1\0"),
                ready(),
            ]
            .concat(),
        ),
        (C, query("START_REPLICATION SLOT x")),
        (S, message(b'W', b"\0\0\0")),
    ];
    let log = play(&mut Postgres::default(), &script);
    assert_eq!(
        log.names()[..2],
        ["sql COPY t FROM STDIN ok", "sql COPY t TO STDOUT ok"]
    );
    assert_eq!(log.notes, ["opaque: replication stream"]);
    assert_eq!(log.times(0), (0, 3, Some(1), 4));
}

#[test]
fn a_short_snap_length_hides_the_end_but_not_the_count() {
    let batch = [
        parse("", "SELECT a_column FROM some_table_far"),
        bind(""),
        execute(),
        sync(),
    ]
    .concat();
    let script = [
        (C, batch.clone()),
        (S, [rows(3, 500), ready()].concat()),
        (S, [rows(3, 500), ready()].concat()),
        (C, batch),
        (S, [error("23505"), ready()].concat()),
        (C, query("COMMIT")),
        (S, [message(b'C', b"COMMIT\0"), ready()].concat()),
    ];
    let log = play_cut(&mut Postgres::default(), &script, 30);
    assert_eq!(
        log.names(),
        [
            "sql SELECT a_column FROM som ~ok",
            "sql SELECT a_column FROM som ~error-23505",
            "sql COMMIT ok"
        ]
    );
    assert_eq!(log.times(0), (0, 0, Some(1), 2));
}

#[test]
fn after_a_hole_reading_goes_on() {
    let mut postgres = Postgres::default();
    let mut log = Log::default();
    for side in [C, S] {
        postgres.gap(side, 0, 0, &mut log);
    }
    postgres.data(C, whole(1, &query("SELECT 1")), &mut log);
    let answer = [rows(10, 50), ready()].concat();
    postgres.data(S, whole(2, &answer[..100]), &mut log);
    log.gap(S);
    postgres.gap(S, 3, 0, &mut log);
    postgres.data(S, whole(4, &answer[answer.len() - 30..]), &mut log);
    postgres.data(C, whole(5, &query("SELECT 2")), &mut log);
    postgres.data(S, whole(6, &answer), &mut log);
    assert_eq!(log.names()[..2], ["sql SELECT 1 ok", "sql SELECT 2 ok"]);
}

#[test]
fn an_outcome_is_reported_wherever_the_snap_length_cuts() {
    let batch = [parse("", "SELECT $1"), bind(""), execute(), sync()].concat();
    let replies = [
        [rows(3, 20), ready()].concat(),
        [error("42P01"), ready()].concat(),
        [message(b'C', b"SET\0"), ready()].concat(),
        [message(b'N', b"SNOTICE\0\0"), rows(1, 3), ready()].concat(),
    ];
    for reply in replies {
        for ask in [query("SELECT 1"), batch.clone()] {
            let script = vec![(C, ask), (S, reply.clone())];
            cut_everywhere::<Postgres, _>(&[login(), script.clone()].concat());
            cut_everywhere::<Postgres, _>(&[script.clone(), script].concat());
        }
    }
}

fn conversation() -> impl Strategy<Value = Vec<(Side, Vec<u8>)>> {
    let one = (0..5usize, 0..5usize, 0..300usize, any::<bool>());
    (any::<bool>(), proptest::collection::vec(one, 1..8)).prop_map(|(seen, exchanges)| {
        let mut script = if seen { login() } else { Vec::new() };
        let mut answers = Vec::new();
        for (ask, answer, n, pipelined) in exchanges {
            let sql = format!("SELECT {}", "x".repeat(n));
            script.push((
                C,
                match ask {
                    0 => [parse("s", &sql), sync()].concat(),
                    1 => [bind("s"), execute(), sync()].concat(),
                    2 => [
                        parse("", "BEGIN"),
                        bind(""),
                        execute(),
                        parse("", &sql),
                        bind(""),
                        execute(),
                        sync(),
                    ]
                    .concat(),
                    _ => query(&sql),
                },
            ));
            answers.push((
                S,
                [
                    match answer {
                        0 => error("42P01"),
                        1 => rows(n % 20, 700),
                        2 => [message(b'N', b"SNOTICE\0\0"), rows(n, 3)].concat(),
                        _ => message(b'C', b"SET\0"),
                    },
                    ready(),
                ]
                .concat(),
            ));
            if !pipelined {
                script.append(&mut answers);
            }
        }
        script.append(&mut answers);
        script
    })
}

proptest! {
    #[test]
    fn any_bytes_at_all_do_no_harm(events in any_events()) {
        throw(&mut Postgres::default(), &events);
    }

    #[test]
    fn any_damage_to_a_conversation_does_no_harm(
        script in conversation(), damage in proptest::collection::vec(any::<u8>(), 1..20)
    ) {
        throw(&mut Postgres::default(), &damaged(&script, &damage));
    }

    #[test]
    fn any_chunking_gives_the_same_exchanges(
        script in conversation(), cuts in proptest::collection::vec(1..200usize, 1..20)
    ) {
        let all = play(&mut Postgres::default(), &script).lines();
        prop_assert!(all.iter().all(|line| !line.contains('…') && !line.contains("unreadable")), "{all:?}");
        prop_assert_eq!(play_split(&mut Postgres::default(), &script, &cuts).lines(), all);
    }

    #[test]
    fn cut_conversations_have_as_many_exchanges(script in conversation(), snap in SNAP_MIN..80) {
        let all = play(&mut Postgres::default(), &script);
        let cut = play_cut(&mut Postgres::default(), &script, snap);
        prop_assert_eq!(cut.seen.len(), all.seen.len());
    }
}
