//! Reads every row of a table once, in bounded memory, and checks that it can be decoded, that its
//! rows keep the format, and that its names are few and short. A stranger may have written it.

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float64Type, Int32Type, Int64Type};
use arrow_array::{Array, Int64Array, PrimitiveArray, RecordBatch, StringArray};
use arrow_schema::DataType;
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::path::Path;

use super::encoding::table_error;
use super::read::Table;
use super::types;
use crate::bounds::{DURATION_MAX, MOMENT_MAX, VALUE_MAX};
use crate::error::Result;

const BATCH_ROWS: usize = 1 << 13;
/// The number of moments whose median is computed.
const SAMPLED: u64 = 1 << 16;

/// The rules of a table: names of columns.
#[derive(Debug, Deserialize)]
pub struct Promises {
    /// No value is missing.
    pub required: Vec<String>,
    pub moments: Vec<String>,
    /// In nanoseconds, 0 or more.
    pub durations: Vec<String>,
    /// Finite.
    pub values: Vec<String>,
    /// Text: bytes of each at most, and how many different ones (0: any number).
    pub texts: BTreeMap<String, (usize, usize)>,
    /// The second is never before the first.
    pub spans: Vec<(String, String)>,
    pub sorted_by: String,
}

#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Examined {
    pub rows: u64,
    /// Rows that violate a rule.
    pub damaged: u64,
    /// Of the moments of all other rows, and about the middle one of those that the table is sorted by.
    pub least: Option<i64>,
    pub greatest: Option<i64>,
    pub middle: Option<i64>,
    pub sorted: bool,
}

/// Raises an error where the table cannot be decoded or its names are beyond a bound.
pub fn examine(path: &Path, promises: &Promises) -> Result<Examined> {
    let table = Table::open(path)?;
    for (names, kind) in [
        (&promises.moments, DataType::Int64),
        (&promises.durations, DataType::Int64),
        (&promises.values, DataType::Float64),
        (&promises.texts.keys().cloned().collect(), types::names()),
    ] {
        for name in names {
            table.has(name, &kind)?;
        }
    }
    let mut seen = Seen {
        path,
        promises,
        stride: (table.rows() / SAMPLED).max(1),
        found: Examined {
            sorted: true,
            ..Examined::default()
        },
        last: i64::MIN,
        sampled: Vec::new(),
        names: FxHashMap::default(),
    };
    for batch in table.all(BATCH_ROWS)? {
        seen.batch(&batch?)?;
    }
    let middle = seen.sampled.len() / 2;
    if !seen.sampled.is_empty() {
        seen.found.middle = Some(*seen.sampled.select_nth_unstable(middle).1);
    }
    Ok(seen.found)
}

struct Seen<'a> {
    path: &'a Path,
    promises: &'a Promises,
    stride: u64,
    found: Examined,
    last: i64,
    sampled: Vec<i64>,
    names: FxHashMap<&'a str, Known>,
}

/// The names of a column: their hashes, and the dictionary that was looked at last.
#[derive(Default)]
struct Known {
    hashes: FxHashSet<u64>,
    dictionary: Option<StringArray>,
}

impl<'a> Seen<'a> {
    fn batch(&mut self, batch: &RecordBatch) -> Result<()> {
        let promises = self.promises;
        for (name, &(bytes, most)) in &promises.texts {
            if let Some(column) = batch.column_by_name(name) {
                let dictionary = column.as_dictionary::<Int32Type>().values();
                self.name(name, dictionary.as_string(), bytes, most)?;
            }
        }
        let mut good = vec![true; batch.num_rows()];
        for name in &promises.required {
            let nulls = batch.column_by_name(name).and_then(|c| c.logical_nulls());
            for (row, good) in good.iter_mut().enumerate() {
                *good &= nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
            }
        }
        let whole = |name: &String| Some(batch.column_by_name(name)?.as_primitive::<Int64Type>());
        for moments in promises.moments.iter().filter_map(whole) {
            keep(&mut good, moments, |t| {
                (-MOMENT_MAX..=MOMENT_MAX).contains(&t)
            });
        }
        for durations in promises.durations.iter().filter_map(whole) {
            keep(&mut good, durations, |t| (0..=DURATION_MAX).contains(&t));
        }
        for name in &promises.values {
            if let Some(column) = batch.column_by_name(name) {
                let values = column.as_primitive::<Float64Type>();
                keep(&mut good, values, |value| value.abs() <= VALUE_MAX);
            }
        }
        for (begin, end) in &promises.spans {
            if let (Some(begins), Some(ends)) = (whole(begin), whole(end)) {
                for (row, good) in good.iter_mut().enumerate() {
                    *good &= begins.value(row) <= ends.value(row);
                }
            }
        }
        for moments in promises.moments.iter().filter_map(whole) {
            self.range(&good, moments);
        }
        if let Some(order) = whole(&promises.sorted_by) {
            self.order(&good, order);
        }
        self.found.damaged += good.iter().filter(|&&good| !good).count() as u64;
        self.found.rows += good.len() as u64;
        Ok(())
    }

    fn range(&mut self, good: &[bool], moments: &Int64Array) {
        let (mut least, mut greatest) = (i64::MAX, i64::MIN);
        for (row, &good) in good.iter().enumerate() {
            if good && moments.is_valid(row) {
                least = least.min(moments.value(row));
                greatest = greatest.max(moments.value(row));
            }
        }
        if least <= greatest {
            self.found.least = Some(self.found.least.map_or(least, |known| known.min(least)));
            let known = self.found.greatest;
            self.found.greatest = Some(known.map_or(greatest, |known| known.max(greatest)));
        }
    }

    fn order(&mut self, good: &[bool], order: &Int64Array) {
        let first = self.found.rows;
        for (row, _) in good.iter().enumerate().filter(|(_, &good)| good) {
            let moment = order.value(row);
            self.found.sorted &= self.last <= moment;
            self.last = moment;
            if (first + row as u64) % self.stride == 0 {
                self.sampled.push(moment);
            }
        }
    }

    fn name(
        &mut self,
        column: &'a str,
        names: &StringArray,
        bytes: usize,
        most: usize,
    ) -> Result<()> {
        let known = self.names.entry(column).or_default();
        // Every batch wraps the dictionary of its row group anew; the bytes beneath stay where they are.
        let same = |before: &StringArray| {
            before.len() == names.len()
                && before.value_data().as_ptr() == names.value_data().as_ptr()
        };
        if known.dictionary.as_ref().is_some_and(same) {
            return Ok(());
        }
        for name in names.iter().flatten() {
            if name.len() > bytes {
                let length = name.len();
                let found = format!(
                    "column {column}: a text of {length} bytes, where {bytes} are the most"
                );
                return Err(table_error(self.path, found));
            }
            if most > 0 {
                let mut hasher = FxHasher::default();
                hasher.write(name.as_bytes());
                known.hashes.insert(hasher.finish());
            }
        }
        if known.hashes.len() > most {
            let found = format!("column {column}: more than {most} different names");
            return Err(table_error(self.path, found));
        }
        known.dictionary = Some(names.clone());
        Ok(())
    }
}

/// A row without the value is as good as before.
fn keep<T: ArrowPrimitiveType>(
    good: &mut [bool],
    values: &PrimitiveArray<T>,
    kept: impl Fn(T::Native) -> bool,
) {
    for (row, good) in good.iter_mut().enumerate() {
        *good &= kept(values.value(row)) || values.is_null(row);
    }
}
