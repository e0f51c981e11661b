#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod chain_of_tiers;
mod loopback;
mod own_connections;
mod repeated;
mod transactions;

use super::report::Report;
use super::CallGraph;
use crate::error::Result;
use crate::record::{Names, Visit, VisitSink, CALLER_IS_SERVER, NO_ID, NO_TIME};
use chain_of_tiers::{blank, Random, System, Tier, Trace, MS, SECOND};
use proptest::prelude::*;
use std::collections::HashMap;

#[derive(Default)]
struct Kept(Vec<Visit>);

impl VisitSink for Kept {
    fn push(&mut self, visit: Visit, _: &Names) -> Result<()> {
        self.0.push(visit);
        Ok(())
    }

    fn finish(&mut self, _: &Names) -> Result<()> {
        Ok(())
    }
}

fn link(visits: impl IntoIterator<Item = Visit>, names: &Names) -> (Vec<Visit>, Report) {
    let mut graph = CallGraph::new(Kept::default());
    visits
        .into_iter()
        .for_each(|visit| graph.push(visit, names).unwrap());
    graph.finish(names).unwrap();
    let report = graph.report(names);
    (graph.into_next().0, report)
}

/// (correct, all) of the visits below the root that `which` selects.
fn right(linked: &[Visit], trace: &Trace, which: impl Fn(&Visit) -> bool) -> (usize, usize) {
    let picked: Vec<&Visit> = linked.iter().filter(|v| v.server > 0 && which(v)).collect();
    (
        picked
            .iter()
            .filter(|v| v.parent == trace.parents[v.visit as usize])
            .count(),
        picked.len(),
    )
}

fn share((right, all): (usize, usize)) -> f64 {
    right as f64 / all.max(1) as f64
}

fn is_long(visit: &Visit) -> bool {
    visit.departure - visit.sent >= 900 * MS
}

fn edges(report: &Report) -> Vec<(&str, &str)> {
    report
        .edges
        .iter()
        .map(|edge| (edge.caller.as_str(), edge.callee.as_str()))
        .collect()
}

fn named(servers: &[(&str, u32)]) -> Names {
    Names {
        servers: servers.iter().map(|(name, _)| name.to_string()).collect(),
        server_hosts: servers.iter().map(|&(_, host)| host).collect(),
        hosts: (0..8).map(|host| format!("10.0.0.{host}")).collect(),
        interactions: vec!["a".to_string(), "b".to_string()],
        folded: Vec::new(),
        statuses: vec!["ok".to_string()],
        ..Names::default()
    }
}

fn stay(id: u64, server: u32, caller: u32, arrival: i64, departure: i64) -> Visit {
    Visit {
        server,
        caller,
        sent: arrival,
        arrival,
        first_byte: departure,
        departure,
        interaction: 0,
        ..blank(id)
    }
}

/// Stays of (server, caller, arrival, departure), in the order of departure.
fn departing(stays: impl Iterator<Item = (u32, u32, i64, i64)>) -> Vec<Visit> {
    let mut visits: Vec<Visit> = (NO_ID + 1..)
        .zip(stays)
        .map(|(id, (server, caller, arrival, departure))| {
            stay(id, server, caller, arrival, departure)
        })
        .collect();
    visits.sort_by_key(|v| (v.departure, v.visit));
    visits
}

fn stalls(tier: usize) -> Vec<(usize, i64, i64)> {
    vec![
        (tier, 6 * SECOND, 600 * MS),
        (tier, 11 * SECOND, 900 * MS),
        (tier, 16 * SECOND, 700 * MS),
    ]
}

/// The web server does not block: all waiting happens at the second tier, which drops.
fn asynchronous_web(seed: u64) -> System {
    let mut system = System::web_app_db(seed);
    system.tiers[0].threads = 20_000;
    system.tiers[1].threads = 165;
    system
}

