//! Frames of QUIC (RFC 9000, section 19), and those of its extensions that are in use.

use super::packet::{Id, Rest};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Numbers of received packets: from, to; the largest first.
    Ack(Vec<(u64, u64)>),
    Crypto {
        offset: u64,
        bytes: &'a [u8],
    },
    Stream {
        id: u64,
        offset: u64,
        bytes: &'a [u8],
        ends: bool,
    },
    /// The sender gives up its half of the stream.
    Reset {
        id: u64,
    },
    /// The sender wants nothing more of the stream.
    Stop {
        id: u64,
    },
    /// The sender may be addressed so from now on.
    NewId(Id),
    Close,
    Done,
    Other,
}

/// The next frame. None: the payload ends, or it cannot be read further.
pub fn next<'a>(rest: &mut Rest<'a>) -> Option<Frame<'a>> {
    while rest.0.first() == Some(&0) {
        rest.byte();
    }
    let kind = rest.number()?;
    Some(match kind {
        0x02 | 0x03 => ack(rest, kind == 0x03)?,
        0x04 => {
            let id = rest.number()?;
            other(rest, 2)?;
            Frame::Reset { id }
        }
        // RESET_STREAM_AT.
        0x24 => {
            let id = rest.number()?;
            other(rest, 3)?;
            Frame::Reset { id }
        }
        0x05 => {
            let id = rest.number()?;
            other(rest, 1)?;
            Frame::Stop { id }
        }
        0x06 => {
            let offset = rest.number()?;
            let len = rest.length()?;
            let bytes = rest.take(len)?;
            Frame::Crypto { offset, bytes }
        }
        0x08..=0x0f => stream(rest, kind)?,
        0x18 => {
            other(rest, 2)?;
            let id = rest.id()?;
            rest.take(16)?;
            Frame::NewId(id)
        }
        // Its reason follows, and nothing else.
        0x1c | 0x1d => {
            rest.0 = &[];
            Frame::Close
        }
        0x1e => Frame::Done,
        0x01 | 0x1f | 0xac => Frame::Other,
        0x10 | 0x12..=0x14 | 0x16 | 0x17 | 0x19 => other(rest, 1)?,
        0x11 | 0x15 => other(rest, 2)?,
        0xaf => other(rest, 4)?,
        0x1a | 0x1b => {
            rest.take(8)?;
            Frame::Other
        }
        0x07 | 0x31 => {
            let len = rest.length()?;
            rest.take(len)?;
            Frame::Other
        }
        // DATAGRAM up to the end (0x30), or a frame of an unknown extension.
        _ => return None,
    })
}

fn other<'a>(rest: &mut Rest<'a>, numbers: usize) -> Option<Frame<'a>> {
    for _ in 0..numbers {
        rest.number()?;
    }
    Some(Frame::Other)
}

fn ack<'a>(rest: &mut Rest<'a>, counts: bool) -> Option<Frame<'a>> {
    let largest = rest.number()?;
    other(rest, 1)?;
    let more = rest.number()?;
    let mut smallest = largest.checked_sub(rest.number()?)?;
    let mut ranges = vec![(smallest, largest)];
    // Each takes two bytes or more.
    for _ in 0..more {
        let to = smallest.checked_sub(rest.number()?)?.checked_sub(2)?;
        smallest = to.checked_sub(rest.number()?)?;
        ranges.push((smallest, to));
    }
    if counts {
        other(rest, 3)?;
    }
    Some(Frame::Ack(ranges))
}

fn stream<'a>(rest: &mut Rest<'a>, kind: u64) -> Option<Frame<'a>> {
    let id = rest.number()?;
    let offset = if kind & 4 != 0 { rest.number()? } else { 0 };
    let len = match kind & 2 {
        0 => rest.0.len(),
        _ => rest.length()?,
    };
    Some(Frame::Stream {
        id,
        offset,
        bytes: rest.take(len)?,
        ends: kind & 1 != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload() {
        let payload = b"\0\0\x02\x0a\0\x01\x02\x01\x03\x06\0\x02hi\x0b\x04\x01x\x1e\x21";
        let mut rest = Rest(payload);
        let mut seen = Vec::new();
        while let Some(frame) = next(&mut rest) {
            seen.push(frame);
        }
        let expected = [
            Frame::Ack(vec![(8, 10), (2, 5)]),
            Frame::Crypto {
                offset: 0,
                bytes: b"hi",
            },
            Frame::Stream {
                id: 4,
                offset: 0,
                bytes: b"x",
                ends: true,
            },
            Frame::Done,
        ];
        assert_eq!(seen, expected);
        // The reasons of a close are no frames: here STREAM_LIMIT_ERROR, because of stream 8.
        let mut rest = Rest(b"\x1c\x04\x08\0\0");
        assert_eq!(next(&mut rest), Some(Frame::Close));
        assert_eq!(next(&mut rest), None);
        for damaged in [&b"\x02\x01\0\0\x02"[..], b"\x06\0\x09a", b"\x18\0\0\x15"] {
            assert_eq!(next(&mut Rest(damaged)), None);
        }
    }
}
