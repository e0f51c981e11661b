//! Candidates to which connections fail.

use super::calls::{behind, ends, visits_of};
use super::*;

/// One request a second to two servers, the first of which is frozen up to `end`. It holds one
/// connection, and another attempt is given up after 200 ms.
fn frozen(connector: Value, call: Value, end: i64) -> Value {
    let mut connector = connector;
    connector["candidates"] = json!([1, 2]);
    connector["policy"] = json!("round_robin");
    connector["syn"] = json!({"repeats": [], "give_up": 200 * MS});
    let seconds: Vec<i64> = (0..100).map(|i| i * S).collect();
    let mut plan = behind(2, connector, call, 1e6, trace(&seconds));
    plan["duration"] = json!(110 * S);
    plan["servers"][1]["workers"] = json!(1);
    plan["servers"][1]["backlog"] = json!(0);
    plan["stalls"] =
        json!([{"begin": 0, "end": end, "kind": "freeze", "effect": {"freeze": {"group": 1}}}]);
    plan
}

fn call() -> Value {
    json!({"connector": 0, "class": 0})
}

fn failed(rows: &Rows) -> usize {
    ends(rows)
        .iter()
        .filter(|&&(_, _, status)| status != 0)
        .count()
}

/// Seconds with a request that took 200 ms for a connection that was given up.
fn late(rows: &Rows) -> Vec<i64> {
    let late = rows.requests.iter().filter(|r| r.end - r.sent > 200 * MS);
    let mut seconds: Vec<_> = late.map(|r| r.sent / S).collect();
    seconds.sort_unstable();
    seconds
}

#[test]
fn a_call_that_cannot_connect_goes_to_another_where_there_are_errors() {
    let (_, rows) = run(&frozen(json!({}), call(), 40 * S));
    assert!(failed(&rows) > 10, "{}", failed(&rows));
    let (report, rows) = run(&frozen(json!({"recover": 60 * S}), call(), 40 * S));
    assert_eq!(failed(&rows), 0);
    // Requests are late if they failed there, or waited inside.
    assert_eq!(late(&rows).len() as u64, report.counts.drops[1] + 1);
}

#[test]
fn a_candidate_in_error_gets_no_calls_until_it_recovers() {
    let (_, rows) = run(&frozen(json!({"recover": 20 * S}), call(), 60 * S));
    // The first request waits inside. Others fail from 2.2 s on; for 10 s this is not an error,
    // because the first one is still there; after 20 s one probes it, when it is its turn.
    assert_eq!(late(&rows), [0, 2, 4, 6, 8, 10, 12, 34, 56]);
    // At 60 s its answer comes, which makes the server available for the next turn.
    let asked = visits_of(&rows, 1);
    let again = asked.iter().find(|&&(_, sent, _)| sent > 0);
    assert_eq!(again.map(|&(_, sent, _)| sent), Some(62 * S));
}

#[test]
fn the_last_candidate_in_error_still_gets_calls() {
    // Both fail: every request tries both, waits for 100 ms, and tries them again.
    let mut plan = frozen(json!({"recover": 60 * S}), call(), 40 * S);
    plan["servers"][2]["workers"] = json!(1);
    plan["servers"][2]["backlog"] = json!(0);
    push(
        &mut plan["stalls"],
        json!({"begin": 0, "end": 40 * S, "kind": "freeze", "effect": {"freeze": {"group": 2}}}),
    );
    let (_, rows) = run(&plan);
    let ended = ends(&rows);
    assert_eq!((ended[2].1, ended[2].2), (2 * S + 900 * MS, 1));
    // As soon as one accepts again, it gets calls, although both have been in error.
    let late = ended[41..].iter().filter(|&&(_, _, status)| status != 0);
    assert_eq!(late.count(), 0);
}

#[test]
fn a_call_to_all_has_no_replacement_candidate() {
    let call = json!({"connector": 0, "class": 0, "all": true});
    let (_, rows) = run(&frozen(json!({"recover": 60 * S}), call, 40 * S));
    assert_eq!(visits_of(&rows, 2).len(), 100);
    assert!(failed(&rows) > 10);
}

/// Requests that come when the server behind answers again, after calls to it were repeated after
/// 30 ms, lost their SYN and were given up. `connector` is that of the calls.
fn repeated(connector: Value, n: usize) -> (u64, u64) {
    let mut connector = connector;
    connector["recover"] = json!(60 * S);
    connector["hedge"] = json!(30 * MS);
    connector["syn"] = json!({"repeats": [], "give_up": 200 * MS});
    let mut plan = behind(n, connector, call(), 1e6, trace(&[0, 600 * MS, 700 * MS]));
    plan["duration"] = json!(2 * S);
    plan["stalls"] = json!([]);
    for server in 1..=n {
        plan["servers"][server]["workers"] = json!(1);
        plan["servers"][server]["backlog"] = json!(0);
        let freeze = json!({"begin": 0, "end": 500 * MS, "kind": "freeze", "effect": {"freeze": {"group": server}}});
        push(&mut plan["stalls"], freeze);
    }
    let (report, _) = run(&plan);
    (report.counts.answered, report.counts.failed)
}

#[test]
fn an_only_candidate_is_never_in_error() {
    let pool = json!({"size": 5, "per_candidate": true});
    assert_eq!(repeated(json!({"candidates": [1]}), 1), (3, 0));
    let pooled = json!({"candidates": [1], "pool": pool});
    assert_eq!(repeated(pooled, 1), (3, 0));
    let two = json!({"candidates": [1, 2], "policy": "round_robin", "pool": pool});
    assert_eq!(repeated(two, 2), (3, 0));
}
