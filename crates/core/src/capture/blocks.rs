//! Bytes that are read and unpacked in blocks, on the thread that needs them or on one of its own. Both give the same
//! bytes and errors, and the same progress with them.

use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{channel, sync_channel, Receiver};
use std::sync::Arc;

/// Bytes of a block: the largest block of zstd.
const BLOCK: usize = 1 << 17;
/// Blocks that wait: 2 MB.
const WAITING: usize = 16;

struct Block {
    bytes: Vec<u8>,
    /// Bytes of the file that were taken so far.
    taken: u64,
    /// Why nothing follows; none: more may.
    ended: Option<io::Result<()>>,
}

struct Maker {
    stream: Box<dyn Read + Send>,
    taken: Arc<AtomicU64>,
}

pub struct Blocks {
    /// None once a thread has it.
    maker: Option<Maker>,
    blocks: Option<Receiver<Block>>,
    block: Block,
    at: usize,
}

impl Maker {
    fn block(&mut self) -> Block {
        let mut bytes = Vec::with_capacity(BLOCK);
        let read = self
            .stream
            .by_ref()
            .take(BLOCK as u64)
            .read_to_end(&mut bytes);
        let ended = match read {
            Ok(count) if count == BLOCK => None,
            other => Some(other.map(|_| ())),
        };
        Block {
            bytes,
            taken: self.taken.load(Ordering::Relaxed),
            ended,
        }
    }
}

impl Blocks {
    /// `taken` counts the bytes of the file that `stream` takes.
    pub fn new(stream: Box<dyn Read + Send>, taken: Arc<AtomicU64>) -> Blocks {
        let block = Block {
            bytes: Vec::new(),
            taken: taken.load(Ordering::Relaxed),
            ended: None,
        };
        Blocks {
            maker: Some(Maker { stream, taken }),
            blocks: None,
            block,
            at: 0,
        }
    }

    /// Bytes of the file that were taken for what was read.
    pub fn taken(&self) -> u64 {
        self.block.taken
    }

    /// From now on, a thread makes them, if there can be one. It ends with the stream, or when nobody reads any more.
    pub fn leave(&mut self) {
        let (first, begin) = channel::<Maker>();
        let (to, blocks) = sync_channel(WAITING);
        let thread = std::thread::Builder::new().spawn(move || {
            let Ok(mut maker) = begin.recv() else {
                return;
            };
            loop {
                let block = maker.block();
                let ended = block.ended.is_some();
                if to.send(block).is_err() || ended {
                    return;
                }
            }
        });
        if thread.is_err() {
            return;
        }
        if let Some(maker) = self.maker.take() {
            self.blocks = Some(blocks);
            let _ = first.send(maker);
        }
    }

    fn next(&mut self) -> io::Result<Block> {
        if let Some(maker) = &mut self.maker {
            return Ok(maker.block());
        }
        let block = self.blocks.as_ref().and_then(|blocks| blocks.recv().ok());
        block.ok_or_else(|| io::Error::other("reading ended"))
    }
}

impl Read for Blocks {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.block.bytes.len() {
            match self.block.ended.take() {
                Some(Ok(())) => {
                    self.block.ended = Some(Ok(()));
                    return Ok(0);
                }
                Some(Err(error)) => {
                    self.block.ended = Some(Ok(()));
                    return Err(error);
                }
                None => (self.block, self.at) = (self.next()?, 0),
            }
        }
        let rest = self.block.bytes.get(self.at..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..count), rest.get(..count)) {
            to.copy_from_slice(from);
        }
        self.at += count;
        Ok(count)
    }
}
