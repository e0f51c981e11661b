#![allow(clippy::unwrap_used, clippy::panic)]
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;

use super::packed::{Packer, LONGEST};
use super::*;

const BOUNDS: Bounds = Bounds {
    pairs: 2,
    requests: 3,
    long: 500,
    long_kept: 1,
    short_kept: 2,
};

/// A folder of a test, which is removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("tailrace-stays-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn store(&self, most: u64) -> Store {
        let (folder, mut number) = (self.0.clone(), 0);
        let new_file = move || {
            number += 1;
            Ok(folder.join(number.to_string()))
        };
        Store::new(Box::new(new_file), most, BOUNDS)
    }

    fn files(&self) -> Vec<PathBuf> {
        let files = std::fs::read_dir(&self.0).unwrap();
        files.map(|file| file.unwrap().path()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn all(store: &mut Store) -> Vec<Row> {
    let mut rows = store.rows().unwrap();
    std::iter::from_fn(|| rows.next().unwrap()).collect()
}

fn row(number: i64, departure: i64) -> Row {
    Row {
        number,
        departure,
        sent: departure - 7,
        arrival: departure - 5,
        parent: -1,
        request: number,
        bytes_out: -1,
        downstream: -1,
        server: 1,
        entry: true,
        ..Row::default()
    }
}

prop_compose! {
    fn any_row()(
        times in proptest::array::uniform5(any::<i64>()),
        others in proptest::array::uniform4(-1..i64::MAX),
        texts in proptest::array::uniform4(any::<u32>()),
        entry in any::<bool>(),
    ) -> Row {
        let [departure, number, sent, arrival, wait] = times;
        let [parent, request, bytes_out, downstream] = others;
        let [server, interaction, caller, status] = texts;
        Row {
            departure, number, sent, arrival, wait, parent, request, bytes_out, downstream, server, interaction,
            caller, status, entry,
        }
    }
}

proptest! {
    #[test]
    fn what_is_packed_is_unpacked(rows in proptest::collection::vec(any_row(), 1..20)) {
        let (mut packer, mut bytes) = (Packer::default(), Vec::new());
        let mut ends = Vec::new();
        for row in &rows {
            // Numbers count visits.
            packer.put(&Row { number: row.number.max(0), ..*row }, &mut bytes);
            ends.push(bytes.len());
        }
        bytes.extend([0xFF; LONGEST]);
        let (mut packer, mut at) = (Packer::default(), 0);
        for (row, end) in rows.iter().zip(ends) {
            let (read, taken) = packer.take(bytes[at..].first_chunk().unwrap());
            prop_assert_eq!(read, Row { number: row.number.max(0), ..*row });
            at += taken;
            prop_assert_eq!(at, end);
        }
    }
}

#[test]
fn a_row_of_a_log_takes_few_bytes() {
    let (mut packer, mut bytes) = (Packer::default(), Vec::new());
    let begin = 1_795_193_340_000_000_000;
    for number in 0..1000 {
        let mut one = row(number, begin + number * 1_000_000);
        (one.sent, one.arrival) = (one.departure - 20_000_000, one.departure - 20_000_000);
        (one.bytes_out, one.downstream) = (5120, 20_000_000);
        packer.put(&one, &mut bytes);
    }
    assert!(bytes.len() < 25 * 1000, "{}", bytes.len());
}

/// Departures in order, nearly so, and in none, of more rows than are sorted at a time.
fn departures(count: i64) -> [Vec<i64>; 4] {
    let mix = |number: i64| number.wrapping_mul(0x5851_F42D_4C95_7F2D).rotate_left(20) & 0xFFFF;
    [
        (0..count).collect(),
        (0..count).map(|number| number + mix(number) % 9).collect(),
        (0..count).map(mix).collect(),
        (0..count).rev().collect(),
    ]
}

#[test]
fn rows_come_in_the_order_of_their_ends() {
    for departures in departures(20_000) {
        for most in [1 << 30, 0] {
            let folder = Folder::new();
            let mut store = folder.store(most);
            let mut rows = Vec::new();
            for (number, &departure) in (0..).zip(&departures) {
                rows.push(row(number, departure));
                store.add(row(number, departure)).unwrap();
            }
            rows.sort_by_key(Row::key);
            assert!(all(&mut store) == rows);
            assert!(all(&mut store) == rows, "they can be read twice");
            assert_eq!(folder.files().is_empty(), most > 0);
        }
    }
}

#[test]
fn many_runs_become_one() {
    let folder = Folder::new();
    let mut store = folder.store(0);
    // Each time that some rows are sorted, they begin before the last run ended.
    for number in 0..70 * (1 << 9) {
        store.add(row(number, -number)).unwrap();
    }
    let rows = all(&mut store);
    assert_eq!(rows.len(), 70 << 9);
    assert!(rows.is_sorted_by_key(Row::key));
    assert!(folder.files().len() < 40, "{}", folder.files().len());
}

#[test]
fn a_file_that_was_cut_is_an_error() {
    let folder = Folder::new();
    let mut store = folder.store(0);
    for number in 0..10_000 {
        store.add(row(number, number)).unwrap();
    }
    store.rows().unwrap();
    let [path] = &folder.files()[..] else {
        panic!("there is one run")
    };
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(std::fs::metadata(path).unwrap().len() - 1)
        .unwrap();
    let mut rows = store.rows().unwrap();
    let error = loop {
        match rows.next() {
            Ok(row) => assert!(row.is_some(), "it ends as if it were whole"),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().starts_with(&path.display().to_string()));
}

#[test]
fn visits_are_moved() {
    let folder = Folder::new();
    let mut store = folder.store(0);
    for number in 0..10 {
        store.add(row(number, number)).unwrap();
    }
    store.shift(&[(2, 4), (8, 9)], 100).unwrap();
    let order: Vec<_> = all(&mut store).iter().map(Row::key).collect();
    let expected = [
        (0, 0),
        (1, 1),
        (4, 4),
        (5, 5),
        (6, 6),
        (7, 7),
        (9, 9),
        (102, 2),
        (103, 3),
        (108, 8),
    ];
    assert_eq!(order, expected);
    assert_eq!(folder.files().len(), 1, "what was moved is removed");
}

#[test]
fn lost_attempts_are_those_of_the_longest_time_that_fits() {
    let folder = Folder::new();
    let mut store = folder.store(9);
    for (number, wait) in (0..).zip([0, 9, 10, 12, 30, 31, 40]) {
        let mut one = row(number, number + 100);
        (one.sent, one.wait) = (one.departure - 50, wait);
        store.add(one).unwrap();
    }
    let windows = vec![(10, 12), (30, 40), (31, 35)];
    let mut tables = Tables::new(store.rows().unwrap(), Kind::Visits, windows);
    let table = tables.next_table().unwrap().unwrap();
    let drops = table.column_by_name("drops").unwrap();
    let drops = drops.as_primitive::<arrow_array::types::UInt8Type>();
    assert_eq!(&drops.values()[..], [0, 0, 1, 1, 2, 3, 2]);
    let arrival = table.column_by_name("arrival").unwrap();
    let accepted = arrival.as_primitive::<Int64Type>().values()[2];
    assert_eq!(accepted, 102 - 50 + 10);
    assert_eq!(table.column_by_name("parent").unwrap().null_count(), 7);
    assert!(tables.next_table().unwrap().is_none());
}

#[test]
fn requests_are_those_that_a_client_sent() {
    let folder = Folder::new();
    let mut store = folder.store(9);
    store.add(row(0, 5)).unwrap();
    let call = Row {
        parent: 0,
        entry: false,
        ..row(1, 4)
    };
    store.add(call).unwrap();
    let mut tables = Tables::new(store.rows().unwrap(), Kind::Requests, vec![]);
    assert_eq!(tables.next_table().unwrap().unwrap().num_rows(), 1);
    let (pairs, beyond) = store.seen().pairs();
    assert_eq!((pairs, beyond), (vec![(1, 0, 2)], 0));
    assert_eq!(store.seen().sample().longest, [7]);
}

#[test]
fn little_of_many_visits_is_kept() {
    let folder = Folder::new();
    let mut store = folder.store(9);
    for number in 0..6 {
        let interaction = number as u32;
        let wait = [1, 600, 2, 700, 3, 800][number as usize];
        store
            .add(Row {
                interaction,
                wait,
                ..row(number, number)
            })
            .unwrap();
    }
    let seen = store.seen();
    assert_eq!(seen.pairs(), (vec![(1, 0, 1), (1, 1, 1)], 4));
    assert_eq!(seen.sample().numbers, [0, 1, 2]);
    assert_eq!(seen.waits().count, 3);
    assert_eq!(
        (&seen.waits().long[..], &seen.waits().short[..]),
        (&[600][..], &[1, 2][..])
    );
}
