#![allow(clippy::unwrap_used, clippy::panic)]

use super::super::{Cutter, Plan};
use super::*;
use crate::capture::names::Namer;
use crate::stays::Bounds;

const PLAN: &str = r#"{
    "columns": [["stamp", "numbers"], ["duration", "numbers"], ["took", "numbers"], ["connect", "numbers"],
        ["status", "numbers"], ["address", "texts"], ["asked", "names"]],
    "layouts": [{"after": "", "whole": true, "fields": [
        {"before": "", "kind": "decimal", "column": 0, "stop": " "},
        {"before": " ", "kind": "decimal", "column": 1, "stop": " "},
        {"before": " ", "kind": "decimal", "column": 2, "stop": " "},
        {"before": " ", "kind": "decimal", "column": 3, "stop": " "},
        {"before": " ", "kind": "integer", "column": 4, "stop": " "},
        {"before": " ", "kind": "text", "column": 5, "stop": " "},
        {"before": " \"", "kind": "request", "column": 6, "stop": "\""},
        {"before": "\"", "kind": "skip", "column": null, "stop": ""}]}]
}"#;
const USUAL: &str =
    "1000000010.5 2 1.5 0.5 200 app \"GET /x HTTP/1.1\"\n1000000011 0 - - 404 - \"POST /y\"";

fn table(text: &str) -> RecordBatch {
    let plan: Plan = serde_json::from_str(PLAN).unwrap();
    assert_eq!(plan.fault(), None);
    let mut cutter = Cutter::new(plan);
    let (mut namer, mut names) = (Namer::default(), Vec::new());
    cutter.cut(text.as_bytes(), &mut namer, &mut names).unwrap()
}

fn store() -> Store {
    let bounds = Bounds {
        pairs: 9,
        requests: 9,
        long: 1,
        long_kept: 9,
        short_kept: 9,
    };
    Store::new(Box::new(|| panic!("a few visits need no file")), 99, bounds)
}

fn times() -> Times {
    Times {
        stamp: 1,
        duration: 1,
        parts: 1,
        at_end: true,
        named: None,
        local: false,
        earliest: 0,
        latest: 2_000_000_000 * SECOND,
        longest: 1_000 * SECOND,
        longest_visit: 100 * SECOND,
    }
}

fn visits() -> Visits {
    let mut visits = Visits::new(times(), Vec::new());
    visits.serve(1);
    visits
}

/// Those that know what all numbers in [`USUAL`] mean.
fn knowing() -> Visits {
    taught(visits())
}

fn taught(mut visits: Visits) -> Visits {
    let meanings = [
        ("status", 200, 2),
        ("status", 404, 3),
        ("address", 1, 4),
        ("address_status", 0, 5),
    ];
    for (column, number, meaning) in meanings {
        assert!(visits.mean(column, number, meaning));
    }
    for (name, meaning) in [(0, 6), (1, 7)] {
        assert!(visits.mean("asked", name, meaning));
    }
    visits
}

fn taken(visits: &Visits, text: &str, store: &mut Store) -> Outcome {
    let table = table(text);
    visits.take(&table, 0..table.num_rows(), 10, store).unwrap()
}

fn rows(store: &mut Store) -> Vec<Row> {
    let mut rows = store.rows().unwrap();
    std::iter::from_fn(|| rows.next().unwrap()).collect()
}

#[test]
fn a_line_is_a_visit_and_its_call() {
    let mut store = store();
    let Outcome::Taken(taken) = taken(&knowing(), USUAL, &mut store) else {
        panic!("the lines are usual")
    };
    assert_eq!(
        (taken.visits, taken.untimed, taken.whole, taken.fine),
        (3, 0, false, false)
    );
    assert_eq!(taken.calls, [(4, 1)]);
    let begin = 1_000_000_008_500_000_000;
    let visit = Row {
        departure: begin + 2 * SECOND,
        number: 10,
        sent: begin,
        arrival: begin,
        parent: -1,
        request: 10,
        bytes_out: -1,
        downstream: 3 * SECOND / 2,
        server: 1,
        interaction: 6,
        status: 2,
        entry: true,
        ..Row::default()
    };
    let call = Row {
        departure: begin + 3 * SECOND / 2,
        number: 11,
        wait: SECOND / 2,
        parent: 10,
        downstream: -1,
        server: 4,
        caller: 1,
        status: 5,
        entry: false,
        ..visit
    };
    let other = Row {
        departure: 1_000_000_011 * SECOND,
        number: 12,
        sent: 1_000_000_011 * SECOND,
        arrival: 1_000_000_011 * SECOND,
        request: 12,
        downstream: -1,
        interaction: 7,
        status: 3,
        ..visit
    };
    assert_eq!(rows(&mut store), [call, visit, other]);
}

