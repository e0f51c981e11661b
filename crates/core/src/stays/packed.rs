//! Rows as few bytes: a row of a log takes some 20 instead of 96, so less is written and read again.
//!
//! ```text
//! widths of 13 values, 3 bits each, and whether a client sent it (5 bytes) │ value │ value │ …
//! ```
//! Times and numbers are differences to those of the row before or to each other, so that they are small.

use super::Row;

const VALUES: usize = 13;
const HEAD: usize = 5;
/// Bytes of the longest row, and those that reading it may look at.
pub const LONGEST: usize = HEAD + VALUES * 8 + 8;
/// Bit of the head that says that a client sent it.
const ENTRY: u32 = 39;

/// Packs or unpacks the rows of a run, one after the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packer {
    departure: i64,
    number: i64,
}

impl Packer {
    #[inline]
    pub fn put(&mut self, row: &Row, out: &mut Vec<u8>) {
        let values = [
            row.departure.wrapping_sub(self.departure) as u64,
            folded(row.number.wrapping_sub(self.number)),
            row.departure.wrapping_sub(row.sent) as u64,
            row.arrival.wrapping_sub(row.sent) as u64,
            row.wait as u64,
            back(row.number, row.parent),
            back(row.number, row.request),
            known(row.bytes_out),
            known(row.downstream),
            u64::from(row.server),
            u64::from(row.interaction),
            u64::from(row.caller),
            u64::from(row.status),
        ];
        (self.departure, self.number) = row.key();
        let mut bytes = [0; LONGEST];
        let (mut head, mut at) = (u64::from(row.entry) << ENTRY, HEAD);
        for (i, value) in values.iter().enumerate() {
            let used = (71 - value.leading_zeros()) / 8; // bytes that are not zero
            head |= u64::from(used.min(7)) << (3 * i);
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            at += width(used.min(7));
        }
        bytes[..HEAD].copy_from_slice(&head.to_le_bytes()[..HEAD]);
        out.extend_from_slice(&bytes[..at]);
    }

    /// The row at the begin of these bytes, and how many it takes.
    #[inline]
    pub fn take(&mut self, bytes: &[u8; LONGEST]) -> (Row, usize) {
        let head = word(bytes, 0);
        let (mut values, mut at) = ([0; VALUES], HEAD);
        for (i, value) in values.iter_mut().enumerate() {
            let width = width((head >> (3 * i)) as u32 & 7);
            *value = word(bytes, at) & u64::MAX.checked_shr(64 - 8 * width as u32).unwrap_or(0);
            at += width;
        }
        let [after, ahead, took, waited, wait, parent, request, bytes_out, downstream, texts @ ..] =
            values;
        let departure = self.departure.wrapping_add(after as i64);
        let number = self.number.wrapping_add(unfolded(ahead));
        (self.departure, self.number) = (departure, number);
        let sent = departure.wrapping_sub(took as i64);
        let [server, interaction, caller, status] = texts.map(|text| text as u32);
        let row = Row {
            departure,
            number,
            sent,
            arrival: sent.wrapping_add(waited as i64),
            wait: wait as i64,
            parent: from_back(number, parent),
            request: from_back(number, request),
            bytes_out: bytes_out.wrapping_sub(1) as i64,
            downstream: downstream.wrapping_sub(1) as i64,
            server,
            interaction,
            caller,
            status,
            entry: head >> ENTRY & 1 == 1,
        };
        (row, at)
    }
}

#[inline]
fn word(bytes: &[u8; LONGEST], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// Bytes of a value by its three bits: values of seven bytes take eight.
#[inline]
fn width(bits: u32) -> usize {
    bits as usize + usize::from(bits == 7)
}

/// Small numbers of either sign become small numbers.
fn folded(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

fn unfolded(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// How far back from `number` another number is; 0 if that is unknown.
fn back(number: i64, other: i64) -> u64 {
    if other < 0 {
        0
    } else {
        folded(number.wrapping_sub(other)).wrapping_add(1)
    }
}

fn from_back(number: i64, back: u64) -> i64 {
    if back == 0 {
        -1
    } else {
        number.wrapping_sub(unfolded(back - 1))
    }
}

/// A number, with 0 for unknown.
fn known(value: i64) -> u64 {
    (value.max(-1) as u64).wrapping_add(1)
}
