//! Columns as the library reads them back, for any content.

use super::super::encoding::{PAGE_ROWS, ROW_GROUP_ROWS};
use super::super::file::TableFile;
use super::Folder;
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array,
    RecordBatch, StringArray, StructArray, UInt32Array, UInt64Array, UInt8Array,
};
use arrow_schema::{DataType, Field, Fields, Schema};
use parquet::basic::Compression;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::file::statistics::Statistics;
use proptest::collection::vec;
use proptest::prelude::*;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

pub fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let field = |(name, array): &(&str, ArrayRef)| {
        Field::new(*name, array.data_type().clone(), array.null_count() > 0)
    };
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(schema), arrays).unwrap()
}

fn write(batches: &[RecordBatch], path: &Path) {
    let mut table = TableFile::new(File::create(path).unwrap(), batches[0].schema()).unwrap();
    for batch in batches {
        table.write(batch).unwrap();
    }
    table.close().unwrap();
}

/// Writes the batches into a file: its bytes.
pub fn bytes(batches: &[RecordBatch]) -> Vec<u8> {
    let folder = Folder::new();
    let path = folder.0.join("table.parquet");
    write(batches, &path);
    std::fs::read(&path).unwrap()
}

/// The same: its end, and the rows in it.
fn written(batches: &[RecordBatch]) -> (ParquetMetaData, Vec<RecordBatch>) {
    let folder = Folder::new();
    let path = folder.0.join("table.parquet");
    write(batches, &path);
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&File::open(&path).unwrap());
    (metadata.unwrap(), super::read(&path))
}

fn statistics(metadata: &ParquetMetaData, group: usize, column: usize) -> Statistics {
    let column = metadata.row_group(group).column(column);
    column.statistics().unwrap().clone()
}

fn least_name(statistics: &Statistics) -> String {
    String::from_utf8(statistics.min_bytes_opt().unwrap().to_vec()).unwrap()
}

/// Rows from each of `begins` to the next.
fn parts(whole: &RecordBatch, begins: &[usize]) -> Vec<RecordBatch> {
    let ends = begins.iter().skip(1).copied().chain([whole.num_rows()]);
    let part = |(&begin, end): (&usize, usize)| whole.slice(begin, end - begin);
    begins.iter().zip(ends).map(part).collect()
}

/// Row by row, as text: a dictionary may come in another order.
pub fn rows(batches: &[RecordBatch]) -> Vec<Vec<Option<String>>> {
    let cell = |array: &ArrayRef, row: usize| match array.as_dictionary_opt::<Int32Type>() {
        Some(names) => names
            .key(row)
            .map(|key| names.values().as_string::<i32>().value(key).to_owned()),
        None => array
            .is_valid(row)
            .then(|| format!("{:?}", array.slice(row, 1))),
    };
    let of_batch = |batch: &RecordBatch| -> Vec<_> {
        let columns = batch.columns();
        (0..batch.num_rows())
            .map(|row| columns.iter().map(|array| cell(array, row)).collect())
            .collect()
    };
    batches.iter().flat_map(of_batch).collect()
}

