#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::encoding::write_table;
use super::read::Table;
use super::rows::Event;
use super::tables::{EventWriter, TablesSink};
use super::writer::TableWriter;
use super::*;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type, UInt8Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int64Array, RecordBatch, RecordBatchIterator,
    StringViewArray, UInt32Array,
};
use arrow_schema::SchemaRef;
use parquet::basic::Encoding;
use parquet::file::metadata::ParquetMetaDataReader;
use proptest::prelude::*;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

pub(super) mod files;
mod paused;
mod rows;

/// A folder of its own for each test, removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "tailrace-record-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn files(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(&self.0)
            .unwrap()
            .map(|f| f.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn names() -> Names {
    let texts = |texts: &[&str]| texts.iter().map(|t| t.to_string()).collect();
    Names {
        servers: texts(&["web", "app"]),
        server_hosts: vec![1, 2],
        hosts: texts(&["10.0.0.1", "10.0.0.2", "10.0.0.3", "lb"]),
        interactions: texts(&["GET /s"]),
        folded: Vec::new(),
        statuses: texts(&["ok", "503"]),
        ..Names::default()
    }
}

pub(super) fn visit(id: u64, departure: i64) -> Visit {
    Visit {
        visit: id,
        server: 0,
        caller: 0,
        connection: id as u32,
        interaction: NO_NAME,
        key: 0,
        sent: departure - 5,
        connected: NO_TIME,
        arrival: departure - 4,
        start: crate::record::NO_TIME,
        first_byte: departure - 1,
        departure,
        drops: 1,
        data_drops: 0,
        status: 0,
        bytes_in: 7,
        bytes_out: 8,
        served: true,
        parent: NO_ID,
        request: id,
        downstream_ns: NO_TIME,
    }
}

fn read(path: &Path) -> Vec<RecordBatch> {
    let batches = Table::open(path).unwrap().all(1 << 20).unwrap();
    batches.map(Result::unwrap).collect()
}

fn order(path: &Path, time: &str, id: &str) -> Vec<(i64, u64)> {
    read(path)
        .iter()
        .flat_map(|batch| {
            let times = batch
                .column_by_name(time)
                .unwrap()
                .as_primitive::<Int64Type>()
                .values()
                .to_vec();
            let ids = batch
                .column_by_name(id)
                .unwrap()
                .as_primitive::<UInt64Type>()
                .values()
                .to_vec();
            times.into_iter().zip(ids).collect::<Vec<_>>()
        })
        .collect()
}

fn text(batch: &RecordBatch, column: &str, row: usize) -> Option<String> {
    let column = batch.column_by_name(column).unwrap();
    let dictionary = column.as_any_dictionary();
    column.is_valid(row).then(|| {
        dictionary
            .values()
            .as_string::<i32>()
            .value(dictionary.normalized_keys()[row])
            .to_string()
    })
}

proptest! {
    #[test]
    fn any_order_in_gives_the_same_sorted_bytes(
        departures in prop::collection::vec(0i64..500, 0..300),
        capacity in 2usize..40,
        shuffle in any::<u64>(),
    ) {
        let folder = Folder::new();
        let write = |target: &Path, rows: &[(u64, i64)], capacity: usize| {
            let mut writer = TableWriter::<Visit>::with_capacity(target, capacity, capacity / 2).unwrap();
            for &(id, departure) in rows {
                writer.push(visit(id, departure), &names()).unwrap();
            }
            writer.finish(&names()).unwrap()
        };
        let mut rows: Vec<(u64, i64)> = departures.iter().enumerate().map(|(i, &d)| (i as u64 + 1, d)).collect();
        let target = folder.0.join("visits.parquet");
        prop_assert_eq!(write(&target, &rows, capacity), rows.len() as u64);
        let mut expected: Vec<(i64, u64)> = rows.iter().map(|&(id, departure)| (departure, id)).collect();
        expected.sort_unstable();
        prop_assert_eq!(order(&target, "departure", "visit"), expected);
        prop_assert_eq!(folder.files(), vec!["visits.parquet".to_string()]);

        rows.sort_by_key(|&(id, _)| id.wrapping_mul(shuffle | 1));
        let other = folder.0.join("shuffled.parquet");
        write(&other, &rows, 1000);
        prop_assert_eq!(std::fs::read(&target).unwrap(), std::fs::read(&other).unwrap());
    }
}

#[test]
fn more_side_runs_than_are_merged_at_once_still_give_one_sorted_file() {
    let folder = Folder::new();
    let target = folder.0.join("visits.parquet");
    let mut writer = TableWriter::<Visit>::with_capacity(&target, 8, 4).unwrap();
    for id in 1..=4000u64 {
        writer
            .push(visit(id, 10_000 - id as i64), &names())
            .unwrap();
    }
    writer.finish(&names()).unwrap();
    let rows = order(&target, "departure", "visit");
    assert_eq!(rows.len(), 4000);
    assert!(rows.is_sorted());
    assert_eq!(folder.files(), ["visits.parquet"]);
}

#[test]
fn rows_carry_names_and_nulls() {
    let folder = Folder::new();
    let mut sink = TablesSink::create(&folder.0).unwrap();
    let root = Visit {
        interaction: 0,
        status: 1,
        downstream_ns: 3,
        ..visit(1, 20)
    };
    let child = Visit {
        parent: 1,
        request: 1,
        server: 1,
        caller: CALLER_IS_SERVER,
        ..visit(2, 10)
    };
    let failed = Visit {
        served: false,
        arrival: NO_TIME,
        start: crate::record::NO_TIME,
        first_byte: NO_TIME,
        ..visit(3, 30)
    };
    let orphan = Visit {
        request: NO_ID,
        ..visit(4, 5)
    };
    let broken = Visit {
        status: NO_NAME,
        ..visit(5, 5)
    };
    for v in [root, child, failed, orphan, broken] {
        sink.push(v, &names()).unwrap();
    }
    sink.finish(&names()).unwrap();
    assert_eq!(sink.incomplete(), 1);

    let visits = &read(&folder.0.join("visits.parquet"))[0];
    assert_eq!(*visits.schema(), *schema::visits());
    assert_eq!(
        order(&folder.0.join("visits.parquet"), "departure", "visit"),
        [(5, 4), (10, 2), (20, 1)]
    );
    assert_eq!(text(visits, "caller", 1).as_deref(), Some("web"));
    assert_eq!(text(visits, "caller", 2).as_deref(), Some("client-1"));
    assert_eq!(text(visits, "server", 1).as_deref(), Some("app"));
    assert_eq!(text(visits, "interaction", 1), None);
    assert_eq!(text(visits, "interaction", 2).as_deref(), Some("GET /s"));
    assert_eq!(text(visits, "status", 2).as_deref(), Some("503"));
    assert!(visits.column_by_name("request").unwrap().is_null(0));
    assert!(visits.column_by_name("parent").unwrap().is_null(2));
    assert_eq!(
        visits
            .column_by_name("drops")
            .unwrap()
            .as_primitive::<UInt8Type>()
            .value(0),
        1
    );

    let requests = &read(&folder.0.join("requests.parquet"))[0];
    assert_eq!(*requests.schema(), *schema::requests());
    assert_eq!(
        order(&folder.0.join("requests.parquet"), "end", "request"),
        [(20, 1), (30, 3)]
    );
    assert!(requests.column_by_name("bytes").unwrap().is_null(1));
}

#[test]
fn events_that_begin_together_keep_their_order() {
    let folder = Folder::new();
    let mut writer = EventWriter::create(&folder.0).unwrap();
    for (begin, end) in [(5, 9), (5, 7), (1, 2), (5, 8)] {
        let event = Event {
            place: 1,
            kind: "drop",
            begin,
            end,
            detail: (begin == 1).then(|| "why".to_string()),
        };
        writer.push(event, &names()).unwrap();
    }
    assert_eq!(writer.finish(&names()).unwrap(), 4);
    let batch = &read(&folder.0.join("events.parquet"))[0];
    let columns = |schema: SchemaRef| {
        schema
            .fields()
            .iter()
            .map(|f| f.name().clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(columns(batch.schema()), columns(schema::events()));
    assert_eq!(text(batch, "detail", 0).as_deref(), Some("why"));
    assert_eq!(text(batch, "detail", 1), None);
    assert_eq!(
        batch
            .column_by_name("end")
            .unwrap()
            .as_primitive::<Int64Type>()
            .values(),
        &[2, 9, 7, 8]
    );
    assert_eq!(text(batch, "place", 0).as_deref(), Some("app"));
}

#[test]
fn nothing_is_left_of_a_writer_that_was_given_up() {
    let folder = Folder::new();
    let mut sink = TablesSink::create(&folder.0).unwrap();
    sink.push(visit(1, 10), &names()).unwrap();
    let files = folder.files();
    assert_eq!(files.len(), 2);
    assert!(files.iter().all(|name| name.ends_with(".tmp")), "{files:?}");
    drop(sink);
    assert!(folder.files().is_empty());
}

#[test]
fn a_wrong_name_index_is_an_error_and_no_panic() {
    let folder = Folder::new();
    let mut sink = TablesSink::create(&folder.0).unwrap();
    sink.push(
        Visit {
            server: 99,
            ..visit(1, 10)
        },
        &names(),
    )
    .unwrap();
    let error = sink.finish(&names()).unwrap_err().to_string();
    let expected = "column server: a row has a name that nobody knows";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn tables_from_elsewhere_get_the_same_encodings() {
    let folder = Folder::new();
    let target = folder.0.join("samples.parquet");
    let places: ArrayRef = Arc::new(
        DictionaryArray::try_new(
            UInt32Array::from(vec![Some(1), None]),
            Arc::new(StringViewArray::from(vec!["x", "web"])),
        )
        .unwrap(),
    );
    let batch = RecordBatch::try_from_iter_with_nullable([
        (
            "time",
            Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef,
            false,
        ),
        ("place", places, true),
        (
            "detail",
            Arc::new(StringViewArray::from(vec![
                None,
                Some("long enough to need a buffer"),
            ])),
            true,
        ),
    ])
    .unwrap();
    let schema = batch.schema();
    assert_eq!(
        write_table(RecordBatchIterator::new([Ok(batch)], schema), &target).unwrap(),
        2
    );
    let rows = &read(&target)[0];
    assert_eq!(text(rows, "place", 0).as_deref(), Some("web"));
    assert_eq!(text(rows, "place", 1), None);
    assert_eq!(text(rows, "detail", 0), None);
    let expected = Some("long enough to need a buffer");
    assert_eq!(text(rows, "detail", 1).as_deref(), expected);

    let file = File::open(&target).unwrap();
    let metadata = ParquetMetaDataReader::new()
        .parse_and_finish(&file)
        .unwrap();
    let column = |i: usize| metadata.row_group(0).column(i).clone();
    assert!(column(0)
        .encodings()
        .any(|e| e == Encoding::DELTA_BINARY_PACKED));
    assert!(!column(0)
        .encodings()
        .any(|e| e == Encoding::PLAIN_DICTIONARY || e == Encoding::RLE_DICTIONARY));
    assert!(column(1).encodings().any(|e| e == Encoding::RLE_DICTIONARY));
    assert!(column(0).statistics().is_some());
}

#[test]
fn a_client_that_later_serves_keeps_its_number() {
    let mut names = names();
    // Each table asks anew, as each row group does.
    for _ in 0..2 {
        let folder = Folder::new();
        let mut sink = TablesSink::create(&folder.0).unwrap();
        sink.push(visit(1, 10), &names).unwrap();
        sink.finish(&names).unwrap();
        let rows = &read(&folder.0.join("visits.parquet"))[0];
        assert_eq!(text(rows, "caller", 0).as_deref(), Some("client-1"));
        names.server_hosts.push(0);
        names.servers.push("later".to_owned());
    }
    assert!(!names.by_address(0, || true));
    assert!(names.by_address(1, || true) && names.by_address(1, || false));
}
