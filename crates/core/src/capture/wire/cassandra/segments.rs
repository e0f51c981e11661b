//! The segments of version 5, which carry frames after the login.
//!
//! ```text
//! length 17 bits, alone 1 bit, padding │ CRC24 │ a part of a frame, or frames │ CRC32
//! ```
//! The frames inside are one stream of bytes, in each direction. A header shows itself by its checksum, so that reading goes
//! on behind a hole. Segments that are compressed have other headers.

use super::Cassandra;
use crate::capture::reader::index;
use crate::capture::wire::framing::Input;
use crate::capture::wire::paired::Paired;
use crate::capture::wire::{Chunk, Exchanges, Protocol, Side};
use serde::{Deserialize, Serialize};

const HEADER: usize = 6;
const TRAILER: u64 = 4;
const LENGTH: u32 = (1 << 17) - 1;
/// Version 5 of both directions.
const VERSION: u8 = 5;
const RESPONSE: u8 = 0x85;

/// A connection of any version.
#[derive(Default, Deserialize, Serialize)]
pub struct Cql {
    frames: Paired<Cassandra>,
    /// Segments of the client and of the server, once they have begun.
    segments: Option<[Segments; 2]>,
    touched: bool,
    opaque: bool,
}

/// One direction.
#[derive(Default, Deserialize, Serialize)]
struct Segments {
    header: Vec<u8>,
    content: u64,
    trailer: u64,
    lost: bool,
}

/// As the specification computes it: 0x875060 to begin with, and the polynomial 0x1974F0B.
pub(super) fn crc24(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x0087_5060, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte) << 16, |crc: u32, _| {
            let shifted = crc << 1;
            match shifted & 0x0100_0000 {
                0 => shifted,
                _ => shifted ^ 0x0197_4f0b,
            }
        })
    })
}

fn little(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .rev()
        .fold(0, |n, &byte| n << 8 | u32::from(byte))
}

/// The length of a segment's content, by a header whose checksum is right.
fn content_len(header: &[u8]) -> Option<u64> {
    let (fields, checksum) = header.get(..HEADER)?.split_at(3);
    let sound = crc24(fields) == little(checksum);
    sound.then_some(u64::from(little(fields) & LENGTH))
}

/// A segment with a frame of this version in it begins here.
pub(super) fn begins(first: &[u8], version: u8) -> bool {
    content_len(first).is_some() && first.get(HEADER).is_none_or(|&byte| byte == version)
}

impl Segments {
    /// Hands on the content of segments.
    fn read(&mut self, input: &mut Input<'_>, content: &mut dyn FnMut(Piece<'_>)) {
        while input.len() > 0 {
            if self.lost {
                input.skip(input.len());
            } else if self.content > 0 {
                let n = self.content.min(input.len());
                let seen =
                    usize::try_from(n).map_or(input.bytes().len(), |n| n.min(input.bytes().len()));
                content(Piece::Bytes(&input.bytes()[..seen], n));
                input.skip(n);
                self.content -= n;
            } else if self.trailer > 0 {
                let n = self.trailer.min(input.len());
                input.skip(n);
                self.trailer -= n;
            } else {
                self.begin(input, content);
            }
        }
    }

    fn begin(&mut self, input: &mut Input<'_>, content: &mut dyn FnMut(Piece<'_>)) {
        let n = (HEADER - self.header.len()).min(input.bytes().len());
        self.header.extend_from_slice(&input.bytes()[..n]);
        let cut = input.cut();
        input.skip(n as u64);
        if self.header.len() < HEADER && !cut {
            return;
        }
        match content_len(&std::mem::take(&mut self.header)) {
            Some(len) => (self.content, self.trailer) = (len, TRAILER),
            None => {
                self.lost = true;
                content(Piece::Lost);
            }
        }
    }
}

enum Piece<'a> {
    Bytes(&'a [u8], u64),
    Lost,
}

impl Cql {
    /// Whether this segment of the stream shows what the connection carries.
    fn look(&mut self, side: Side, bytes: &[u8]) {
        let version = [VERSION, RESPONSE][index(side)];
        if !std::mem::replace(&mut self.touched, true) && begins(bytes, version) {
            self.segments = Some(Default::default());
        }
        if let Some(segments) = &mut self.segments {
            let mine = &mut segments[index(side)];
            if mine.lost && begins(bytes, version) {
                *mine = Segments::default();
            }
        }
    }

    fn inside(&mut self, side: Side, input: &mut Input<'_>, out: &mut dyn Exchanges) {
        let Some(segments) = &mut self.segments else {
            return;
        };
        let (time, frames) = (input.time, &mut self.frames);
        segments[index(side)].read(input, &mut |piece| match piece {
            Piece::Bytes(bytes, len) => frames.data(side, Chunk { time, bytes, len }, out),
            Piece::Lost => frames.gap(side, time, 0, out),
        });
    }
}

impl Protocol for Cql {
    fn saved(&self) -> super::super::Result<super::super::State> {
        super::super::state(super::super::Kind::Cassandra, self)
    }

    fn correlates(&self) -> bool {
        self.frames.correlates()
    }

    fn revive(&mut self) {
        self.frames.revive();
    }

    fn data(&mut self, side: Side, chunk: Chunk<'_>, out: &mut dyn Exchanges) {
        self.look(side, chunk.bytes);
        if self.opaque {
            return;
        }
        if self.segments.is_some() {
            return self.inside(side, &mut Input::new(chunk), out);
        }
        self.frames.data(side, chunk, out);
        let Cassandra {
            begun, compresses, ..
        } = *self.frames.dialect();
        if begun {
            self.segments = Some(Default::default());
            self.opaque = compresses;
        }
        if self.opaque {
            out.opaque("compressed");
        }
    }

    fn gap(&mut self, side: Side, time: i64, len: u64, out: &mut dyn Exchanges) {
        let Some(segments) = &mut self.segments else {
            return self.frames.gap(side, time, len, out);
        };
        let mine = &mut segments[index(side)];
        if len > 0 && len <= mine.content && !mine.lost {
            mine.content -= len;
            return self.frames.gap(side, time, len, out);
        }
        mine.lost = true;
        self.frames.gap(side, time, 0, out);
    }

    fn end(&mut self, side: Side, time: i64, out: &mut dyn Exchanges) {
        if !self.opaque {
            self.frames.end(side, time, out);
        }
    }
}
