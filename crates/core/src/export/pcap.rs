//! The capture file: classic pcap, little endian, nanoseconds, Ethernet.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::whole;

const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const ETHERNET: u32 = 1;
const BUFFER: usize = 1 << 20;
const SECOND: i64 = 1_000_000_000;
/// A record counts its seconds in 32 bits.
pub const TIME_MAX: i64 = u32::MAX as i64 * SECOND;

pub struct PcapFile {
    path: PathBuf,
    out: BufWriter<File>,
    snaplen: usize,
    pub packets: u64,
    pub bytes: u64,
    pub begin: Option<i64>,
    pub end: Option<i64>,
}

impl PcapFile {
    pub fn create(path: &Path, snaplen: u32) -> Result<Self> {
        let failed = |source| Error::Io {
            path: path.to_path_buf(),
            source,
        };
        let file = whole::create_new(path)?;
        let mut out = BufWriter::with_capacity(BUFFER, file);
        let mut head = MAGIC_NANOSECONDS.to_le_bytes().to_vec();
        head.extend([2, 0, 4, 0]);
        for field in [0, 0, snaplen, ETHERNET] {
            head.extend(u32::to_le_bytes(field));
        }
        out.write_all(&head).map_err(failed)?;
        Ok(PcapFile {
            path: path.to_path_buf(),
            out,
            snaplen: snaplen as usize,
            packets: 0,
            bytes: head.len() as u64,
            begin: None,
            end: None,
        })
    }

    /// `time` lies in 0..=TIME_MAX.
    pub fn write(&mut self, time: i64, frame: &[u8]) -> Result<()> {
        let kept = &frame[..frame.len().min(self.snaplen)];
        let fields = [
            (time / SECOND) as u32,
            (time % SECOND) as u32,
            kept.len() as u32,
            frame.len() as u32,
        ];
        let mut head = [0; 16];
        for (bytes, field) in head.chunks_exact_mut(4).zip(fields) {
            bytes.copy_from_slice(&field.to_le_bytes());
        }
        self.out
            .write_all(&head)
            .and_then(|()| self.out.write_all(kept))
            .map_err(|source| self.failed(source))?;
        self.packets += 1;
        self.bytes += (head.len() + kept.len()) as u64;
        self.begin.get_or_insert(time);
        self.end = Some(time);
        Ok(())
    }

    pub fn finish(&mut self) -> Result<()> {
        self.out.flush().map_err(|source| self.failed(source))
    }

    fn failed(&self, source: std::io::Error) -> Error {
        Error::Io {
            path: self.path.clone(),
            source,
        }
    }
}
