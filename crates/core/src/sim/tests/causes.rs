//! Each cause: its effect on a request, and its entry in the truth.

use super::*;

pub fn stalls(report: &Report) -> Vec<(&str, &str, i64, i64)> {
    report
        .stalls
        .iter()
        .filter(|s| s.kind != "workload-burst")
        .map(|s| (s.kind.as_str(), s.place.as_str(), s.begin / MS, s.end / MS))
        .collect()
}

/// When the only request, of 1 s of work, is answered; ms.
pub(super) fn end(rows: &Rows) -> i64 {
    (rows.requests[0].end + MS / 2) / MS
}

/// A request of 1 s of work at 0 and a stall from 200 to 600 ms.
fn stalled(effect: Value) -> Value {
    let mut plan = one(json!({"constant": 1e9}), 10, 10, trace(&[0]), 5 * S);
    push(
        &mut plan["groups"],
        json!({"name": "other", "node": 0, "cores": 1.0, "weight": 3.0}),
    );
    plan["stalls"] = json!([{"begin": 200 * MS, "end": 600 * MS, "kind": "k", "effect": effect}]);
    plan
}

#[test]
fn an_injected_stall_takes_exactly_its_share() {
    let effects = [
        (json!({"freeze": {"group": 0}}), 1400, "s"),
        (json!({"slow": {"group": 0, "left": 0.25}}), 1300, "s"),
        (json!({"iowait": {"node": 0, "blocks": 0.5}}), 1200, "n"),
        (json!({"iowait": {"node": 0, "blocks": 1.0}}), 1400, "n"),
        (json!({"burn": {"group": 0, "threads": 3}}), 1300, "s"),
        (json!({"burn": {"group": 1, "threads": 1}}), 1300, "other"),
        (json!({"memory": {"group": 0}}), 1400, "s"),
    ];
    for (effect, ends, place) in effects {
        let (report, rows) = run(&stalled(effect.clone()));
        assert_eq!(end(&rows), ends, "{effect}");
        let mut injected = stalls(&report);
        injected.retain(|s| s.0 == "k");
        assert_eq!(injected, [("k", place, 200, 600)]);
    }
}

#[test]
fn the_states_of_threads_are_sampled() {
    let states = |effect: Value| {
        let mut plan = stalled(effect);
        plan["sample"] = json!(50 * MS);
        let rows = run(&plan).1;
        ["tasks_stopped", "tasks_runnable", "tasks_blocked"].map(|metric| {
            let during = rows.samples.iter().filter(|s| {
                s.place == 0 && s.metric == metric && (250 * MS..600 * MS).contains(&s.time)
            });
            let values: Vec<f64> = during.map(|s| s.value).collect();
            assert!(values == [values[0]; 7], "{metric} {values:?}");
            values[0]
        })
    };
    let slow = json!({"slow": {"group": 0, "left": 0.25}});
    assert_eq!(states(slow), [0.0, 1.0, 0.0]);
    assert_eq!(states(json!({"freeze": {"group": 0}})), [2.0, 0.0, 0.0]);
    assert_eq!(states(json!({"memory": {"group": 0}})), [0.0, 0.0, 1.0]);
    let waits = json!({"iowait": {"node": 0, "blocks": 1.0}});
    assert_eq!(states(waits), [0.0, 0.0, 1.0]);
}

/// A visit of 300 ms is at work at 200 ms; then one comes on a new connection.
#[test]
fn a_restarted_server_ends_its_visits_and_takes_up_no_other() {
    let mut plan = one(
        json!({"constant": 300e6}),
        10,
        10,
        trace(&[0, 350 * MS]),
        5 * S,
    );
    plan["sample"] = json!(50 * MS);
    plan["stalls"] = json!([{"begin": 200 * MS, "end": 600 * MS, "kind": "restart", "effect": {"restart": {"server": 0}}}]);
    let (report, rows) = run(&plan);
    let ends: Vec<i64> = rows.requests.iter().map(|row| row.end / MS).collect();
    assert_eq!(ends, [300, 900]);
    assert_eq!(stalls(&report), [("restart", "s", 200, 600)]);
    let ended = rows
        .samples
        .iter()
        .filter(|row| row.metric == "processes_ended");
    let ended: Vec<(i64, f64)> = ended
        .filter(|row| row.value > 0.0)
        .map(|row| (row.time / MS, row.value))
        .collect();
    assert_eq!(ended, [(300, 1.0)]);
}

