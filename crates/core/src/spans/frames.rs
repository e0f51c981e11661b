//! Messages of OTLP, as the Collector's file exporter frames them: `format: proto`, or with a compression.
//!
//! ```text
//! ┌ 4 bytes: length ┬ message ┐┌ length ┬ message ┐ …      a message is TracesData, as protobuf or JSON, perhaps zstd
//! ```
//! A file with one message and no length, such as the body of a request to `/v1/traces`, is read as well.

use std::borrow::Cow;
use std::io::Read;

use super::attributes::Known;
use super::sheet::Sheet;
use super::{otlp, protobuf, Ending};
use crate::bounds::{EXPANSION, EXPANSION_FREE, OTLP_MESSAGE, ZSTD_WINDOW_LOG};
use crate::json::Parser;

const LENGTH: usize = 4;
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
/// Rows that are given back at once: packed messages may have far more spans than a block has bytes.
const ROWS_MAX: usize = 1 << 20;

pub struct Frames {
    pub framed: bool,
    /// The size of the file, which may itself be packed.
    size: u64,
    /// Bytes of messages, and what they unpacked to; also of those that are damaged.
    packed: u64,
    unpacked: u64,
}

impl Frames {
    pub fn new(framed: bool, size: u64) -> Self {
        Frames {
            framed,
            size,
            packed: 0,
            unpacked: 0,
        }
    }

    /// Reads the messages that are complete; returns how many bytes were read.
    pub fn consume(
        &mut self,
        buffer: &[u8],
        last: bool,
        known: &Known,
        sheet: &mut Sheet,
        found: &mut Ending,
    ) -> usize {
        let mut at = 0;
        while let Some(length) = self.next_length(&buffer[at..], last) {
            if length > OTLP_MESSAGE {
                found.stopped = Some(too_long(length));
                return buffer.len();
            }
            at += if self.framed { LENGTH } else { 0 };
            self.message(&buffer[at..at + length], known, sheet, found);
            at += length;
            found.more = sheet.rows() >= ROWS_MAX;
            if found.more || found.stopped.is_some() {
                return at;
            }
        }
        let rest = buffer.len() - at;
        if rest > OTLP_MESSAGE + LENGTH {
            found.stopped = Some(too_long(rest));
        } else if last && rest > 0 {
            found.stopped = Some("its last message is cut".to_owned());
        }
        at
    }

    /// How many bytes the message that begins here lacks, or its length: 0 if it is whole, or too long.
    pub fn missing(&self, buffer: &[u8]) -> usize {
        let Some((length, message)) = buffer.split_first_chunk() else {
            return LENGTH - buffer.len();
        };
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        let lacks = length.saturating_sub(message.len());
        if length > OTLP_MESSAGE {
            0
        } else {
            lacks
        }
    }

    /// The length of the message that begins here, if all of it is here or if it is too long.
    fn next_length(&self, buffer: &[u8], last: bool) -> Option<usize> {
        if !self.framed {
            return (last && !buffer.is_empty()).then_some(buffer.len());
        }
        let length = u32::from_be_bytes(*buffer.first_chunk()?);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        (length > OTLP_MESSAGE || buffer.len() - LENGTH >= length).then_some(length)
    }

    fn message(&mut self, packed: &[u8], known: &Known, sheet: &mut Sheet, found: &mut Ending) {
        let mut message = Cow::Borrowed(packed);
        let mut is_whole = true;
        if packed.starts_with(ZSTD) {
            let mut unpacked = Vec::new();
            is_whole = unpack(packed, &mut unpacked).is_some();
            message = Cow::Owned(unpacked);
        }
        self.packed += packed.len() as u64;
        self.unpacked += message.len() as u64;
        let mark = sheet.mark();
        if !(is_whole && read(&message, known, sheet)) {
            sheet.back_to(mark);
            found.damaged += 1;
        }
        if self.unpacked > EXPANSION_FREE + EXPANSION * self.packed.min(self.size) {
            found.stopped = Some(format!(
                "its messages expand to more than {EXPANSION} times their size; unpack it to read all of it"
            ));
        }
    }
}

/// Adds the spans of a message; false: it is damaged.
fn read(message: &[u8], known: &Known, sheet: &mut Sheet) -> bool {
    match message.trim_ascii_start() {
        text @ [b'{', ..] => json(text, known, sheet).is_ok(),
        _ => protobuf::read(message, known, sheet).is_ok(),
    }
}

/// The values of a message.
fn json(text: &[u8], known: &Known, sheet: &mut Sheet) -> crate::json::Result<()> {
    let mut parser = Parser::new(text);
    while parser.peek().is_ok() {
        otlp::read(&mut parser, known, sheet)?;
    }
    Ok(())
}

fn too_long(length: usize) -> String {
    format!("a message of {length} bytes is too long, or a length is damaged")
}

/// Adds the content of zstd frames, as far as it goes; None: they are damaged, or too large.
fn unpack(packed: &[u8], message: &mut Vec<u8>) -> Option<()> {
    let mut decoder = zstd::Decoder::new(packed).ok()?;
    decoder.window_log_max(ZSTD_WINDOW_LOG).ok()?;
    let most = u64::try_from(OTLP_MESSAGE).ok()? + 1;
    decoder.take(most).read_to_end(message).ok()?;
    (message.len() <= OTLP_MESSAGE).then_some(())
}