#[test]
fn numbers_without_a_meaning_are_named() {
    let mut store = store();
    let Outcome::Unknown(unknown) = taken(&visits(), USUAL, &mut store) else {
        panic!("nothing is known")
    };
    let expected = [
        ("address", 1),
        ("address_status", 0),
        ("asked", 0),
        ("asked", 1),
        ("status", 200),
        ("status", 404),
    ];
    assert_eq!(unknown, expected);
    assert_eq!(rows(&mut store), []);
}

#[test]
fn of_unusual_lines_none_is_added() {
    let mut refused = knowing();
    refused.mean("status", 404, UNUSUAL);
    for (visits, line) in [
        (&refused, "1000000011 0 - - 404 - \"POST /y\""),
        (&knowing(), "- 0 - - 404 - \"POST /y\""),
        (&knowing(), "1000000011 0 - - - - \"POST /y\""),
        (&knowing(), "1000000011 101 - - 200 - \"POST /y\""),
        (&knowing(), "1000000011 0 101 - 200 app \"POST /y\""),
        (&knowing(), "1000000011 0 - 1000 200 app \"POST /y\""),
        (&knowing(), "9000000000 0 - - 200 app \"POST /y\""),
        (&knowing(), "1 2 - - 200 app \"POST /y\""),
    ] {
        let mut store = store();
        let text = format!("{USUAL}\n{line}");
        match taken(visits, &text, &mut store) {
            Outcome::Taken(_) => panic!("{line} was taken"),
            Outcome::Unknown(unknown) => panic!("{line}: {unknown:?}"),
            Outcome::Unusual => assert_eq!(rows(&mut store), [], "{line}"),
        }
    }
}

#[test]
fn lines_without_a_duration_are_counted() {
    let mut store = store();
    let text = format!("{USUAL}\n1000000012 - - - 599 who \"GET /x\"");
    let Outcome::Taken(taken) = taken(&knowing(), &text, &mut store) else {
        panic!("what such a line means does not matter")
    };
    assert_eq!((taken.visits, taken.untimed), (3, 1));
}

#[test]
fn rows_that_the_table_lacks_are_unusual() {
    let table = table(USUAL);
    for rows in [0..3, 3..3] {
        let outcome = knowing().take(&table, rows, 0, &mut store()).unwrap();
        assert!(matches!(outcome, Outcome::Unusual));
    }
}

#[test]
fn a_local_clock_shows_the_ends_of_its_requests() {
    let local = Times {
        local: true,
        ..times()
    };
    let mut visits = Visits::new(local, Vec::new());
    visits.serve(1);
    let Outcome::Taken(taken) = taken(&taught(visits), USUAL, &mut store()) else {
        panic!("the lines are usual")
    };
    let ends = [
        (1_000_000_010_500_000_000, 10),
        (1_000_000_011 * SECOND, 12),
    ];
    assert_eq!(taken.ends, ends);
}

#[test]
fn durations_may_be_in_parts_of_their_unit() {
    let thousandths = Times {
        parts: 1000,
        ..times()
    };
    let visits = taught(Visits::new(thousandths, Vec::new()));
    let line = |took: &str| format!("1000000010.5 {took} - - 200 - \"GET /x\"");
    let mut store = store();
    assert!(matches!(
        taken(&visits, &line("2.5"), &mut store),
        Outcome::Taken(_)
    ));
    assert_eq!(rows(&mut store)[0].sent, 1_000_000_010_497_500_000);
    // A millionth of a millisecond is no whole nanosecond.
    assert!(matches!(
        taken(&visits, &line("2.5000001"), &mut store),
        Outcome::Unusual
    ));
}

#[test]
fn lines_without_what_they_need_are_unusual() {
    for (needed, is_usual) in [("status", true), ("took", false), ("bytes", false)] {
        let visits = taught(Visits::new(times(), vec![needed.to_owned()]));
        let outcome = taken(&visits, USUAL, &mut store());
        assert_eq!(matches!(outcome, Outcome::Taken(_)), is_usual, "{needed}");
    }
}

/// Where addresses name the calls, a call without a time takes as long as its request, and none takes longer.
#[test]
fn an_address_names_a_call() {
    let named = Times {
        named: Some(1),
        ..times()
    };
    let mut visits = taught(Visits::new(named, Vec::new()));
    assert!(visits.mean("address", 2, 0));
    let text = "1000000011 1 - - 404 app \"POST /y\"\n1000000012 1 3 - 404 app \"POST /y\"\n\
                1000000013 1 0.5 - 404 none \"POST /y\"";
    visits.mean("asked", 0, 7);
    let (table, mut store) = (table(text), store());
    let Ok(Outcome::Taken(taken)) = visits.take(&table, 0..3, 0, &mut store) else {
        panic!("these lines are usual");
    };
    assert_eq!(taken.visits, 5);
    assert_eq!(taken.calls, [(4, 2)]);
    let line = |at| {
        visits
            .line(&Columns::of(&table, &(0..3)).unwrap(), at)
            .unwrap()
    };
    assert_eq!(
        [line(0).took, line(1).took, line(2).took],
        [SECOND, SECOND, NONE]
    );
    assert_eq!([line(0).answer, line(1).answer], [3, 3]);
}
