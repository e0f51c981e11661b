//! Closed segments: small files, one a table and second, written by a thread of its own, so that a slow disk delays
//! neither samples nor packets.
//!
//! ```text
//! rows of a second ─▶ queue (bounded) ─▶ 000017.samples.parquet.tmp ─▶ renamed ─▶ recording.json
//!                        └ full, or the disk is: the rows are counted as lost
//! ```
//! Nothing is flushed to the disk by force: the kernel writes some kilobytes a second when it likes, and a recorder that
//! is killed loses only the rows of its open second. With a ring, the oldest files are removed.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender, TrySendError};
use std::sync::Arc;

use super::state::Shared;
use crate::error::Result;

/// How long a segment is: what a kill can cost.
pub const SEGMENT_NS: i64 = 1_000_000_000;
/// Segments that wait for a slow disk: most of a minute, some megabytes.
const WAITING: usize = 128;

/// Turns rows into the file of this path.
pub type Write = Box<dyn FnOnce(&Path) -> Result<()> + Send>;
/// Takes a sentence for a person.
pub type Tell = Box<dyn Fn(String) + Send>;

/// The rows of one table and second, and how they become a file.
pub struct Segment {
    /// The end of the file's name: `samples.parquet`.
    pub table: &'static str,
    pub rows: u64,
    /// The last moment in it.
    pub end: i64,
    pub write: Write,
}

/// Where threads put their segments.
#[derive(Clone)]
pub struct Outbox {
    queue: SyncSender<Segment>,
    shared: Arc<Shared>,
}

impl Outbox {
    /// Never waits.
    pub fn put(&self, segment: Segment) {
        let (Err(TrySendError::Full(lost)) | Err(TrySendError::Disconnected(lost))) =
            self.queue.try_send(segment)
        else {
            return;
        };
        let what = format!("rows of {}: the disk was too slow", lost.table);
        self.shared.lose(&what, lost.rows);
    }
}

pub struct Shelf {
    folder: PathBuf,
    keep_ns: Option<i64>,
    shared: Arc<Shared>,
    kept: VecDeque<(i64, PathBuf)>,
    number: u64,
    /// The last write failed: it is told once, until one succeeds.
    failing: bool,
    tell: Tell,
}

impl Shelf {
    pub fn new(
        folder: &Path,
        keep_ns: Option<i64>,
        shared: Arc<Shared>,
        tell: Tell,
    ) -> (Shelf, Outbox, Receiver<Segment>) {
        let (queue, inbox) = sync_channel(WAITING);
        let shelf = Shelf {
            folder: folder.to_owned(),
            keep_ns,
            shared: shared.clone(),
            kept: VecDeque::new(),
            number: 0,
            failing: false,
            tell,
        };
        (shelf, Outbox { queue, shared }, inbox)
    }

    /// Writes until every outbox is gone.
    pub fn run(mut self, inbox: &Receiver<Segment>) {
        while let Ok(segment) = inbox.recv() {
            self.close(segment);
        }
    }

    fn close(&mut self, segment: Segment) {
        self.number += 1;
        let Segment {
            table, rows, end, ..
        } = segment;
        let path = self.folder.join(format!("{:08}.{table}", self.number));
        let written = (segment.write)(&path).and_then(|()| {
            self.kept.push_back((end, path));
            let mut state = self.shared.lock();
            state.end = state.end.max(end);
            drop(state);
            self.forget(end);
            self.shared.write(&self.folder)
        });
        match written {
            Ok(()) => self.failing = false,
            Err(error) => {
                self.shared.lose(&format!("rows of {table}: {error}"), rows);
                if !std::mem::replace(&mut self.failing, true) {
                    (self.tell)(format!(
                        "{error}; recording goes on, and what cannot be written is counted as lost"
                    ));
                }
            }
        }
    }

    /// Removes what is older than the ring keeps.
    fn forget(&mut self, now: i64) {
        let Some(keep) = self.keep_ns else {
            return;
        };
        while let Some((end, path)) = self.kept.front() {
            if now.saturating_sub(*end) <= keep {
                break;
            }
            // A file that is gone already needs no removal.
            let _ = std::fs::remove_file(path);
            self.shared.lock().begin = *end;
            self.kept.pop_front();
        }
    }
}
