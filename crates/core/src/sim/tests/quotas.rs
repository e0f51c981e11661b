//! CPU quotas: when they run out, and when the next period begins.

use super::causes::{end, lost_and_answered, stalls};
use super::*;

#[test]
fn a_quota_runs_out_in_each_period() {
    let mut plan = one(json!({"constant": 50e6}), 10, 10, trace(&[0]), S);
    plan["groups"][0]["quota"] = json!({"quota": 20 * MS, "period": 100 * MS});
    plan["sample"] = json!(100 * MS);
    let (report, rows) = run(&plan);
    assert_eq!(end(&rows), 210);
    assert_eq!(
        stalls(&report),
        [("cpu-quota", "s", 20, 100), ("cpu-quota", "s", 120, 200)]
    );
    let throttled: Vec<f64> = rows
        .samples
        .iter()
        .filter(|s| s.metric == "cpu_throttled")
        .map(|s| s.value)
        .take(3)
        .collect();
    assert!(
        throttled
            .iter()
            .zip([0.8, 0.8, 0.0])
            .all(|(a, b)| (a - b).abs() < 1e-6),
        "{throttled:?}"
    );
}

#[test]
fn a_used_up_quota_that_no_job_needs_is_no_stall() {
    let mut plan = one(json!({"constant": 20e6}), 10, 10, trace(&[0]), S);
    plan["groups"][0]["quota"] = json!({"quota": 20 * MS, "period": 100 * MS});
    let (report, rows) = run(&plan);
    assert_eq!((end(&rows), stalls(&report)), (20, vec![]));
}

#[test]
fn work_that_is_just_a_quota_ends_with_it_however_many_share_it() {
    // Jobs end at fractions of a nanosecond here, which must not take quota from the others.
    for n in 1..200 {
        let mut times = [0, n * 45_008, 9 * MS - n * 31_013];
        times.sort_unstable();
        let mut plan = one(json!({"constant": 10e6}), 10, 10, trace(&times), S);
        plan["groups"][0]["quota"] = json!({"quota": 30 * MS, "period": 100 * MS});
        let rows = run(&plan).1;
        let last = rows.requests.iter().map(|r| r.end).max();
        assert!(
            last.is_some_and(|last| last <= 30 * MS + 5),
            "{times:?} {last:?}"
        );
    }
}

#[test]
fn a_server_whose_quota_is_used_up_accepts_when_the_next_begins() {
    // The first ten use it up at 220 ms and lack 0.1 ms each, ten of twenty workers are free, and twenty connect.
    let times: Vec<i64> = [200 * MS; 10].into_iter().chain([250 * MS; 20]).collect();
    let mut plan = one(json!({"constant": 2.1e6}), 20, 5, trace(&times), 900 * MS);
    plan["groups"][0]["quota"] = json!({"quota": 20 * MS, "period": 100 * MS});
    let (lost, answered) = lost_and_answered(&plan);
    assert_eq!(lost, 20 - 6);
    assert_eq!(answered, [302, 314]);
}

#[test]
fn quotas_may_begin_at_different_moments() {
    let mut plan = one(json!({"constant": 50e6}), 10, 10, trace(&[0]), S);
    plan["groups"][0]["quota"] = json!({"quota": 20 * MS, "period": 100 * MS, "first": 50 * MS});
    let (report, rows) = run(&plan);
    assert_eq!(end(&rows), 160);
    assert_eq!(
        stalls(&report),
        [("cpu-quota", "s", 20, 50), ("cpu-quota", "s", 70, 150)]
    );
}
