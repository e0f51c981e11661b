//! Opaque protocols: records of TLS application data, which carry only their length.

use super::super::message::Block;
use super::{as_wanted, Asked, Kept, Message, Outcome, Spoken};

/// RFC 8446, section 5.2: 2^14 bytes of content and 256 of encryption; content alone will do.
const RECORD_MAX: u64 = 1 << 14;
const HEADER: u64 = 5;
/// For a request or response of unknown size.
const USUAL: u64 = 64;

pub fn speak(asked: &Asked<'_>) -> Spoken {
    let up = records(asked.bytes_in.unwrap_or(USUAL));
    let down = records(asked.bytes_out.unwrap_or(USUAL));
    let bytes = as_wanted(&up, asked.bytes_in) && as_wanted(&down, asked.bytes_out);
    Spoken {
        up,
        down,
        greeting: 0,
        tail: 0,
        kept: Kept {
            name: asked.interaction.is_none(),
            bytes,
            outcome: asked.outcome == Outcome::Ok,
        },
    }
}

fn records(len: u64) -> Message {
    let len = len.max(1);
    let (whole, rest) = (len / (RECORD_MAX + HEADER), len % (RECORD_MAX + HEADER));
    let mut end = record(rest.saturating_sub(HEADER));
    end.resize(rest as usize, b'x');
    Message {
        block: Block {
            head: record(RECORD_MAX),
            fill: RECORD_MAX,
            ..Block::default()
        },
        blocks: whole,
        end,
        ..Message::default()
    }
}

fn record(len: u64) -> Vec<u8> {
    let [high, low] = (len as u16).to_be_bytes();
    vec![0x17, 3, 3, high, low]
}
