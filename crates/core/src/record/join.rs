//! Joins the segments of one table into one table.

use std::path::{Path, PathBuf};

use super::encoding::{create, table_error};
use super::merge::{is_whole, merge};
use super::writer::Row;
use crate::error::Result;
use crate::whole::Partial;

/// Files open at once; each takes a batch of rows in memory.
const FAN_IN: usize = 64;

/// The result of joining.
#[derive(Debug, Default, PartialEq)]
pub struct Joined {
    pub rows: u64,
    /// Files that hold no complete table; they are left out.
    pub damaged: Vec<PathBuf>,
}

/// Writes the rows of all `segments`, in order, to `target`; without rows, it writes no file.
/// Memory does not grow with the number of segments.
pub fn join<R: Row>(segments: &[PathBuf], target: &Path) -> Result<Joined> {
    let (mut inputs, damaged): (Vec<PathBuf>, Vec<PathBuf>) =
        segments.iter().cloned().partition(|path| is_whole(path));
    let mut joined = Joined { rows: 0, damaged };
    let mut runs: Vec<Partial> = Vec::new();
    while inputs.len() > FAN_IN {
        let merged = inputs
            .chunks(FAN_IN)
            .map(|group| merged::<R>(group, target));
        let merged: Vec<Partial> = merged.map(|run| Ok(run?.0)).collect::<Result<_>>()?;
        inputs = merged.iter().map(|run| run.path.clone()).collect();
        // The files of the previous round are read and removed.
        runs = merged;
    }
    if inputs.is_empty() {
        return Ok(joined);
    }
    let (whole, rows) = merged::<R>(&inputs, target)?;
    joined.rows = rows;
    drop(runs);
    if rows > 0 {
        whole.publish(target)?;
    }
    Ok(joined)
}

/// The rows of all inputs, in order, in a file beside `target`, and how many.
fn merged<R: Row>(inputs: &[PathBuf], target: &Path) -> Result<(Partial, u64)> {
    let (partial, mut writer) = create(target, R::schema())?;
    let mut rows = 0;
    let paths: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
    merge(&paths, R::KEY, |batch| {
        rows += batch.num_rows() as u64;
        writer.write(batch).map_err(|e| table_error(target, e))
    })?;
    writer.close().map_err(|e| table_error(target, e))?;
    Ok((partial, rows))
}
