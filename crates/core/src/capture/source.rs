//! The bytes of a capture, whatever they are packed in: a file, gzip, zstd or standard input.
//!
//! Told by their first bytes and not by the name. Readers see a window of decompressed bytes which they consume from
//! the front and ask to grow; it is one buffer, reused, and never larger than [`WINDOW_MAX`]. Bytes that cannot be
//! read (a compressed stream cut short, a failing disk) end the stream with a reason: what came before stays valid.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::error::{Error, Result};

/// Bytes asked for at a time: large enough that the calls vanish, small enough to stay in a CPU's cache.
pub const CHUNK: usize = 1 << 19;
/// The largest window: the largest block that pcapng readers accept (16 MiB, as Wireshark's), as much as packets that
/// wait for their turn may take, and a chunk.
pub const WINDOW_MAX: usize = (16 << 20) + (6 << 20) + CHUNK;
/// Compressed bytes read ahead by a decompressor.
const PACKED_CHUNK: usize = 1 << 16;

pub struct Source {
    path: PathBuf,
    stream: Box<dyn Read>,
    compression: &'static str,
    taken: Rc<Cell<u64>>,
    total: u64,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Decompressed offset of `buffer[start]`.
    offset: u64,
    ended: bool,
    failure: Option<String>,
}

impl Source {
    /// Opens `path`, or standard input for "-".
    pub fn open(path: &Path) -> Result<Source> {
        if path.as_os_str() == "-" {
            return Source::new(path, Box::new(io::stdin()), 0);
        }
        let failed = |source| Error::Io {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        Source::new(
            path,
            Box::new(file),
            if about.is_file() { about.len() } else { 0 },
        )
    }

    /// Reads `stream`; `path` is what errors name, `total` its length where it is known.
    pub fn new(path: &Path, stream: Box<dyn Read>, total: u64) -> Result<Source> {
        let failed = |source| Error::Io {
            path: path.to_owned(),
            source,
        };
        let taken = Rc::new(Cell::new(0));
        let mut stream = Counted {
            inner: stream,
            taken: Rc::clone(&taken),
        };
        let mut magic = Vec::with_capacity(6);
        stream
            .by_ref()
            .take(6)
            .read_to_end(&mut magic)
            .map_err(failed)?;
        let compression = packing(&magic).map_err(|found| Error::Format {
            path: path.to_owned(),
            offset: 0,
            found: found.to_string(),
            hint: "unpack it first; plain, gzip and zstd captures are read as they are",
        })?;
        let whole = Cursor::new(magic).chain(stream);
        let stream: Box<dyn Read> = match compression {
            "gzip" => {
                let packed = BufReader::with_capacity(PACKED_CHUNK, whole);
                Box::new(flate2::bufread::MultiGzDecoder::new(packed))
            }
            "zstd" => {
                let packed = BufReader::with_capacity(PACKED_CHUNK, whole);
                Box::new(zstd::stream::read::Decoder::with_buffer(packed).map_err(failed)?)
            }
            _ => Box::new(whole),
        };
        Ok(Source {
            path: path.to_owned(),
            stream,
            compression,
            taken,
            total,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            offset: 0,
            ended: false,
            failure: None,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// "none", "gzip" or "zstd".
    pub fn compression(&self) -> &'static str {
        self.compression
    }

    /// What was read and not yet consumed.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// Decompressed offset of the first of [`Source::bytes`].
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes taken from the file as it lies on disk, and how many it has (0: unknown).
    pub fn progress(&self) -> (u64, u64) {
        (self.taken.get(), self.total)
    }

    /// There is nothing beyond [`Source::bytes`].
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// Why the stream ended before its end.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Drops the first `count` bytes of the window.
    pub fn consume(&mut self, count: usize) {
        let count = count.min(self.end - self.start);
        self.start += count;
        self.offset += count as u64;
    }

    /// Reads at least a chunk more, or until `wanted` bytes are there, unless the stream ends; never holds more than
    /// [`WINDOW_MAX`]. Moves the window: indices into [`Source::bytes`] stay, slices do not. Memory grows with what was
    /// read and not with what is wanted.
    pub fn fill(&mut self, wanted: usize) {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let room = wanted
            .min(self.end.saturating_mul(2))
            .max(self.end + CHUNK)
            .min(WINDOW_MAX);
        if self.buffer.len() < room {
            self.buffer.resize(room, 0);
        }
        while !self.ended {
            let Some(free) = self
                .buffer
                .get_mut(self.end..room)
                .filter(|free| !free.is_empty())
            else {
                return;
            };
            match self.stream.read(free) {
                Ok(0) => self.ended = true,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.ended = true;
                    self.failure = Some(self.explain(&error));
                }
            }
        }
    }

    fn explain(&self, error: &io::Error) -> String {
        match (self.compression, error.kind()) {
            ("none", _) => format!("reading stopped: {error}"),
            (packing, io::ErrorKind::UnexpectedEof) => format!("the {packing} stream is cut short"),
            (packing, _) => format!("the {packing} stream is damaged: {error}"),
        }
    }
}

/// The packing that `magic` announces, or what it is instead of a capture.
fn packing(magic: &[u8]) -> std::result::Result<&'static str, &'static str> {
    match magic {
        [0x1f, 0x8b, ..] => Ok("gzip"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Ok("zstd"),
        [0xfd, b'7', b'z', b'X', b'Z', 0] => Err("this is packed by xz"),
        [b'B', b'Z', b'h', ..] => Err("this is packed by bzip2"),
        [0x04, 0x22, 0x4d, 0x18, ..] => Err("this is packed by lz4"),
        [b'P', b'K', 3, 4, ..] => Err("this is a zip archive"),
        _ => Ok("none"),
    }
}

struct Counted {
    inner: Box<dyn Read>,
    taken: Rc<Cell<u64>>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.taken.set(self.taken.get() + count as u64);
        Ok(count)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::io::Write;

    fn source(bytes: Vec<u8>) -> Source {
        let total = bytes.len() as u64;
        Source::new(Path::new("test"), Box::new(Cursor::new(bytes)), total).unwrap()
    }

    fn drain(source: &mut Source) -> Vec<u8> {
        let mut all = Vec::new();
        while !source.ended() {
            source.fill(1);
            all.extend(source.bytes());
            source.consume(source.bytes().len());
        }
        all
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    }

    fn noise(len: u32) -> Vec<u8> {
        (0..len)
            .flat_map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes())
            .collect()
    }

    #[test]
    fn plain_gzip_and_zstd_give_the_same_bytes() {
        let plain = noise(300_000);
        for packed in [
            plain.clone(),
            gzip(&plain),
            zstd::encode_all(&plain[..], 1).unwrap(),
        ] {
            let mut source = source(packed.clone());
            assert!(drain(&mut source) == plain);
            assert_eq!(source.failure(), None);
            assert_eq!(
                source.progress(),
                (packed.len() as u64, packed.len() as u64)
            );
            assert_eq!(source.offset(), plain.len() as u64);
        }
    }

    #[test]
    fn several_members_and_frames_are_one_stream() {
        let (a, b) = (noise(1000), noise(2000));
        let both = [a.clone(), b.clone()].concat();
        assert!(drain(&mut source([gzip(&a), gzip(&b)].concat())) == both);
        let frames = [
            zstd::encode_all(&a[..], 1).unwrap(),
            zstd::encode_all(&b[..], 1).unwrap(),
        ]
        .concat();
        assert!(drain(&mut source(frames)) == both);
    }

    #[test]
    fn a_cut_compressed_stream_yields_what_came_before_and_a_reason() {
        let plain = noise(300_000);
        for packed in [gzip(&plain), zstd::encode_all(&plain[..], 1).unwrap()] {
            let mut source = source(packed[..packed.len() / 2].to_vec());
            let got = drain(&mut source);
            assert!(
                got.len() > plain.len() / 4 && plain.starts_with(&got),
                "{} bytes",
                got.len()
            );
            assert!(
                source.failure().unwrap().contains("cut short"),
                "{:?}",
                source.failure()
            );
        }
    }

    #[test]
    fn the_window_grows_with_what_is_read_and_not_with_what_is_wanted() {
        let mut source = source(noise(10));
        source.fill(usize::MAX);
        assert_eq!(source.bytes().len(), 40);
        assert!(source.buffer.len() <= 2 * CHUNK);
    }

    #[test]
    fn other_packings_are_named() {
        let error = Source::new(Path::new("x"), Box::new(&b"BZh91AY"[..]), 0)
            .err()
            .unwrap();
        assert!(error.to_string().contains("bzip2"), "{error}");
    }
}
