#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::Redis;
use crate::capture::wire::log::{
    any_events, cut_everywhere, damaged, play, play_cut, play_split, throw, whole, Log, C, S,
    SNAP_MIN,
};
use crate::capture::wire::{Protocol, Side};
use proptest::prelude::*;

fn names(script: &[(Side, &str)]) -> Vec<String> {
    play(&mut Redis::default(), script).names()
}

fn command(words: &[&str]) -> String {
    let strings: String = words
        .iter()
        .map(|w| format!("${}\r\n{w}\r\n", w.len()))
        .collect();
    format!("*{}\r\n{strings}", words.len())
}

#[test]
fn each_command_has_its_reply() {
    let script = [
        (C, command(&["set", "k", "v"])),
        (S, "+OK\r\n".to_string()),
        (
            C,
            command(&["GET", "k"]) + &command(&["LLEN", "k"]) + &command(&["MGET", "a", "b"]),
        ),
        (
            S,
            "$1\r\nv\r\n-WRONGTYPE Operation\r\n*2\r\n$-1\r\n*2\r\n:1\r\n*0\r\n".to_string(),
        ),
        (C, "ping\r\nFLUSHALL now\r\n".to_string()),
        (S, "+PONG\r\n-ODD thing\r\n".to_string()),
    ];
    let log = play(&mut Redis::default(), &script);
    let want = [
        "SET ok",
        "GET ok",
        "LLEN error-WRONGTYPE",
        "MGET ok",
        "PING ok",
        "FLUSHALL error-OTHER",
    ];
    assert_eq!(log.names(), want);
    assert_eq!((log.seen[1].bytes_out, log.seen[3].bytes_out), (7, 21));
}

#[test]
fn a_transaction_is_as_many_exchanges_as_commands() {
    let script = [
        (
            C,
            command(&["MULTI"]) + &command(&["INCR", "x"]) + &command(&["EXEC"]),
        ),
        (S, "+OK\r\n+QUEUED\r\n*1\r\n-ERR inside\r\n".to_string()),
    ];
    assert_eq!(
        play(&mut Redis::default(), &script).names(),
        ["MULTI ok", "INCR ok", "EXEC ok"]
    );
}

#[test]
fn a_client_may_ask_for_no_replies() {
    let reply = |mode: &str| command(&["client", "reply", mode]);
    let script = [
        (
            C,
            reply("OFF") + &command(&["SET", "a", "1"]) + &command(&["SET", "b", "2"]),
        ),
        (
            C,
            command(&["CLIENT", "GETNAME"]) + &reply("skip") + &reply("on"),
        ),
        (S, "+OK\r\n".to_string()),
        (
            C,
            reply("SKIP") + &command(&["SET", "c", "3"]) + &command(&["GET", "c"]),
        ),
        (S, "$1\r\n3\r\n".to_string()),
        (C, "CLIENT REPLY SKIP\r\nPING\r\nPING\r\n".to_string()),
        (S, "+PONG\r\n".to_string()),
        (
            C,
            reply("SKIP") + &command(&["CLIENT", "ID"]) + &command(&["CLIENT", "ID"]),
        ),
        (S, ":7\r\n".to_string()),
    ];
    let want = [
        "CLIENT one way",
        "SET one way",
        "SET one way",
        "CLIENT one way",
        "CLIENT one way",
        "CLIENT ok",
        "CLIENT one way",
        "SET one way",
        "GET ok",
        "CLIENT one way",
        "PING one way",
        "PING ok",
        "CLIENT one way",
        "CLIENT one way",
        "CLIENT ok",
    ];
    assert_eq!(play(&mut Redis::default(), &script).names(), want);
    for cuts in [&[1][..], &[3, 7], &[19]] {
        assert_eq!(
            play_split(&mut Redis::default(), &script, cuts).names(),
            want
        );
    }
}

