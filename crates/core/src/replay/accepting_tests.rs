//! What a full accept queue loses, and when servers take visits out of it.
use super::tests::*;
use super::*;

#[test]
fn a_full_queue_loses_attempts_which_come_back_on_the_schedule() {
    let limits = Limits {
        workers: 1,
        accept: 1,
        ..one_core()
    };
    let system = System::of(
        visits(&[(0, 100), (1, 200), (2, 300), (3, 310)]),
        vec![limits],
    );
    let measured = System::of(
        visits(&[(0, 100), (1, 200), (2, 300), (3, 310)]),
        vec![one_core()],
    );
    let out = system.run(&[full()], &[full()], &[]);
    assert_eq!(out.lost, [0, 0, 1, 1], "one is served, one waits");
    assert!(out.arrival[1] < 10 * MS && out.arrival[2] >= 1000 * MS && out.arrival[3] >= 1000 * MS);
    assert!(out.departure[2] > 1000 * MS && out.departure[3] > 1000 * MS);
    assert_eq!(
        measured.run(&[full()], &[full()], &[]).lost,
        [0, 0, 0, 0],
        "no limit is known"
    );
}

#[test]
fn a_server_whose_acceptor_starves_accepts_nothing_while_it_is_slow() {
    let found = visits(&[(100, 205), (101, 206), (102, 207)]);
    let slow: Vec<f64> = stopped(100, 200)
        .iter()
        .map(|share| share.max(0.03))
        .collect();
    let lost = |still: f64| {
        let limits = Limits {
            accept: 2,
            still,
            ..one_core()
        };
        let system = System::of(found.clone(), vec![limits]);
        let slow = std::slice::from_ref(&slow);
        system.run(slow, slow, &[]).lost
    };
    assert_eq!(lost(0.0), [0; 3], "it accepts while it works");
    assert_eq!(lost(0.25), [0, 0, 1], "two wait to be accepted");
}

#[test]
fn an_acceptor_that_takes_turns_waits_until_each_running_visit_has_had_its_slice() {
    let found = visits(&[(100, 110), (101, 120), (102, 130), (103, 140)]);
    let run = |slice: f64| {
        let limits = Limits {
            accept: 2,
            slice,
            ..one_core()
        };
        let system = System::of(found.clone(), vec![limits]);
        system.run(&[full()], &[full()], &[])
    };
    assert_eq!(run(0.0).lost, [0; 4], "it goes first");
    let whole = run(1e9);
    assert_eq!(
        whole.lost,
        [0, 0, 0, 1],
        "two wait until the first has left"
    );
    assert!(whole.departure[0] < 111 * MS && whole.departure[1] > 111 * MS);
    let short = run(1.5 * MS as f64);
    assert_eq!(
        short.lost, [0; 4],
        "the first has had its slice before the last comes"
    );
    let last = |out: &Outcome| out.departure.iter().copied().max().unwrap_or(0);
    assert!(
        (last(&run(0.0)) - last(&short)).abs() < 10,
        "no work is lost"
    );
}

#[test]
fn a_stopped_server_accepts_nothing() {
    let limits = Limits {
        workers: 10,
        accept: 2,
        ..one_core()
    };
    let system = System::of(visits(&[(100, 205), (101, 206), (102, 207)]), vec![limits]);
    let out = system.run(&[stopped(100, 200)], &[stopped(100, 200)], &[]);
    assert_eq!(
        out.lost,
        [0, 0, 1],
        "two wait to be accepted, though all workers are free"
    );
    assert_eq!(
        system.run(&[stopped(100, 200)], &[full()], &[]).lost,
        [0, 0, 0]
    );
}

#[test]
fn an_acceptor_has_its_turn_while_the_running_visit_waits_for_a_call() {
    let mut found = visits(&[(0, 1010), (5, 20), (10, 1005)]);
    (found.server, found.parent) = (vec![0, 0, 1], vec![-1, -1, 0]);
    let limits = Limits {
        slice: 1e9,
        ..one_core()
    };
    let system = System::of(found, vec![limits, one_core()]);
    let one = [full(), full()];
    let out = system.run(&one, &one, &[]);
    assert!(out.departure[1] < 30 * MS, "the CPU is free");
    assert!(out.departure[0] >= 1000 * MS);
}

#[test]
fn visits_on_kept_connections_take_no_turn_of_the_acceptor() {
    let mut found: Vec<(i64, i64)> = (0..100).map(|i| (i, i + 50)).collect();
    found.push((20, 70));
    let run = |slice: f64| {
        let limits = Limits {
            slice,
            ..one_core()
        };
        let mut system = System::of(visits(&found), vec![limits]);
        system.may_drop[..100].fill(false);
        system.run(&[full()], &[full()], &[]).departure[100]
    };
    let (first, in_turn) = (run(0.0), run(0.1 * MS as f64));
    assert!(in_turn < first + 20 * MS, "{first} {in_turn}");
}
