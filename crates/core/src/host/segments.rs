//! Closed segments: small files, one for each table and second. A thread of its own writes them, so
//! that a slow disk delays neither samples nor packets.
//! ```text
//! rows of a second ─▶ queue (bounded) ─▶ 000017.samples.parquet.tmp ─▶ renamed ─▶ recording.json, once a second
//!                        └ full, or the disk is: the rows are counted as lost
//! ```
//!
//! Nothing forces a flush: the kernel writes some kilobytes a second at its own pace, and a
//! recorder that is killed loses only the rows of its open second. With a ring, the oldest files
//! are removed.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender, TrySendError};
use std::sync::Arc;

use super::state::Shared;
use super::sys;
use crate::error::Result;

/// The length of a segment, and so the most that a kill loses.
pub const SEGMENT_NS: i64 = 1_000_000_000;
/// Between two writes of the state: less than a segment, because segments come with some jitter.
/// The kernel writes a replaced file at once (ext4's auto_da_alloc), so the state is not written
/// with each of a second's three segments.
const STATE_NS: i64 = SEGMENT_NS / 10 * 9;
/// Segments that wait for a slow disk, most of a minute, and their memory: the size of a capture of
/// 20,000 packets a second in that time.
const WAITING: usize = 128;
const WAITING_BYTES: usize = 64 << 20;

/// Writes rows to the file of this path.
pub type Write = Box<dyn FnOnce(&Path) -> Result<()> + Send>;
/// Receives a sentence for the user.
pub type Tell = Box<dyn Fn(String) + Send>;

/// The rows of one table and second, and how to write them.
pub struct Segment {
    /// The end of the file's name: `samples.parquet`.
    pub table: &'static str,
    pub rows: u64,
    /// The memory that it takes until it is written.
    pub bytes: usize,
    /// The last moment in it.
    pub end: i64,
    pub write: Write,
}

/// The queue to which threads send their segments.
#[derive(Clone)]
pub struct Outbox {
    queue: SyncSender<Segment>,
    waiting: Arc<AtomicUsize>,
    shared: Arc<Shared>,
}

impl Outbox {
    /// Never waits.
    pub fn put(&self, segment: Segment) {
        let bytes = segment.bytes;
        // It is alone in the queue, however large it is, or there is room for it.
        let before = self.waiting.fetch_add(bytes, Ordering::Relaxed);
        let put = match before == 0 || before + bytes <= WAITING_BYTES {
            true => self.queue.try_send(segment),
            false => Err(TrySendError::Full(segment)),
        };
        let (Err(TrySendError::Full(lost)) | Err(TrySendError::Disconnected(lost))) = put else {
            return;
        };
        self.waiting.fetch_sub(bytes, Ordering::Relaxed);
        let what = format!("rows of {}: the disk was too slow", lost.table);
        self.shared.lose(&what, lost.rows);
    }
}

pub struct Shelf {
    folder: PathBuf,
    keep_ns: Option<i64>,
    shared: Arc<Shared>,
    waiting: Arc<AtomicUsize>,
    kept: VecDeque<(i64, PathBuf)>,
    number: u64,
    /// When the state was written.
    stated: Option<i64>,
    /// The last write failed: it is reported once, until a write succeeds.
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
        let waiting = Arc::new(AtomicUsize::new(0));
        let shelf = Shelf {
            folder: folder.to_owned(),
            keep_ns,
            shared: shared.clone(),
            waiting: waiting.clone(),
            kept: VecDeque::new(),
            number: 0,
            stated: None,
            failing: false,
            tell,
        };
        let outbox = Outbox {
            queue,
            waiting,
            shared,
        };
        (shelf, outbox, inbox)
    }

    /// Writes until every outbox is gone.
    pub fn run(mut self, inbox: &Receiver<Segment>) {
        sys::stand_back();
        while let Ok(segment) = inbox.recv() {
            let bytes = segment.bytes;
            self.close(segment);
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
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
            self.state()
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

    fn state(&mut self) -> Result<()> {
        let now = sys::steady_ns();
        if self.stated.is_some_and(|before| now - before < STATE_NS) {
            return Ok(());
        }
        self.stated = Some(now);
        self.shared.write(&self.folder)
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
            // A file that is already gone needs no removal.
            let _ = std::fs::remove_file(path);
            self.shared.lock().begin = *end;
            self.kept.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(rows: u64, bytes: usize) -> Segment {
        Segment {
            table: "packets.pcap",
            rows,
            bytes,
            end: 0,
            write: Box::new(|_| Ok(())),
        }
    }

    #[test]
    fn memory_that_waits_for_a_disk_is_bounded_and_what_is_lost_is_counted() {
        let shared = Arc::new(Shared::default());
        let (_shelf, outbox, _inbox) =
            Shelf::new(Path::new("."), None, shared.clone(), Box::new(|_| ()));
        outbox.put(segment(1, WAITING_BYTES / 2));
        outbox.put(segment(2, WAITING_BYTES / 2));
        assert!(shared.lock().lost.is_empty());
        outbox.put(segment(40, 1));
        outbox.put(segment(2, WAITING_BYTES));
        let lost: Vec<u64> = shared.lock().lost.values().copied().collect();
        assert_eq!(lost, [42]);
    }

    #[test]
    fn the_state_is_not_written_again_with_each_segment_of_a_second() -> std::io::Result<()> {
        let folder = std::env::temp_dir().join(format!("tailrace-state-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let shared = Arc::new(Shared::default());
        let (mut shelf, _outbox, _inbox) =
            Shelf::new(&folder, None, shared.clone(), Box::new(|_| ()));
        let state = folder.join(super::super::state::FILE);
        shelf.close(segment(1, 1));
        std::fs::remove_file(&state)?;
        shelf.close(segment(1, 1));
        let again = state.exists();
        std::fs::remove_dir_all(&folder)?;
        assert!(!again);
        Ok(())
    }

    #[test]
    fn a_segment_that_is_alone_may_be_of_any_size() {
        let shared = Arc::new(Shared::default());
        let (_shelf, outbox, _inbox) =
            Shelf::new(Path::new("."), None, shared.clone(), Box::new(|_| ()));
        outbox.put(segment(1, WAITING_BYTES + 1));
        assert!(shared.lock().lost.is_empty());
    }
}
