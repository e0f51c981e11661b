//! Small systems whose times are known.
#![allow(clippy::unwrap_used)]
use super::network::NEVER;
use super::*;
use crate::sim::plan::Policy;

pub(super) const MS: i64 = 1_000_000;

/// Visits to one server: (arrival, departure) in milliseconds.
pub(super) fn visits(times: &[(i64, i64)]) -> Visits {
    let column = |of: fn(&(i64, i64)) -> i64| times.iter().map(|t| of(t) * MS).collect::<Vec<_>>();
    Visits {
        server: vec![0; times.len()],
        parent: vec![-1; times.len()],
        sent: column(|t| t.0),
        arrival: column(|t| t.0),
        start: column(|t| t.0),
        departure: column(|t| t.1),
        group: vec![0; times.len()],
        ready: column(|t| t.0),
        gives_up: vec![NEVER; times.len()],
    }
}

pub(super) fn grid() -> Grid {
    Grid::new(0, 10 * MS, 500)
}

pub(super) struct System {
    visits: Visits,
    limits: Vec<Limits>,
    pub(super) may_drop: Vec<bool>,
    pub(super) follows: Vec<i64>,
    pub(super) repeats: Vec<i64>,
    pub(super) pool: Vec<u32>,
    pub(super) pools: Vec<u32>,
    held: Vec<u32>,
    choice: Vec<u32>,
    choices: Vec<Vec<(u32, u32)>>,
    bytes: Vec<u64>,
    pub(super) held_up: Held,
}

impl System {
    pub(super) fn of(visits: Visits, limits: Vec<Limits>) -> System {
        let n = visits.len();
        let none = vec![u32::MAX; n];
        System {
            visits,
            limits,
            may_drop: vec![true; n],
            follows: vec![-1; n],
            repeats: vec![-1; n],
            pool: none.clone(),
            pools: vec![],
            held: none.clone(),
            choice: none,
            choices: vec![],
            bytes: vec![0; n],
            held_up: Held::default(),
        }
    }

    /// Measured at one capacity, run at another.
    pub(super) fn run(
        &self,
        measured: &[Vec<f64>],
        at: &[Vec<f64>],
        choosing: &[Choosing],
    ) -> Outcome {
        let network = self.network(measured);
        network.run(at, &self.visits.sent, choosing, &self.held_up)
    }

    fn network(&self, measured: &[Vec<f64>]) -> Network {
        let program = Program::of(&self.visits);
        let mut works = vec![0.0; program.parts.len()];
        for (server, limits) in self.limits.iter().enumerate() {
            let fit = Capacity::of(
                &program.parts,
                server as u32,
                limits.cores,
                grid(),
                limits.in_turn,
            );
            for (&part, work) in fit.which.iter().zip(fit.works(&measured[server])) {
                works[part as usize] = work;
            }
        }
        Network {
            visits: self.visits.clone(),
            program,
            works,
            limits: self.limits.clone(),
            grid: grid(),
            may_drop: self.may_drop.clone(),
            follows: self.follows.clone(),
            repeats: self.repeats.clone(),
            patience: vec![500 * MS; self.visits.len()],
            schedule: vec![1000 * MS, 3000 * MS],
            pool: self.pool.clone(),
            pools: self.pools.clone(),
            held: self.held.clone(),
            choice: self.choice.clone(),
            choices: self.choices.clone(),
            bytes: self.bytes.clone(),
        }
    }
}

pub(super) fn full() -> Vec<f64> {
    vec![1.0; 500]
}

/// No capacity from `begin` to `end`, in milliseconds.
pub(super) fn stopped(begin: usize, end: usize) -> Vec<f64> {
    (0..500)
        .map(|step| {
            if (begin / 10..end / 10).contains(&step) {
                1e-4
            } else {
                1.0
            }
        })
        .collect()
}

pub(super) fn one_core() -> Limits {
    Limits {
        cores: 1.0,
        ..Limits::default()
    }
}

fn assert_close(found: i64, right: i64) {
    assert!(
        (found - right).abs() <= MS / 10,
        "{} ms, not {}",
        found as f64 / MS as f64,
        right as f64 / MS as f64
    );
}