/// Ten workers and a backlog of five; twenty connect at 300 ms, of 1 ms of work each.
fn connecting() -> Value {
    let mut plan = one(
        json!({"constant": 1e6}),
        10,
        5,
        trace(&[300 * MS; 20]),
        900 * MS,
    );
    plan["stalls"] = json!([{"begin": 200 * MS, "end": 600 * MS, "kind": "k", "effect": {"freeze": {"group": 0}}}]);
    plan
}

/// Lost SYNs, and when the others were answered; ms.
pub(super) fn lost_and_answered(plan: &Value) -> (u64, Vec<i64>) {
    let (report, rows) = run(plan);
    let passed = rows.requests.iter().filter(|r| r.drops == 0);
    let mut ends: Vec<i64> = passed.map(|r| (r.end + MS / 2) / MS).collect();
    ends.dedup();
    (report.counts.drops[0], ends)
}

#[test]
fn a_server_that_is_stopped_holds_what_its_accept_queue_holds() {
    for (holds, workers, light, stopped, running) in [
        (true, 10, 0, 6, 16),
        (true, 10, 4, 6, 20),
        (true, 10, 10, 11, 20),
        (false, 4, 8, 9, 18),
        (false, 0, 10, 11, 16),
    ] {
        let mut plan = connecting();
        let server = &mut plan["servers"][0];
        (server["holds"], server["workers"]) = (json!(holds), json!(workers));
        server["light_queue"] = json!(light);
        let (lost, answered) = lost_and_answered(&plan);
        assert_eq!(lost, 20 - stopped, "{holds} {workers} {light}");
        assert_eq!(answered.last(), Some(&(600 + stopped as i64)));
        // A server that only gets no CPU keeps its threads and its light queue.
        plan["stalls"][0]["effect"] = json!({"iowait": {"node": 0, "blocks": 1.0}});
        let lost = lost_and_answered(&plan).0;
        assert_eq!(lost, 20 - running, "{holds} {workers} {light}");
    }
}

#[test]
fn requests_on_kept_connections_to_a_stopped_server_are_not_lost() {
    let mut plan = connecting();
    plan["workloads"][0]["kept"] = json!(true);
    plan["servers"][0]["workers"] = json!(20);
    assert_eq!(lost_and_answered(&plan), (0, vec![620]));
}

#[test]
fn a_server_that_is_stopped_twice_accepts_when_both_are_over() {
    let mut plan = connecting();
    let again = json!({"begin": 500 * MS, "end": 700 * MS, "kind": "k", "effect": {"freeze": {"group": 0}}});
    push(&mut plan["stalls"], again);
    assert_eq!(lost_and_answered(&plan), (14, vec![706]));
}

#[test]
fn a_collection_stops_the_thread_that_accepts_too() {
    // The twentieth before them fills the heap, at 190 ms.
    let mut plan = connecting();
    plan["stalls"] = json!([]);
    let times: Vec<i64> = (0..20).map(|i| i * 10 * MS).chain([300 * MS; 20]).collect();
    plan["workloads"] = json!([trace(&times)]);
    plan["servers"][0]["heap"] = json!({"young_bytes": 20.0, "bytes_per_visit": 1.0, "threads": 1.0,
        "young": {"base": 410 * MS, "per_live": 0}});
    let (lost, answered) = lost_and_answered(&plan);
    assert_eq!(lost, 20 - 6);
    assert_eq!(answered[19..], [607], "it and the six at once");
}