#[test]
fn a_server_that_refuses_to_be_silent_goes_on_replying() {
    let script = [
        (
            C,
            command(&["CLIENT", "REPLY", "OFF"]) + &command(&["PING"]),
        ),
        (
            S,
            "-NOPERM this user has no permissions\r\n+PONG\r\n".to_string(),
        ),
        (C, command(&["PING"])),
        (S, "+PONG\r\n".to_string()),
    ];
    let log = play(&mut Redis::default(), &script);
    let without = "unreadable: a response without its request";
    let want = ["CLIENT one way", "PING one way", "PING ok", without];
    assert_eq!(log.names(), want);
}

#[test]
fn every_type_of_resp3_is_a_reply() {
    let hello = "%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:3\r\n";
    for reply in [
        hello,
        "_\r\n",
        "#t\r\n",
        ",1.5\r\n",
        "(123456789012345678901\r\n",
        "=5\r\ntxt:a\r\n",
        "~1\r\n:1\r\n",
        "!9\r\nERR large\r\n",
        "|1\r\n+ttl\r\n:9\r\n:1\r\n",
    ] {
        let want = if reply.starts_with('!') {
            "X error-ERR"
        } else {
            "X ok"
        };
        assert_eq!(
            names(&[(C, "X\r\n"), (S, reply), (C, "Y\r\n")]),
            [want, "Y …"],
            "{reply}"
        );
    }
}

#[test]
fn pushed_messages_answer_nothing() {
    let hello = command(&["HELLO", "3"]);
    let subscribe = command(&["SUBSCRIBE", "news"]);
    let script = [
        (C, hello.as_str()),
        (S, "%1\r\n+proto\r\n:3\r\n"),
        (C, &subscribe),
        (S, ">3\r\n+subscribe\r\n+news\r\n:1\r\n"),
        (C, "PING\r\n"),
        (S, ">3\r\n+message\r\n+news\r\n+x\r\n+PONG\r\n"),
    ];
    assert_eq!(names(&script), ["HELLO ok", "SUBSCRIBE one way", "PING ok"]);
    let script = [
        (C, subscribe.as_str()),
        (S, "*3\r\n+subscribe\r\n+news\r\n:1\r\n"),
        (S, "*3\r\n+message\r\n"),
    ];
    assert_eq!(
        names(&script),
        ["SUBSCRIBE ok", "opaque: a stream of messages"]
    );
}

#[test]
fn a_short_snap_length_hides_the_end_but_not_the_count() {
    let value = "v".repeat(3000);
    let set = command(&["SET", "some:long:key:of:a:thing", &value]);
    let script = [
        (C, set[..1400].to_string()),
        (C, set[1400..].to_string()),
        (S, "+OK\r\n".to_string()),
        (C, command(&["GET", "k"])),
        (S, format!("$3000\r\n{}", &value[..1400])),
        (S, format!("{}\r\n", &value[1400..])),
        (C, command(&["HGETALL", "k"])),
        (
            S,
            format!(
                "*4\r\n$1\r\na\r\n$9\r\n123456789\r\n$4\r\nbbbb\r\n${}\r\n{value}\r\n",
                value.len()
            ),
        ),
        (C, command(&["PING"])),
        (S, "+PONG\r\n".to_string()),
    ];
    let log = play_cut(&mut Redis::default(), &script, 30);
    assert_eq!(log.names(), ["SET ok", "GET ok", "HGETALL ~ok", "PING ok"]);
    assert_eq!(log.seen[0].bytes_in as usize, set.len());
}