/// Missing, any, or one of a few: small ones, and the ends of the type.
fn number<T: Arbitrary + Clone + 'static>(few: &[T]) -> impl Strategy<Value = Option<T>> {
    let few = proptest::sample::select(few.to_vec());
    prop_oneof![
        1 => Just(None),
        4 => any::<T>().prop_map(Some),
        4 => few.prop_map(Some),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        drawn in vec((
            number(&[0, 1, 2, i64::MIN, i64::MAX]),
            number(&[0, 1, u64::MAX]),
            number(&[0, 1, u32::MAX]),
            number(&[0, 1, i32::MIN, i32::MAX]),
            number(&[0, u8::MAX]),
            proptest::option::of("[a-c]{0,2}"),
        ), 1..700),
        cuts in vec(any::<prop::sample::Index>(), 0..4),
        all_there in any::<bool>(),
    ) {
        macro_rules! column {
            ($array:ty, $place:tt, $else:expr) => {
                Arc::new(drawn.iter().map(|row| row.$place.clone().or(all_there.then(|| $else))).collect::<$array>()) as ArrayRef
            };
        }
        let names = drawn.iter().map(|row| row.5.as_deref().or(all_there.then_some("x")));
        let whole = batch(vec![
            ("wide", column!(Int64Array, 0, -1)),
            ("natural", column!(UInt64Array, 1, 1)),
            ("client", column!(UInt32Array, 2, 1)),
            ("signed", column!(Int32Array, 3, -1)),
            ("small", column!(UInt8Array, 4, 1)),
            ("name", Arc::new(names.collect::<DictionaryArray<Int32Type>>())),
            ("of the library", Arc::new(drawn.iter().map(|row| Some(row.0.is_some())).collect::<BooleanArray>())),
        ]);
        let mut begins: Vec<usize> = cuts.iter().map(|cut| cut.index(drawn.len())).chain([0]).collect();
        begins.sort_unstable();
        let (_, found) = written(&parts(&whole, &begins));
        prop_assert_eq!(rows(&found), rows(&[whole]));
    }
}

#[test]
fn a_full_row_group_is_followed_by_another_with_names_of_its_own() {
    let rows = ROW_GROUP_ROWS + 10;
    let name = |row: usize| if row < ROW_GROUP_ROWS { "a" } else { "b" };
    let all = batch(vec![
        ("time", Arc::new((0..rows as i64).collect::<Int64Array>())),
        (
            "name",
            Arc::new((0..rows).map(name).collect::<DictionaryArray<Int32Type>>()),
        ),
    ]);
    let (metadata, found) = written(&parts(&all, &[0, 600_000]));
    let groups: Vec<i64> = metadata
        .row_groups()
        .iter()
        .map(|group| group.num_rows())
        .collect();
    assert_eq!(groups, [ROW_GROUP_ROWS as i64, 10]);
    assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), rows);
    let least = |group| least_name(&statistics(&metadata, group, 1));
    assert_eq!((least(0), least(1)), ("a".to_owned(), "b".to_owned()));
}

#[test]
fn a_reader_may_pass_over_a_row_group_by_its_statistics() {
    let all = batch(vec![
        (
            "time",
            Arc::new(Int64Array::from(vec![Some(-5), None, Some(7)])),
        ),
        ("natural", Arc::new(UInt64Array::from(vec![3, u64::MAX, 1]))),
    ]);
    let (metadata, _) = written(&[all]);
    let of = |column| statistics(&metadata, 0, column);
    let Statistics::Int64(time) = of(0) else {
        panic!("not of times")
    };
    assert_eq!(
        (time.min_opt(), time.max_opt(), time.null_count_opt()),
        (Some(&-5), Some(&7), Some(1))
    );
    let Statistics::Int64(natural) = of(1) else {
        panic!("not of numbers")
    };
    assert_eq!(
        (natural.min_opt(), natural.max_opt()),
        (Some(&1), Some(&-1))
    );
}

#[test]
fn a_name_that_no_row_has_is_not_written() {
    let values = Arc::new(StringArray::from(vec!["unused", "used"]));
    let names =
        DictionaryArray::<Int32Type>::try_new(Int32Array::from(vec![1, 1]), values).unwrap();
    let (metadata, found) = written(&[batch(vec![("name", Arc::new(names))])]);
    assert_eq!(
        rows(&found),
        [[Some("used".to_owned())], [Some("used".to_owned())]]
    );
    assert_eq!(least_name(&statistics(&metadata, 0, 0)), "used");
}

