//! Rows that come roughly in order become a Parquet file in exact order, in bounded memory.
//! ```text
//! push ─▶ buffer, sorted when full ─▶ its older part ─▶ <table>.parquet.<random>.tmp
//!   └─ older than what was written ─▶ late buffer ─▶ side runs ─┐
//! seal: no side run: done; else  merge of all of them ──────────┴▶ another
//! publish: rename
//! ```

use super::columns::Columns;
use super::encoding::{create, table_error};
use super::file::TableFile;
use super::merge::{merge, SortKey};
use super::Names;
use crate::error::Result;
use crate::saved::{self, Kept};
use crate::whole::Partial;
use arrow_schema::SchemaRef;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};

/// A kind of row: its columns and its order.
pub trait Row: Sized {
    const KEY: SortKey;
    fn schema() -> SchemaRef;
    /// The values of [`Self::KEY`].
    fn key(&self) -> (i64, u64);
    /// The values of some rows, one column after the other, as in the schema.
    fn put(rows: &[Self], names: &Names, columns: &mut Columns<'_>) -> parquet::errors::Result<()>;
}

/// Rows held for sorting. 256 k visits take about 50 MB; at 10,000 visits a second the older half is 13 s old, longer than
/// two lost SYNs (1 + 2 s), so that side runs are rare.
const BUFFER_ROWS: usize = 1 << 18;
/// Late rows held before they become a side run.
const LATE_ROWS: usize = 1 << 15;
/// Runs merged at once: each takes a file and about 1 MB.
const FAN_IN: usize = 16;

fn buffer_rows() -> usize {
    #[cfg(test)]
    return testing::BUFFER_ROWS.get();
    #[cfg(not(test))]
    BUFFER_ROWS
}

#[cfg(test)]
pub mod testing {
    thread_local! {
        /// With a small buffer, a small capture gives as many files as a large one does.
        pub static BUFFER_ROWS: std::cell::Cell<usize> = const { std::cell::Cell::new(super::BUFFER_ROWS) };
    }
}

/// What a writer has when a segment of a long reading ends.
#[derive(Deserialize, Serialize)]
pub struct Paused<R> {
    buffer: Vec<R>,
    in_order: usize,
    late: Vec<R>,
    runs: Vec<Kept>,
    written: Option<(i64, u64)>,
    rows: u64,
}

struct Sealed {
    file: Partial,
    rows: u64,
}

pub struct TableWriter<R: Row> {
    target: PathBuf,
    writer: Option<TableFile>,
    file: Option<Partial>,
    buffer: Vec<R>,
    /// Rows at the begin of the buffer that are in order.
    in_order: usize,
    capacity: usize,
    held: usize,
    late: Vec<R>,
    runs: VecDeque<Partial>,
    /// The first of the runs, if they belong to a saved state.
    kept: Vec<(PathBuf, Kept)>,
    /// Rows in the file so far.
    in_file: usize,
    /// The key of the newest row written.
    written: Option<(i64, u64)>,
    rows: u64,
    sealed: Option<Sealed>,
}

impl<R: Row> TableWriter<R> {
    pub fn create(target: &Path) -> Result<Self> {
        let rows = buffer_rows();
        Self::with_capacity(target, rows, rows / 2)
    }

