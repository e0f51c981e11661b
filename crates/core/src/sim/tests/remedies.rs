//! What remedies need: limits that adapt, the newest first, hedges elsewhere, repetitions with a
//! budget, and quotas with a burst.

use super::calls::{ends, visits_of};
use super::*;

/// A worker takes the requests of a batch one after another, 10 ms each.
fn line(limit: Value) -> Value {
    let mut load = batch(6);
    load["kept"] = json!(true);
    let mut plan = one(json!({"constant": 10e6}), 1, 0, load, S);
    for (key, value) in limit.as_object().into_iter().flatten() {
        plan["servers"][0][key] = value.clone();
    }
    plan
}

#[test]
fn what_is_above_an_adaptive_limit_is_refused_at_once() {
    let kind = json!({"aimd": {"timeout": 5 * MS, "backoff": 0.5}});
    let plan = line(json!({"limit": {"initial": 4, "min": 1, "max": 9, "kind": kind}}));
    let (report, rows) = run(&plan);
    let seen: Vec<_> = ends(&rows)
        .into_iter()
        .map(|(_, end, how)| (end, how))
        .collect();
    assert_eq!(
        seen,
        [
            (10 * MS, 0),
            (20 * MS, 0),
            (30 * MS, 0),
            (40 * MS, 0),
            (0, 1),
            (0, 1)
        ]
    );
    assert_eq!((report.counts.answered, report.counts.failed), (4, 2));
}

#[test]
fn a_limit_falls_with_late_answers() {
    // Answers after 10, 20 and 30 ms are late: 4, 2, 1, 1. At 35 ms the fourth is inside, at 45 ms none.
    let kind = json!({"aimd": {"timeout": 5 * MS, "backoff": 0.5}});
    let mut plan = line(json!({"limit": {"initial": 4, "min": 1, "max": 9, "kind": kind}}));
    plan["workloads"][0]["arrivals"]["batch"]["size"] = json!(4);
    push(&mut plan["workloads"], trace(&[35 * MS, 45 * MS]));
    plan["workloads"][1]["kept"] = json!(true);
    let (_, rows) = run(&plan);
    let seen: Vec<_> = ends(&rows)
        .into_iter()
        .map(|(_, end, how)| (end, how))
        .collect();
    assert_eq!(seen[4..], [(35 * MS, 1), (55 * MS, 0)]);
}

#[test]
fn the_newest_of_those_that_wait_inside_is_next() {
    let mut plan = line(json!({"newest_first": true}));
    plan["workloads"] = json!([trace(&[0, MS, 2 * MS, 12 * MS])]);
    plan["workloads"][0]["kept"] = json!(true);
    let (_, rows) = run(&plan);
    let seen: Vec<_> = ends(&rows)
        .into_iter()
        .map(|(_, end, _)| end / MS)
        .collect();
    assert_eq!(
        seen,
        [10, 40, 20, 30],
        "the second waits for the third and the fourth"
    );
}

#[test]
fn a_hedge_elsewhere_goes_to_the_next_entry() {
    let mut load = trace(&[0]);
    load["entries"] = json!([1, 2]);
    load["hedge"] = json!(30 * MS);
    load["hedge_elsewhere"] = json!(true);
    let connector = json!({"candidates": [1], "kept": true});
    let mut plan = calls::behind(
        2,
        connector,
        json!({"connector": 0, "class": 0}),
        10e6,
        load,
    );
    plan["stalls"] = json!([{"begin": 0, "end": 500 * MS, "kind": "freeze", "effect": {"freeze": {"group": 1}}}]);
    let (report, rows) = run(&plan);
    let seen: Vec<_> = visits_of(&rows, 2)
        .into_iter()
        .map(|(_, sent, end)| (sent, end))
        .collect();
    assert_eq!(seen, [(30 * MS, 40 * MS)]);
    assert_eq!(
        (report.counts.answered, report.counts.response_ns),
        (1, 40e6)
    );
}

/// A client whose only attempts meet a frozen server for 250 ms.
fn repeating(behaviour: Value) -> Value {
    let mut load = trace(&[0]);
    for (key, value) in behaviour.as_object().into_iter().flatten() {
        load[key] = value.clone();
    }
    let mut plan = one(json!({"constant": 10e6}), 10, 128, load, S);
    plan["stalls"] = json!([{"begin": 0, "end": 250 * MS, "kind": "freeze", "effect": {"freeze": {"group": 0}}}]);
    plan
}

#[test]
fn a_request_and_its_repetitions_count_as_one_from_the_first_on() {
    let behaviour =
        json!({"timeout": 100 * MS, "retries": 5, "retry_pause": 0, "retried_as_one": true});
    let (report, _) = run(&repeating(behaviour));
    // Three attempts wait and are served together when the server goes on: 30 ms for the third.
    assert_eq!((report.counts.answered, report.counts.failed), (1, 0));
    assert_eq!(report.counts.response_ns, 280e6);
}

#[test]
fn a_request_that_fails_for_good_counts_once() {
    let behaviour =
        json!({"timeout": 50 * MS, "retries": 2, "retry_pause": 0, "retried_as_one": true});
    let (report, rows) = run(&repeating(behaviour));
    assert_eq!((report.counts.answered, report.counts.failed), (0, 1));
    assert_eq!(rows.requests.len(), 3);
}

#[test]
fn a_budget_of_repetitions_ends() {
    // 150 clients fail at once and want to repeat: the bucket holds 100.
    let mut plan = repeating(json!({}));
    plan["workloads"] = json!([batch(150)]);
    for (key, value) in [
        ("timeout", json!(50 * MS)),
        ("retries", json!(1)),
        ("retry_pause", json!(0)),
    ] {
        plan["workloads"][0][key] = value;
    }
    let times: Vec<i64> = [vec![0; 150], vec![100 * MS; 8]].concat();
    let attempts = |plan: &Value| run(plan).1.requests.len();
    assert_eq!(attempts(&plan), 300);
    plan["workloads"][0]["retry_budget"] = json!(0.0);
    assert_eq!(attempts(&plan), 250);
    // Eight more clients at 100 ms add one repetition to the empty bucket.
    plan["workloads"][0]["retry_budget"] = json!(0.125);
    plan["workloads"][0]["arrivals"] = json!({"trace": {"times": times}});
    assert_eq!(attempts(&plan), 150 + 100 + 8 + 1);
}

#[test]
fn a_quota_lends_what_earlier_periods_left() {
    // Half a core, and 200 ms of work: 50 ms in each of four periods. With 100 ms from the quiet
    // periods there are 150 ms, and 50 more at 100 ms, so the work never waits.
    let plan = |burst: i64| {
        let mut plan = one(json!({"constant": 200e6}), 1, 0, trace(&[S]), 2 * S);
        plan["groups"][0]["quota"] = json!({"quota": 50 * MS, "period": 100 * MS, "burst": burst});
        plan
    };
    let end = |burst| ends(&run(&plan(burst)).1)[0].1 - S;
    assert_eq!(end(0), 350 * MS);
    assert_eq!(end(100 * MS), 200 * MS);
}