#[test]
fn a_stall_that_outlasts_the_run_is_reported() {
    let mut plan = stalled(json!({"iowait": {"node": 0, "blocks": 1.0}}));
    plan["stalls"][0] = json!({"begin": 4 * S, "end": 9 * S, "kind": "k", "effect": {"iowait": {"node": 0, "blocks": 1.0}}});
    assert_eq!(stalls(&run(&plan).0), [("k", "n", 4000, 5000)]);
}

#[test]
fn a_full_heap_stops_the_server_and_every_second_collection_is_an_old_one() {
    // The tenth request fills the heap at 90 ms; 50 ms and 1 ms for it alone inside; the twentieth 100 ms.
    let times: Vec<i64> = (0..10)
        .map(|i| i * 10 * MS)
        .chain((0..10).map(|i| S + i * 10 * MS))
        .collect();
    let mut plan = one(json!({"constant": 1e6}), 10, 10, trace(&times), 3 * S);
    plan["sample"] = json!(50 * MS);
    plan["servers"][0]["heap"] = json!({"young_bytes": 10.0, "bytes_per_visit": 1.0, "threads": 1.0, "old_every": 2,
        "young": {"base": 50 * MS, "per_live": MS}, "old": {"base": 100 * MS, "per_live": 0}});
    let (report, rows) = run(&plan);
    assert_eq!(
        stalls(&report),
        [
            ("garbage-collection", "s", 90, 141),
            ("garbage-collection", "s", 1090, 1190)
        ]
    );
    let ends: Vec<_> = rows
        .requests
        .iter()
        .map(|r| (r.end + MS / 2) / MS)
        .collect();
    assert!(ends.contains(&142) && ends.contains(&1191), "{ends:?}");
    assert_eq!(rows.events.iter().filter(|e| e.kind == "gc").count(), 2);
    let shares: Vec<_> = rows
        .samples
        .iter()
        .filter(|s| s.metric == "gc_share")
        .map(|s| s.value)
        .collect();
    assert!((shares.iter().sum::<f64>() * 50.0 - 151.0).abs() < 1e-3);
}

#[test]
fn a_collection_is_an_old_one_when_more_are_inside_than_survivors_have_room() {
    // One request inside at 90 ms, six at 1000 ms, seven at 2000 ms.
    let mut times: Vec<i64> = (0..10).map(|i| i * 10 * MS).collect();
    times.extend((0..4).map(|i| S / 2 + i * 10 * MS).chain([S; 6]));
    times.extend((0..3).map(|i| S * 3 / 2 + i * 10 * MS).chain([2 * S; 7]));
    let mut plan = one(json!({"constant": 1e6}), 10, 10, trace(&times), 4 * S);
    plan["servers"][0]["heap"] = json!({"young_bytes": 10.0, "bytes_per_visit": 1.0, "threads": 1.0, "old_above": 6,
        "young": {"base": 50 * MS, "per_live": 0}, "old": {"base": 100 * MS, "per_live": 0}});
    assert_eq!(
        stalls(&run(&plan).0),
        [
            ("garbage-collection", "s", 90, 140),
            ("garbage-collection", "s", 1000, 1050),
            ("garbage-collection", "s", 2000, 2100)
        ]
    );
}

#[test]
fn a_heap_that_is_half_full_at_the_begin_is_collected_earlier() {
    let times: Vec<i64> = (0..10).map(|i| i * 10 * MS).collect();
    for (filled, at) in [(0.0, 90), (0.5, 40)] {
        let mut plan = one(json!({"constant": 1e6}), 10, 10, trace(&times), S);
        plan["servers"][0]["heap"] = json!({"young_bytes": 10.0, "bytes_per_visit": 1.0, "threads": 1.0, "filled": filled,
            "young": {"base": 50 * MS, "per_live": 0}});
        assert_eq!(
            stalls(&run(&plan).0)[0],
            ("garbage-collection", "s", at, at + 50)
        );
    }
}