#[test]
fn at_the_capacities_of_the_recording_all_leave_when_they_left() {
    let system = System::of(
        visits(&[(0, 30), (10, 45), (20, 50), (100, 101), (100, 130)]),
        vec![one_core()],
    );
    for capacity in [full(), stopped(10, 20)] {
        let out = system.run(
            std::slice::from_ref(&capacity),
            std::slice::from_ref(&capacity),
            &[],
        );
        for (found, right) in out.departure.iter().zip(&system.visits.departure) {
            assert_close(*found, *right);
        }
    }
}

#[test]
fn cores_are_at_work_where_somebody_is_inside() {
    let program = Program::of(&visits(&[(0, 30), (10, 45), (20, 50), (100, 105)]));
    for (cores, expected) in [
        (1.0, [10, 10, 10, 10, 10, 0]),
        (2.0, [10, 20, 20, 20, 15, 0]),
    ] {
        let busy = Capacity::of(&program.parts, 0, cores, grid(), false).busy(500);
        for (found, right) in busy.iter().zip(expected) {
            assert_close(*found as i64, right * MS);
        }
        assert_close(busy[10] as i64, 5 * MS);
    }
}

#[test]
fn an_event_loop_is_at_work_although_the_visit_that_leaves_first_came_last() {
    let program = Program::of(&visits(&[(0, 45), (10, 48), (35, 40)]));
    let busy = Capacity::of(&program.parts, 0, 1.0, grid(), true).busy(500);
    for (found, right) in busy.iter().zip([10, 10, 10, 10, 8, 0]) {
        assert_close(*found as i64, right * MS);
    }
}

#[test]
fn jobs_served_in_turn_do_not_share() {
    let limits = Limits {
        in_turn: true,
        ..one_core()
    };
    let system = System::of(visits(&[(0, 10), (0, 20), (0, 30)]), vec![limits]);
    let out = system.run(&[full()], &[full()], &[]);
    assert_eq!(
        out.departure.iter().map(|t| t / MS).collect::<Vec<_>>(),
        [10, 20, 30]
    );
}

#[test]
fn an_event_loop_is_seen_by_the_order_in_which_visits_leave() {
    let found = |times: &[(i64, i64)]| in_order(&Program::of(&visits(times)).parts, 0);
    assert_eq!(found(&[(0, 10), (0, 20), (5, 30), (40, 50)]), (2, 1.0));
    assert_eq!(found(&[(0, 30), (5, 10), (20, 40)]), (1, 0.0));
    assert_eq!(found(&[(0, 30), (5, 10), (8, 20)]), (2, 5.0 / 35.0));
}

#[test]
fn without_the_stop_a_visit_takes_its_work_alone() {
    let system = System::of(visits(&[(100, 310)]), vec![one_core()]);
    let out = system.run(&[stopped(100, 300)], &[full()], &[]);
    assert_close(out.departure[0], 110 * MS);
}

#[test]
fn a_stop_is_found_by_what_visits_usually_need() {
    let mut times: Vec<(i64, i64)> = (0..200).map(|k| (k * 20, k * 20 + 5)).collect();
    for visit in &mut times[100..110] {
        visit.1 = 2200 + (visit.0 - 2000) / 4;
    }
    let program = Program::of(&visits(&times));
    let fit = Capacity::of(&program.parts, 0, 1.0, grid(), false);
    let calm: Vec<bool> = (0..500).map(|step| !(190..300).contains(&step)).collect();
    let capacity = fit.found(&full(), &calm, KINDS as usize, 10, 20);
    let inside = capacity[202..219].iter().sum::<f64>() / 17.0;
    assert!(inside < 0.2, "{inside}");
    assert!(capacity[50] > 0.9 && capacity[400] > 0.9);
}

