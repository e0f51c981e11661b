//! Calls that their caller gave up and made again, and calls that are rare.

use super::*;

/// A request every 100 ms, and then ten requests 20 ms apart whose call is given up twice, after half a second each, and
/// made again after 50 ms. Returns the visits, and the request's visit of each call.
fn given_up_twice() -> Vec<Visit> {
    let usual = (0..60).map(|n| (n * 100 * MS, false));
    let stalled = (0..10).map(|n| (6 * SECOND + n * 20 * MS, true));
    let stays = usual.chain(stalled).flat_map(|(begin, stalled)| {
        let calls: &[(i64, i64)] = match stalled {
            true => &[(2, 502), (552, 1052), (1102, 1110)],
            false => &[(2, 8)],
        };
        let last = calls.last().map_or(0, |call| call.1);
        let calls = calls
            .iter()
            .map(move |&(sent, end)| (1, 0, begin + sent * MS, begin + end * MS));
        calls.chain([(0, 1, begin, begin + (last + 2) * MS)])
    });
    let mut visits = departing(stays);
    for visit in &mut visits {
        let gave_up = visit.server == 1 && visit.departure - visit.sent == 500 * MS;
        visit.status = u32::from(gave_up);
    }
    visits
}

#[test]
fn a_visit_owns_all_attempts_at_a_call() {
    let mut names = named(&[("app", 0), ("db", 2)]);
    names.statuses.push("abandoned".to_string());
    let (linked, report) = link(given_up_twice(), &names);
    assert_eq!(report.requests, 70);
    let calls = linked.iter().filter(|visit| visit.server == 1);
    let alone = calls.clone().filter(|call| call.parent == NO_ID).count();
    assert_eq!((calls.count(), alone), (90, 0));
    let made_three = linked
        .iter()
        .filter(|visit| visit.server == 0)
        .filter(|request| {
            let its = linked.iter().filter(|call| call.parent == request.visit);
            its.count() == 3
        });
    assert_eq!(made_three.count(), 10);
}

/// Once a second, a visit lacks what it usually finds elsewhere, and calls a database for half a second; others come
/// meanwhile.
#[test]
fn a_call_that_visits_make_seldom_has_an_owner() {
    let names = named(&[("app", 0), ("db", 2)]);
    let stays = (0..6000).flat_map(|n| {
        let begin = n * 10 * MS;
        let misses = n % 100 == 50;
        let end = begin + if misses { 505 * MS } else { 4 * MS };
        let call = misses.then_some((1, 0, begin + 2 * MS, end - 2 * MS));
        call.into_iter().chain([(0, 1, begin, end)])
    });
    let (linked, report) = link(departing(stays), &names);
    assert_eq!(report.requests, 6000);
    let calls = linked.iter().filter(|visit| visit.server == 1);
    let of_its_own = calls.clone().filter(|call| {
        let parent = linked.iter().find(|visit| visit.visit == call.parent);
        parent.is_some_and(|parent| parent.departure - parent.arrival > 500 * MS)
    });
    assert_eq!(calls.clone().count(), 60);
    assert!(of_its_own.count() >= 58);
}

/// A proxy passes on all visits of interaction 1, and those of interaction 0, which its cache answers, only for a second.
#[test]
fn a_proxy_passes_on_what_its_cache_lacks() {
    let names = named(&[("proxy", 0), ("app", 2)]);
    let expired = 20 * SECOND..21 * SECOND;
    let stays = (0..3000).flat_map(|n| {
        let (begin, cached) = (n * 10 * MS, n % 2 == 0);
        let slow = cached && expired.contains(&begin);
        let end = begin + if slow { 500 * MS } else { 4 * MS };
        let call = (slow || !cached).then_some((1, 0, begin + MS, end - MS));
        call.into_iter().chain([(0, 1, begin, end)])
    });
    let mut visits = departing(stays);
    for visit in &mut visits {
        let begin = visit.arrival - i64::from(visit.server == 1) * MS;
        visit.interaction = (begin / (10 * MS) % 2) as u32;
        visit.key = 1 + u64::from(visit.interaction);
    }
    let (linked, report) = link(visits, &names);
    assert_eq!(report.requests, 3000);
    let calls = || linked.iter().filter(|visit| visit.server == 1);
    let passed_on = calls().filter(|call| call.interaction == 0);
    assert_eq!((calls().count(), passed_on.clone().count()), (1550, 50));
    assert!(passed_on.filter(|call| call.parent != NO_ID).count() >= 48);
}

