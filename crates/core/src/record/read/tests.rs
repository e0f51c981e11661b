#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::super::tests::files::{batch, bytes, rows};
use super::*;
use arrow_array::types::Int32Type;
use arrow_array::{
    BooleanArray, DictionaryArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt8Array,
};
use proptest::collection::vec;
use proptest::prelude::*;

struct Scratch(PathBuf);

impl Scratch {
    fn of(bytes: &[u8]) -> Self {
        static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let next = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("tailrace-{}-read-{next}.parquet", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, bytes).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A column of each kind, some of whose rows have no value.
fn every_kind(count: usize) -> RecordBatch {
    let there = |row: usize| row % 3 > 0;
    let some = move |row: usize| there(row).then_some(row);
    batch(vec![
        ("time", Arc::new((0..count as i64).collect::<Int64Array>())),
        (
            "some",
            Arc::new(
                (0..count)
                    .map(|row| some(row).map(|row| row as i64))
                    .collect::<Int64Array>(),
            ),
        ),
        (
            "small",
            Arc::new(
                (0..count)
                    .map(|row| some(row).map(|row| row as u8))
                    .collect::<UInt8Array>(),
            ),
        ),
        (
            "value",
            Arc::new(
                (0..count)
                    .map(|row| some(row).map(|row| row as f64))
                    .collect::<Float64Array>(),
            ),
        ),
        (
            "truth",
            Arc::new(
                (0..count)
                    .map(|row| some(row).map(|row| row % 2 > 0))
                    .collect::<BooleanArray>(),
            ),
        ),
        (
            "name",
            Arc::new(
                (0..count)
                    .map(|row| some(row).map(|row| ["a", "b", "c"][row % 3]))
                    .collect::<DictionaryArray<Int32Type>>(),
            ),
        ),
        (
            "text",
            Arc::new(
                (0..count)
                    .map(|row| some(row).map(|row| format!("t{row}")))
                    .collect::<StringArray>(),
            ),
        ),
    ])
}

fn read(path: &Path, batch_rows: usize) -> Result<Vec<RecordBatch>> {
    Table::open(path)?.all(batch_rows)?.collect()
}

/// Text becomes names: the same rows with both as text.
fn texts(batches: &[RecordBatch]) -> Vec<Vec<Option<String>>> {
    let plain = |cell: Option<String>| {
        cell.map(|cell| {
            cell.replace("StringArray\n[\n  \"", "")
                .replace("\",\n]", "")
        })
    };
    let of_row = |row: Vec<Option<String>>| row.into_iter().map(plain).collect();
    rows(batches).into_iter().map(of_row).collect()
}

#[test]
fn every_kind_of_column_comes_back_in_batches_of_any_length() {
    let whole = every_kind(1000);
    let file = Scratch::of(&bytes(std::slice::from_ref(&whole)));
    for batch_rows in [1, 7, 999, 1000, 4096] {
        let found = read(&file.0, batch_rows).unwrap();
        assert_eq!(
            texts(&found),
            texts(std::slice::from_ref(&whole)),
            "{batch_rows}"
        );
    }
}

/// More text than a dictionary takes: the library writes the rest as it is.
#[test]
fn text_that_is_in_no_dictionary_is_read() {
    let text = |row: usize| (row % 5 > 0).then(|| format!("{row:0>60}"));
    let count = 60_000;
    let whole = batch(vec![(
        "text",
        Arc::new((0..count).map(text).collect::<StringArray>()),
    )]);
    let file = Scratch::of(&bytes(std::slice::from_ref(&whole)));
    let found = read(&file.0, 8192).unwrap();
    assert!(texts(&found) == texts(&[whole]));
}

proptest! {
    /// The damage may be detected or not; nothing panics, and memory stays bounded.
    #[test]
    fn a_damaged_file_gives_rows_or_an_error(
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in proptest::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let mut bytes = bytes(&[every_kind(300)]);
        for (place, value) in damage {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let file = Scratch::of(&bytes);
        let _ = read(&file.0, 64);
    }
}