#[test]
fn at_low_concurrency_nearly_every_parent_is_right() {
    for seed in 1..4 {
        let system = System {
            per_second: 20.0,
            seconds: 60.0,
            ..System::web_app_db(seed)
        };
        let trace = system.run();
        let (linked, report) = link(trace.visits.clone(), &trace.names);
        assert_eq!(
            edges(&report),
            [("server 0", "server 1"), ("server 1", "server 2")]
        );
        assert_eq!(report.entries, ["server 0"]);
        for tier in 1..3 {
            let right = share(right(&linked, &trace, |v| v.server == tier));
            assert!(right >= 0.99, "seed {seed} tier {tier}: {right}");
        }
        assert_eq!(
            report.requests as usize,
            trace.visits.iter().filter(|v| v.server == 0).count()
        );
    }
}

#[test]
fn calls_that_lost_a_syn_in_a_stall_find_their_parents() {
    for seed in 1..3 {
        let trace = System {
            stalls: stalls(1),
            seconds: 13.0,
            ..asynchronous_web(seed)
        }
        .run();
        let (linked, _) = link(trace.visits.clone(), &trace.names);
        let dropped = right(&linked, &trace, |v| v.drops > 0);
        let long = right(&linked, &trace, is_long);
        assert!(dropped.1 > 500, "the stall must drop: {dropped:?}");
        assert!(
            share(dropped) >= 0.98 && share(long) >= 0.95,
            "seed {seed}: dropped {dropped:?} long {long:?}"
        );
    }
}

#[test]
fn an_overload_at_the_begin_does_not_hide_the_calls() {
    // For three seconds pages take three seconds: none ends within the first thousands of visits.
    let names = named(&[("web", 1), ("app", 2)]);
    let page = |begin: i64, waits: i64| {
        let call = begin + waits;
        [
            (0, 0, begin, call + 2 * MS),
            (1, 1, call + MS / 2, call + MS),
        ]
    };
    let early = (0..12_000i64).map(|n| n * MS / 4);
    let backlog = early.clone().map(|begin| (1, 1, begin, begin + MS / 5));
    let slow = early.flat_map(|begin| page(begin, 3 * SECOND));
    let calm = (0..2000i64).flat_map(|n| page(7 * SECOND + n * 5 * MS, 0));
    let (linked, report) = link(departing(backlog.chain(slow).chain(calm)), &names);
    assert_eq!(edges(&report), [("web", "app")]);
    let calls = linked
        .iter()
        .filter(|v| v.server == 1 && v.sent > 7 * SECOND);
    let owned = calls.filter(|v| v.caller == CALLER_IS_SERVER).count();
    assert!((1900..=2000).contains(&owned), "{owned}");
}

#[test]
fn a_busy_system_does_not_take_the_calls_of_one_beside_it() {
    // One host has a busy server that calls none of these, and one that calls the database, both
    // every other second.
    let names = named(&[("busy", 2), ("quiet", 2), ("database", 3)]);
    let busy = (0..8000i64)
        .map(|n| n * 2 * MS)
        .filter(|begin| begin / SECOND % 2 == 0)
        .map(|begin| (0, 0, begin, begin + 19 * MS / 10));
    let quiet = (0..320i64)
        .map(|n| n * 50 * MS + n * 7919 * 1000 % (40 * MS))
        .filter(|begin| begin / SECOND % 2 == 0)
        .flat_map(|begin| {
            let call = (2, 2, begin + MS / 10, begin + MS / 5);
            [(1, 0, begin, begin + MS / 2), call]
        });
    let (_, report) = link(departing(busy.chain(quiet)), &names);
    assert_eq!(edges(&report), [("quiet", "database")]);
}

#[test]
fn servers_on_one_host_are_distinguished() {
    let trace = System {
        per_second: 100.0,
        one_host: true,
        ..System::web_app_db(5)
    }
    .run();
    let (linked, report) = link(trace.visits.clone(), &trace.names);
    assert_eq!(
        edges(&report),
        [("server 0", "server 1"), ("server 1", "server 2")]
    );
    assert_eq!(report.entries, ["server 0"]);
    assert!(share(right(&linked, &trace, |v| v.server == 1)) >= 0.98);
}

