//! Streams of HTTP/3 (RFC 9114): frames of a kind, a length and a payload. Requests have streams of their own; the streams
//! of one direction begin with their kind.

use serde::{Deserialize, Serialize};

use super::order::Piece;
use super::packet::Rest;

const DATA: u64 = 0;
const HEADERS: u64 = 1;
const SETTINGS: u64 = 4;
const TABLE_SIZE: u64 = 1;
/// Kinds and lengths are numbers of at most 8 bytes.
const HEAD_MAX: usize = 16;
/// The longest section that is read.
const SECTION_MAX: u64 = 64 << 10;

/// Reads the frames of one direction of a stream.
#[derive(Debug, Default, Deserialize, Serialize)]
pub struct Frames {
    head: Vec<u8>,
    kind: u64,
    left: u64,
    /// The content of this frame matters.
    kept: bool,
    content: Vec<u8>,
    /// Where frames begin is not known any more.
    lost: bool,
}

/// A whole frame that matters.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    Headers(Vec<u8>),
    Settings(Vec<u8>),
}

impl Frames {
    pub fn take(&mut self, piece: Piece<'_>, each: &mut dyn FnMut(Frame)) {
        match piece {
            Piece::Lost(n) if self.kind == DATA && n <= self.left => self.left -= n,
            Piece::Lost(_) => self.lost = true,
            Piece::Bytes(bytes) => {
                let mut rest = bytes;
                while !self.lost && !rest.is_empty() {
                    rest = self.some(rest, each);
                }
            }
        }
    }

    /// Bytes of a frame that is not there to its end.
    pub fn held(&self) -> usize {
        self.content.len()
    }

    /// The present frame is not read.
    pub fn forget(&mut self) {
        self.kept = false;
        self.content = Vec::new();
    }

    fn some<'a>(&mut self, bytes: &'a [u8], each: &mut dyn FnMut(Frame)) -> &'a [u8] {
        if self.left == 0 {
            let Some((&byte, after)) = bytes.split_first() else {
                return bytes;
            };
            self.head.push(byte);
            let mut rest = Rest(&self.head);
            if let Some((kind, len)) = rest.number().zip(rest.number()) {
                (self.kind, self.left) = (kind, len);
                self.head.clear();
                self.content.clear();
                self.kept = matches!(kind, HEADERS | SETTINGS) && len <= SECTION_MAX;
                if len == 0 {
                    self.frame(each);
                }
            } else if self.head.len() >= HEAD_MAX {
                self.lost = true;
            }
            return after;
        }
        let len = usize::try_from(self.left).map_or(bytes.len(), |left| left.min(bytes.len()));
        let (now, after) = bytes.split_at(len);
        if self.kept {
            self.content.extend_from_slice(now);
        }
        self.left -= len as u64;
        if self.left == 0 {
            self.frame(each);
        }
        after
    }

    fn frame(&mut self, each: &mut dyn FnMut(Frame)) {
        let content = std::mem::take(&mut self.content);
        match self.kind {
            HEADERS => each(Frame::Headers(content)),
            SETTINGS => each(Frame::Settings(content)),
            _ => {}
        }
        self.kind = u64::MAX;
    }
}

/// The size of the table for fields that a side allows.
pub fn table_size(settings: &[u8]) -> u64 {
    let mut rest = Rest(settings);
    while let Some((id, value)) = rest.number().zip(rest.number()) {
        if id == TABLE_SIZE {
            return value;
        }
    }
    0
}

/// A stream of one direction.
#[derive(Debug, Default, Deserialize, Serialize)]
pub enum Way {
    /// Its kind is still to come.
    #[default]
    New,
    Control(Frames),
    Encoder,
    Other,
}

impl Way {
    pub fn held(&self) -> usize {
        match self {
            Way::Control(frames) => frames.held(),
            _ => 0,
        }
    }

    pub fn of(kind: u8) -> Way {
        match kind {
            0 => Way::Control(Frames::default()),
            2 => Way::Encoder,
            _ => Way::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_in_pieces_of_any_length() {
        let bytes = b"\x21\x01x\x01\x03abc\0\x05hello\x04\x02\x01\x40\x01\0";
        for size in 1..=bytes.len() {
            let (mut frames, mut seen) = (Frames::default(), Vec::new());
            for piece in bytes.chunks(size) {
                frames.take(Piece::Bytes(piece), &mut |frame| seen.push(frame));
            }
            let expected = [
                Frame::Headers(b"abc".to_vec()),
                Frame::Settings(b"\x01\x40".to_vec()),
                Frame::Headers(Vec::new()),
            ];
            assert_eq!(seen, expected);
        }
        assert_eq!(table_size(b"\x06\x01\x01\x50\x00"), 4096);
    }

    #[test]
    fn missing_data_are_skipped_and_a_missing_head_ends_the_reading() {
        let (mut frames, mut seen) = (Frames::default(), 0);
        let mut count = |_| seen += 1;
        frames.take(Piece::Bytes(b"\0\x09he"), &mut count);
        frames.take(Piece::Lost(7), &mut count);
        frames.take(Piece::Bytes(b"\x01\x01a"), &mut count);
        frames.take(Piece::Lost(2), &mut count);
        frames.take(Piece::Bytes(b"\x01\x01a"), &mut count);
        assert_eq!(seen, 1);
    }
}