/// A request every second, each of which logs 1 MB; 10 MB/s to the disk.
fn logging(disk: Value) -> Value {
    let times: Vec<i64> = (0..12).map(|i| i * S + 100 * MS).collect();
    let mut plan = one(json!({"constant": 1e6}), 10, 10, trace(&times), 12 * S);
    plan["servers"][0]["log_bytes"] = json!(1e6);
    plan["nodes"][0]["disk"] = disk;
    plan["sample"] = json!(100 * MS);
    plan
}

fn writeback(expire: i64, background: f64, limit: f64) -> Value {
    json!({"bytes_per_second": 10e6, "writeback":
        {"period": 5 * S, "expire": expire, "background": background, "limit": limit, "blocks": 1.0}})
}

#[test]
fn dirty_pages_are_written_when_old_by_the_clock_and_when_many_at_once() {
    let of = |times: [i64; 4]| {
        [(times[0], times[1]), (times[2], times[3])]
            .map(|(begin, end)| ("writeback".to_owned(), begin, end))
    };
    for (disk, expected, who) in [
        (
            writeback(30 * S, 5e6, 1e9),
            of([4101, 4601, 9101, 9601]),
            None,
        ),
        (
            writeback(3 * S, 1e9, 3e9),
            of([5000, 5500, 10_000, 10_500]),
            Some((5100 * MS, 5501 * MS)),
        ),
    ] {
        let (report, rows) = run(&logging(disk));
        assert_eq!(told(&report), expected);
        // Requests that come meanwhile wait for the disk.
        let took = |(sent, end)| rows.requests.iter().any(|r| r.sent == sent && r.end == end);
        assert!(who.is_none_or(took));
        let waited: f64 = rows
            .samples
            .iter()
            .filter(|s| s.metric == "cpu_iowait")
            .map(|s| s.value)
            .sum();
        assert!((waited - 10.0).abs() < 1e-6, "{waited}");
        let dirty = rows
            .samples
            .iter()
            .filter(|s| s.metric == "dirty_bytes")
            .map(|s| s.value);
        assert!(dirty.fold(0.0, f64::max) <= 5e6);
    }
    assert!(stalls(&run(&logging(writeback(30 * S, 1e9, 3e9))).0).is_empty());
}

#[test]
fn only_writers_wait_for_the_disk_at_the_limit_of_dirty_pages() {
    // Every second 1 MB, and ten more at 2.1 s: 12 MB are dirty or on their way, 3 MB may be; the disk writes 10 MB/s.
    let mut disk = writeback(30 * S, 1.5e6, 3e6);
    disk["writeback"]["blocks"] = json!(0.0);
    let mut plan = logging(disk);
    let mut times: Vec<i64> = (0..3).map(|i| i * S + 100 * MS).collect();
    times.extend([2100 * MS; 10]);
    plan["workloads"] = json!([trace(&times)]);
    plan["servers"][0]["workers"] = json!(100);
    let rows = run(&plan).1;
    let mut took: Vec<i64> = rows
        .requests
        .iter()
        .map(|r| (r.end - r.sent) / MS)
        .collect();
    took.sort_unstable();
    // 1 ms of work each at a shared core: all are ready after 11 ms. The n-th then finds n MB.
    assert_eq!(took[..5], [1, 1, 11, 11, 11]);
    assert_eq!(took[5..], [111, 211, 311, 411, 511, 611, 711, 811]);
}

#[test]
fn files_of_a_server_are_written_each_by_its_own_age() {
    let mut plan = logging(writeback(5 * S, 1e9, 3e9));
    plan["servers"][0]["logs"] = json!(2);
    // Both are always dirty; the second became dirty 5 s before the begin.
    let seen = told(&run(&plan).0);
    let begins: Vec<i64> = seen.iter().map(|s| s.1).collect();
    assert_eq!(begins, [5000, 10_000]);
    plan["nodes"][0]["disk"]["writeback"]["drawn"] = json!(true);
    let drawn = |seed: u64| {
        plan["seed"] = json!(seed);
        told(&run(&plan).0)
    };
    let all = [1, 2, 3].map(drawn);
    assert!(all[0] != all[1] && all[1] != all[2]);
}

