//! Behaviour of clients: they hedge, stop waiting, repeat, and fetch embedded objects.

use super::*;

/// Sent, end, status and lost SYNs of each request, in the order in which they were sent.
fn requests(rows: &Rows) -> Vec<(i64, i64, u32, u8)> {
    let mut all: Vec<_> = rows
        .requests
        .iter()
        .map(|r| (r.request, (r.sent, r.end, r.status, r.drops)))
        .collect();
    all.sort_unstable();
    all.into_iter().map(|(_, request)| request).collect()
}

/// A worker and one place in the accept queue, taken for 200 ms by the first two; then a client
/// with the given behaviour arrives.
fn third(behaviour: Value) -> Value {
    let mut plan = one(json!({"constant": 100e6}), 1, 0, batch(2), 2 * S);
    let mut third = batch(1);
    for (key, value) in behaviour.as_object().into_iter().flatten() {
        third[key] = value.clone();
    }
    push(&mut plan["workloads"], third);
    plan
}

#[test]
fn the_loser_of_a_hedged_request_is_abandoned_and_its_lost_syn_not_repeated() {
    let (report, rows) = run(&third(json!({"hedge": 150 * MS})));
    assert_eq!(
        requests(&rows)[2..],
        [(0, 300 * MS, 3, 1), (150 * MS, 300 * MS, 0, 0)],
        "the first lost its SYN; its hedge came when a place was free"
    );
    assert_eq!((report.counts.answered, report.counts.failed), (3, 0));
    assert_eq!(
        report.counts.response_ns, 600e6,
        "the client waited from its first request on"
    );
    assert_eq!(rows.visits.len(), 3);
    assert_eq!((report.counts.drops[0], report.counts.unfinished), (1, 0));
}

#[test]
fn a_hedge_whose_first_request_fails_is_waited_for() {
    let syn = json!({"repeats": [], "give_up": 160 * MS});
    let (report, rows) = run(&third(json!({"hedge": 150 * MS, "syn": syn})));
    assert_eq!(
        requests(&rows)[2..],
        [(0, 160 * MS, 2, 1), (150 * MS, 300 * MS, 0, 0)]
    );
    assert_eq!((report.counts.answered, report.counts.failed), (3, 0));
}

#[test]
fn a_client_that_stops_waiting_withdraws_its_syn_and_repeats() {
    let (report, rows) = run(&third(
        json!({"timeout": 500 * MS, "retries": 1, "retry_pause": 100 * MS}),
    ));
    assert_eq!(
        requests(&rows)[2..],
        [(0, 500 * MS, 3, 1), (600 * MS, 700 * MS, 0, 0)]
    );
    assert_eq!((report.counts.answered, report.counts.failed), (3, 1));
    assert_eq!((rows.visits.len(), report.counts.unfinished), (3, 0));
}

#[test]
fn a_request_inside_goes_on_without_its_client() {
    let mut workload = batch(1);
    workload["timeout"] = json!(300 * MS);
    let (report, rows) = run(&one(json!({"constant": 1e9}), 1, 0, workload, 2 * S));
    assert_eq!(requests(&rows), [(0, 300 * MS, 3, 0)]);
    assert_eq!((rows.visits[0].departure, rows.visits[0].status), (S, 0));
    assert_eq!((report.counts.answered, report.counts.failed), (0, 1));
}

#[test]
fn an_answer_on_its_way_is_not_there_yet() {
    // There at 50 ms, done at 150 ms, back at 200 ms.
    for (timeout, seen) in [(180, (0, 180 * MS, 3, 0)), (220, (0, 200 * MS, 0, 0))] {
        let mut workload = batch(1);
        workload["timeout"] = json!(timeout * MS);
        let mut plan = one(json!({"constant": 100e6}), 1, 0, workload, 2 * S);
        plan["latency"] = json!(50 * MS);
        let (_, rows) = run(&plan);
        assert_eq!(requests(&rows), [seen]);
        assert_eq!(rows.visits[0].departure, 150 * MS);
    }
}

#[test]
fn a_client_asks_again_after_a_503() {
    let mut plan = chain(1, 2 * S);
    plan["workloads"] = json!([batch(2)]);
    plan["workloads"][0]["retries"] = json!(1);
    plan["workloads"][0]["retry_pause"] = json!(200 * MS);
    plan["servers"][0]["connectors"][0] =
        json!({"candidates": [1], "kept": true, "pool": {"size": 1}, "endpoint": "skip"});
    plan["programs"] =
        json!([[{"call": {"connector": 0, "class": 0}}], [{"compute": {"constant": 1e8}}], []]);
    let (report, rows) = run(&plan);
    assert_eq!(
        requests(&rows),
        [
            (0, 100 * MS, 0, 0),
            (0, 0, 1, 0),
            (200 * MS, 300 * MS, 0, 0)
        ]
    );
    assert_eq!((report.counts.answered, report.counts.failed), (2, 1));
}

