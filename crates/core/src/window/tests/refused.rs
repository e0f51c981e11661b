//! What is left out, and what is refused with an error.

use super::*;

#[test]
fn rows_that_are_no_visits_are_counted_and_left_out() {
    let folder = Folder::new();
    let rows = [
        visit("db", 0, 5),
        visit("db", 5, 0),
        Row {
            arrival: None,
            ..visit("db", 0, 5)
        },
        Row {
            server: None,
            ..visit("db", 0, 5)
        },
        visit("db", i64::MIN, 5),
        visit("db", 0, i64::MAX),
    ];
    let all = reduce(&[folder.write("visits.parquet", &rows)], &plan(MS)).unwrap();
    assert_eq!((all.rows, all.left_out), (6, 5));
    assert_eq!(ints(&all.windows, "arrivals"), [1]);
    let clean = [
        visit("db", 0, 5),
        visit("db", 5, 0),
        visit("db", i64::MIN, 5),
        visit("db", i64::MIN, i64::MAX),
    ];
    assert_eq!(
        reduce(&[folder.write("clean.parquet", &clean)], &plan(MS))
            .unwrap()
            .left_out,
        3
    );
}

#[test]
fn a_day_of_silence_is_refused_with_advice_and_works_between_begin_and_end() {
    let folder = Folder::new();
    let day = 86_400_000 * MS;
    let path = folder.write(
        "visits.parquet",
        &[visit("db", 0, MS), visit("db", day, day + MS)],
    );
    let error = reduce(std::slice::from_ref(&path), &plan(MS))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("86400002 rows") && error.contains("wider window"),
        "{error}"
    );
    let part = Plan {
        begin: Some(day),
        end: Some(day + 3 * MS),
        ..plan(MS)
    };
    assert_eq!(
        ints(&reduce(&[path], &part).unwrap().windows, "arrivals"),
        [1, 0, 0]
    );
}

#[test]
fn windows_outside_1_ms_to_10_s_are_refused() {
    for window_ns in [i64::MIN, 0, MS - 1, 10_000 * MS + 1] {
        let error = reduce(&[], &plan(window_ns)).unwrap_err().to_string();
        assert!(error.contains("1 ms to 10 s"), "{error}");
    }
}

#[test]
fn files_that_are_no_visits_are_named() {
    let folder = Folder::new();
    let text = folder.0.join("text.parquet");
    std::fs::write(&text, "not a table").unwrap();
    assert!(reduce(&[text], &plan(MS))
        .unwrap_err()
        .to_string()
        .contains("text.parquet"));
    assert!(reduce(&[folder.0.join("absent")], &plan(MS))
        .unwrap_err()
        .to_string()
        .contains("absent"));
    let other = batch(&[visit("db", 0, 1)]).project(&[0, 2]).unwrap();
    let path = folder.0.join("other.parquet");
    let mut table = TableFile::new(File::create(&path).unwrap(), other.schema()).unwrap();
    table.write(&other).unwrap();
    table.close().unwrap();
    let error = reduce(&[path], &plan(MS)).unwrap_err().to_string();
    assert!(
        error.contains("other.parquet") && error.contains("no column arrival"),
        "{error}"
    );
}
