//! Calls of several kinds that a visit makes at the same time.

use super::calls::{behind, ends, visits_of};
use super::*;

/// A page that makes these calls at once: connector 0 leads to server 1, which works 10 ms, and connector 1 to server
/// 2, which works 15 ms.
fn joined(calls: Value) -> Value {
    let to = |server: u32| json!({"candidates": [server], "kept": true});
    let mut plan = behind(2, to(1), json!({}), 10e6, trace(&[0]));
    push(&mut plan["servers"][0]["connectors"], to(2));
    plan["servers"][2]["programs"] = json!([2]);
    push(
        &mut plan["programs"],
        json!([{"compute": {"constant": 15e6}}]),
    );
    plan["programs"][0] = json!([{"join": calls}, {"compute": {"constant": 1e6}}]);
    plan
}

fn call(connector: u32, count: f64) -> Value {
    json!({"connector": connector, "class": 0, "count": count})
}

#[test]
fn calls_to_different_servers_begin_at_once_and_the_visit_waits_for_all() {
    for holds in [true, false] {
        let mut plan = joined(json!([call(0, 1.0), call(1, 1.0)]));
        plan["servers"][0]["holds"] = json!(holds);
        plan["servers"][0]["workers"] = json!(1);
        let (_, rows) = run(&plan);
        assert_eq!(visits_of(&rows, 1), [(1, 0, 10 * MS)]);
        assert_eq!(visits_of(&rows, 2), [(1, 0, 15 * MS)]);
        assert_eq!(ends(&rows), [(1, 16 * MS, 0)]);
    }
}

#[test]
fn calls_of_one_kind_follow_each_other_beside_those_of_another() {
    let (_, rows) = run(&joined(json!([call(0, 2.0), call(1, 1.0)])));
    let first = visits_of(&rows, 1);
    assert_eq!(first, [(1, 0, 10 * MS), (1, 10 * MS, 20 * MS)]);
    assert_eq!(visits_of(&rows, 2), [(1, 0, 15 * MS)]);
    assert_eq!(ends(&rows), [(1, 21 * MS, 0)]);
}

#[test]
fn all_calls_of_a_parallel_kind_begin_with_the_others() {
    let mut both = call(0, 2.0);
    both["parallel"] = json!(true);
    let (_, rows) = run(&joined(json!([call(1, 1.0), both])));
    let times: Vec<_> = visits_of(&rows, 1).iter().map(|v| (v.1, v.2)).collect();
    assert_eq!(times, [(0, 20 * MS), (0, 20 * MS)]);
    assert_eq!(ends(&rows), [(1, 21 * MS, 0)]);
}

#[test]
fn a_visit_that_happens_to_make_none_of_the_calls_goes_on() {
    for (counts, end) in [((0.0, 0.0), MS), ((0.0, 1.0), 16 * MS)] {
        let plan = joined(json!([call(0, counts.0), call(1, counts.1)]));
        assert_eq!(ends(&run(&plan).1), [(1, end, 0)]);
    }
}

#[test]
fn a_call_that_fails_fails_the_visit_when_the_others_are_answered() {
    let mut plan = joined(json!([call(0, 3.0), call(1, 1.0)]));
    plan["servers"][0]["connectors"][1] =
        json!({"candidates": [2], "syn": {"repeats": [MS], "give_up": 12 * MS}});
    plan["stalls"] = json!([{"begin": 0, "end": S, "kind": "packet-loss",
        "effect": {"packet_loss": {"server": 2, "senders": [], "share": 1.0}}}]);
    let (report, rows) = run(&plan);
    // No third call follows: the visit knows already that it fails.
    let first = visits_of(&rows, 1);
    assert_eq!(first, [(1, 0, 10 * MS), (1, 10 * MS, 20 * MS)]);
    assert_eq!(ends(&rows), [(1, 20 * MS, 1)]);
    assert_eq!(report.counts.unfinished, 0);
}

#[test]
fn a_call_among_others_that_is_sent_again_is_followed_once() {
    let mut plan = joined(json!([call(0, 2.0), call(1, 1.0)]));
    plan["servers"][0]["connectors"][0] =
        json!({"candidates": [1, 2], "kept": true, "hedge": 4 * MS});
    plan["servers"][2]["programs"] = json!([1]);
    let (report, rows) = run(&plan);
    assert_eq!(ends(&rows).len(), 1);
    assert_eq!(report.counts.unfinished, 0);
    // Two calls through the first connector, each of them sent twice, and one through the second.
    assert_eq!(visits_of(&rows, 1).len() + visits_of(&rows, 2).len(), 5);
}

#[test]
fn a_join_of_one_call_is_refused() {
    let refused = refusal(&joined(json!([call(0, 1.0)])));
    assert!(refused.contains("programs[0].join must have"), "{refused}");
}
