//! A worker's log, on disk within a quarter of a second. Rows have equal length and are only
//! appended, so that any end of the worker leaves all rows but the last few. They become tables
//! when the load is over ([`super::table`]).

use crate::error::{Error, Result};
use crate::whole;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender, TrySendError};
use std::thread::JoinHandle;

const MAGIC: &[u8; 8] = b"tailload";
pub const ROW: usize = 80;
/// A block goes to disk when it is this full, or a quarter of a second old.
const BLOCK: usize = ROW * 4096;
/// In place of a largest delay, which is never negative.
const SURGE: i64 = -1;
/// Blocks that may wait for the disk: 20 MB, or a quarter of a million requests.
const WAITING: usize = 64;

/// The meaning of the indices in the rows.
#[derive(Debug, Serialize, Deserialize)]
pub struct Header {
    pub servers: Vec<String>,
    pub interactions: Vec<String>,
}

/// Moments in ns since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    Request(Seen),
    /// The load generator was late: begin, end, and largest delay.
    Late {
        begin: i64,
        end: i64,
        worst: i64,
    },
    /// More requests than usual, by the workload's own pattern, at the first server of its entry.
    Surge {
        server: u16,
        begin: i64,
        end: i64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub request: u64,
    pub client: u32,
    pub server: u16,
    pub class: u16,
    pub status: u16,
    pub drops: u8,
    pub data_drops: u8,
    pub intended: i64,
    pub sent: i64,
    /// [`crate::record::NO_TIME`]: never.
    pub connected: i64,
    pub first_byte: i64,
    pub end: i64,
    pub bytes: u64,
}

impl Row {
    pub fn end(&self) -> i64 {
        match self {
            Row::Request(seen) => seen.end,
            Row::Late { end, .. } | Row::Surge { end, .. } => *end,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let begun = out.len();
        match self {
            Row::Request(seen) => {
                out.extend_from_slice(&seen.request.to_le_bytes());
                out.extend_from_slice(&seen.client.to_le_bytes());
                for small in [seen.server, seen.class, seen.status] {
                    out.extend_from_slice(&small.to_le_bytes());
                }
                out.extend_from_slice(&[seen.drops, seen.data_drops]);
                for time in [
                    seen.intended,
                    seen.sent,
                    seen.connected,
                    seen.first_byte,
                    seen.end,
                ] {
                    out.extend_from_slice(&time.to_le_bytes());
                }
                out.extend_from_slice(&seen.bytes.to_le_bytes());
            }
            Row::Late { begin, end, worst } => {
                // No request has the number 0.
                out.extend_from_slice(&0u64.to_le_bytes());
                for time in [begin, end, worst] {
                    out.extend_from_slice(&time.to_le_bytes());
                }
            }
            Row::Surge { server, begin, end } => {
                out.extend_from_slice(&0u64.to_le_bytes());
                for word in [*begin, *end, SURGE, i64::from(*server)] {
                    out.extend_from_slice(&word.to_le_bytes());
                }
            }
        }
        out.resize(begun + ROW, 0);
    }

    fn read(row: &[u8; ROW]) -> Row {
        let at = |i: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&row[i..i + 8]);
            word
        };
        let time = |i| i64::from_le_bytes(at(i));
        let small = |i: usize| u16::from_le_bytes([row[i], row[i + 1]]);
        let request = u64::from_le_bytes(at(0));
        if request == 0 && time(24) == SURGE {
            return Row::Surge {
                server: small(32),
                begin: time(8),
                end: time(16),
            };
        }
        if request == 0 {
            return Row::Late {
                begin: time(8),
                end: time(16),
                worst: time(24),
            };
        }
        Row::Request(Seen {
            request,
            client: u32::from_le_bytes([row[8], row[9], row[10], row[11]]),
            server: small(12),
            class: small(14),
            status: small(16),
            drops: row[18],
            data_drops: row[19],
            intended: time(20),
            sent: time(28),
            connected: time(36),
            first_byte: time(44),
            end: time(52),
            bytes: u64::from_le_bytes(at(60)),
        })
    }
}

/// Writes rows from a thread of its own, because a disk that stalls must not stall the load.
pub struct Writer {
    path: PathBuf,
    block: Vec<u8>,
    blocks: Option<SyncSender<Vec<u8>>>,
    thread: Option<JoinHandle<std::io::Result<()>>>,
    /// Rows that the disk could not take in time.
    pub lost: u64,
}

impl Writer {
    pub fn create(path: &Path, header: &Header) -> Result<Self> {
        let failed = |source| Error::Io {
            path: path.to_path_buf(),
            source,
        };
        let mut file = whole::create_new(path)?;
        let header = serde_json::to_vec(header).map_err(|e| Error::Options(e.to_string()))?;
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(&(header.len() as u64).to_le_bytes());
        head.extend_from_slice(&header);
        file.write_all(&head).map_err(failed)?;
        let (blocks, waiting) = sync_channel(WAITING);
        Ok(Writer {
            path: path.to_path_buf(),
            block: Vec::with_capacity(BLOCK + ROW),
            blocks: Some(blocks),
            thread: Some(std::thread::spawn(move || drain(&waiting, file))),
            lost: 0,
        })
    }

