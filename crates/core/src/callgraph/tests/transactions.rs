//! Each worker has a connection, and its pages are transactions. The queries of two seconds wait for one lock.

use super::chain_of_tiers::{Random, MS, SECOND};
use super::{link, named, stay};
use crate::record::{Names, Visit};

const WORKERS: usize = 6;
const LOCK: (i64, i64) = (5 * SECOND, 7 * SECOND);
/// A page has this number times sixteen; its calls have the next ones.
const PAGE: u64 = 16;

/// 120 pages a second, four of five with three transactions of three calls, and one with one transaction of four calls,
/// whose second call may wait for the lock.
fn visits(seed: u64) -> Vec<Visit> {
    let mut random = Random(seed);
    let mut up_to = |limit: i64| random.below(limit as u64) as i64;
    let mut free = [0i64; WORKERS];
    let mut visits = Vec::new();
    let (mut arrival, mut freed) = (0, LOCK.1);
    for page in 1..1200u64 {
        arrival += up_to(16 * MS);
        let worker = (0..WORKERS).min_by_key(|&worker| free[worker]).unwrap();
        let buys = page % 5 == 0;
        let calls: &[u32] = match buys {
            true => &[2, 0, 1, 3],
            false => &[2, 0, 3, 2, 0, 3, 2, 0, 3],
        };
        let mut now = arrival.max(free[worker]) + up_to(MS);
        for (id, (at, &interaction)) in (PAGE * page + 1..).zip(calls.iter().enumerate()) {
            let sent = now + up_to(MS / 4);
            now = sent + up_to(MS / 2);
            if buys && at == 1 && sent > LOCK.0 && sent < LOCK.1 {
                freed += up_to(5 * MS);
                now = freed;
            }
            visits.push(Visit {
                connection: worker as u32 + 1,
                interaction,
                ..stay(id, 1, 1, sent, now)
            });
        }
        free[worker] = now + up_to(MS / 4);
        visits.push(stay(PAGE * page, 0, 0, arrival, free[worker]));
    }
    visits.sort_by_key(|visit| visit.departure);
    visits
}

/// Of the calls in and after the lock: those that belong to their page, and all.
fn right(linked: &[Visit]) -> (usize, usize) {
    let then = |visit: &&Visit| {
        visit.server == 1 && visit.departure > LOCK.0 && visit.sent < LOCK.1 + SECOND
    };
    let found: Vec<&Visit> = linked.iter().filter(then).collect();
    let right = found.iter().filter(|v| v.parent == v.visit / PAGE * PAGE);
    (right.count(), found.len())
}

#[test]
fn the_calls_of_a_transaction_are_of_one_visit() {
    let unknown = named(&[("app", 1), ("db", 2)]);
    let interactions = ["a", "b", "BEGIN", "COMMIT"].map(String::from).to_vec();
    let known = Names {
        interactions,
        ..named(&[("app", 1), ("db", 2)])
    };
    for seed in 1..4 {
        let (linked, report) = link(visits(seed), &known);
        let (with, all) = right(&linked);
        let (without, _) = right(&link(visits(seed), &unknown).0);
        assert!(report.edges[0].linked_share > 0.95);
        assert!(
            with * 10 >= all * 7 && without * 10 < all * 6,
            "seed {seed}: {with} and {without} of {all}"
        );
    }
}

/// Calls of workers that never commit still have parents.
#[test]
fn transactions_that_never_end_hide_no_call() {
    let names = Names {
        interactions: ["a", "b", "BEGIN", "COMMIT"].map(String::from).to_vec(),
        ..named(&[("app", 1), ("db", 2)])
    };
    let never = visits(1).into_iter().filter(|visit| visit.interaction != 3);
    let (_, report) = link(never, &names);
    assert!(report.edges[0].linked_share > 0.9, "{report:?}");
}
