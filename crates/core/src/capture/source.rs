//! The bytes of a capture: a file, gzip, zstd or standard input.
//!
//! The first bytes show which, not the name. Readers see a window of decompressed bytes, consume it
//! from the front and request more; it is one buffer, reused, and never larger than [`WINDOW_MAX`].
//! Bytes that cannot be read (a compressed stream cut short, a failing disk) end the stream with a
//! reason; earlier bytes stay valid.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use super::blocks::Blocks;
use super::standard::Standard;
use crate::bounds::{EXPANSION, EXPANSION_FREE, ZSTD_WINDOW_LOG};
use crate::error::{Error, Result};

/// Bytes requested at a time: large enough that the cost of the calls is negligible, small enough
/// to stay in a CPU's cache.
pub const CHUNK: usize = 1 << 19;
/// The largest window: the largest block that pcapng readers accept (16 MiB, as Wireshark's), the
/// same for packets that wait to be sorted, and a chunk.
pub const WINDOW_MAX: usize = (16 << 20) + (6 << 20) + CHUNK;
/// Compressed bytes read ahead by a decompressor.
const PACKED_CHUNK: usize = 1 << 16;

pub struct Source {
    path: PathBuf,
    stream: Stream,
    compression: &'static str,
    /// Bytes taken from the file.
    taken: Arc<AtomicU64>,
    total: u64,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Decompressed offset of `buffer[start]`.
    offset: u64,
    ended: bool,
    failure: Option<String>,
    stopped: Arc<AtomicBool>,
}

enum Stream {
    Plain(Box<dyn Read + Send>),
    InBlocks(Blocks),
}

