//! Calls between servers: pools, balancers, all at once, further processes.

use super::*;

/// A web server with the given calls, and `n` servers behind it that work `work` ns.
pub(super) fn behind(n: usize, connector: Value, call: Value, work: f64, workload: Value) -> Value {
    let mut plan = json!({
        "seed": 1, "epoch": 0, "duration": 100 * S,
        "nodes": [{"name": "web", "cores": 1.0}],
        "groups": [{"name": "web", "node": 0, "cores": 1.0}],
        "servers": [{"name": "web", "group": 0, "holds": true, "workers": 100, "backlog": 128, "programs": [0],
            "connectors": [connector]}],
        "classes": [{"name": "page", "bytes_in": 10, "bytes_out": 100}],
        "programs": [[{"call": call}], [{"compute": {"constant": work}}]],
        "workloads": [workload],
    });
    for i in 1..=n {
        push(
            &mut plan["nodes"],
            json!({"name": format!("b{i}"), "cores": 1.0}),
        );
        push(
            &mut plan["groups"],
            json!({"name": format!("b{i}"), "node": i, "cores": 1.0}),
        );
        push(
            &mut plan["servers"],
            json!({"name": format!("b{i}"), "group": i, "holds": true, "workers": 100, "backlog": 128, "programs": [1]}),
        );
    }
    plan
}

pub(super) fn visits_of(rows: &Rows, server: u32) -> Vec<(u64, i64, i64)> {
    let mine = rows.visits.iter().filter(|v| v.server == server);
    let mut all: Vec<_> = mine.map(|v| (v.request, v.sent, v.departure)).collect();
    all.sort_unstable();
    all
}

pub(super) fn ends(rows: &Rows) -> Vec<(u64, i64, u32)> {
    let mut all: Vec<_> = rows
        .requests
        .iter()
        .map(|r| (r.request, r.end, r.status))
        .collect();
    all.sort_unstable();
    all
}

#[test]
fn a_call_to_all_goes_to_each_and_waits_for_the_slowest() {
    let connector =
        json!({"candidates": [1, 2, 3], "kept": true, "pool": {"size": 1, "per_candidate": true}});
    let mut plan = behind(
        3,
        connector,
        json!({"connector": 0, "class": 0, "all": true}),
        10e6,
        trace(&[0, S]),
    );
    plan["stalls"] =
        json!([{"begin": 0, "end": 50 * MS, "kind": "freeze", "effect": {"freeze": {"group": 2}}}]);
    let (_, rows) = run(&plan);
    for (server, took) in [(1, 10 * MS), (2, 60 * MS), (3, 10 * MS)] {
        let seen: Vec<_> = visits_of(&rows, server)
            .into_iter()
            .map(|v| (v.1, v.2))
            .collect();
        assert_eq!(seen, [(0, took), (S, S + 10 * MS)]);
    }
    assert!(rows.requests.iter().any(|r| r.end == 60 * MS));
}

#[test]
fn the_original_endpoint_sleeps_in_steps_up_to_its_timeout_with_its_worker_held() {
    // The only connection is free again at 250 ms. A sleeping call tries at 100, 200 and 300 ms,
    // until its timeout.
    for (timeout, second) in [(300, (300 * MS, 1)), (400, (550 * MS, 0))] {
        let connector = json!({"candidates": [1], "kept": true, "pool": {"size": 1},
            "endpoint": {"poll": {"step": 100 * MS, "timeout": timeout * MS}}});
        let mut plan = behind(
            1,
            connector,
            json!({"connector": 0, "class": 0}),
            250e6,
            trace(&[0, 0]),
        );
        plan["sample"] = json!(50 * MS);
        let (_, rows) = run(&plan);
        assert_eq!(ends(&rows)[1].1.min(600 * MS), second.0);
        assert_eq!(ends(&rows)[1].2, second.1);
        let at = |metric: &str, time: i64| {
            let mut rows = rows
                .samples
                .iter()
                .filter(|s| s.metric == metric && s.time == time && s.place == 0);
            rows.next().map(|s| s.value)
        };
        assert_eq!(at("pool_waiting", 150 * MS), Some(1.0));
        assert_eq!(at("workers_busy", 150 * MS), Some(2.0));
        assert_eq!(at("pool_waiting", 600 * MS), Some(0.0));
    }
}