#[test]
fn what_belongs_to_a_page_is_fetched_one_after_another() {
    let mut workload = batch(1);
    workload["embedded"] = json!([0, 0]);
    let (_, rows) = run(&one(json!({"constant": 10e6}), 1, 0, workload, S));
    let seen = [(0, 10), (10, 20), (20, 30)].map(|(from, to)| (from * MS, to * MS, 0, 0));
    assert_eq!(requests(&rows), seen);
}

#[test]
fn a_page_that_never_came_embeds_nothing() {
    // Lost, or answered at the second try: only that one embeds.
    let impatient = |retries| json!({"timeout": 150 * MS, "retries": retries, "retry_pause": 100 * MS, "embedded": [0]});
    let (report, rows) = run(&third(impatient(0)));
    assert_eq!(requests(&rows)[2..], [(0, 150 * MS, 3, 1)]);
    assert_eq!((report.counts.answered, report.counts.failed), (2, 1));
    let (report, rows) = run(&third(impatient(1)));
    assert_eq!(
        requests(&rows)[2..],
        [
            (0, 150 * MS, 3, 1),
            (250 * MS, 350 * MS, 0, 0),
            (350 * MS, 450 * MS, 0, 0)
        ]
    );
    assert_eq!((report.counts.answered, report.counts.failed), (3, 1));
}

#[test]
fn every_sender_has_its_schedule_and_its_end() {
    let schedules: [(&[i64], i64); 3] = [
        (&[1, 2, 3, 4, 5, 7, 11], 12),
        (&[1, 3, 7, 15], 31),
        (&[3, 9, 21], 45),
    ];
    for (seconds, give_up) in schedules {
        // One works, one waits, and the third repeats its SYN in vain for 100 s.
        let mut plan = one(json!({"constant": 100e9}), 1, 0, batch(3), 300 * S);
        let repeats: Vec<i64> = seconds.iter().map(|s| s * S).collect();
        plan["workloads"][0]["syn"] = json!({"repeats": repeats, "give_up": give_up * S});
        let (report, rows) = run(&plan);
        let lost = (seconds.len() + 1) as u8;
        assert_eq!(requests(&rows)[2], (0, give_up * S, 2, lost));
        let at: Vec<i64> = rows
            .events
            .iter()
            .filter(|e| e.kind == "drop")
            .map(|e| e.begin / S)
            .collect();
        assert_eq!(at[0], 0);
        assert_eq!(at[1..], *seconds);
        assert_eq!(
            (report.counts.failed, report.counts.drops[0]),
            (1, u64::from(lost))
        );
    }
}

#[test]
fn what_waits_for_itself_ends_the_run() {
    // Its only worker calls the server itself.
    let mut plan = one(json!({"constant": 1e6}), 1, 10, batch(1), S);
    plan["sample"] = json!(50 * MS);
    plan["groups"][0]["quota"] = json!({"quota": 50 * MS, "period": 100 * MS});
    plan["servers"][0]["connectors"] = json!([{"candidates": [0], "kept": true}]);
    plan["servers"][0]["programs"] = json!([0, 1]);
    plan["classes"] = json!([{"name": "outer"}, {"name": "inner"}]);
    plan["programs"] = json!([[{"call": {"connector": 0, "class": 1}}], []]);
    assert_eq!(run(&plan).0.counts.unfinished, 2);
}

#[test]
fn a_long_row_of_calls_that_take_no_time_is_no_deep_stack() {
    let mut plan = chain(1, S);
    plan["workloads"] = json!([batch(1)]);
    plan["programs"] =
        json!([[{"call": {"connector": 0, "class": 0, "count": 100_000.0}}], [], []]);
    assert_eq!(run(&plan).1.visits.len(), 100_001);
}

#[test]
fn samples_reach_to_the_end_and_change_nothing() {
    let mut plan = chain(2000, 20 * S);
    let quiet = run(&plan).1.requests;
    plan["sample"] = json!(7 * MS / 3);
    let (_, rows) = run(&plan);
    assert!(quiet == rows.requests, "requests are the same");
    plan["sample"] = json!(50 * MS);
    plan["workloads"] = json!([trace(&[0])]);
    assert_eq!(
        run(&plan).1.samples.iter().map(|s| s.time).max(),
        Some(20 * S)
    );
}