#[test]
fn a_part_whose_need_is_unknown_needs_no_more_than_since_it_came() {
    // In turn, the only visit of its group leaves first, and seems to be at work since the others came.
    let mut times: Vec<(i64, i64)> = (0..200).map(|k| (k * 20, k * 20 + 5)).collect();
    for visit in &mut times[100..110] {
        visit.1 = 2200 + (visit.0 - 2000) / 4;
    }
    times.push((2195, 2199));
    let mut recorded = visits(&times);
    recorded.group[200] = 1;
    let program = Program::of(&recorded);
    let fit = Capacity::of(&program.parts, 0, 1.0, grid(), true);
    let calm: Vec<bool> = (0..500).map(|step| !(190..300).contains(&step)).collect();
    let capacity = fit.found(&full(), &calm, 2 * KINDS as usize, 10, 20);
    let inside = capacity[202..219].iter().sum::<f64>() / 17.0;
    assert!(inside < 0.2, "{inside}");
    assert!(capacity[50] > 0.9 && capacity[400] > 0.9);
    let its = fit.which.iter().position(|&part| part == 200).unwrap();
    // It came 4 ms before it left. Its capacity is known for a step of 10 ms, so the 5 ms before it came count, too.
    let work = fit.works(&capacity)[its];
    assert!((3.0e6..9.0e6).contains(&work), "{work}");
}

#[test]
fn a_request_is_sent_again_only_if_the_first_is_slow() {
    let mut system = System::of(visits(&[(100, 810), (600, 820)]), vec![one_core()]);
    system.repeats[1] = 0;
    let (recorded, without) = ([stopped(100, 800)], [full()]);
    let slow = system.run(&recorded, &recorded, &[]);
    assert!(slow.departure.iter().all(|&left| left >= 800 * MS));
    let quick = system.run(&recorded, &without, &[]);
    assert!(quick.departure[0] < 150 * MS);
    assert_eq!(
        (quick.arrival[1], quick.departure[1]),
        (NEVER, 600 * MS),
        "it is not sent"
    );
}

/// Two visits at server 0, each of which calls server 1 (or 2) for 100 ms.
fn calling(callees: [u32; 2]) -> Visits {
    let mut found = visits(&[(0, 110), (0, 210), (5, 105), (105, 205)]);
    found.server = vec![0, 0, callees[0], callees[1]];
    found.parent = vec![-1, -1, 0, 1];
    found.ready[3] = 5 * MS;
    found
}

#[test]
fn a_pool_holds_calls_back() {
    let mut system = System::of(calling([1, 1]), vec![one_core(), one_core()]);
    system.pool = vec![u32::MAX, u32::MAX, 0, 0];
    let one = vec![full(), full()];
    system.pools = vec![1];
    let narrow = system.run(&one, &one, &[]);
    assert!(narrow.departure[3] - narrow.departure[2] >= 99 * MS);
    system.pools = vec![2];
    let wide = system.run(&one, &one, &[]);
    assert!(
        wide.departure[3] - wide.departure[2] < 20 * MS,
        "both are served at once"
    );
}

#[test]
fn a_call_that_waited_for_another_pool_waits_for_it_again() {
    let mut found = visits(&[(0, 1010), (0, 410), (5, 1005), (305, 405)]);
    (found.server, found.parent) = (vec![0, 0, 1, 2], vec![-1, -1, 0, 1]);
    found.ready[3] = 5 * MS;
    let mut system = System::of(found, vec![one_core(); 3]);
    (system.pools, system.pool) = (vec![1, 1], vec![u32::MAX, u32::MAX, 0, 1]);
    system.held[3] = 0;
    let measured = vec![full(), stopped(0, 900), full()];
    let as_it_was = system.run(&measured, &measured, &[]);
    assert_close(as_it_was.sent[3], 305 * MS);
    system.visits.parent[2] = -1;
    system.visits.sent[2] = 4000 * MS;
    let free = system.run(&measured, &measured, &[]);
    assert_close(free.sent[3], 5 * MS);
}

