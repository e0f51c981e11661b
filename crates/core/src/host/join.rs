//! The segments of a recording become the tables of a run folder, whether its recorder ended or was
//! killed.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::capture::{live, pcap};
use crate::error::{Error, Result};
use crate::record::join::{join as join_table, Joined};
use crate::record::rows::{NumberedEvent, NumberedSample};
use crate::whole::create_new;

/// The result of joining.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub samples: u64,
    pub events: u64,
    /// The results of the decoded visits; None if there are none.
    pub packets: Option<live::Linked>,
    /// The joined capture, where packets were kept.
    pub capture: Option<PathBuf>,
    /// Segments without a complete table.
    pub damaged: Vec<String>,
}

/// Joins the closed segments of the recording in `folder` into tables in `out`, and a kept capture
/// into `out`/raw/packets.pcap. `together`: lists of names that one server has at its ports.
pub fn join(folder: &Path, out: &Path, together: Vec<Vec<String>>) -> Result<Report> {
    let mut report = Report::default();
    let samples = segments(folder, "samples.parquet")?;
    let joined = join_table::<NumberedSample>(&samples, &out.join("samples.parquet"))?;
    report.samples = report.count(joined);
    let events = segments(folder, "events.parquet")?;
    let joined = join_table::<NumberedEvent>(&events, &out.join("events.parquet"))?;
    report.events = report.count(joined);
    let stays = segments(folder, "stays.parquet")?;
    if !stays.is_empty() {
        let mut linked = live::link(&stays, out, together)?;
        report.tell_damaged(&std::mem::take(&mut linked.damaged));
        report.packets = Some(linked);
    }
    let captures = segments(folder, "packets.pcap")?;
    if !captures.is_empty() {
        report.capture = Some(join_captures(&captures, &out.join("raw"))?);
    }
    Ok(report)
}

impl Report {
    fn count(&mut self, joined: Joined) -> u64 {
        self.tell_damaged(&joined.damaged);
        joined.rows
    }

    fn tell_damaged(&mut self, paths: &[PathBuf]) {
        let names = paths.iter().map(|path| path.display().to_string());
        self.damaged.extend(names);
    }
}

/// Joins captures into one: their file headers are equal, so all but the first are left out.
fn join_captures(captures: &[PathBuf], raw: &Path) -> Result<PathBuf> {
    let target = raw.join("packets.pcap");
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Io { path, source }
    };
    std::fs::create_dir_all(raw).map_err(failed(raw))?;
    let mut whole = create_new(&target)?;
    for (number, path) in captures.iter().enumerate() {
        let mut part = File::open(path).map_err(failed(path))?;
        if number > 0 {
            let head = io::SeekFrom::Start(pcap::HEADER as u64);
            io::Seek::seek(&mut part, head).map_err(failed(path))?;
        }
        io::copy(&mut part, &mut whole).map_err(failed(&target))?;
    }
    Ok(target)
}

/// Closed segments of a table, in the order in which they were closed.
fn segments(folder: &Path, table: &str) -> Result<Vec<PathBuf>> {
    let failed = |source| Error::Io {
        path: folder.to_owned(),
        source,
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if !entry.file_name().to_string_lossy().ends_with(table) {
            continue;
        }
        let path = entry.path();
        if !entry.file_type().map_err(failed)?.is_file() {
            let message = "it is a link, a named pipe or a folder, not a file".to_owned();
            return Err(Error::Table { path, message });
        }
        found.push(path);
    }
    found.sort_unstable();
    Ok(found)
}