#[test]
fn another_client_on_the_callers_host_makes_requests_of_its_own() {
    let mut trace = System {
        per_second: 50.0,
        ..System::web_app_db(6)
    }
    .run();
    let mut random = Random(7);
    // Every 20 ms, from the host of the app server, straight to the database.
    for n in 0..1000 {
        let begin = SECOND + n * 20 * MS + random.below(5_000_000) as i64;
        let id = trace.parents.len() as u64;
        trace.parents.push(NO_ID);
        trace.visits.push(Visit {
            interaction: 1,
            ..stay(id, 2, 2, begin, begin + MS / 5)
        });
    }
    trace.visits.sort_by_key(|v| (v.departure, v.visit));
    let (linked, report) = link(trace.visits.clone(), &trace.names);
    assert_eq!(
        edges(&report),
        [("server 0", "server 1"), ("server 1", "server 2")]
    );
    assert_eq!(report.entries, ["server 0", "server 2"]);
    let own = linked
        .iter()
        .filter(|v| v.server == 2 && v.parent == NO_ID && v.request != NO_ID)
        .count();
    assert!((850..=1000).contains(&own), "{own}");
    let calls = right(&linked, &trace, |v| {
        v.server == 2 && trace.parents[v.visit as usize] != NO_ID
    });
    assert!(share(calls) >= 0.95, "{calls:?}");
}

#[test]
fn a_recording_that_starts_late_makes_no_requests_of_calls_without_parents() {
    let trace = System {
        stalls: vec![(1, 5 * SECOND, 500 * MS)],
        ..System::web_app_db(8)
    }
    .run();
    let late = trace
        .visits
        .iter()
        .filter(|v| v.sent >= 5 * SECOND + 400 * MS);
    let (linked, report) = link(late.cloned(), &trace.names);
    assert_eq!(report.entries, ["server 0"]);
    assert!(linked
        .iter()
        .all(|v| v.server == 0 || v.parent != NO_ID || v.request == NO_ID));
    assert!(report.unlinked.before_parents > 0);
}

#[test]
fn a_call_inherits_the_request_and_the_caller_and_its_parent_the_time_downstream() {
    let names = named(&[("web", 1), ("app", 2)]);
    let rounds = (0..50i64).flat_map(|n| {
        let (begin, id) = (n * 10 * MS, n as u64 * 3);
        [
            stay(id + 1, 1, 1, begin + MS, begin + 2 * MS),
            stay(id + 2, 1, 1, begin + 3 * MS, begin + 4 * MS),
            stay(id + 3, 0, 0, begin, begin + 5 * MS),
        ]
    });
    let (linked, report) = link(rounds, &names);
    assert_eq!(
        (
            report.requests,
            report.edges[0].linked,
            report.edges[0].calls_mean
        ),
        (50, 100, 2.0)
    );
    for round in linked.chunks(3) {
        let root = round[2].visit;
        assert!(round[..2]
            .iter()
            .all(|v| v.parent == root && v.caller == CALLER_IS_SERVER));
        assert!(round.iter().all(|v| v.request == root / 3));
        assert_eq!(
            (round[2].downstream_ns, round[0].downstream_ns),
            (2 * MS, NO_TIME)
        );
    }
}