#[test]
fn every_client_of_all_workloads_has_a_number_of_its_own() {
    let mut plan = chain(3, 5 * S);
    plan["classes"] = json!([{"name": "page"}, {"name": "query"}, {"name": "other page"}]);
    for server in 0..3 {
        let programs = &mut plan["servers"][server]["programs"];
        let same = programs[0].clone();
        push(programs, same);
    }
    let mut others = plan["workloads"][0].clone();
    others["arrivals"]["closed"]["clients"] = json!(2);
    others["choice"] = json!({"mix": [[2, 1.0]]});
    push(&mut plan["workloads"], others);
    push(&mut plan["workloads"], batch(4));
    let rows = run(&plan).1;
    let mut asked = std::collections::BTreeMap::new();
    for r in &rows.requests {
        assert_eq!(
            *asked.entry(r.client).or_insert(r.interaction),
            r.interaction
        );
    }
    let by_class = |class| asked.values().filter(|&&c| c == class).count();
    assert_eq!((asked.len(), by_class(0), by_class(2)), (9, 7, 2));
}

/// Two clients with two requests each: the second 300 ms after the answer to the first.
fn chained() -> Value {
    let mut load = trace(&[0, 10 * MS, 300 * MS, 300 * MS]);
    load["arrivals"]["trace"]["opens"] = json!(2);
    load["arrivals"]["trace"]["next"] = json!([2, 3, u32::MAX, u32::MAX]);
    load
}

#[test]
fn a_recorded_client_thinks_after_its_answer() {
    let (report, rows) = run(&one(json!({"constant": 100e6}), 1, 128, chained(), 2 * S));
    let sent: Vec<_> = requests(&rows).iter().map(|r| (r.0, r.1)).collect();
    assert_eq!(
        sent,
        [
            (0, 100 * MS),
            (10 * MS, 200 * MS),
            (400 * MS, 500 * MS),
            (500 * MS, 600 * MS)
        ]
    );
    assert_eq!(report.counts.answered, 4);
    let mut clients: Vec<_> = rows.requests.iter().map(|r| r.client).collect();
    clients.sort_unstable();
    assert_eq!(clients, [0, 0, 1, 1], "a client sends both");
}

#[test]
fn recorded_requests_have_the_work_that_their_factors_say() {
    let mut load = trace(&[0, S]);
    load["arrivals"]["trace"]["factors"] = json!([9.0, 0.5, 9.0, 2.0]);
    let mut plan = one(json!({"constant": 100e6}), 1, 128, load, 3 * S);
    plan["tiers"] = json!(2);
    plan["servers"][0]["tier"] = json!(1);
    let (_, rows) = run(&plan);
    let ends: Vec<_> = requests(&rows).iter().map(|r| r.1).collect();
    assert_eq!(ends, [50 * MS, 1200 * MS]);
}

#[test]
fn the_work_before_the_first_call_has_a_factor_of_its_own() {
    let mut load = trace(&[0]);
    load["arrivals"]["trace"]["factors"] = json!([0.5, 3.0]);
    let mut plan = one(json!({"constant": 100e6}), 1, 128, load, 3 * S);
    plan["tiers"] = json!(2);
    plan["servers"][0]["first"] = json!(1);
    let ends = |plan: &Value| requests(&run(plan).1)[0].1;
    assert_eq!(ends(&plan), 50 * MS, "a visit without calls has one factor");
    let mut callee = plan["servers"][0].clone();
    callee["name"] = json!("callee");
    callee["first"] = json!(null);
    callee["programs"] = json!([1]);
    plan["servers"][0]["connectors"] = json!([{"candidates": [1], "kept": true}]);
    plan["servers"] = json!([plan["servers"][0], callee]);
    plan["programs"] = json!([
        [
            {"compute": {"constant": 100e6}},
            {"call": {"connector": 0, "class": 0, "count": 1.0}},
            {"compute": {"constant": 100e6}}
        ],
        []
    ]);
    assert_eq!(ends(&plan), 350 * MS);
}

#[test]
fn a_damaged_trace_is_refused() {
    for (key, value, says) in [
        (
            "next",
            json!([1, 1, u32::MAX, u32::MAX]),
            "is sent at its time",
        ),
        ("next", json!([2, 2, u32::MAX, u32::MAX]), "follows two"),
        ("next", json!([9, 3, u32::MAX, u32::MAX]), "next is 9"),
        ("next", json!([2]), "1 rows of 4"),
        ("factors", json!([1.0]), "factors must be 0"),
    ] {
        let mut load = chained();
        load["arrivals"]["trace"][key] = value;
        let plan = plan(&one(json!({"constant": 1e6}), 1, 128, load, S));
        let error = super::super::check::check(&plan).map_err(|error| error.to_string());
        assert!(error.as_ref().is_err_and(|e| e.contains(says)), "{error:?}");
    }
}
