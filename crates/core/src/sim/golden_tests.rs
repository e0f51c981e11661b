//! The same plan gives the same bytes; an optimisation must not change them.
//!
//! A change of the model changes these numbers: then inspect the rows, and put the new numbers
//! here.

use super::tests::{run, Rows};
use serde_json::{json, Value};
use std::hash::{Hash, Hasher};

const MS: i64 = 1_000_000;
const S: i64 = 1_000_000_000;

/// FNV-1a: equal on any machine, unlike the hashers of `std`.
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

fn digest(rows: &Rows) -> u64 {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    for v in &rows.visits {
        (
            v.visit,
            v.parent,
            v.request,
            v.server,
            v.caller,
            v.connection,
        )
            .hash(&mut hash);
        (v.interaction, v.sent, v.connected, v.arrival, v.start).hash(&mut hash);
        (
            v.departure,
            v.drops,
            v.data_drops,
            v.status,
            v.downstream_ns,
        )
            .hash(&mut hash);
    }
    for r in &rows.requests {
        (r.request, r.client, r.server, r.interaction, r.sent).hash(&mut hash);
        (r.connected, r.end, r.status, r.drops, r.data_drops).hash(&mut hash);
    }
    for s in &rows.samples {
        (s.time, s.place, s.metric.as_bytes(), s.value.to_bits()).hash(&mut hash);
    }
    for e in &rows.events {
        (e.place, e.kind.as_bytes(), e.begin, e.end).hash(&mut hash);
        e.detail.as_ref().map(|d| d.as_bytes()).hash(&mut hash);
    }
    hash.finish()
}

/// Requests answered, failed, events, and hashes of the rows.
fn seen(plan: &Value) -> String {
    let (report, rows) = run(plan);
    let c = &report.counts;
    assert_eq!(c.unfinished, 0);
    format!(
        "{} {} {} {:016x}",
        c.answered,
        c.failed,
        c.events,
        digest(&rows)
    )
}

