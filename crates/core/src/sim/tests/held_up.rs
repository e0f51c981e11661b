//! Stalls that hold up visits or packets, and take no capacity.

use super::causes::stalls;
use super::*;

/// Requests of 1 ms of work at 100, 300 and 700 ms, all of the first of two classes, and a stall from 200 to 600 ms.
fn met(effect: Value) -> (Report, Rows) {
    let times = [100 * MS, 300 * MS, 700 * MS];
    let mut plan = one(json!({"constant": 1e6}), 10, 10, trace(&times), 5 * S);
    push(&mut plan["classes"], json!({"name": "other"}));
    push(&mut plan["servers"][0]["programs"], json!(0));
    plan["stalls"] = json!([{"begin": 200 * MS, "end": 600 * MS, "kind": "k", "effect": effect}]);
    run(&plan)
}

fn ends(rows: &Rows) -> Vec<i64> {
    let mut found: Vec<i64> = rows
        .requests
        .iter()
        .map(|r| (r.end + MS / 2) / MS)
        .collect();
    found.sort_unstable();
    found
}

#[test]
fn a_lock_holds_up_visits_that_begin_meanwhile_and_only_those_of_its_classes() {
    let (report, rows) = met(json!({"lock": {"server": 0, "classes": []}}));
    assert_eq!(ends(&rows), [101, 601, 701]);
    assert_eq!(stalls(&report), [("k", "s", 200, 600)]);
    let (_, rows) = met(json!({"lock": {"server": 0, "classes": [0]}}));
    assert_eq!(ends(&rows), [101, 601, 701]);
    let (_, rows) = met(json!({"lock": {"server": 0, "classes": [1]}}));
    assert_eq!(ends(&rows), [101, 301, 701]);
}

#[test]
fn a_path_that_loses_packets_costs_a_repetition_and_the_server_counts_no_drop() {
    let lost =
        |share: f64| met(json!({"packet_loss": {"server": 0, "senders": [], "share": share}}));
    let (report, rows) = lost(1.0);
    assert!(ends(&rows)[2] > 1000, "{:?}", ends(&rows));
    assert_eq!(report.counts.drops[0], 0);
    assert_eq!(rows.requests.iter().map(|r| r.drops).sum::<u8>(), 1);
    assert_eq!(ends(&lost(0.0).1), [101, 301, 701]);
    let others = json!({"packet_loss": {"server": 0, "senders": [0], "share": 1.0}});
    assert_eq!(
        ends(&met(others).1),
        [101, 301, 701],
        "clients are no server"
    );
}