impl Source {
    /// Opens `path`, or standard input for "-".
    pub fn open(path: &Path) -> Result<Source> {
        if path.as_os_str() == "-" {
            let stopped = Arc::default();
            let stream = Standard::new(Arc::clone(&stopped))?;
            return Source::stoppable(path, Box::new(stream), 0, stopped);
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

    /// Reads `stream`; errors name `path`, and `total` is its length if known.
    pub fn new(path: &Path, stream: Box<dyn Read + Send>, total: u64) -> Result<Source> {
        Source::stoppable(path, stream, total, Arc::default())
    }

    fn stoppable(
        path: &Path,
        stream: Box<dyn Read + Send>,
        total: u64,
        stopped: Arc<AtomicBool>,
    ) -> Result<Source> {
        let failed = |source| match stopped.load(Ordering::Relaxed) {
            true => Error::Interrupted,
            false => Error::Io {
                path: path.to_owned(),
                source,
            },
        };
        let taken = Arc::new(AtomicU64::new(0));
        let mut stream = Counted {
            inner: stream,
            taken: Arc::clone(&taken),
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
        let packed = |stream| Stream::InBlocks(Blocks::new(stream, Arc::clone(&taken)));
        let stream = match compression {
            "gzip" => {
                let buffered = BufReader::with_capacity(PACKED_CHUNK, whole);
                packed(Box::new(flate2::bufread::MultiGzDecoder::new(buffered)))
            }
            "zstd" => {
                let buffered = BufReader::with_capacity(PACKED_CHUNK, whole);
                let mut unpacked =
                    zstd::stream::read::Decoder::with_buffer(buffered).map_err(failed)?;
                unpacked.window_log_max(ZSTD_WINDOW_LOG).map_err(failed)?;
                packed(Box::new(unpacked))
            }
            _ => Stream::Plain(Box::new(whole)),
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
            stopped,
        })
    }

    /// Fails if the user ended the work while the stream was silent.
    pub fn go_on(&self) -> Result<()> {
        match self.stopped.load(Ordering::Relaxed) {
            true => Err(Error::Interrupted),
            false => Ok(()),
        }
    }

    /// From now on, another thread reads and unpacks.
    pub fn read_beside(&mut self) {
        if let Stream::Plain(plain) = &mut self.stream {
            let plain = std::mem::replace(plain, Box::new(io::empty()));
            self.stream = Stream::InBlocks(Blocks::new(plain, Arc::clone(&self.taken)));
        }
        if let Stream::InBlocks(blocks) = &mut self.stream {
            blocks.leave();
        }
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

    /// Bytes taken from the file on disk, and its size (0: unknown).
    pub fn progress(&self) -> (u64, u64) {
        (self.taken(), self.total)
    }

    fn taken(&self) -> u64 {
        match &self.stream {
            Stream::Plain(_) => self.taken.load(Ordering::Relaxed),
            Stream::InBlocks(blocks) => blocks.taken(),
        }
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

    /// Reads at least a chunk more, or until `wanted` bytes are present, unless the stream ends;
    /// never holds more than [`WINDOW_MAX`]. It moves the window: indices into [`Source::bytes`]
    /// stay valid, slices do not. Memory grows with the bytes read and not with `wanted`.
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
            if self.has_expanded() {
                self.ended = true;
                self.failure = Some(format!(
                    "reading stopped, for the {} stream expands to more than {EXPANSION} times its size; unpack \
                     it to read all of it",
                    self.compression
                ));
                return;
            }
            let Some(free) = self
                .buffer
                .get_mut(self.end..room)
                .filter(|free| !free.is_empty())
            else {
                return;
            };
            let read = match &mut self.stream {
                Stream::Plain(plain) => plain.read(free),
                Stream::InBlocks(blocks) => blocks.read(free),
            };
            match read {
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

    /// More came out than an honest file of this size contains.
    fn has_expanded(&self) -> bool {
        let most = EXPANSION_FREE.saturating_add(self.taken().saturating_mul(EXPANSION));
        self.compression != "none" && self.offset + self.end as u64 > most
    }

    fn explain(&self, error: &io::Error) -> String {
        if error.to_string().contains("too much memory") {
            let most = (1u64 << ZSTD_WINDOW_LOG) >> 20;
            return format!(
                "it takes more than {most} MiB of memory to unpack (zstd --long=30 or 31); unpack it first with \
                 `zstd -d --long=31`"
            );
        }
        match (self.compression, error.kind()) {
            ("none", _) => format!("reading stopped: {error}"),
            (packing, io::ErrorKind::UnexpectedEof) => format!("the {packing} stream is cut short"),
            (packing, _) => format!("the {packing} stream is damaged: {error}"),
        }
    }
}

/// The packing that `magic` shows, or what the file is instead of a capture.
pub fn packing(magic: &[u8]) -> std::result::Result<&'static str, &'static str> {
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
    inner: Box<dyn Read + Send>,
    taken: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.taken.fetch_add(count as u64, Ordering::Relaxed);
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

    fn zstd_of_window(plain: &[u8], log: u32) -> Vec<u8> {
        let mut packer = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        packer.long_distance_matching(true).unwrap();
        packer.window_log(log).unwrap();
        packer.write_all(plain).unwrap();
        packer.finish().unwrap()
    }

    #[test]
    fn long_windows_are_read_and_longer_ones_say_what_they_need() {
        let plain = noise(1000);
        for log in [28, ZSTD_WINDOW_LOG] {
            let mut long = source(zstd_of_window(&plain, log));
            assert!(drain(&mut long) == plain);
            assert_eq!(long.failure(), None);
        }
        let mut longer = source(zstd_of_window(&plain, ZSTD_WINDOW_LOG + 1));
        assert!(drain(&mut longer).is_empty());
        assert!(longer.failure().unwrap().contains("zstd -d --long=31"));
    }

    #[test]
    fn a_bomb_is_read_to_its_bound() {
        let ended = |packed: Vec<u8>| {
            let most = EXPANSION_FREE + packed.len() as u64 * EXPANSION;
            let mut bomb = source(packed);
            while !bomb.ended() {
                bomb.fill(1);
                bomb.consume(bomb.bytes().len());
            }
            assert!(bomb.offset() <= most + CHUNK as u64, "{}", bomb.offset());
            bomb.failure().unwrap_or_default().to_owned()
        };
        let zeros = vec![0; 4 << 20];
        let bomb: Vec<u8> = (0..80)
            .flat_map(|_| zstd::encode_all(&zeros[..], 1).unwrap())
            .collect();
        assert!(ended(bomb).contains("unpack it"));
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packer.write_all(&zeros).unwrap();
        let bomb = packer.finish().unwrap().repeat(80);
        assert!(ended(bomb).contains("unpack it"));
        assert_eq!(ended(gzip(&zeros)), "");
    }

    #[test]
    fn other_packings_are_named() {
        let error = Source::new(Path::new("x"), Box::new(&b"BZh91AY"[..]), 0)
            .err()
            .unwrap();
        assert!(error.to_string().contains("bzip2"), "{error}");
    }
}
