//! Visits that readers of logs found, in the order in which they ended. What does not fit into memory is in files.
//!
//! ```text
//! rows as they come ─ runs: sorted, packed (packed.rs), in files from some size on ─ merged ─ tables: visits, requests
//!                   └ seen: pairs of names, times to connect, and the first requests, as they come
//! ```

mod packed;
mod runs;
mod seen;
mod tables;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt32Type};
use arrow_array::RecordBatch;

use crate::error::Result;
pub use runs::Merged;
use runs::Runs;
use seen::Seen;
pub use seen::{Bounds, Sample, Waits};
pub use tables::{Kind, Tables};

/// A visit. Numbers that are unknown are negative, and texts are numbers of the caller's; 0 is for no text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// In ns since the Unix epoch, as `sent` and `arrival`.
    pub departure: i64,
    pub number: i64,
    pub sent: i64,
    pub arrival: i64,
    /// What connecting took, in ns.
    pub wait: i64,
    /// The number of the visit that made this one.
    pub parent: i64,
    /// The number of the outermost visit above it.
    pub request: i64,
    pub bytes_out: i64,
    /// What its calls took, in ns.
    pub downstream: i64,
    pub server: u32,
    pub interaction: u32,
    pub caller: u32,
    pub status: u32,
    /// A client sent it.
    pub entry: bool,
}

impl Row {
    /// Rows are in the order of their ends, and of their numbers where those are the same.
    fn key(&self) -> (i64, i64) {
        (self.departure, self.number)
    }
}

/// Gives paths that no file has.
pub type NewFile = Box<dyn FnMut() -> Result<PathBuf> + Send + Sync>;

pub struct Store {
    runs: Runs,
    seen: Seen,
}

impl Store {
    /// Some `most` rows stay in memory.
    pub fn new(new_file: NewFile, most: u64, bounds: Bounds) -> Store {
        Store {
            runs: Runs::new(new_file, most),
            seen: Seen::new(bounds),
        }
    }

    pub fn add(&mut self, row: Row) -> Result<()> {
        self.seen.add(&row);
        self.runs.add(row)
    }

    /// Adds the rows of tables, each of which has increasing numbers, in the order of these numbers. Returns false, and
    /// adds none, if a table lacks a column.
    pub fn add_all(&mut self, tables: &[RecordBatch]) -> Result<bool> {
        let Some(columns) = tables.iter().map(Columns::of).collect::<Option<Vec<_>>>() else {
            return Ok(false);
        };
        let mut at = vec![0; columns.len()];
        while let Some((_, one)) = columns
            .iter()
            .enumerate()
            .filter_map(|(i, table)| Some((*table.numbers.get(at[i])?, i)))
            .min()
        {
            self.add(columns[one].row(at[one]))?;
            at[one] += 1;
        }
        Ok(true)
    }

    pub fn seen(&mut self) -> &mut Seen {
        &mut self.seen
    }

    /// All rows, in order.
    pub fn rows(&mut self) -> Result<Merged> {
        self.runs.merged()
    }

    /// Moves visits with these numbers, each from the first to before the last, by some ns.
    pub fn shift(&mut self, ranges: &[(i64, i64)], by: i64) -> Result<()> {
        let mut rows = self.runs.merged()?;
        let used = self.runs.begin_again();
        while let Some(mut row) = rows.next()? {
            if ranges
                .iter()
                .any(|&(first, end)| (first..end).contains(&row.number))
            {
                row.sent = row.sent.saturating_add(by);
                row.arrival = row.arrival.saturating_add(by);
                row.departure = row.departure.saturating_add(by);
            }
            self.runs.add(row)?;
        }
        drop(rows);
        runs::remove(&used)
    }
}

/// The columns of a table of rows.
struct Columns<'t> {
    numbers: &'t [i64],
    times: [&'t [i64]; 8],
    texts: [&'t [u32]; 4],
    entry: &'t arrow_array::BooleanArray,
}

impl<'t> Columns<'t> {
    fn of(table: &'t RecordBatch) -> Option<Columns<'t>> {
        let number = |name: &str| {
            let column = table.column_by_name(name)?;
            Some(column.as_primitive_opt::<Int64Type>()?.values().as_ref())
        };
        let text = |name: &str| {
            let column = table.column_by_name(name)?;
            Some(column.as_primitive_opt::<UInt32Type>()?.values().as_ref())
        };
        Some(Columns {
            numbers: number("number")?,
            times: [
                number("departure")?,
                number("sent")?,
                number("arrival")?,
                number("wait")?,
                number("parent")?,
                number("request")?,
                number("bytes_out")?,
                number("downstream_ns")?,
            ],
            texts: [
                text("server")?,
                text("interaction")?,
                text("caller")?,
                text("status")?,
            ],
            entry: table.column_by_name("entry")?.as_boolean_opt()?,
        })
    }

    fn row(&self, at: usize) -> Row {
        let [departure, sent, arrival, wait, parent, request, bytes_out, downstream] =
            self.times.map(|column| column[at]);
        let [server, interaction, caller, status] = self.texts.map(|column| column[at]);
        Row {
            number: self.numbers[at],
            entry: self.entry.value(at),
            departure,
            sent,
            arrival,
            wait,
            parent,
            request,
            bytes_out,
            downstream,
            server,
            interaction,
            caller,
            status,
        }
    }
}