#[test]
fn the_original_endpoint_waits_for_a_stalled_candidate_and_the_modified_one_does_not() {
    let second = |endpoint: Value| {
        let connector = json!({"candidates": [1, 2], "kept": true, "pool": {"size": 1, "per_candidate": true},
            "policy": "total_request", "endpoint": endpoint});
        // The third comes when both values are equal and it is the first candidate's turn again.
        let mut plan = behind(
            2,
            connector,
            json!({"connector": 0, "class": 0}),
            10e6,
            trace(&[0, 20 * MS, 40 * MS]),
        );
        plan["stalls"] = json!([{"begin": 0, "end": 90 * MS, "kind": "freeze", "effect": {"freeze": {"group": 1}}}]);
        ends(&run(&plan).1)[2].1
    };
    assert_eq!(
        second(json!({"poll": {"step": 100 * MS, "timeout": 300 * MS}})),
        150 * MS
    );
    assert_eq!(second(json!("skip")), 50 * MS);
}

#[test]
fn a_busy_candidate_gets_calls_from_a_process_with_a_free_connection() {
    let seen = |stall: i64| {
        let connector = json!({"candidates": [1, 2], "kept": true, "policy": "total_request", "endpoint": "skip",
            "pool": {"size": 1, "per_process": true, "per_candidate": true}});
        let times: Vec<i64> = (0..5).map(|i| i * MS).collect();
        let call = json!({"connector": 0, "class": 0});
        let mut plan = behind(2, connector, call, 10e6, trace(&times));
        plan["servers"][0]["processes"] = json!(2);
        plan["stalls"] = json!([1, 2]
            .map(|group| json!({"begin": 0, "end": stall, "kind": "freeze",
            "effect": {"freeze": {"group": group}}})));
        let rows = run(&plan).1;
        let mut to: Vec<_> = rows.visits.iter().filter(|v| v.server > 0).collect();
        to.sort_by_key(|v| v.sent);
        let to: Vec<_> = to.iter().map(|v| (v.server, v.sent)).collect();
        (to, ends(&rows)[4])
    };
    // The third finds the first server's connection in use, so that server is busy; the fourth is
    // in the other process. The fifth finds both in use, and tries again 100 ms later.
    let four = [(1, 0), (2, MS), (2, 2 * MS), (1, 3 * MS)];
    let (to, fifth) = seen(50 * MS);
    assert_eq!(to[..4], four);
    assert_eq!((to[4].1, fifth.1, fifth.2), (104 * MS, 114 * MS, 0));
    let (to, fifth) = seen(120 * MS);
    assert_eq!((to, fifth.1, fifth.2), (four.to_vec(), 104 * MS, 1));
}

#[test]
fn every_policy_spreads_evenly_when_nothing_stalls() {
    let policies = [
        json!("total_request"),
        json!("total_traffic"),
        json!("current_load"),
        json!("sessions"),
        json!("round_robin"),
        json!("random"),
        json!("least_connections"),
        json!("power_of_two"),
        json!({"peak_ewma": {"decay": S}}),
        json!({"shortest_queue": {"every": 10 * MS}}),
    ];
    for policy in policies {
        let connector = json!({"candidates": [1, 2, 3, 4], "kept": true, "policy": policy});
        let mut plan = behind(
            4,
            connector,
            json!({"connector": 0, "class": 0}),
            5e6,
            poisson(40.0),
        );
        plan["programs"][1] = json!([{"compute": {"exponential": 5e6}}]);
        let (_, rows) = run(&plan);
        let all = rows.requests.len() as f64;
        for server in 1..=4 {
            let share = visits_of(&rows, server).len() as f64 / all;
            // Four standard deviations of a binomial share with 4,000 trials: 0.027.
            assert!(
                (share - 0.25).abs() < 0.027,
                "{policy}: server {server} has {share}"
            );
        }
    }
}