fn told(report: &Report) -> Vec<(String, i64, i64)> {
    let stalls = report.stalls.iter();
    stalls
        .map(|s| (s.kind.clone(), s.begin / MS, s.end / MS))
        .collect()
}

#[test]
fn a_logger_flushes_by_the_clock_what_it_and_the_server_wrote() {
    let flush = json!({"period": 6 * S, "first": 2 * S, "bytes_per_second": 5e5, "blocks": 1.0});
    let (report, rows) = run(&logging(json!({"bytes_per_second": 10e6, "flush": flush})));
    assert_eq!(
        stalls(&report),
        [
            ("log-flush", "s", 2000, 2500),
            ("log-flush", "s", 8000, 8900)
        ]
    );
    assert!(rows
        .requests
        .iter()
        .any(|r| r.sent == 2100 * MS && r.end == 2501 * MS));
    assert_eq!(
        rows.events.iter().filter(|e| e.kind == "log_flush").count(),
        2
    );
}

#[test]
fn a_flush_that_outlasts_the_ramp_is_recorded() {
    let flush = json!({"period": 6 * S, "first": 2 * S, "bytes_per_second": 5e5, "blocks": 1.0});
    let mut plan = logging(json!({"bytes_per_second": 10e6, "flush": flush}));
    plan["servers"][0]["log_bytes"] = json!(0.0);
    let mut seen = |record_from: i64| {
        plan["record_from"] = json!(record_from);
        let (_, rows) = run(&plan);
        let begins = rows.events.iter().map(|e| e.begin / MS);
        begins.collect::<Vec<_>>()
    };
    assert_eq!(seen(2100 * MS), [2000, 8000]);
    assert_eq!(seen(2400 * MS), [8000]);
}

#[test]
fn the_arrivals_of_a_trace_show_its_bursts() {
    let even = (0..400).map(|i| i * 10 * MS);
    let crowd = (0..120).map(|i| 2 * S + i * 2 * MS);
    let later = (0..90_000).map(|i| 10 * S + i * MS);
    let seen = |times: &[i64]| {
        let mut plan = one(json!({"constant": 1e5}), 100, 128, batch(10), 5 * S);
        plan["workloads"][0]["arrivals"] = json!({"trace": {"times": times, "classes": []}});
        let (report, _) = run(&plan);
        report
            .stalls
            .iter()
            .map(|s| (s.kind.clone(), s.begin / MS, s.end / MS))
            .collect::<Vec<_>>()
    };
    let mut times: Vec<i64> = even.clone().chain(crowd.clone()).collect();
    times.sort_unstable();
    let burst = [("workload-burst".to_owned(), 2000, 2198)];
    assert_eq!(seen(&times), burst);
    // One that has nothing else, and one that goes on after the run.
    assert_eq!(seen(&crowd.collect::<Vec<_>>()), burst);
    times.extend(later);
    assert_eq!(seen(&times), burst);
    assert_eq!(seen(&even.collect::<Vec<_>>()), []);
    assert_eq!(seen(&[]), []);
}

