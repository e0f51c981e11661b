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

/// Servers 1 and 2 behind a web server, each with one connection; calls are sent again after 30 ms.
fn hedging(load: Value, connector: Value) -> Value {
    let pool = json!({"size": 1, "per_candidate": true});
    let mut settings = json!({"candidates": [1, 2], "kept": true, "pool": pool, "hedge": 30 * MS});
    for (key, value) in connector.as_object().into_iter().flatten() {
        settings[key] = value.clone();
    }
    calls::behind(2, settings, json!({"connector": 0, "class": 0}), 10e6, load)
}

fn freeze(group: u32, end: i64) -> Value {
    json!({"begin": 0, "end": end, "kind": "freeze", "effect": {"freeze": {"group": group}}})
}

#[test]
fn a_call_without_an_answer_goes_to_another_candidate() {
    let mut plan = hedging(trace(&[0, 600 * MS, 601 * MS]), json!({}));
    plan["stalls"] = json!([freeze(1, 500 * MS)]);
    let (report, rows) = run(&plan);
    let spans = |server| -> Vec<_> {
        let seen = visits_of(&rows, server).into_iter();
        seen.map(|(_, sent, end)| (sent / MS, end / MS)).collect()
    };
    assert_eq!(spans(2), [(30, 40), (600, 610)]);
    assert_eq!(
        spans(1),
        [(0, 510), (601, 611)],
        "the late one gave its connection back"
    );
    let web: Vec<_> = rows.visits.iter().filter(|v| v.server == 0).collect();
    let late = rows.visits.iter().find(|v| v.departure == 510 * MS);
    assert_eq!(late.map(|v| v.parent), Some(web[0].visit));
    assert_eq!((web[0].departure, web[0].downstream_ns), (40 * MS, 40 * MS));
    assert_eq!((report.counts.answered, report.counts.unfinished), (3, 0));
}

#[test]
fn a_second_call_does_not_wait_for_a_connection() {
    // The first request holds the connection to 1, the second that to 2: 1 has no other.
    let mut plan = hedging(trace(&[0, MS]), json!({}));
    plan["stalls"] = json!([freeze(1, 500 * MS), freeze(2, 300 * MS)]);
    let (_, rows) = run(&plan);
    let seen: Vec<_> = ends(&rows)
        .into_iter()
        .map(|(_, end, _)| end / MS)
        .collect();
    assert_eq!(seen, [510, 310]);
    assert_eq!(rows.visits.len(), 4);
}

#[test]
fn a_call_whose_second_fails_is_waited_for() {
    // Server 2 is full and loses the SYN of the second call, which gives up at 330 ms.
    let syn = json!({"repeats": [], "give_up": 300 * MS});
    let load = trace(&[0]);
    let connector = json!({"kept": false, "pool": null, "syn": syn});
    let mut plan = hedging(load, connector);
    plan["servers"][2]["workers"] = json!(1);
    plan["servers"][2]["backlog"] = json!(0);
    let mut others = trace(&[0]);
    others["entries"] = json!([2]);
    push(&mut plan["workloads"], others);
    plan["stalls"] = json!([freeze(1, 500 * MS), freeze(2, 600 * MS)]);
    let (report, rows) = run(&plan);
    assert!(ends(&rows).contains(&(1, 510 * MS, 0)));
    assert_eq!((report.counts.drops[2], report.counts.unfinished), (1, 0));
}

#[test]
fn what_a_late_call_still_does_needs_no_caller() {
    // Its caller is gone, whose place others have taken; its own calls are ranked by their request.
    let mut load = json!({"name": "w", "entries": [0], "choice": {"mix": [[0, 1.0]]},
        "arrivals": {"closed": {"clients": 40, "think": {"exponential": 20e6}, "spread": 0}}});
    load["kept"] = json!(true);
    let mut plan = hedging(load, json!({"pool": {"size": 5, "per_candidate": true}}));
    plan["duration"] = json!(2 * S);
    push(&mut plan["nodes"], json!({"name": "db", "cores": 1.0}));
    push(
        &mut plan["groups"],
        json!({"name": "db", "node": 3, "cores": 1.0}),
    );
    push(
        &mut plan["servers"],
        json!({"name": "db", "group": 3, "holds": true, "workers": 1, "light_queue": 1000, "backlog": 128,
            "lightest_first": true, "programs": [2]}),
    );
    plan["programs"] = json!([
        [{"call": {"connector": 0, "class": 0}}],
        [{"compute": {"exponential": 2e6}}, {"call": {"connector": 0, "class": 0}}],
        [{"compute": {"exponential": 1e6}}]]);
    for server in [1, 2] {
        plan["servers"][server]["connectors"] = json!([{"candidates": [3], "kept": true}]);
    }
    let stall = |at: i64| json!({"begin": at, "end": at + 100 * MS, "kind": "freeze", "effect": {"freeze": {"group": 1 + at / MS % 2}}});
    plan["stalls"] = Value::Array((1..15).map(|i| stall(i * 101 * MS)).collect());
    let (report, rows) = run(&plan);
    assert_eq!(report.counts.unfinished, 0);
    let calls = rows
        .visits
        .iter()
        .filter(|v| v.server == 1 || v.server == 2)
        .count();
    let web = rows.visits.iter().filter(|v| v.server == 0).count();
    assert!(calls > web, "{calls} calls of {web} visits");
    assert_eq!(rows.visits.iter().filter(|v| v.server == 3).count(), calls);
    assert_eq!(report.counts.answered as usize, web);
}