#[test]
fn a_repeated_connection_goes_to_the_end_of_the_accept_queue() {
    let connector = json!({"candidates": [1], "kept": false});
    let mut plan = behind(
        1,
        connector,
        json!({"connector": 0, "class": 0, "count": 2.0}),
        10e6,
        trace(&[0, 0]),
    );
    plan["servers"][1]["workers"] = json!(1);
    let (_, rows) = run(&plan);
    let mut order: Vec<_> = rows
        .visits
        .iter()
        .filter(|v| v.server == 1)
        .map(|v| (v.start, v.request))
        .collect();
    order.sort_unstable();
    let (first, second) = (order[0].1, order[1].1);
    assert_ne!(first, second);
    assert_eq!(
        order.iter().map(|o| o.1).collect::<Vec<_>>(),
        [first, second, first, second]
    );
}

#[test]
fn a_further_process_makes_room_for_as_many_again() {
    // 150 threads and 129 places; a second process after 2 s; then 300 and 129.
    let mut times = vec![0; 300];
    times.extend([4 * S; 200]);
    let mut plan = one(json!({"constant": 0.0}), 150, 128, trace(&times), 10 * S);
    plan["programs"] = json!([[{"wait": {"constant": 20e9}}]]);
    plan["servers"][0]["spawn"] = json!({"processes_max": 2, "after": 2 * S, "work": 10 * MS});
    plan["workloads"][0]["syn"] = json!({"repeats": [3 * S, 100 * S], "give_up": 200 * S});
    let (report, rows) = run(&plan);
    let drops = |at: i64| {
        rows.events
            .iter()
            .filter(|e| e.kind == "drop" && e.begin == at)
            .count()
    };
    assert_eq!(
        (drops(0), drops(3 * S), drops(4 * S)),
        (300 - 279, 0, 500 - 429)
    );
    let spawned: Vec<_> = rows
        .events
        .iter()
        .filter(|e| e.kind == "process_spawn")
        .map(|e| e.begin)
        .collect();
    assert_eq!(spawned, [2 * S + 10 * MS]);
    assert_eq!(report.counts.unfinished, 0);
}

#[test]
fn classes_of_one_servlet_share_a_pool() {
    for (servlet, ended) in [(Value::Null, [20 * MS; 2]), (json!(0), [10 * MS, 20 * MS])] {
        let pool = json!({"size": 1, "per_servlet": true});
        let mut load = trace(&[0, 0]);
        load["arrivals"]["trace"]["classes"] = json!([0, 1]);
        let connector = json!({"candidates": [1], "kept": true, "pool": pool});
        let call = json!({"connector": 0, "class": 0});
        let mut plan = behind(1, connector, call, 10e6, load);
        push(
            &mut plan["classes"],
            json!({"name": "other", "servlet": servlet}),
        );
        push(&mut plan["servers"][0]["programs"], json!(0));
        push(&mut plan["servers"][1]["programs"], Value::Null);
        let (_, rows) = run(&plan);
        let mut ends: Vec<_> = rows.requests.iter().map(|r| r.end).collect();
        ends.sort_unstable();
        assert_eq!(ends, ended, "{servlet}");
    }
}

