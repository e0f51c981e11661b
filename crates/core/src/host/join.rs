//! The segments of a recording become the tables of a run folder, whether its recorder ended or was killed.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::{Error, Result};
use crate::record::join::join as join_table;
use crate::record::rows::NumberedSample;

/// What was joined.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub samples: u64,
    /// Segments that hold no whole table.
    pub damaged: Vec<String>,
}

/// Joins what the recording in `folder` has closed into tables in `out`.
pub fn join(folder: &Path, out: &Path) -> Result<Report> {
    let mut report = Report::default();
    let joined =
        join_table::<NumberedSample>(&segments(folder, "samples")?, &out.join("samples.parquet"))?;
    report.samples = joined.rows;
    let damaged = joined.damaged.iter().map(|path| path.display().to_string());
    report.damaged.extend(damaged);
    Ok(report)
}

/// Closed segments of a table, in the order in which they were closed.
fn segments(folder: &Path, table: &str) -> Result<Vec<PathBuf>> {
    let failed = |source| Error::Io {
        path: folder.to_owned(),
        source,
    };
    let end = format!(".{table}.parquet");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(&end) {
            found.push(path);
        }
    }
    found.sort_unstable();
    Ok(found)
}