/// Each call has a connection of its own server. The last calls of one of them have no visit.
#[test]
fn a_call_without_a_parent_belongs_to_the_server_of_its_connection() {
    let names = named(&[("app", 0), ("db", 2)]);
    let stays = (0..400).flat_map(|n| {
        let begin = n * 20 * MS;
        let call = (1, 0, begin + 2 * MS, begin + 8 * MS);
        let visit = (n < 380).then_some((0, 1, begin, begin + 10 * MS));
        [call].into_iter().chain(visit)
    });
    let mut visits = departing(stays);
    for visit in visits.iter_mut().filter(|visit| visit.server == 1) {
        visit.connection = 7;
    }
    let (linked, report) = link(visits, &names);
    assert_eq!(report.requests, 380);
    let alone = linked
        .iter()
        .filter(|visit| visit.server == 1 && visit.parent == NO_ID);
    assert_eq!(alone.clone().count(), 20);
    assert!(alone.clone().all(|call| call.caller == CALLER_IS_SERVER));
    assert!(alone.clone().all(|call| call.request == NO_ID));
}

/// A page waits for its result as a worker waits for its jobs.
#[test]
fn a_worker_that_waits_for_a_job_makes_no_request() {
    let mut names = named(&[("app", 0), ("redis", 2)]);
    names.interactions.push("BRPOP".to_string());
    let stays = (0..100).flat_map(|n| {
        let begin = n * 100 * MS;
        let call = (1, 0, begin + 2 * MS, begin + 8 * MS);
        let job = (1, 1, begin + 20 * MS, begin + 90 * MS);
        [call, (0, 1, begin, begin + 10 * MS), job]
    });
    let mut visits = departing(stays);
    for visit in visits.iter_mut().filter(|visit| visit.server == 1) {
        visit.interaction = 2;
    }
    let (linked, report) = link(visits, &names);
    assert_eq!((report.requests, linked.len()), (100, 200));
    let calls = linked.iter().filter(|visit| visit.server == 1);
    assert!(calls.clone().all(|call| call.parent != NO_ID));
}

/// A request every 25 ms. The callee stands still for two seconds, and clients give up after one second.
#[test]
fn a_call_that_outlives_a_visit_that_its_client_gave_up_belongs_to_it() {
    let mut names = named(&[("proxy", 0), ("app", 2)]);
    names.statuses.push("abandoned".to_string());
    let stopped = 10 * SECOND..12 * SECOND;
    let stays = (0..600).flat_map(|n| {
        let begin = n * 25 * MS;
        let answered = match stopped.contains(&begin) {
            true => stopped.end + MS,
            false => begin + 2 * MS,
        };
        let end = (answered + MS).min(begin + SECOND);
        [(1, 0, begin + MS, answered), (0, 1, begin, end)]
    });
    let mut visits = departing(stays);
    for visit in &mut visits {
        let gave_up = visit.server == 0 && visit.departure - visit.sent == SECOND;
        visit.status = u32::from(gave_up);
    }
    let (linked, _) = link(visits, &names);
    let parent = |call: &Visit| {
        let of = |visit: &&Visit| visit.visit == call.parent;
        linked.iter().find(of).map(|visit| visit.sent)
    };
    let calls = linked.iter().filter(|visit| visit.server == 1);
    let right = calls.filter(|call| parent(call) == Some(call.sent - MS));
    assert_eq!(right.count(), 600);
}
