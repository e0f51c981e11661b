//! Merges sorted Parquet runs into one sorted stream, with a batch of each in memory at a time.

use super::encoding::table_error;
use super::gather::{gather, Pick};
use super::read::{Batches, Table};
use crate::error::Result;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{Int64Array, RecordBatch, UInt64Array};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};

/// Rows read and written at a time: with 17 columns about 1 MB a run.
pub const BATCH_ROWS: usize = 8192;

/// The columns rows are sorted by: a time, and an id that settles ties (earlier runs go first without one).
#[derive(Clone, Copy, Debug)]
pub struct SortKey {
    pub time: &'static str,
    pub id: Option<&'static str>,
}

struct Run {
    path: PathBuf,
    batches: Batches,
    /// Position of the current batch among the batches held.
    batch: usize,
    row: usize,
    times: Int64Array,
    ids: Option<UInt64Array>,
}

impl Run {
    fn open(path: &Path) -> Result<Self> {
        Ok(Run {
            path: path.to_path_buf(),
            batches: Table::open(path)?.all(BATCH_ROWS)?,
            batch: 0,
            row: 0,
            times: Int64Array::from(Vec::<i64>::new()),
            ids: None,
        })
    }

    fn next_batch(&mut self, key: SortKey, held: &mut Vec<RecordBatch>) -> Result<bool> {
        for batch in self.batches.by_ref() {
            let batch = batch?;
            if batch.num_rows() == 0 {
                continue;
            }
            let missing = || {
                table_error(
                    &self.path,
                    "a sorted run without the columns it is sorted by",
                )
            };
            let times = batch
                .column_by_name(key.time)
                .and_then(|c| c.as_primitive_opt::<Int64Type>());
            self.times = times.cloned().ok_or_else(missing)?;
            if let Some(id) = key.id {
                let ids = batch
                    .column_by_name(id)
                    .and_then(|c| c.as_primitive_opt::<UInt64Type>());
                self.ids = Some(ids.cloned().ok_or_else(missing)?);
            }
            (self.batch, self.row) = (held.len(), 0);
            held.push(batch);
            return Ok(true);
        }
        Ok(false)
    }

    fn key(&self) -> (i64, u64) {
        (
            self.times.value(self.row),
            self.ids.as_ref().map_or(0, |ids| ids.value(self.row)),
        )
    }
}

/// Whether a file is a Parquet table, according to its end.
pub fn is_whole(path: &Path) -> bool {
    Table::open(path).is_ok()
}

/// Passes the rows of all `paths`, in order, to `out`.
pub fn merge(
    paths: &[&Path],
    key: SortKey,
    mut out: impl FnMut(&RecordBatch) -> Result<()>,
) -> Result<()> {
    let mut held = Vec::new();
    let mut runs = Vec::with_capacity(paths.len());
    let mut heads = BinaryHeap::new();
    for path in paths {
        let mut run = Run::open(path)?;
        if run.next_batch(key, &mut held)? {
            heads.push(Reverse((run.key(), runs.len())));
            runs.push(run);
        }
    }
    let mut picks: Vec<Pick> = Vec::with_capacity(BATCH_ROWS);
    while let Some(Reverse((_, index))) = heads.pop() {
        let run = &mut runs[index];
        picks.push((run.batch, run.row));
        run.row += 1;
        if run.row < run.times.len() || run.next_batch(key, &mut held)? {
            heads.push(Reverse((run.key(), index)));
        } else {
            run.batch = usize::MAX;
        }
        if picks.len() == BATCH_ROWS {
            emit(&mut held, &mut picks, &mut runs, &mut out)?;
        }
    }
    emit(&mut held, &mut picks, &mut runs, &mut out)
}

/// Writes what was picked and releases every batch that is used up.
fn emit(
    held: &mut Vec<RecordBatch>,
    picks: &mut Vec<Pick>,
    runs: &mut [Run],
    out: &mut impl FnMut(&RecordBatch) -> Result<()>,
) -> Result<()> {
    if picks.is_empty() {
        return Ok(());
    }
    let merged = gather(held, picks).map_err(|e| table_error(Path::new("merge"), e))?;
    out(&merged)?;
    picks.clear();
    let mut current = Vec::with_capacity(runs.len());
    for run in runs.iter_mut().filter(|run| run.batch != usize::MAX) {
        current.push(held[run.batch].clone());
        run.batch = current.len() - 1;
    }
    *held = current;
    Ok(())
}