/// Two web servers, four app servers, a database and a neighbour, with every injected and arising
/// stall.
fn stalling() -> Value {
    let connector = |to: &[u32], pool: Value, policy: Value| {
        json!({"candidates": to, "pool": pool, "policy": policy,
            "syn": {"repeats": [S, 2 * S], "give_up": 4 * S, "data_repeats": [200 * MS, 600 * MS]}})
    };
    let server = |name: &str, group: u32, workers: u32, programs: [Value; 3], connectors: Value| {
        json!({"name": name, "group": group, "holds": true, "workers": workers, "backlog": 20, "programs": programs,
            "connectors": connectors, "log_bytes": 20_000.0})
    };
    let web = |name: &str, group: u32| {
        let pool =
            json!({"size": 12, "per_process": true, "per_servlet": true, "per_candidate": true});
        let mut web = server(
            name,
            group,
            20,
            [json!(0), json!(1), json!(null)],
            json!([connector(&[2, 3], pool, json!("power_of_two"))]),
        );
        web["processes"] = json!(2);
        web["spawn"] = json!({"processes_max": 4, "after": 50 * MS, "work": 30 * MS});
        web
    };
    let app = |name: &str, group: u32| {
        let pool = json!({"size": 6, "for_visit": true, "priority": 3});
        let mut app = server(
            name,
            group,
            30,
            [json!(2), json!(3), json!(null)],
            json!([connector(&[4], pool, json!("round_robin"))]),
        );
        app["heap"] = json!({"young_bytes": 3e7, "bytes_per_visit": 1e5, "young": {"base": 5 * MS, "per_live": MS / 10},
            "old_every": 4, "old": {"base": 80 * MS, "per_live": MS}, "threads": 2.0});
        app
    };
    let mut database = server("db", 3, 8, [json!(null), json!(null), json!(4)], json!([]));
    (database["light_queue"], database["backlog"]) = (json!(10), json!(5));
    json!({
        "seed": 11, "replication": 3, "epoch": 1_700_000_000 * S, "duration": 12 * S, "record_from": S,
        "sample": 50 * MS, "sample_work": MS / 10, "latency": MS / 5,
        "nodes": [
            {"name": "front", "cores": 4.0, "governor": {"period": 500 * MS, "hz": [1.1e9, 1.6e9, 2.2e9], "up": 0.8, "down": 0.4}},
            {"name": "middle", "cores": 2.0, "steal": "shown", "disk": {"bytes_per_second": 1e8,
                "writeback": {"period": S, "expire": 3 * S, "background": 2e7, "limit": 5e7, "blocks": 0.7},
                "flush": {"period": 4 * S, "first": 2 * S, "bytes_per_second": 1e6, "blocks": 0.9}}},
            {"name": "back", "cores": 1.0},
        ],
        "groups": [
            {"name": "web", "node": 0, "cores": 4.0, "inflation": {"free": 4.0, "slope": 0.01, "power": 1.2}},
            {"name": "app-1", "node": 1, "cores": 2.0, "weight": 2.0},
            {"name": "app-2", "node": 1, "cores": 1.0, "quota": {"quota": 60 * MS, "period": 100 * MS}},
            {"name": "db", "node": 2, "cores": 1.0},
        ],
        "servers": [web("web-1", 0), web("web-2", 0), app("app-1", 1), app("app-2", 2), database],
        "classes": [{"name": "light", "bytes_in": 100, "bytes_out": 2000, "light": true},
            {"name": "heavy", "bytes_in": 300, "bytes_out": 9000}, {"name": "query"}],
        "programs": [
            [{"compute": {"exponential": 3e5}}, {"call": {"connector": 0, "class": 0, "count": 1.5}}, {"wait": {"constant": 1e5}}],
            [{"compute": {"uniform": {"low": 1e5, "high": 9e5}}}, {"call": {"connector": 0, "class": 1}}],
            [{"compute": {"erlang": {"mean": 8e5, "shape": 3}}}, {"call": {"connector": 0, "class": 2}}],
            [{"compute": {"hyperexponential": {"share": 0.9, "first": 5e5, "second": 4e6}}},
                {"call": {"connector": 0, "class": 2, "count": 3.0, "parallel": true}}, {"compute": {"constant": 2e5}}],
            [{"compute": {"exponential": 7e5}}],
        ],
        "workloads": [
            {"name": "walkers", "entries": [0, 1], "embedded": [0], "timeout": 1500 * MS, "retries": 2, "retry_pause": 100 * MS,
                "hedge": 400 * MS, "syn": {"repeats": [S, 3 * S], "give_up": 5 * S},
                "choice": {"walk": {"classes": [0, 1], "transitions": [[0.2, 0.6], [0.3, 0.1]], "back": [0.1, 0.3],
                    "end": [0.1, 0.2], "start": 0, "length_max": 20}},
                "arrivals": {"closed": {"clients": 300, "think": {"exponential": 8e8}, "spread": S, "think_max": 5 * S,
                    "chain": {"slow": 9e8, "fast": 1e8, "to_fast": 0.01, "to_slow": 0.1, "chains": 3}}}},
            {"name": "bursts", "entries": [0], "choice": {"mix": [[1, 1.0]]}, "begin": 3 * S, "end": 9 * S,
                "arrivals": {"batch": {"size": 60, "first": 0, "period": 3 * S}}},
        ],
        "stalls": [
            {"begin": 2 * S, "end": 2300 * MS, "kind": "freeze", "effect": {"freeze": {"group": 3}}},
            {"begin": 4 * S, "end": 5 * S, "kind": "slow", "effect": {"slow": {"group": 0, "left": 0.3}}},
            {"begin": 6 * S, "end": 6500 * MS, "kind": "iowait", "effect": {"iowait": {"node": 2, "blocks": 1.0}}},
            {"begin": 7 * S, "end": 7400 * MS, "kind": "neighbour", "effect": {"burn": {"group": 2, "threads": 6}}},
        ],
    })
}

