//! Small numbers in few bits, as Parquet's encodings lay them out.
//!
//! Source: <https://parquet.apache.org/docs/file-format/data-pages/encodings/>. The library writes the same, bit by bit;
//! here it is a word at a time.

/// Values that are packed at once, at most.
const PACKED_MAX: usize = 64;

/// Appends small values as one run: of equal ones, or of `width` bits each.
pub fn run(values: &[u32], width: u32, out: &mut Vec<u8>) {
    let Some(&first) = values.first() else {
        return;
    };
    if values.iter().all(|&value| value == first) {
        return run_of_equal(first, values.len(), width, out);
    }
    let groups = values.len().div_ceil(8);
    varint((groups as u64) << 1 | 1, out);
    let end = out.len() + groups * width as usize;
    for values in values.chunks(PACKED_MAX) {
        let mut packed = [0; PACKED_MAX];
        for (place, &value) in packed.iter_mut().zip(values) {
            *place = u64::from(value);
        }
        pack(&mut packed, width, out);
    }
    out.truncate(end);
}

pub fn run_of_equal(value: u32, count: usize, width: u32, out: &mut Vec<u8>) {
    varint((count as u64) << 1, out);
    out.extend_from_slice(&value.to_le_bytes()[..width.div_ceil(8) as usize]);
}

/// Appends values of `width` bits, lowest bits first; their number is a power of two.
#[inline(always)]
pub fn pack(mut values: &mut [u64], mut width: u32, out: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    // Two neighbours are one value of twice the width, until a word has room for one alone.
    while width <= u64::BITS / 2 && values.len() > 1 {
        let half = values.len() / 2;
        for pair in 0..half {
            values[pair] = values[2 * pair] | values[2 * pair + 1] << width;
        }
        values = &mut values[..half];
        width *= 2;
    }
    let (mut word, mut filled) = (0, 0);
    for &mut value in values {
        word |= value << filled;
        filled += width;
        if filled >= u64::BITS {
            out.extend_from_slice(&word.to_le_bytes());
            filled -= u64::BITS;
            // The part of the value that did not fit: all of it, or the rest after `filled`.
            word = value.checked_shr(width - filled).unwrap_or(0);
        }
    }
    out.extend_from_slice(&word.to_le_bytes()[..filled.div_ceil(8) as usize]);
}

pub fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub fn zigzag(value: i64, out: &mut Vec<u8>) {
    varint((value << 1 ^ value >> 63) as u64, out);
}