#[test]
fn equal_keys_decide_where_they_mean_something() {
    let names = named(&[("web", 1), ("app", 2)]);
    // Pairs of simultaneous visits; only the key tells their calls apart. Single ones teach that it
    // does.
    let mut visits = Vec::new();
    for n in 0..400u64 {
        let (begin, id) = (n as i64 * 20 * MS, n * 6);
        visits.push(Visit {
            key: id + 1,
            ..stay(id + 1, 1, 1, begin + MS, begin + 2 * MS)
        });
        visits.push(Visit {
            key: id + 1,
            ..stay(id + 2, 0, 0, begin, begin + 3 * MS)
        });
        let begin = begin + 10 * MS;
        visits.push(Visit {
            key: id + 4,
            ..stay(id + 3, 1, 1, begin + MS, begin + 2 * MS)
        });
        visits.push(Visit {
            key: id + 3,
            ..stay(id + 4, 1, 1, begin + MS, begin + 2 * MS + 1000)
        });
        visits.push(Visit {
            key: id + 3,
            ..stay(id + 5, 0, 0, begin, begin + 3 * MS)
        });
        visits.push(Visit {
            key: id + 4,
            ..stay(id + 6, 0, 0, begin, begin + 3 * MS + 1000)
        });
    }
    let keys: HashMap<u64, u64> = visits
        .iter()
        .filter(|v| v.server == 0)
        .map(|v| (v.visit, v.key))
        .collect();
    let (linked, _) = link(visits, &names);
    let calls: Vec<&Visit> = linked.iter().filter(|v| v.server == 1).collect();
    let right = calls
        .iter()
        .filter(|v| keys.get(&v.parent) == Some(&v.key))
        .count();
    assert!(
        right as f64 >= 0.98 * calls.len() as f64,
        "{right} of {}",
        calls.len()
    );
}

#[test]
fn a_port_is_not_assumed_to_call_another_port_of_its_server() {
    let names = named(&[("web:80", 1), ("web:443", 1)]);
    for (together, requests) in [(vec![names.servers.clone()], 12), (Vec::new(), 9)] {
        let mut graph = CallGraph::new(Kept::default()).with_ports(together);
        // A client on the host of the server asks both.
        for n in 0..12i64 {
            let begin = n * 100 * MS;
            let server = u32::from(n % 4 == 0);
            graph
                .push(stay(n as u64 + 1, 1, server, begin, begin + MS), &names)
                .unwrap();
        }
        graph.finish(&names).unwrap();
        assert_eq!(graph.report(&names).requests, requests);
    }
}

#[test]
fn a_parent_that_never_departs_holds_nothing_for_long() {
    let names = named(&[("web", 1), ("app", 2)]);
    let mut graph = CallGraph::new(Kept::default());
    let mut id = 0;
    let mut held_max = 0;
    for n in 0..60_000i64 {
        let begin = n * MS;
        let mut push = |visit: Visit| graph.push(visit, &names).unwrap();
        // Every tenth call belongs to a visit whose end is not in the recording.
        if n % 10 != 0 {
            push(stay(id + 2, 0, 0, begin, begin + MS / 2));
        }
        push(stay(id + 1, 1, 1, begin + MS / 10, begin + MS / 3));
        id += 2;
        let passed = graph.next().0.len();
        held_max = held_max.max(60_000usize.min(n as usize * 19 / 10).saturating_sub(passed));
    }
    graph.finish(&names).unwrap();
    let report = graph.report(&names);
    // The reordering and the sample take ten seconds, 1,900 visits a second, of 114,000.
    assert!(held_max < 30_000, "{held_max}");
    let unlinked = report.unlinked;
    assert_eq!(
        unlinked.unclaimed + unlinked.after_parents + unlinked.before_parents,
        6_000
    );
}

fn any_visits() -> impl Strategy<Value = Vec<Visit>> {
    let moment = prop_oneof![8 => 0i64..2000, 1 => any::<i64>(), 1 => Just(NO_TIME)];
    let visit = (
        0u32..5,
        0u32..5,
        moment.clone(),
        moment.clone(),
        moment.clone(),
        moment,
        any::<bool>(),
        0u64..4,
    );
    let visits = prop::collection::vec(visit, 0..300);
    visits.prop_map(|visits| {
        let visit = |(i, (server, caller, sent, arrival, first_byte, departure, served, key))| {
            let times = Visit {
                sent,
                arrival,
                first_byte,
                departure,
                ..blank(i as u64 + 1)
            };
            Visit {
                server,
                caller,
                served: served || key > 0,
                key,
                ..times
            }
        };
        visits.into_iter().enumerate().map(visit).collect()
    })
}