/// Asynchronous and bounded servers behind a balancer, open arrivals of every kind.
fn balanced(policy: &Value, endpoint: &Value) -> Value {
    let server = |name: &str,
                  group: u32,
                  workers: u32,
                  light: u32,
                  program: [Value; 2],
                  connectors: Value| {
        json!({"name": name, "group": group, "holds": false, "workers": workers, "light_queue": light, "backlog": 30,
            "programs": program, "connectors": connectors})
    };
    let to_app = json!([{"candidates": [1, 2, 3], "policy": policy, "endpoint": endpoint, "kept": true,
        "pool": {"size": 5, "per_candidate": true}}, {"candidates": [4]}]);
    let workload = |name: &str, begin: i64, arrivals: Value| json!({"name": name, "entries": [0], "begin": begin, "choice": {"mix": [[0, 3.0], [1, 1.0]]}, "arrivals": arrivals});
    let mut front = server("front", 0, 0, 65_535, [json!(0), json!(1)], to_app);
    front["holds"] = json!(true);
    (front["workers"], front["light_queue"]) = (json!(40), json!(0));
    let app = |i: u32| {
        server(
            &format!("app-{i}"),
            i,
            8,
            50,
            [json!(2), json!(2)],
            json!([{"candidates": [4], "kept": true}]),
        )
    };
    json!({
        "seed": 5, "epoch": 0, "duration": 6 * S, "sample": 100 * MS,
        "nodes": [{"name": "n0", "cores": 2.0}, {"name": "n1", "cores": 1.0}, {"name": "n2", "cores": 1.0},
            {"name": "n3", "cores": 1.0}, {"name": "n4", "cores": 2.0}],
        "groups": [{"name": "front", "node": 0, "cores": 2.0}, {"name": "app-1", "node": 1, "cores": 1.0},
            {"name": "app-2", "node": 2, "cores": 1.0}, {"name": "app-3", "node": 3, "cores": 1.0},
            {"name": "back", "node": 4, "cores": 2.0}],
        "servers": [front, app(1), app(2), app(3), server("back", 4, 0, 0, [json!(3), json!(3)], json!([]))],
        "classes": [{"name": "read", "bytes_out": 500}, {"name": "write", "bytes_out": 50}],
        "programs": [
            [{"compute": {"exponential": 2e5}}, {"call": {"connector": 0, "class": 0}}, {"compute": {"exponential": 1e5}}],
            [{"call": {"connector": 0, "class": 1, "all": true}}, {"call": {"connector": 1, "class": 1}}],
            [{"compute": {"exponential": 12e5}}, {"call": {"connector": 0, "class": 0, "count": 0.5}}, {"compute": {"exponential": 2e5}}],
            [{"compute": {"exponential": 4e5}}],
        ],
        "workloads": [
            workload("poisson", 0, json!({"poisson": {"rate": 500.0}})),
            workload("modulated", 0, json!({"modulated": {"rates": [100.0, 1500.0], "stays": [S, 200 * MS]}})),
            workload("trace", S, json!({"trace": {"times": [0, 5, 5, 10 * MS, S], "classes": [0, 1, 1]}})),
            workload("thinkers", 0, json!({"closed": {"clients": 200, "think": {"exponential": 1e9}, "aggregate": true}})),
        ],
        "stalls": [{"begin": 2 * S, "end": 2600 * MS, "kind": "freeze", "effect": {"freeze": {"group": 2}}}],
    })
}

#[test]
fn a_system_of_many_stalls_gives_the_same_rows_as_ever() {
    assert_eq!(seen(&stalling()), "3445 0 167428 6c3b52b81548a12d");
}

#[test]
fn every_policy_gives_the_same_rows_as_ever() {
    let wait = json!("wait");
    let skip = json!("skip");
    let poll = json!({"poll": {"step": 20 * MS, "timeout": 100 * MS}});
    for (policy, endpoint, expected) in [
        (
            json!("total_request"),
            &poll,
            "5769 0 45304 092956ad736dccb7",
        ),
        (
            json!("total_traffic"),
            &poll,
            "5760 0 45321 7832035ea4eda698",
        ),
        (
            json!("current_load"),
            &skip,
            "5722 163 40369 7f0c817eca01503a",
        ),
        (json!("sessions"), &wait, "5754 0 44256 0a064570493cb8ed"),
        (json!("round_robin"), &wait, "5783 0 44759 491fde0fe6511b81"),
        (json!("random"), &skip, "5731 166 40715 16d3b9f6f97b1d88"),
        (
            json!("least_connections"),
            &wait,
            "5807 0 44403 a6b925b4157b457b",
        ),
        (
            json!("power_of_two"),
            &wait,
            "5835 0 44708 9a967e1f80dac804",
        ),
        (
            json!({"peak_ewma": {"decay": S}}),
            &wait,
            "5820 0 43927 1c70b1674c8e9040",
        ),
        (
            json!({"shortest_queue": {"every": 10 * MS}}),
            &wait,
            "5813 0 44912 bbabb7961d941bfe",
        ),
    ] {
        assert_eq!(seen(&balanced(&policy, endpoint)), expected, "{policy}");
    }
}
