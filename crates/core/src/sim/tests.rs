//! Small systems with known behaviour.
#![allow(clippy::panic)]

mod calls;
mod causes;
mod clients;
mod errors;
mod governor;
mod held_up;
mod joined;
mod quotas;
mod remedies;
mod silent;

use super::plan::Plan;
use super::tables::{Report, Sink};
use crate::error::Result;
use crate::record::rows::{Event, Request, Sample};
use crate::record::Visit;
use serde_json::{json, Value};

const MS: i64 = 1_000_000;
const S: i64 = 1_000_000_000;

#[derive(Default)]
pub struct Rows {
    pub visits: Vec<Visit>,
    pub requests: Vec<Request>,
    pub samples: Vec<Sample>,
    pub events: Vec<Event>,
}

impl Sink for Rows {
    fn visit(&mut self, row: Visit) -> Result<()> {
        self.visits.push(row);
        Ok(())
    }
    fn request(&mut self, row: Request) -> Result<()> {
        self.requests.push(row);
        Ok(())
    }
    fn sample(&mut self, row: Sample) -> Result<()> {
        self.samples.push(row);
        Ok(())
    }
    fn event(&mut self, row: Event) -> Result<()> {
        self.events.push(row);
        Ok(())
    }
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

fn plan(value: &Value) -> Plan {
    match serde_json::from_value(value.clone()) {
        Ok(plan) => plan,
        Err(error) => panic!("{error}"),
    }
}

pub fn run(value: &Value) -> (Report, Rows) {
    match super::run(&plan(value), Rows::default(), &mut |_, _| Ok(())) {
        Ok(done) => done,
        Err(error) => panic!("{error}"),
    }
}

/// One server on one core: `work` for each request, and this many workers.
fn one(work: Value, workers: u32, backlog: u32, workload: Value, duration: i64) -> Value {
    json!({
        "seed": 1, "epoch": 0, "duration": duration,
        "nodes": [{"name": "n", "cores": 1.0}],
        "groups": [{"name": "s", "node": 0, "cores": 1.0}],
        "servers": [{"name": "s", "group": 0, "holds": true, "workers": workers, "backlog": backlog, "programs": [0]}],
        "classes": [{"name": "page", "bytes_in": 100, "bytes_out": 1000}],
        "programs": [[{"compute": work}]],
        "workloads": [workload],
    })
}

fn batch(size: u32) -> Value {
    json!({"name": "w", "entries": [0], "choice": {"mix": [[0, 1.0]]},
        "arrivals": {"batch": {"size": size, "first": 0, "period": 1000 * S}}})
}

fn push(list: &mut Value, value: Value) {
    match list {
        Value::Array(list) => list.push(value),
        other => panic!("{other} is no list"),
    }
}

/// One request at each of these times.
fn trace(times: &[i64]) -> Value {
    json!({"name": "w", "entries": [0], "choice": {"mix": [[0, 1.0]]}, "arrivals": {"trace": {"times": times}}})
}

fn poisson(rate: f64) -> Value {
    json!({"name": "w", "entries": [0], "choice": {"mix": [[0, 1.0]]}, "arrivals": {"poisson": {"rate": rate}}})
}

/// Web, app and database with one core each, synchronous, pools between them.
fn chain(clients: u32, duration: i64) -> Value {
    let server = |name: &str, group: u32, workers: u32, programs: Value, connectors: Value| {
        json!({"name": name, "group": group, "holds": true, "workers": workers, "backlog": 128,
            "programs": programs, "connectors": connectors})
    };
    json!({
        "seed": 1, "epoch": 0, "duration": duration,
        "nodes": [{"name": "n1", "cores": 1.0}, {"name": "n2", "cores": 1.0}, {"name": "n3", "cores": 1.0}],
        "groups": [{"name": "web", "node": 0, "cores": 1.0}, {"name": "app", "node": 1, "cores": 1.0},
            {"name": "db", "node": 2, "cores": 1.0}],
        "servers": [
            server("web", 0, 150, json!([0, null]), json!([{"candidates": [1], "kept": true, "pool": {"size": 50}}])),
            server("app", 1, 165, json!([1, null]), json!([{"candidates": [2], "kept": true, "pool": {"size": 50}}])),
            server("db", 2, 100, json!([null, 2]), json!([])),
        ],
        "classes": [{"name": "page"}, {"name": "query"}],
        "programs": [
            [{"compute": {"exponential": 1e5}}, {"call": {"connector": 0, "class": 0}}, {"compute": {"exponential": 1e5}}],
            [{"compute": {"exponential": 2e5}}, {"call": {"connector": 0, "class": 1}}, {"compute": {"exponential": 2e5}}],
            [{"compute": {"exponential": 5e5}}],
        ],
        "workloads": [{"name": "w", "entries": [0], "choice": {"mix": [[0, 1.0]]},
            "arrivals": {"closed": {"clients": clients, "think": {"exponential": 1e9}, "spread": S}}}],
    })
}

#[test]
fn a_batch_shares_the_processor() {
    let (report, rows) = run(&one(json!({"constant": 1e6}), 100, 128, batch(10), S));
    assert_eq!(report.counts.answered, 10);
    assert!(
        rows.requests.iter().all(|r| (r.end - 10 * MS).abs() <= 2),
        "all end together: {:?}",
        rows.requests[0]
    );
}

#[test]
fn the_accept_queue_holds_one_more_than_its_backlog_and_the_rest_come_again() {
    let (report, rows) = run(&one(json!({"constant": 1e6}), 10, 5, batch(20), S));
    assert_eq!(report.counts.drops, [4]);
    let mut lost: Vec<_> = rows.requests.iter().filter(|r| r.drops > 0).collect();
    lost.sort_by_key(|r| r.request);
    assert_eq!(
        lost.iter().map(|r| r.request).collect::<Vec<_>>(),
        [17, 18, 19, 20]
    );
    assert!(lost
        .iter()
        .all(|r| r.drops == 1 && r.connected == S && r.end > S && r.end < S + 5 * MS));
    let drops: Vec<_> = rows.events.iter().filter(|e| e.kind == "drop").collect();
    assert!(drops.len() == 4 && drops.iter().all(|e| e.begin == 0 && e.end == S));
}

#[test]
fn a_sender_repeats_on_its_schedule_until_it_gives_up() {
    let mut plan = one(json!({"constant": 60e9}), 1, 0, batch(3), 100 * S);
    plan["workloads"][0]["syn"] = json!({"repeats": [3 * S, 9 * S, 21 * S], "give_up": 45 * S});
    let (report, rows) = run(&plan);
    assert_eq!(report.counts.drops, [4]);
    let given_up: Vec<_> = rows
        .requests
        .iter()
        .filter(|r| r.status == 2)
        .map(|r| (r.drops, r.end, r.request))
        .collect();
    assert_eq!(given_up, [(4, 45 * S, 3)]);
    assert_eq!(rows.visits.len(), 2);
}

#[test]
fn a_synchronous_server_holds_its_worker_through_calls_and_an_asynchronous_one_does_not() {
    for (holds, dropped) in [(true, 150 - 129), (false, 400 - 101)] {
        // The database is frozen and accepts nothing. 400 requests arrive, of which the web
        // server's 150 threads let as many through, or event loops all.
        let mut plan = chain(1, 2 * S);
        plan["workloads"] = json!([batch(400)]);
        plan["stalls"] = json!([{"begin": 0, "end": 500 * MS, "kind": "freeze", "effect": {"freeze": {"group": 2}}}]);
        plan["servers"][0]["holds"] = json!(holds);
        plan["servers"][1]["connectors"][0] = json!({"candidates": [2], "kept": false});
        plan["servers"][0]["connectors"][0] = json!({"candidates": [1], "kept": false});
        if !holds {
            for s in [0, 1] {
                plan["servers"][s]["holds"] = json!(false);
                plan["servers"][s]["workers"] = json!(0);
                plan["servers"][s]["light_queue"] = json!(65_535);
            }
            plan["servers"][2]["workers"] = json!(50);
            plan["servers"][2]["backlog"] = json!(100);
        }
        let (report, rows) = run(&plan);
        let lost = rows
            .visits
            .iter()
            .filter(|v| v.server == 2 && v.drops > 0)
            .count();
        assert_eq!(lost, dropped, "by the database");
        assert_eq!(
            report.counts.drops[0],
            if holds { 400 - 150 - 129 } else { 0 },
            "by the web server"
        );
        assert_eq!(report.counts.answered, 400);
        assert_eq!(report.counts.unfinished, 0);
    }
}

#[test]
fn the_light_queue_of_an_asynchronous_server_holds_those_that_call_too() {
    // The app server freezes. Of 40 requests ten are inside the web server and six wait to be
    // accepted. The others are repeated together, and find as many places.
    let mut plan = chain(1, 2 * S);
    plan["workloads"] = json!([batch(40)]);
    plan["stalls"] = json!([{"begin": 0, "end": 500 * MS, "kind": "freeze", "effect": {"freeze": {"group": 1}}}]);
    for (workers, light) in [(0, 10), (1, 9)] {
        let web = &mut plan["servers"][0];
        web["holds"] = json!(false);
        (web["workers"], web["light_queue"]) = (json!(workers), json!(light));
        web["backlog"] = json!(5);
        let (report, _) = run(&plan);
        assert_eq!(report.counts.answered, 40);
        assert_eq!(
            report.counts.drops[0],
            (40 - 16) + (40 - 2 * 16),
            "{workers}"
        );
    }
}

#[test]
fn nothing_is_lost_and_every_time_adds_up() {
    let (report, rows) = run(&chain(300, 20 * S));
    assert_eq!(report.counts.unfinished, 0);
    assert_eq!(rows.visits.len(), 3 * rows.requests.len());
    for server in 0..3 {
        let mine: Vec<_> = rows.visits.iter().filter(|v| v.server == server).collect();
        let inside: i64 = mine.iter().map(|v| v.departure - v.arrival).sum();
        // Little's law: the area under the number inside is the sum of the stays.
        let mut changes: Vec<(i64, i64)> = mine
            .iter()
            .flat_map(|v| [(v.arrival, 1), (v.departure, -1)])
            .collect();
        changes.sort_unstable();
        let (mut area, mut level, mut last) = (0, 0, 0);
        for (time, change) in changes {
            area += level * (time - last);
            (level, last) = (level + change, time);
        }
        assert_eq!((area, level), (inside, 0));
    }
    for v in &rows.visits {
        assert!(v.sent <= v.arrival && v.arrival <= v.start && v.start <= v.departure);
        assert!(v.downstream_ns <= v.departure - v.start);
    }
}

#[test]
fn a_queue_at_a_processor_has_the_mean_of_m_m_1() {
    // ρ = 0.5: 2 ms.
    let (report, _) = run(&one(
        json!({"exponential": 1e6}),
        0,
        128,
        poisson(500.0),
        400 * S,
    ));
    let mean = report.counts.response_ns / report.counts.answered as f64;
    assert!((mean / 2e6 - 1.0).abs() < 0.02, "{mean}");
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_one_does_not() {
    let ends = |seed: u64| {
        let mut plan = chain(200, 5 * S);
        plan["seed"] = json!(seed);
        run(&plan)
            .1
            .requests
            .iter()
            .map(|r| r.end)
            .collect::<Vec<_>>()
    };
    assert_eq!(ends(7), ends(7));
    assert_ne!(ends(7), ends(8));
}

#[test]
fn random_numbers_depend_on_the_entity() {
    // Another pool changes when things happen, but not what a client requests or how long the
    // request takes by itself.
    let work = |size: u32| {
        let mut plan = chain(400, 3 * S);
        plan["servers"][1]["connectors"][0]["pool"]["size"] = json!(size);
        let (_, rows) = run(&plan);
        let mut first: Vec<_> = rows.requests.iter().map(|r| (r.client, r.sent)).collect();
        first.sort_unstable();
        first.dedup_by_key(|r| r.0);
        first
    };
    assert_eq!(work(1), work(50));
}

/// The engine's error for a plan that it cannot run.
fn refusal(value: &Value) -> String {
    let ran = super::run(&plan(value), (), &mut |_, _| Ok(()));
    ran.err().map_or(String::new(), |error| error.to_string())
}

#[test]
fn a_run_that_cannot_keep_up_ends_before_memory_does() {
    let mut value = chain(1, S);
    value["workloads"][0]["arrivals"] = json!({"poisson": {"rate": 1e9}});
    let said = refusal(&value);
    assert!(
        said.starts_with("more than 100000 requests and calls are under way 0.00"),
        "{said}"
    );
}

#[test]
fn a_run_in_which_nothing_takes_time_ends_with_a_sentence() {
    let asks = json!({"name": "w", "entries": [0], "choice": {"mix": [[0, 1.0]]},
        "arrivals": {"closed": {"clients": 2, "think": {"constant": 0.0}}}});
    let said = refusal(&one(json!({"constant": 0.0}), 1, 0, asks, S));
    assert!(said.starts_with("time stands still 0 s after"), "{said}");
}

#[test]
fn a_plan_that_cannot_be_run_is_refused_by_name() {
    let refused = |change: &dyn Fn(&mut Value)| {
        let mut value = chain(1, S);
        change(&mut value);
        super::run(&plan(&value), (), &mut |_, _| Ok(()))
            .err()
            .map(|e| e.to_string())
    };
    let said = refused(&|p| p["servers"][0]["connectors"][0]["candidates"] = json!([7]));
    assert_eq!(
        said.as_deref(),
        Some("servers[0].connectors[0].candidates is 7, and there are 3")
    );
    assert!(refused(&|p| p["duration"] = json!(0)).is_some());
    let said = refused(&|p| {
        p["servers"][2]["connectors"] = json!([{"candidates": [1]}]);
        p["programs"][2] = json!([{"call": {"connector": 0, "class": 0}}]);
    });
    assert_eq!(
        said.as_deref(),
        Some("servers[1]: its calls for classes[0] come back to it for the same class")
    );
    for wrong in [
        json!({"poll": {"step": 0, "timeout": S}}),
        json!({"poll": {"step": S, "timeout": -1}}),
    ] {
        assert!(
            refused(&|p| p["servers"][0]["connectors"][0]["endpoint"] = wrong.clone()).is_some()
        );
    }
    for repeats in [vec![2 * S, S], vec![0], vec![S; 256]] {
        assert!(
            refused(&|p| p["workloads"][0]["syn"] = json!({"repeats": repeats, "give_up": S}))
                .is_some()
        );
    }
    assert!(refused(&|p| p["workloads"][0]["retry_pause"] = json!(-1)).is_some());
    assert!(refused(&|p| p["classes"][0]["rank"] = json!(64)).is_some());
    assert!(refused(&|p| p["classes"][0]["servlet"] = json!(2)).is_some());
    assert!(refused(&|p| p["groups"][1]["cores"] = json!(-1.0)).is_some());
    assert!(
        refused(&|p| p["programs"][0][0] = json!({"compute": {"exponential": f64::MAX}})).is_some()
    );
}

#[test]
fn thinkers_as_one_source_have_the_same_law() {
    let mean = |aggregate: bool| {
        let mut plan = chain(1000, 200 * S);
        plan["workloads"][0]["arrivals"]["closed"]["aggregate"] = json!(aggregate);
        let (report, _) = run(&plan);
        report.counts.response_ns / report.counts.answered as f64 / 1e6
    };
    // Exact (MVA): 1.911 ms; four standard errors of the mean of 200,000 correlated stays.
    for mean in [mean(false), mean(true)] {
        assert!((mean - 1.911).abs() < 0.045, "{mean}");
    }
}

#[test]
fn parallel_calls_of_a_visit_share_the_connection_that_it_holds() {
    let mut plan = chain(100, 5 * S);
    plan["servers"][1]["connectors"][0]["pool"] = json!({"size": 1, "for_visit": true});
    plan["programs"][1][1] =
        json!({"call": {"connector": 0, "class": 1, "count": 3.0, "parallel": true}});
    let (report, rows) = run(&plan);
    assert_eq!(report.counts.unfinished, 0);
    let mut queries: Vec<_> = rows
        .visits
        .iter()
        .filter(|v| v.server == 2)
        .flat_map(|v| [(v.sent, 1), (v.departure, -1)])
        .collect();
    queries.sort_unstable();
    let most = queries.iter().scan(0, |level, q| {
        *level += q.1;
        Some(*level)
    });
    assert!(
        most.max() <= Some(3),
        "one visit at a time, three queries each"
    );
}

#[test]
fn a_run_that_hangs_ends_and_says_what_is_open() {
    let mut plan = one(json!({"constant": 1e6}), 10, 128, batch(3), S);
    plan["sample"] = json!(S);
    plan["stalls"] = json!([{"begin": 0, "end": 5000 * S, "kind": "freeze", "effect": {"freeze": {"group": 0}}}]);
    let (report, _) = run(&plan);
    assert_eq!(report.counts.unfinished, 3);
}

#[test]
fn a_server_kept_from_its_processor_by_another_has_a_neighbour() {
    let mut plan = one(json!({"constant": 1e6}), 100, 128, poisson(300.0), S);
    plan["groups"] = json!([{"name": "s", "node": 0, "cores": 1.0}, {"name": "other", "node": 0, "cores": 1.0, "weight": 9.0}]);
    let mut other = plan["servers"][0].clone();
    (other["name"], other["group"], other["programs"]) = (json!("other"), json!(1), json!([1]));
    plan["servers"] = json!([plan["servers"][0], other]);
    plan["programs"] = json!([plan["programs"][0], [{"compute": {"constant": 200e6}}]]);
    let mut burst = batch(1);
    (burst["entries"], burst["begin"]) = (json!([1]), json!(500 * MS));
    plan["workloads"] = json!([plan["workloads"][0], burst]);
    let (report, _) = run(&plan);
    let of = |place: &str| {
        let mine: Vec<_> = report
            .stalls
            .iter()
            .filter(|s| s.kind == "neighbour" && s.place == place)
            .collect();
        mine.iter()
            .map(|s| (s.begin / (10 * MS), s.end / (10 * MS)))
            .collect::<Vec<_>>()
    };
    // 200 ms of work with nine tenths of the core: the other group lacks only a tenth.
    assert_eq!(of("s"), [(50, 72)]);
    assert!(of("other")
        .iter()
        .all(|&(begin, end)| begin >= 50 && end <= 72));
    let busy_meanwhile = |steal: &str| -> Vec<f64> {
        let mut plan = plan.clone();
        plan["nodes"][0]["steal"] = json!(steal);
        plan["sample"] = json!(50 * MS);
        let samples = run(&plan).1.samples.into_iter();
        let mine = samples.filter(|s| s.metric == "cpu_busy" && s.place == 0);
        let meanwhile = mine.filter(|s| s.time > 550 * MS && s.time <= 700 * MS);
        meanwhile.map(|s| s.value).collect()
    };
    let (hidden, believed) = (busy_meanwhile("hidden"), busy_meanwhile("busy"));
    assert!(!hidden.is_empty() && hidden.iter().all(|&share| share < 0.11));
    assert!(believed.iter().all(|&share| share > 0.99));
}
