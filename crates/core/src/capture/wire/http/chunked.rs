//! The chunked coding (RFC 9112, section 7.1): sizes are read, data is skipped.

use crate::capture::wire::framing::Input;
use crate::capture::wire::Chunk;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Chunked {
    Size {
        size: u64,
        digits: u8,
        extension: bool,
    },
    /// Data and the line end after it.
    Data(u64),
    /// After the last chunk: the length of the current trailer line.
    Trailer(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All of the input was taken.
    More,
    Done,
    /// No chunk size where one should be, or it was cut off.
    Lost,
}

impl Chunked {
    pub const START: Chunked = Chunked::Size {
        size: 0,
        digits: 0,
        extension: false,
    };

    /// Takes bytes of which none was cut; says how many of them are left after the end.
    pub fn take(&mut self, bytes: &[u8]) -> (Progress, u64) {
        let mut input = Input::new(Chunk {
            time: 0,
            bytes,
            len: bytes.len() as u64,
        });
        let progress = self.advance(&mut input);
        (progress, input.len())
    }

    pub fn advance(&mut self, input: &mut Input<'_>) -> Progress {
        while input.len() > 0 {
            if let Chunked::Data(rest) = self {
                let n = (*rest).min(input.len());
                input.skip(n);
                *rest -= n;
                if *rest == 0 {
                    *self = Chunked::START;
                }
                continue;
            }
            let Some(&byte) = input.bytes().first() else {
                return Progress::Lost;
            };
            input.skip(1);
            match self.line(byte) {
                Progress::More => {}
                other => return other,
            }
        }
        Progress::More
    }

    fn line(&mut self, byte: u8) -> Progress {
        match self {
            Chunked::Size {
                size,
                digits,
                extension,
            } => match (byte, char::from(byte).to_digit(16)) {
                (b'\n', _) if *digits == 0 => return Progress::Lost,
                (b'\n', _) if *size == 0 => *self = Chunked::Trailer(0),
                (b'\n', _) => *self = Chunked::Data(size.saturating_add(2)),
                (b'\r', _) => {}
                (b';' | b' ' | b'\t', _) => *extension = true,
                _ if *extension => {}
                (_, Some(digit)) if *digits < 15 => {
                    *size = *size << 4 | u64::from(digit);
                    *digits += 1;
                }
                _ => return Progress::Lost,
            },
            Chunked::Trailer(0) if byte == b'\n' => return Progress::Done,
            Chunked::Trailer(length) => match byte {
                b'\n' => *length = 0,
                b'\r' => {}
                _ => *length = length.saturating_add(1),
            },
            Chunked::Data(_) => {}
        }
        Progress::More
    }
}