#[test]
fn bursts_of_the_load_are_reported_to_their_end() {
    let (report, _) = run(&one(json!({"constant": 1e6}), 100, 128, batch(10), S));
    let seen = |report: &Report| {
        report
            .stalls
            .iter()
            .map(|s| (s.kind.clone(), s.begin))
            .collect::<Vec<_>>()
    };
    assert_eq!(seen(&report), [("workload-burst".to_owned(), 0)]);
    // Always in the fast mode, which lasts when the run is over.
    let mut plan = chain(100, 5 * S);
    plan["workloads"][0]["arrivals"]["closed"]["chain"] =
        json!({"slow": 1e12, "fast": 1e7, "to_fast": 1.0, "to_slow": 1e-9, "chains": 1});
    let (report, _) = run(&plan);
    let last = report
        .stalls
        .last()
        .map(|s| (s.kind.as_str(), s.end >= 5 * S));
    assert_eq!(last, Some(("workload-burst", true)));
    // All clients at once; and arrivals whose rate is above its mean for a while.
    let mut plan = chain(100, 5 * S);
    plan["workloads"][0]["arrivals"]["closed"]["spread"] = json!(0);
    let (report, _) = run(&plan);
    assert_eq!(seen(&report), [("workload-burst".to_owned(), 0)]);
    // Arrivals during the crowd count; later ones do not add to it.
    for (others_end, told) in [(5 * S, vec![("workload-burst".to_owned(), S)]), (S, vec![])] {
        let mut crowd = chain(100, 5 * S);
        let mut more = crowd["workloads"][0].clone();
        crowd["workloads"][0]["end"] = json!(others_end);
        (more["begin"], more["end"]) = (json!(S), json!(2 * S));
        push(&mut crowd["workloads"], more);
        let (report, _) = run(&crowd);
        assert_eq!(seen(&report), told);
    }
    // A crowd that comes before others that were reported earlier is a separate one.
    let mut crowds = chain(100, 5 * S);
    for begin in [3 * S, S] {
        let mut more = crowds["workloads"][0].clone();
        (more["begin"], more["end"]) = (json!(begin), json!(begin + S));
        push(&mut crowds["workloads"], more);
    }
    let (report, _) = run(&crowds);
    let told: Vec<_> = report.stalls.iter().map(|s| (s.begin, s.end)).collect();
    assert_eq!(told, [(3 * S, 4 * S), (S, 2 * S)]);
    let mut waves = batch(1);
    waves["arrivals"] = json!({"modulated": {"rates": [10.0, 200.0], "stays": [S, S]}});
    waves["end"] = json!(19 * S);
    let (report, rows) = run(&one(json!({"constant": 1e6}), 100, 128, waves, 20 * S));
    assert!(report.stalls.len() > 2);
    assert!(report.stalls.iter().all(|burst| burst.end <= 19 * S));
    for burst in &report.stalls {
        let inside = |r: &&Request| r.sent >= burst.begin && r.sent < burst.end;
        let came = rows.requests.iter().filter(inside).count() as f64;
        let usual = 200.0 * (burst.end - burst.begin) as f64 / 1e9;
        assert!(
            (came - usual).abs() <= 5.0 * usual.sqrt() + 1.0,
            "{came} {usual}"
        );
    }
}

#[test]
fn shares_of_a_cpu_follow_weights_and_the_rest_goes_to_groups_that_want_it() {
    // 3 : 1 while both work, then all of it.
    let mut plan = stalled(json!({"freeze": {"group": 1}}));
    plan["stalls"] = json!([]);
    push(
        &mut plan["servers"],
        json!({"name": "other", "group": 1, "holds": true, "workers": 1,
        "backlog": 1, "programs": [0]}),
    );
    let mut second = trace(&[0]);
    second["entries"] = json!([1]);
    push(&mut plan["workloads"], second);
    let (_, rows) = run(&plan);
    let ends: Vec<_> = rows
        .visits
        .iter()
        .map(|v| (v.server, (v.departure + MS / 2) / MS))
        .collect();
    assert_eq!(ends, [(1, 1333), (0, 2000)]);
}

#[test]
fn a_recorded_capacity_slows_and_stops_a_server() {
    let mut plan = one(
        json!({"constant": 100e6}),
        1,
        0,
        trace(&[0, 350 * MS, 360 * MS]),
        2 * S,
    );
    let (times, left) = ([50 * MS, 300 * MS, 400 * MS], [0.5, 0.0, 1.0]);
    plan["capacities"] = json!([{"group": 0, "times": times, "left": left}]);
    let (report, rows) = run(&plan);
    let mut ends: Vec<_> = rows
        .requests
        .iter()
        .map(|r| (r.sent, r.end, r.drops))
        .collect();
    ends.sort_unstable();
    assert_eq!(
        ends,
        [
            (0, 150 * MS, 0),
            (350 * MS, 500 * MS, 0),
            (360 * MS, 1460 * MS, 1)
        ],
        "half as fast from 50 ms on; it accepts nothing from 300 to 400 ms"
    );
    assert_eq!(report.counts.drops[0], 1);
}