#[test]
fn candidates_take_turns_where_choices_are_made_anew() {
    let mut system = System::of(calling([1, 1]), vec![one_core(); 3]);
    (system.choice, system.choices) = (
        vec![u32::MAX, u32::MAX, 0, 0],
        vec![vec![(1, u32::MAX), (2, u32::MAX)]],
    );
    let capacity = vec![full(), stopped(0, 1000), full()];
    let measured = vec![full(), full(), full()];
    let as_it_was = system.run(&measured, &capacity, &[Choosing::AsRecorded]);
    assert!(as_it_was.departure[2] > 1000 * MS && as_it_was.departure[3] > 1000 * MS);
    let anew = system.run(&measured, &capacity, &[Choosing::InTurn]);
    assert!(anew.departure[2] > 1000 * MS && anew.departure[3] < 300 * MS);
}

/// Two candidates, the second of which stops from 100 to 1,000 ms, and a visit every 10 ms at a
/// third server that calls one of them. While one stops, all calls go to the other.
fn balanced(second_stops: bool) -> System {
    let n = 200i64;
    let mut times: Vec<(i64, i64)> = (0..n).map(|k| (10 * k, 10 * k + 8)).collect();
    times.extend((0..n).map(|k| (10 * k + 1, 10 * k + 7)));
    let mut found = visits(&times);
    found.parent = (0..2 * n).map(|i| if i < n { -1 } else { i - n }).collect();
    let is_stopped = |k: i64| (100..1000).contains(&(10 * k + 1));
    let server = |i: i64| match i {
        i if i < n => 0,
        i if second_stops && is_stopped(i - n) => 1,
        i => 1 + (i % 2) as u32,
    };
    found.server = (0..2 * n).map(server).collect();
    let mut system = System::of(found, vec![one_core(); 3]);
    (n..2 * n).for_each(|i| system.choice[i as usize] = 0);
    system.choices = vec![vec![(1, u32::MAX), (2, u32::MAX)]];
    system
}

#[test]
fn a_policy_chooses_otherwise_where_a_candidate_is_stopped_and_as_recorded_where_none_is() {
    let at = [full(), stopped(100, 1000), full()];
    let system = balanced(false);
    let run = |at: &[Vec<f64>], choosing: &[Choosing]| system.run(&vec![full(); 3], at, choosing);
    let late = |out: &Outcome| {
        out.departure[..200]
            .iter()
            .zip(&system.visits.departure)
            .filter(|(a, b)| *a > *b)
            .count()
    };
    assert!(late(&run(&at, &[Choosing::AsRecorded])) > 40);
    for policy in [
        Policy::LeastConnections,
        Policy::CurrentLoad,
        Policy::PowerOfTwo,
    ] {
        let choosing = [Choosing::ByPolicy(policy)];
        assert!(late(&run(&at, &choosing)) <= 2, "{choosing:?}");
        assert_eq!(late(&run(&vec![full(); 3], &choosing)), 0, "{choosing:?}");
    }
    // It counts what was sent and not what came back, so it goes on sending to the stopped one.
    let blind = run(&at, &[Choosing::ByPolicy(Policy::TotalRequest)]);
    assert!(late(&blind) > 40);
}

fn calls(system: &System) -> Vec<Call> {
    let v = &system.visits;
    let call = |i: usize| Call {
        candidate: v.server[i] - 1,
        ready: v.ready[i],
        sent: v.sent[i],
        departure: v.departure[i],
        bytes: 0,
    };
    (200..400).map(call).collect()
}

#[test]
fn choices_agree_with_the_policy_that_made_them() {
    let mut avoids = calls(&balanced(true));
    // One call waits in the second candidate until it works again.
    avoids[9].departure = 1000 * MS;
    assert_eq!(avoids[9].candidate, 1);
    let share = |policy: &Policy, calls: &[Call]| {
        let found = Agreement::with(policy, 2, calls);
        assert!(found.choices >= 50, "{policy:?}");
        assert_eq!(found.by_chance * 2.0, f64::from(found.choices));
        f64::from(found.agreed) / f64::from(found.choices)
    };
    assert_eq!(share(&Policy::LeastConnections, &avoids), 1.0);
    assert!(share(&Policy::TotalRequest, &avoids) < 0.6);
    assert_eq!(share(&Policy::CurrentLoad, &avoids), 1.0);
    // Some choices are recorded in another order than that in which they were made.
    let mut others = avoids;
    for at in [60, 80, 100] {
        assert_eq!(others[at].candidate, 0);
        others[at].candidate = 1;
    }
    let found = Agreement::with(&Policy::CurrentLoad, 2, &others);
    assert_eq!(found.choices - found.agreed, 2); // at one, both had as many
    let in_turn = calls(&balanced(false));
    assert_eq!(share(&Policy::TotalRequest, &in_turn), 1.0);
    let mut begun_before = in_turn;
    begun_before.drain(..1);
    assert!(share(&Policy::TotalRequest, &begun_before) > 0.95);
}

