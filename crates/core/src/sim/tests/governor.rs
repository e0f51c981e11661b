//! Clock rates that follow the load.

use super::causes::{end, stalls};
use super::*;

#[test]
fn a_governor_is_one_period_late() {
    // Half speed until its first look at 500 ms, three quarters until 1 s, then full: 250 + 375 + 375 ms of work.
    let mut plan = one(json!({"constant": 1e9}), 10, 10, trace(&[0]), 4 * S);
    plan["nodes"][0]["governor"] =
        json!({"period": 500 * MS, "hz": [1e9, 1.5e9, 2e9], "up": 0.9, "down": 0.3});
    plan["sample"] = json!(250 * MS);
    let (report, rows) = run(&plan);
    assert_eq!(end(&rows), 1375);
    assert_eq!(stalls(&report), [("frequency-step", "n", 0, 1000)]);
    let hz: Vec<_> = rows
        .samples
        .iter()
        .filter(|s| s.metric == "cpu_hz")
        .map(|s| (s.time / MS, s.value / 1e9))
        .collect();
    for seen in [
        (250, 1.0),
        (750, 1.5),
        (1250, 2.0),
        (1750, 2.0),
        (2250, 1.5),
        (2750, 1.0),
    ] {
        assert!(hz.contains(&seen), "{seen:?} in {hz:?}");
    }
    let mut most = rows.samples.iter().filter(|s| s.metric == "cpu_hz_max");
    assert!(most.clone().count() == hz.len() && most.all(|s| s.value == 2e9));
    plan["nodes"][0]["governor"]["up_at_once"] = json!(true);
    assert_eq!(end(&run(&plan).1), 1250);
}

#[test]
fn a_governor_looks_first_and_starts_as_it_was_recorded() {
    // Three quarters of the speed until its first look at 200 ms, then full: 150 + 850 ms of work.
    let mut plan = one(json!({"constant": 1e9}), 10, 10, trace(&[0]), 4 * S);
    plan["nodes"][0]["governor"] = json!({
        "period": 500 * MS, "hz": [1e9, 1.5e9, 2e9], "up": 0.9, "down": 0.3, "first": 200 * MS, "start": 1
    });
    assert_eq!(end(&run(&plan).1), 1050);
    plan["nodes"][0]["governor"]["start"] = json!(3);
    assert!(super::super::check::check(&super::plan(&plan)).is_err());
}