proptest! {
    #[test]
    fn whatever_comes_in_goes_out_once_and_calls_lie_inside_their_parents(visits in any_visits(), hosts in prop::collection::vec(0u32..3, 5)) {
        let servers: Vec<(&str, u32)> = ["a", "b", "c", "d", "e"].into_iter().zip(hosts).collect();
        let names = named(&servers);
        let before: HashMap<u64, Visit> = visits.iter().map(|v| (v.visit, v.clone())).collect();
        let (linked, report) = link(visits.clone(), &names);
        prop_assert_eq!(linked.len(), visits.len());
        let after: HashMap<u64, &Visit> = linked.iter().map(|v| (v.visit, v)).collect();
        prop_assert_eq!(after.len(), visits.len());
        let mut requests = 0;
        for visit in &linked {
            let was = &before[&visit.visit];
            prop_assert_eq!((visit.sent, visit.departure, visit.server), (was.sent, was.departure, was.server));
            requests += u64::from(visit.parent == NO_ID && visit.request != NO_ID);
            if visit.parent != NO_ID {
                let parent = after[&visit.parent];
                let arrival = if parent.arrival == NO_TIME { parent.sent } else { parent.arrival };
                prop_assert!(arrival <= visit.sent && visit.departure <= parent.departure);
                prop_assert_eq!(names.server_hosts[parent.server as usize], was.caller);
                prop_assert_eq!(visit.request, parent.request);
            }
        }
        prop_assert_eq!(requests, report.requests);
    }
}

#[test]
#[ignore = "prints the quality of the choice, for changes to it"]
fn accuracy_table() {
    let base = System::web_app_db(1);
    let at = |per_second| System {
        per_second,
        ..base.clone()
    };
    let stalled = |system: System, tier| System {
        stalls: stalls(tier),
        ..system
    };
    let mut four = asynchronous_web(1);
    four.tiers.insert(
        1,
        Tier {
            threads: 200,
            backlog: 128,
            burst: 5e4,
            calls_max: 2,
        },
    );
    four.per_second = 400.0;
    let cases = [
        ("calm 20/s", at(20.0)),
        ("calm 100/s", at(100.0)),
        ("calm 300/s", at(300.0)),
        ("calm 1000/s", at(1000.0)),
        (
            "one host 300/s",
            System {
                one_host: true,
                ..at(300.0)
            },
        ),
        ("stall web", stalled(base.clone(), 0)),
        ("stall app", stalled(base.clone(), 1)),
        ("stall db", stalled(base.clone(), 2)),
        ("async web, stall app", stalled(asynchronous_web(1), 1)),
        ("async web, stall db", stalled(asynchronous_web(1), 2)),
        ("four tiers, stall 2", stalled(four, 2)),
    ];
    for (name, system) in cases {
        let trace = system.run();
        let begin = std::time::Instant::now();
        let (linked, report) = link(trace.visits.clone(), &trace.names);
        let took = begin.elapsed();
        let tiers: Vec<String> = (1..trace.names.servers.len() as u32)
            .map(|tier| {
                let all = right(&linked, &trace, |v| v.server == tier);
                let long = right(&linked, &trace, |v| v.server == tier && is_long(v));
                let drop = right(&linked, &trace, |v| v.server == tier && v.drops > 0);
                format!(
                    "{:.2}% of {}, long {}/{}, drops {}/{}",
                    100.0 * share(all),
                    all.1,
                    long.0,
                    long.1,
                    drop.0,
                    drop.1
                )
            })
            .collect();
        println!(
            "{name:22} {tiers:?} {:?} {:?} {took:?}",
            edges(&report),
            report.unlinked
        );
    }
}