#[test]
fn candidates_without_a_bit_agree_with_nothing() {
    let some = calls(&balanced(false));
    assert_eq!(
        Agreement::with(&Policy::LeastConnections, 33, &some).choices,
        0
    );
    assert_eq!(
        Agreement::with(&Policy::LeastConnections, 1, &some).choices,
        0
    );
}

#[test]
fn a_client_sends_its_next_request_as_long_after_its_answer_as_it_did() {
    let mut system = System::of(visits(&[(100, 310), (400, 410)]), vec![one_core()]);
    system.follows[1] = 0;
    let as_it_was = system.run(&[stopped(100, 300)], &[stopped(100, 300)], &[]);
    assert_close(as_it_was.sent[1], 400 * MS);
    let without = system.run(&[stopped(100, 300)], &[full()], &[]);
    assert_close(without.sent[1], 200 * MS);
    assert_close(without.departure[1], 210 * MS);
}

#[test]
fn a_request_apart_is_sent_at_its_time_and_so_is_the_next_of_its_client() {
    let mut system = System::of(
        visits(&[(100, 310), (400, 410), (600, 610)]),
        vec![one_core()],
    );
    (system.follows[1], system.follows[2]) = (0, 1);
    let run = |system: &System| system.run(&[stopped(100, 300)], &[full()], &[]);
    assert_close(run(&system).sent[2], 400 * MS);
    system.held_up.apart = vec![false, true, false];
    let out = run(&system);
    assert_close(out.sent[1], 400 * MS);
    assert_close(out.sent[2], 600 * MS);
}

#[test]
fn a_packet_that_is_late_arrives_later_and_a_pause_holds_the_worker() {
    let one_worker = Limits {
        workers: 1,
        ..one_core()
    };
    let mut system = System::of(visits(&[(0, 10), (20, 30)]), vec![one_worker]);
    let run = |system: &System| system.run(&[full()], &[full()], &[]);
    assert_close(run(&system).departure[1], 30 * MS);
    system.held_up.late = vec![1000 * MS, 0];
    let out = run(&system);
    assert_close(out.departure[0], 1010 * MS);
    assert_close(out.departure[1], 30 * MS);
    system.held_up = Held {
        late: vec![],
        pause: vec![500 * MS, 0],
        ..Held::default()
    };
    let out = run(&system);
    assert_close(out.departure[0], 510 * MS);
    assert_close(out.departure[1], 520 * MS);
}

#[test]
fn a_visit_works_no_longer_than_the_most_that_it_may() {
    let mut system = System::of(visits(&[(0, 700), (10, 710)]), vec![one_core()]);
    let whole = system.run(&[full()], &[full()], &[]);
    assert_close(whole.departure[0], 700 * MS);
    system.held_up.most = vec![100 * MS, NEVER];
    let out = system.run(&[full()], &[full()], &[]);
    assert_close(out.departure[0], 190 * MS);
    assert!(out.departure[1] < whole.departure[1] - 200 * MS);
}

#[test]
fn a_path_loses_the_packets_of_those_that_come_when_it_loses_packets() {
    let times = [(100, 310), (400, 1410), (320, 330), (450, 460)];
    let mut system = System::of(visits(&times), vec![one_core()]);
    (system.follows[1], system.follows[3]) = (0, 2);
    (system.visits.arrival[1], system.visits.start[1]) = (1400 * MS, 1400 * MS);
    system.held_up.late = vec![0, 1000 * MS, 0, 0];
    let as_it_was = system.run(&[stopped(100, 300)], &[stopped(100, 300)], &[]);
    assert_close(as_it_was.arrival[1], 1400 * MS);
    assert_close(as_it_was.arrival[3], 450 * MS);
    let without = system.run(&[stopped(100, 300)], &[full()], &[]);
    assert_close(without.arrival[1], 200 * MS);
    assert_close(without.arrival[3], 1450 * MS);
}

