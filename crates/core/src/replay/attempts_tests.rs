//! A caller that gives a call up after half a second, and repeats it after a pause of 100 ms.
use super::network::NEVER;
use super::tests::{full, one_core, stopped, visits, System, MS};
use super::*;

/// Server 1 stands still from 100 to 800 ms. Visit 0 calls it at 105 ms and again at 705 ms; both calls are answered
/// after 800 ms, and the first of them in vain.
fn system() -> System {
    let mut found = visits(&[(100, 815), (105, 810), (705, 810)]);
    (found.server, found.parent) = (vec![0, 1, 1], vec![-1, 0, 0]);
    found.gives_up[1] = 500 * MS;
    let mut system = System::of(found, vec![one_core(), one_core()]);
    system.repeats[2] = 1;
    system
}

fn run(system: &System, at: Vec<f64>) -> Outcome {
    let recorded = vec![full(), stopped(100, 800)];
    system.run(&recorded, &[full(), at], &[])
}

#[test]
fn a_call_that_was_given_up_is_served_all_the_same() {
    let again = run(&system(), stopped(100, 800));
    assert_eq!(again.sent, [100, 105, 705].map(|ms| ms * MS));
    let near = |visit: usize, ms: i64| (again.departure[visit] - ms * MS).abs() <= 2 * MS;
    assert!(near(0, 815) && near(1, 810) && near(2, 810));
}

#[test]
fn a_call_that_is_answered_in_time_is_not_repeated() {
    let quick = run(&system(), full());
    assert!(quick.departure[1] < 120 * MS);
    assert!(quick.departure[0] < 125 * MS, "nor is the pause made");
    assert_eq!((quick.sent[2], quick.arrival[2]), (NEVER, NEVER));
}

#[test]
fn a_caller_may_be_patient_and_never_repeat() {
    let mut system = system();
    system.held_up.attempts = vec![Attempt::AsRecorded, Attempt::Patient, Attempt::Never];
    let patient = run(&system, stopped(100, 800));
    assert_eq!(patient.sent[2], NEVER);
    let near = |visit: usize, ms: i64| (patient.departure[visit] - ms * MS).abs() <= 2 * MS;
    assert!(near(1, 805) && near(0, 810), "{:?}", patient.departure);
}

#[test]
fn a_client_goes_on_when_it_gives_up() {
    let mut found = visits(&[(100, 805), (700, 810)]);
    found.gives_up[0] = 500 * MS;
    let mut system = System::of(found, vec![one_core()]);
    system.follows[1] = 0;
    let recorded = [stopped(100, 800)];
    let again = system.run(&recorded, &recorded, &[]);
    assert_eq!(again.sent[1], 700 * MS, "100 ms after it gave up");
    let quick = system.run(&recorded, &[full()], &[]);
    assert!(quick.sent[1] < 210 * MS, "100 ms after the answer");
}
