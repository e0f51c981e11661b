//! How many visits work at once, and in which order an event loop serves them.
use super::tests::{full, grid, one_core, visits, System, MS};
use super::*;

/// Ten visits are always inside, and each leaves after 20 ms.
fn ten_inside() -> Capacity {
    let times: Vec<(i64, i64)> = (0..1000).map(|i| (i * 2, i * 2 + 20)).collect();
    let program = Program::of(&visits(&times));
    Capacity::of(&program.parts, 0, 1.0, grid(), false)
}

#[test]
fn visits_that_hardly_use_a_core_work_at_full_speed_until_all_cores_are_busy() {
    let (mut fit, calm) = (ten_inside(), within(10, 190));
    let number = fit.at_full_speed(0.1, &calm);
    assert!((99.0..101.0).contains(&number), "{number}");
    let shared = fit.works(&vec![1.0; 500])[500];
    fit.serve_at_once(number);
    let alone = fit.works(&vec![1.0; 500])[500];
    assert!((1.9e6..2.1e6).contains(&shared), "{shared}");
    assert!((19.9e6..20.1e6).contains(&alone), "{alone}");
}

#[test]
fn visits_that_keep_a_core_busy_share_it() {
    let calm = within(10, 190);
    for used in [0.6, 1.0, f64::NAN, 0.0] {
        assert_eq!(ten_inside().at_full_speed(used, &calm), 1.0);
    }
}

/// These steps are calm.
fn within(begin: usize, end: usize) -> Vec<bool> {
    (0..500).map(|step| (begin..end).contains(&step)).collect()
}

/// A new visit and one whose call was answered wait together in each round; the answer came later.
fn rounds(answer_is_first: bool) -> Vec<Part> {
    let part = |group, begin: i64, end: i64| Part {
        server: 0,
        group,
        begin: begin * MS,
        end: end * MS,
    };
    let ends = if answer_is_first { (30, 20) } else { (20, 30) };
    let round = |at: i64| {
        [
            part(0, at, at + 10),
            part(0, at + 2, at + ends.0),
            part(2, at + 5, at + ends.1),
        ]
    };
    (0..50).flat_map(|i| round(i * 100)).collect()
}

#[test]
fn the_parts_show_whether_answers_come_before_new_visits() {
    assert!(answers_first(&rounds(true), 0));
    assert!(!answers_first(&rounds(false), 0));
    assert!(!answers_first(&[], 0));
}

#[test]
fn an_event_loop_that_prefers_answers_begins_with_new_visits_last() {
    // Three new visits come at once; the first is answered while the second works.
    let mut visits = visits(&[(0, 60), (0, 40), (0, 50), (10, 15)]);
    (visits.server[3], visits.parent[3]) = (1, 0);
    let run = |answers_first| {
        let limits = Limits {
            in_turn: true,
            answers_first,
            ..one_core()
        };
        let mut system = System::of(visits.clone(), vec![limits, one_core()]);
        system.may_drop = vec![false; 4];
        let at = vec![full(), full()];
        system.run(&at, &at, &[]).departure
    };
    let (first, last) = (run(true), run(false));
    assert!(first[0] < first[2], "{first:?}");
    assert!(last[0] > last[2], "{last:?}");
}

#[test]
fn a_visit_that_needs_no_place_leaves_it_to_the_others() {
    // The first holds the only worker, and the only connection, for 500 ms.
    let mut visits = visits(&[(0, 500), (10, 510), (20, 520)]);
    visits.start = vec![0, 500 * MS, 510 * MS];
    let limits = Limits {
        workers: 1,
        accept: 1,
        ..one_core()
    };
    let run = |needs: Needs, pool: u32| {
        let mut system = System::of(visits.clone(), vec![limits]);
        system.held_up.needs = vec![needs, Needs::Place, Needs::Place];
        (system.pool, system.pools) = (vec![pool; 3], vec![1]);
        system.run(&[full()], &[full()], &[])
    };
    for pool in [u32::MAX, 0] {
        let left = |needs| {
            run(needs, pool)
                .departure
                .iter()
                .map(|at| at / MS)
                .collect::<Vec<_>>()
        };
        assert!(left(Needs::Place)[1] > 500, "it waits for the place");
        let (core, nothing) = (left(Needs::Core), left(Needs::Nothing));
        assert!(core[1] < 100, "{core:?}");
        assert_eq!(nothing[0], 500, "it takes as long as alone");
        assert!(core[0] > 500, "it shares the core");
    }
}