#[test]
fn a_server_takes_the_lightest_first_by_the_request_at_the_root() {
    for (lightest_first, order) in [(false, [0, 1, 2]), (true, [0, 2, 1])] {
        let mut load = trace(&[0, MS, 2 * MS]);
        load["arrivals"]["trace"]["classes"] = json!([0, 0, 1]);
        let connector = json!({"candidates": [1], "kept": true});
        let call = json!({"connector": 0, "class": 2});
        let mut plan = behind(1, connector, call, 10e6, load);
        plan["classes"][0]["rank"] = json!(3);
        push(&mut plan["classes"], json!({"name": "light"}));
        // what is asked behind is of one class for both
        push(&mut plan["classes"], json!({"name": "query", "rank": 5}));
        plan["servers"][0]["programs"] = json!([0, 0, null]);
        plan["servers"][1]["programs"] = json!([null, null, 1]);
        plan["servers"][1]["workers"] = json!(1);
        plan["servers"][1]["lightest_first"] = json!(lightest_first);
        let (_, rows) = run(&plan);
        let mut ends: Vec<_> = rows.requests.iter().map(|r| (r.end, r.sent / MS)).collect();
        ends.sort_unstable();
        let sent: Vec<_> = ends.iter().map(|end| end.1).collect();
        assert_eq!(sent, order);
    }
}

#[test]
fn light_ones_go_first_and_all_marks_are_taken_back() {
    // Both pools prefer light ones: the visit that is itself a light call holds a connection to its
    // end.
    let mut plan = chain(800, 5 * S);
    for (server, to_the_end) in [(0, false), (1, true)] {
        plan["servers"][server]["connectors"][0]["pool"] =
            json!({"size": 1, "priority": 0, "for_visit": to_the_end});
    }
    plan["classes"][0]["light"] = json!(true);
    let mut heavy = plan["classes"][0].clone();
    heavy["name"] = json!("heavy");
    heavy["light"] = json!(false);
    push(&mut plan["classes"], heavy);
    for (server, program) in [(0, json!(3)), (1, json!(1)), (2, Value::Null)] {
        push(&mut plan["servers"][server]["programs"], program);
    }
    let mut program = plan["programs"][0].clone();
    program[1]["call"]["class"] = json!(2);
    push(&mut plan["programs"], program);
    plan["workloads"][0]["choice"] = json!({"mix": [[0, 0.5], [2, 0.5]]});
    let (report, rows) = run(&plan);
    assert_eq!(report.counts.unfinished, 0);
    let mean = |class: u32| {
        let all: Vec<_> = rows
            .requests
            .iter()
            .filter(|r| r.interaction == class)
            .map(|r| r.end - r.sent)
            .collect();
        all.iter().sum::<i64>() / all.len() as i64
    };
    assert!(mean(0) < mean(2), "{} {}", mean(0), mean(2));
}

#[test]
fn a_call_of_an_event_loop_precedes_those_of_waiting_requests() {
    // The first computes for 10 ms while the second waits without computing; there is one
    // connection.
    for parallel in [false, true] {
        let call = json!({"connector": 0, "class": 0, "parallel": parallel});
        let connector = json!({"candidates": [1], "kept": true, "pool": {"size": 1}});
        let mut plan = behind(1, connector, call.clone(), 5e6, trace(&[0, MS]));
        plan["servers"][0]["holds"] = json!(false);
        plan["servers"][0]["workers"] = json!(1);
        plan["servers"][0]["light_queue"] = json!(10);
        push(
            &mut plan["classes"],
            json!({"name": "short", "bytes_in": 10, "bytes_out": 100}),
        );
        plan["programs"] = json!([[{"compute": {"constant": 10e6}}, {"call": call}], [{"compute": {"constant": 5e6}}],
            [{"call": call}]]);
        push(&mut plan["servers"][0]["programs"], json!(2));
        push(&mut plan["servers"][1]["programs"], Value::Null);
        plan["workloads"][0]["arrivals"]["trace"]["classes"] = json!([0, 1]);
        let (_, rows) = run(&plan);
        assert_eq!(ends(&rows), [(1, 15 * MS, 0), (2, 20 * MS, 0)]);
    }
}
