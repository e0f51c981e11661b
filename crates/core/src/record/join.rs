//! Segments of one table become one table.

use std::path::{Path, PathBuf};

use super::encoding::{create, table_error, Temporary};
use super::merge::{is_whole, merge};
use super::writer::Row;
use crate::error::Result;

/// Files open at once; each takes a batch of rows in memory.
const FAN_IN: usize = 64;

/// What became of the segments.
#[derive(Debug, Default, PartialEq)]
pub struct Joined {
    pub rows: u64,
    /// Files that hold no whole table; they are left out.
    pub damaged: Vec<PathBuf>,
}

/// Writes the rows of all `segments`, in order, to `target`; of no row, no file. Memory does not grow with the number of
/// segments.
pub fn join<R: Row>(segments: &[PathBuf], target: &Path) -> Result<Joined> {
    let (mut inputs, damaged): (Vec<PathBuf>, Vec<PathBuf>) =
        segments.iter().cloned().partition(|path| is_whole(path));
    let mut joined = Joined { rows: 0, damaged };
    let mut temporaries: Vec<Temporary> = Vec::new();
    let mut round = 0;
    while inputs.len() > FAN_IN {
        let mut merged = Vec::new();
        for (number, group) in inputs.chunks(FAN_IN).enumerate() {
            let run = Temporary::of(target, &format!(".round{round}-{number}"));
            write::<R>(group, &run.path)?;
            merged.push(run);
        }
        inputs = merged.iter().map(|run| run.path.clone()).collect();
        // Those of the round before are read and go.
        temporaries = merged;
        round += 1;
    }
    if inputs.is_empty() {
        return Ok(joined);
    }
    let whole = Temporary::of(target, "");
    joined.rows = write::<R>(&inputs, &whole.path)?;
    drop(temporaries);
    if joined.rows > 0 {
        whole.publish(target)?;
    }
    Ok(joined)
}

fn write<R: Row>(inputs: &[PathBuf], path: &Path) -> Result<u64> {
    let mut writer = create(path, R::schema())?;
    let mut rows = 0;
    let paths: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
    merge(&paths, R::KEY, |batch| {
        rows += batch.num_rows() as u64;
        writer.write(batch).map_err(|e| table_error(path, e))
    })?;
    writer.close().map_err(|e| table_error(path, e))?;
    Ok(rows)
}