#[test]
fn a_column_is_compressed_where_it_becomes_shorter() {
    let rows = 3 * PAGE_ROWS as u64;
    let mut state = 1u64;
    // Marsaglia's xorshift.
    let random = (0..rows).map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    });
    let all = batch(vec![
        ("random", Arc::new(random.collect::<UInt64Array>())),
        (
            "again",
            Arc::new((0..rows).map(|row| row * row % 7).collect::<UInt64Array>()),
        ),
    ]);
    let (metadata, found) = written(std::slice::from_ref(&all));
    let codec = |column: usize| metadata.row_group(0).column(column).compression();
    assert_eq!(codec(0), Compression::UNCOMPRESSED);
    assert!(matches!(codec(1), Compression::ZSTD(_)));
    assert_eq!(self::rows(&found), self::rows(&[all]));
}

#[test]
fn equal_rows_are_equal_bytes_however_they_came_over_several_pages() {
    let rows = 3 * PAGE_ROWS;
    // No name in the first page, more and more in the others.
    let name = |row: usize| (row > PAGE_ROWS).then(|| (row / 50 % (row / 1000 + 1)).to_string());
    let names: Vec<Option<String>> = (0..rows).map(name).collect();
    let dictionary: DictionaryArray<Int32Type> = names.iter().map(Option::as_deref).collect();
    let whole = batch(vec![
        ("name", Arc::new(dictionary)),
        (
            "time",
            Arc::new(
                (0..rows as i64)
                    .map(|row| row * row)
                    .collect::<Int64Array>(),
            ),
        ),
        // The library's pages end after a number of values, or of bytes.
        (
            "value",
            Arc::new(
                (0..rows)
                    .map(|row| Some((row as f64).sqrt()))
                    .collect::<Float64Array>(),
            ),
        ),
    ]);
    let once = bytes(std::slice::from_ref(&whole));
    assert_eq!(
        bytes(&parts(&whole, &[0, 1, 700, PAGE_ROWS, 2 * PAGE_ROWS + 3])),
        once
    );
    assert_eq!(
        self::rows(&written(std::slice::from_ref(&whole)).1),
        self::rows(&[whole])
    );
}

#[test]
fn columns_with_fields_of_their_own_are_refused() {
    let fields = Fields::from(vec![
        Field::new("text", DataType::Utf8, false),
        Field::new("number", DataType::Int64, false),
    ]);
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let pairs = StructArray::new(fields, vec![texts, numbers.clone()], None);
    let whole = batch(vec![("pair", Arc::new(pairs)), ("number", numbers)]);
    let folder = Folder::new();
    let file = File::create(folder.0.join("table.parquet")).unwrap();
    let error = TableFile::new(file, whole.schema()).err().unwrap();
    assert!(
        error.to_string().contains("column pair holds Struct"),
        "{error}"
    );
}

#[test]
fn statistics_are_in_the_order_of_the_type_and_have_no_long_names() {
    let long = "x".repeat(1000);
    let names: DictionaryArray<Int32Type> = [long.as_str(), "é"].into_iter().collect();
    let (metadata, _) = written(&[batch(vec![
        ("client", Arc::new(UInt32Array::from(vec![u32::MAX, 1]))),
        ("name", Arc::new(names)),
    ])]);
    let of = |column| statistics(&metadata, 0, column);
    let Statistics::Int32(client) = of(0) else {
        panic!("not of numbers")
    };
    assert_eq!((client.min_opt(), client.max_opt()), (Some(&1), Some(&-1)));
    let least_and_greatest = (
        of(1).min_bytes_opt().map(<[u8]>::len),
        of(1).max_bytes_opt().map(<[u8]>::len),
    );
    assert_eq!(least_and_greatest, (None, Some("é".len())));
}

#[test]
fn a_type_other_than_the_columns_is_refused() {
    let numbers = batch(vec![("time", Arc::new(Int64Array::from(vec![1])))]);
    let texts = batch(vec![("time", Arc::new(StringArray::from(vec!["1"])))]);
    let folder = Folder::new();
    let file = File::create(folder.0.join("table.parquet")).unwrap();
    let mut table = TableFile::new(file, numbers.schema()).unwrap();
    let error = table.write(&texts).unwrap_err().to_string();
    assert!(
        error.contains("column time holds Int64, got Utf8"),
        "{error}"
    );
}