    /// Sorts when it has `capacity` rows, and then holds back the `held` youngest of them.
    pub fn with_capacity(target: &Path, capacity: usize, held: usize) -> Result<Self> {
        let (file, writer) = create(target, R::schema())?;
        Ok(TableWriter {
            target: target.to_path_buf(),
            writer: Some(writer),
            file: Some(file),
            buffer: Vec::new(),
            in_order: 0,
            capacity: capacity.max(held + 1),
            held,
            late: Vec::new(),
            runs: VecDeque::new(),
            kept: Vec::new(),
            in_file: 0,
            written: None,
            rows: 0,
            sealed: None,
        })
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Closes the file with the rows that are in order so far; it becomes a run. Another file takes the later rows.
    pub fn pause(&mut self) -> Result<()> {
        if self.in_file == 0 {
            return Ok(());
        }
        let (file, writer) = create(&self.target, R::schema())?;
        if let (Some(before), Some(rows)) = (self.file.replace(file), self.writer.replace(writer)) {
            self.close(rows)?;
            self.runs.push_back(before);
        }
        self.in_file = 0;
        Ok(())
    }

    /// The state after a pause, for [`Self::resume`]. Its files stay: a reading that is killed later goes on with them.
    pub fn paused(&mut self) -> Result<Paused<&R>> {
        for run in self.runs.iter().skip(self.kept.len()) {
            self.kept.push((run.path.clone(), Kept::of(&run.path)?));
        }
        self.runs.iter_mut().for_each(Partial::keep);
        Ok(Paused {
            buffer: self.buffer.iter().collect(),
            in_order: self.in_order,
            late: self.late.iter().collect(),
            runs: self.kept.iter().map(|(_, kept)| kept.clone()).collect(),
            written: self.written,
            rows: self.rows,
        })
    }

    /// A writer that goes on from there.
    pub fn resume(target: &Path, paused: Paused<R>) -> Result<Self> {
        saved::tidy(target, &paused.runs)?;
        let mut writer = Self::create(target)?;
        let out = target.parent().unwrap_or(Path::new("."));
        for kept in paused.runs {
            let path = kept.path(out)?;
            writer.runs.push_back(Partial::of(path.clone()));
            writer.kept.push((path, kept));
        }
        (writer.buffer, writer.in_order) = (paused.buffer, paused.in_order);
        (writer.late, writer.written) = (paused.late, paused.written);
        writer.rows = paused.rows;
        Ok(writer)
    }

    pub fn push(&mut self, row: R, names: &Names) -> Result<()> {
        self.rows += 1;
        if self.written.is_some_and(|written| row.key() < written) {
            self.late.push(row);
            if self.late.len() >= LATE_ROWS.min(self.capacity) {
                self.write_side_run(names)?;
            }
        } else {
            self.buffer.push(row);
            if self.buffer.len() >= self.capacity {
                self.write_oldest(self.capacity - self.held, names)?;
            }
        }
        Ok(())
    }

    fn write_oldest(&mut self, count: usize, names: &Names) -> Result<()> {
        put_in_order(&mut self.buffer, self.in_order);
        // If a row does not fit, some of those before it are already written, and nothing more can
        // be.
        let Some(mut writer) = self.writer.take() else {
            return Err(table_error(&self.target, "already finished"));
        };
        let rows = &self.buffer[..count];
        let put = writer.put(rows, names);
        put.map_err(|e| table_error(&self.target, e))?;
        self.writer = Some(writer);
        self.in_file += count;
        self.written = rows.last().map(R::key).or(self.written);
        self.buffer.drain(..count);
        self.in_order = self.buffer.len();
        Ok(())
    }

    fn write_side_run(&mut self, names: &Names) -> Result<()> {
        self.late.sort_unstable_by_key(R::key);
        let (run, mut writer) = create(&self.target, R::schema())?;
        let put = writer.put(&self.late, names);
        put.map_err(|e| table_error(&self.target, e))?;
        self.close(writer)?;
        self.late.clear();
        self.runs.push_back(run);
        Ok(())
    }

    fn close(&self, writer: TableFile) -> Result<()> {
        writer.close().map_err(|e| table_error(&self.target, e))
    }

    /// Writes everything to the file, which does not have its name yet. Returns the number of rows.
    pub fn seal(&mut self, names: &Names) -> Result<u64> {
        self.write_oldest(self.buffer.len(), names)?;
        if !self.late.is_empty() {
            self.write_side_run(names)?;
        }
        self.buffer = Vec::new();
        self.late = Vec::new();
        if let Some(writer) = self.writer.take() {
            self.close(writer)?;
        }
        if !self.runs.is_empty() {
            self.merge_runs()?;
        }
        if let Some(file) = self.file.take() {
            self.sealed = Some(Sealed {
                file,
                rows: self.rows,
            });
        }
        Ok(self.rows)
    }

    fn merge_runs(&mut self) -> Result<()> {
        while self.runs.len() >= FAN_IN {
            let inputs: Vec<Partial> = self.runs.drain(..FAN_IN).collect();
            let merged = self.merged(&inputs)?;
            self.runs.push_back(merged);
        }
        let Some(main) = self.file.take() else {
            return Ok(());
        };
        let inputs: Vec<Partial> = std::iter::once(main).chain(self.runs.drain(..)).collect();
        self.file = Some(self.merged(&inputs)?);
        Ok(())
    }

    fn merged(&self, inputs: &[Partial]) -> Result<Partial> {
        let (merged, mut writer) = create(&self.target, R::schema())?;
        let paths: Vec<&Path> = inputs.iter().map(|run| run.path.as_path()).collect();
        merge(&paths, R::KEY, |batch| {
            writer
                .write(batch)
                .map_err(|e| table_error(&self.target, e))
        })?;
        self.close(writer)?;
        Ok(merged)
    }

    /// Gives the sealed file its name; returns its number of rows.
    pub fn publish(&mut self) -> Result<u64> {
        let Some(sealed) = self.sealed.take() else {
            return Err(table_error(&self.target, "published before sealed"));
        };
        sealed.file.publish(&self.target)?;
        Ok(sealed.rows)
    }

    pub fn finish(&mut self, names: &Names) -> Result<u64> {
        self.seal(names)?;
        self.publish()
    }
}

/// Rows that have all come, in their order, as a whole file of their table.
pub fn write_sorted<R: Row>(mut rows: Vec<R>, names: &Names, file: File) -> std::io::Result<()> {
    put_in_order(&mut rows, 0);
    let written = TableFile::new(file, R::schema()).and_then(|mut table| {
        table.put(&rows, names)?;
        table.close()
    });
    written.map_err(std::io::Error::other)
}

/// Sorts rows that are almost in order, like those of a simulator, where each row of one moment
/// passes a few others, and the first of which are sorted. If the others are not, this shows after
/// as many moves as there are rows, and a full sort follows.
fn put_in_order<R: Row>(rows: &mut [R], in_order: usize) {
    let mut moves = 0;
    for row in in_order.max(1)..rows.len() {
        let mut place = row;
        while place > 0 && rows[place].key() < rows[place - 1].key() {
            rows.swap(place, place - 1);
            place -= 1;
            moves += 1;
        }
        if moves > rows.len() {
            return rows.sort_unstable_by_key(R::key);
        }
    }
}