    pub fn push(&mut self, row: &Row) -> Result<()> {
        row.write(&mut self.block);
        if self.block.len() >= BLOCK {
            self.flush()?;
        }
        Ok(())
    }

    /// Passes the current rows to the thread; returns the error that ended it, if there is one.
    pub fn flush(&mut self) -> Result<()> {
        let Some(blocks) = self.blocks.as_ref().filter(|_| !self.block.is_empty()) else {
            return Ok(());
        };
        let block = std::mem::replace(&mut self.block, Vec::with_capacity(BLOCK + ROW));
        match blocks.try_send(block) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(block)) => {
                self.lost += (block.len() / ROW) as u64;
                Ok(())
            }
            Err(TrySendError::Disconnected(_)) => self.finish(),
        }
    }

    /// All rows are in the file.
    pub fn finish(&mut self) -> Result<()> {
        if let Some(blocks) = self.blocks.take() {
            let block = std::mem::take(&mut self.block);
            // Its thread has ended with an error, which join returns.
            let _ = blocks.send(block);
        }
        let ended = self.thread.take().map(JoinHandle::join);
        match ended {
            Some(Ok(Err(source))) => Err(Error::Io {
                path: self.path.clone(),
                source,
            }),
            _ => Ok(()),
        }
    }
}

fn drain(blocks: &Receiver<Vec<u8>>, mut file: File) -> std::io::Result<()> {
    blocks.iter().try_for_each(|block| file.write_all(&block))
}

/// The rows of a log, up to where it was cut off.
pub struct Log {
    pub header: Header,
    file: BufReader<File>,
    path: PathBuf,
}

impl Log {
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |source| Error::Io {
            path: path.to_path_buf(),
            source,
        };
        let wrong = |offset, found: &str| Error::Format {
            path: path.to_path_buf(),
            offset,
            found: found.to_owned(),
            hint: "it is no log of a load, or its begin was lost",
        };
        let mut file = BufReader::with_capacity(1 << 18, File::open(path).map_err(failed)?);
        let mut start = [0; 16];
        file.read_exact(&mut start)
            .map_err(|_| wrong(0, "it is shorter than a header"))?;
        let (magic, length) = start.split_at(8);
        if magic != MAGIC {
            return Err(wrong(0, "it begins with something else"));
        }
        let mut long = [0; 8];
        long.copy_from_slice(length);
        let mut header = Vec::new();
        file.by_ref()
            .take(u64::from_le_bytes(long))
            .read_to_end(&mut header)
            .map_err(failed)?;
        let header =
            serde_json::from_slice(&header).map_err(|error| wrong(16, &error.to_string()))?;
        Ok(Log {
            header,
            file,
            path: path.to_path_buf(),
        })
    }

    /// None: no complete row is left.
    pub fn next(&mut self) -> Result<Option<Row>> {
        let mut row = [0; ROW];
        match self.file.read_exact(&mut row) {
            Ok(()) => Ok(Some(Row::read(&row))),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
            Err(source) => Err(Error::Io {
                path: self.path.clone(),
                source,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::record::NO_TIME;

    fn rows() -> Vec<Row> {
        let seen = |n: u64| Seen {
            request: n,
            client: 7,
            server: 1,
            class: 2,
            status: 503,
            drops: 3,
            data_drops: 4,
            intended: 10,
            sent: 11,
            connected: NO_TIME,
            first_byte: 13,
            end: 14 + n as i64,
            bytes: 1 << 40,
        };
        let late = Row::Late {
            begin: 1,
            end: 20,
            worst: 19,
        };
        let surge = Row::Surge {
            server: 0,
            begin: 2,
            end: 15,
        };
        vec![Row::Request(seen(1)), late, surge, Row::Request(seen(2))]
    }

    fn read(path: &Path) -> Vec<Row> {
        let mut log = Log::open(path).unwrap();
        assert_eq!(log.header.servers, ["web"]);
        std::iter::from_fn(|| log.next().unwrap()).collect()
    }

    #[test]
    fn rows_come_back_and_a_cut_one_is_left_out() {
        let name = format!("tailrace-{}-load.log", std::process::id());
        let path = std::env::temp_dir().join(name);
        let header = Header {
            servers: vec!["web".into()],
            interactions: vec![],
        };
        let mut writer = Writer::create(&path, &header).unwrap();
        for row in rows() {
            writer.push(&row).unwrap();
        }
        writer.finish().unwrap();
        assert_eq!(read(&path), rows());
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert_eq!(read(&path), rows()[..3]);
        std::fs::write(&path, b"something else").unwrap();
        assert!(Log::open(&path).is_err());
        std::fs::remove_file(path).unwrap();
    }
}
