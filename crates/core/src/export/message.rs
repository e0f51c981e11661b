//! The bytes of one message, made when they are needed: a head, blocks of equal filler, and an end.
//! ```text
//! head ─ [block head, filler …, block tail] × blocks ─ end
//! ```
//!
//! A response of a gigabyte therefore takes no more memory than its head.

const FILLER: u8 = b'x';

/// The repeated part.
#[derive(Clone, Debug, Default)]
pub struct Block {
    pub head: Vec<u8>,
    pub fill: u64,
    pub tail: &'static [u8],
    /// The byte of the head that counts the blocks (MySQL's sequence number).
    pub counter: Option<usize>,
}

impl Block {
    fn len(&self) -> u64 {
        self.head.len() as u64 + self.fill + self.tail.len() as u64
    }
}

#[derive(Clone, Debug, Default)]
pub struct Message {
    pub head: Vec<u8>,
    pub block: Block,
    pub blocks: u64,
    pub end: Vec<u8>,
}

impl Message {
    pub fn plain(head: Vec<u8>) -> Message {
        Message {
            head,
            ..Message::default()
        }
    }

    /// A head, followed by this many bytes of filler.
    pub fn with_body(head: Vec<u8>, fill: u64) -> Message {
        Message {
            head,
            block: Block {
                fill,
                ..Block::default()
            },
            blocks: u64::from(fill > 0),
            end: Vec::new(),
        }
    }

    pub fn len(&self) -> u64 {
        self.end_at() + self.end.len() as u64
    }

    fn end_at(&self) -> u64 {
        self.head.len() as u64 + self.blocks * self.block.len()
    }

    /// Appends the bytes `from..to` to `out`; what lies beyond the end is filler.
    pub fn read(&self, from: u64, to: u64, out: &mut Vec<u8>) {
        let mut at = from;
        while at < to {
            let before = out.len();
            self.read_some(at, to - at, out);
            at += (out.len() - before) as u64;
        }
    }

    /// At least one byte, at most `len`.
    fn read_some(&self, at: u64, len: u64, out: &mut Vec<u8>) {
        let (head, end) = (self.head.len() as u64, self.end_at());
        if at < head {
            return copy(&self.head, at, len, out);
        }
        if at >= end {
            return match at - end {
                at if at < self.end.len() as u64 => copy(&self.end, at, len, out),
                _ => fill(len, out),
            };
        }
        let (index, at) = (
            (at - head) / self.block.len(),
            (at - head) % self.block.len(),
        );
        let head = self.block.head.len() as u64;
        let tail = head + self.block.fill;
        if at >= tail {
            copy(self.block.tail, at - tail, len, out);
        } else if at >= head {
            fill(len.min(tail - at), out);
        } else {
            let begin = out.len();
            copy(&self.block.head, at, len, out);
            let counter = self.block.counter.map(|counter| counter as u64);
            let counted =
                counter.filter(|counter| (at..at + (out.len() - begin) as u64).contains(counter));
            if let Some(byte) = counted.and_then(|c| out.get_mut(begin + (c - at) as usize)) {
                *byte = byte.wrapping_add(index as u8);
            }
        }
    }
}

fn copy(bytes: &[u8], at: u64, len: u64, out: &mut Vec<u8>) {
    let rest = &bytes[at as usize..];
    out.extend_from_slice(&rest[..rest.len().min(len as usize)]);
}

fn fill(len: u64, out: &mut Vec<u8>) {
    out.resize(out.len() + len as usize, FILLER);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_range_is_that_range_of_the_whole() {
        let message = Message {
            head: b"head".to_vec(),
            block: Block {
                head: vec![b'[', 7, b':'],
                fill: 3,
                tail: b"]",
                counter: Some(1),
            },
            blocks: 2,
            end: b"end".to_vec(),
        };
        let mut whole = Vec::new();
        message.read(0, message.len(), &mut whole);
        assert_eq!(whole, b"head[\x07:xxx][\x08:xxx]end");
        for from in 0..whole.len() {
            for to in from..=whole.len() {
                let mut part = Vec::new();
                message.read(from as u64, to as u64, &mut part);
                assert_eq!(part, whole[from..to], "{from}..{to}");
            }
        }
    }
}