#[test]
fn a_recording_may_start_in_the_middle_and_have_holes() {
    let mut redis = Redis::default();
    let mut log = Log::default();
    for side in [C, S] {
        redis.gap(side, 0, 0, &mut log);
    }
    redis.data(S, whole(1, b"of a long value\r\n"), &mut log);
    redis.data(C, whole(2, b"*1\r\n$4\r\nPING\r\n"), &mut log);
    redis.data(S, whole(3, b"+PONG\r\n"), &mut log);
    redis.data(C, whole(4, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"), &mut log);
    redis.data(S, whole(5, b"$100\r\nabc"), &mut log);
    log.gap(S);
    redis.gap(S, 6, 97, &mut log);
    redis.data(S, whole(7, b"\r\n"), &mut log);
    redis.data(C, whole(8, b"*1\r\n$4\r\nQUIT\r\n"), &mut log);
    assert_eq!(log.names()[..3], ["PING ok", "GET ok", "QUIT …"]);
}

#[test]
fn an_outcome_is_reported_wherever_the_snap_length_cuts() {
    for reply in [
        "+OK\r\n",
        "-MOVED 1 2\r\n",
        "$12\r\nhello, world\r\n",
        "*3\r\n*1\r\n:1\r\n$5\r\nhello\r\n*-1\r\n",
        "%1\r\n+a\r\n~2\r\n,1\r\n_\r\n",
        "!9\r\nERR large\r\n",
        "|1\r\n+ttl\r\n:9\r\n:1\r\n",
    ] {
        let script = [(C, command(&["GET", "k"])), (S, reply.to_string())];
        cut_everywhere::<Redis, _>(&[script.clone(), script].concat());
    }
}

fn conversation() -> impl Strategy<Value = Vec<(Side, Vec<u8>)>> {
    let one = (0..6usize, 0..6usize, 0..300usize, any::<bool>());
    proptest::collection::vec(one, 1..8).prop_map(|exchanges| {
        let mut script = Vec::new();
        let mut replies = Vec::new();
        for (ask, reply, n, pipelined) in exchanges {
            let value = "$1\r\n*".repeat(n);
            script.push((
                C,
                match ask {
                    0 => "ping\r\n".to_string(),
                    1 => command(&["SET", "k", &value]),
                    2 => command(&["lpush", "", &value]),
                    _ => command(&["GET", "k"]),
                }
                .into_bytes(),
            ));
            replies.push((
                S,
                match reply {
                    0 => "+OK\r\n".to_string(),
                    1 => "-MOVED 1 2\r\n".to_string(),
                    2 => format!("${}\r\n{value}\r\n", value.len()),
                    3 => format!("*3\r\n*1\r\n:1\r\n${}\r\n{value}\r\n*-1\r\n", value.len()),
                    4 => ">1\r\n+pushed\r\n$-1\r\n".to_string(),
                    _ => "%1\r\n+a\r\n~2\r\n,1\r\n_\r\n".to_string(),
                }
                .into_bytes(),
            ));
            if !pipelined {
                script.append(&mut replies);
            }
        }
        script.append(&mut replies);
        script
    })
}

proptest! {
    #[test]
    fn any_bytes_at_all_do_no_harm(events in any_events()) {
        throw(&mut Redis::default(), &events);
    }

    #[test]
    fn any_damage_to_a_conversation_does_no_harm(
        script in conversation(), damage in proptest::collection::vec(any::<u8>(), 1..20)
    ) {
        throw(&mut Redis::default(), &damaged(&script, &damage));
    }

    #[test]
    fn any_chunking_gives_the_same_exchanges(
        script in conversation(), cuts in proptest::collection::vec(1..200usize, 1..20)
    ) {
        let all = play(&mut Redis::default(), &script).lines();
        prop_assert!(all.iter().all(|line| !line.contains('…') && !line.contains("unreadable")), "{all:?}");
        prop_assert_eq!(play_split(&mut Redis::default(), &script, &cuts).lines(), all);
    }

    #[test]
    fn cut_conversations_have_as_many_exchanges(mut script in conversation(), snap in SNAP_MIN..60) {
        // An inline command cannot be told from the rest of a value that was cut.
        for (_, bytes) in &mut script {
            if bytes == b"ping\r\n" {
                *bytes = command(&["ping"]).into_bytes();
            }
        }
        let all = play(&mut Redis::default(), &script);
        let cut = play_cut(&mut Redis::default(), &script, snap);
        prop_assert_eq!(cut.seen.len(), all.seen.len());
    }
}