#[test]
fn columns_that_do_not_fit_are_noticed() {
    let mut found = calling([1, 1]);
    assert!(found.hold_together(2, 1));
    assert!(!found.hold_together(1, 1), "a server that is not there");
    found.parent[2] = 9;
    assert!(!found.hold_together(2, 1), "a caller that is not there");
}

/// A hundred requests 20 ms apart, each with two calls: first the requests, then their calls.
fn busy() -> System {
    let n = 100;
    let begins: Vec<i64> = (0..n).map(|k| 20 * k + k * k % 7).collect();
    let mut times: Vec<(i64, i64)> = begins.iter().map(|b| (*b, b + 60)).collect();
    times.extend(begins.iter().map(|b| (b + 5 + b % 3, b + 25)));
    times.extend(begins.iter().map(|b| (b + 30, b + 50 + b % 5)));
    let mut found = visits(&times);
    found.server = (0..3 * n).map(|i| (i / n) as u32).collect();
    found.parent = (0..3 * n).map(|i| if i < n { -1 } else { i % n }).collect();
    let limits = Limits {
        workers: 6,
        accept: 4,
        cores: 2.0,
        ..Limits::default()
    };
    let mut system = System::of(found, vec![limits, one_core(), one_core()]);
    (n..2 * n).for_each(|i| system.pool[i as usize] = 0);
    system.pools = vec![3];
    (1..n).for_each(|i| system.follows[i as usize] = if i % 4 == 0 { i - 1 } else { -1 });
    system
}

#[test]
fn a_section_runs_as_the_whole_does_without_the_other_requests() {
    let system = busy();
    let measured = vec![full(), stopped(800, 1000), full()];
    let network = system.network(&measured);
    let is_inside = |i: usize| (30..70).contains(&(i % 100));
    let sent = |i: usize| {
        if is_inside(i) {
            system.visits.sent[i]
        } else {
            NEVER
        }
    };
    let all: Vec<i64> = (0..300).map(sent).collect();
    let rows: Vec<u32> = (0..300).filter(|&i| is_inside(i as usize)).collect();
    let first = network.grid.at(system.visits.sent[30]);
    let section = network.section(&rows, first);
    let inside: Vec<i64> = rows.iter().map(|&i| all[i as usize]).collect();
    for stop in [(600, 600), (800, 1000), (900, 2500)] {
        let capacity = vec![stopped(stop.0, stop.1), stopped(stop.0, stop.1), full()];
        let later: Vec<Vec<f64>> = capacity.iter().map(|c| c[first..].to_vec()).collect();
        let whole = network.run(&capacity, &all, &[], &Held::default());
        let part = section.run(&later, &inside, &[], &Held::default());
        for (at, &row) in rows.iter().enumerate() {
            let row = row as usize;
            assert_eq!(part.sent[at], whole.sent[row]);
            assert_eq!(part.arrival[at], whole.arrival[row]);
            assert_eq!(part.departure[at], whole.departure[row]);
            assert_eq!(part.lost[at], whole.lost[row]);
        }
        assert_eq!(part.lost.iter().any(|&lost| lost > 0), stop.1 > stop.0);
    }
}

#[test]
fn what_a_section_lacks_does_not_exist_in_it() {
    let system = busy();
    let network = system.network(&[full(), full(), full()]);
    let section = network.section(&[4, 104], 0);
    let out = section.run(
        &vec![full(); 3],
        &section.visits.sent,
        &[],
        &Held::default(),
    );
    assert!(out.departure.iter().all(|&left| left < NEVER));
    assert_eq!((section.follows[0], section.visits.parent[1]), (-1, 0));
}
