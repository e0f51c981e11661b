//! Whole numbers in few bits, as Parquet's encodings lay them out: DELTA_BINARY_PACKED for columns, and runs for what is
//! small (indices of a dictionary).
//!
//! Source: <https://parquet.apache.org/docs/file-format/data-pages/encodings/>. The library writes the same, bit by bit;
//! here it is a word at a time.

/// Parts of a block that have a width of their own.
const MINI_BLOCKS: usize = 4;

/// The numbers of a column: as many bits as its type has, and values of a mini-block, which the library's reader decodes
/// fastest like this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    Bits32,
    Bits64,
}

impl Width {
    const fn mini_block(self) -> usize {
        match self {
            Width::Bits32 => 32,
            Width::Bits64 => 64,
        }
    }

    /// Differences wrap around at the type's ends.
    #[inline(always)]
    const fn wrapped(self, difference: i64) -> i64 {
        match self {
            Width::Bits32 => difference as i32 as i64,
            Width::Bits64 => difference,
        }
    }

    #[inline(always)]
    const fn above(self, difference: i64, least: i64) -> u64 {
        match self {
            Width::Bits32 => (difference as i32).wrapping_sub(least as i32) as u32 as u64,
            Width::Bits64 => difference.wrapping_sub(least) as u64,
        }
    }
}

/// Appends the values as DELTA_BINARY_PACKED.
pub fn delta_packed(values: &[i64], width: Width, out: &mut Vec<u8>) {
    let mini_block = width.mini_block();
    varint((mini_block * MINI_BLOCKS) as u64, out);
    varint(MINI_BLOCKS as u64, out);
    varint(values.len() as u64, out);
    let mut last = values.first().copied().unwrap_or(0);
    zigzag(width.wrapped(last), out);
    let mut differences = Vec::with_capacity(mini_block * MINI_BLOCKS);
    for block in values
        .get(1..)
        .unwrap_or(&[])
        .chunks(mini_block * MINI_BLOCKS)
    {
        differences.clear();
        differences.extend(block.iter().map(|&value| {
            let before = std::mem::replace(&mut last, value);
            width.wrapped(value.wrapping_sub(before))
        }));
        pack_block(&differences, width, out);
    }
}

/// The least difference, the bits of each mini-block, and by how much each difference is above the least.
fn pack_block(differences: &[i64], width: Width, out: &mut Vec<u8>) {
    let least = differences.iter().copied().min().unwrap_or(0);
    zigzag(least, out);
    let widths = out.len();
    out.extend_from_slice(&[0; MINI_BLOCKS]);
    let mut above = [0; Width::Bits64.mini_block()];
    for (number, mini_block) in differences.chunks(width.mini_block()).enumerate() {
        let mut bits = 0;
        for (place, &difference) in above.iter_mut().zip(mini_block) {
            *place = width.above(difference, least);
            bits |= *place;
        }
        above[mini_block.len()..].fill(0);
        let used = u64::BITS - bits.leading_zeros();
        out[widths + number] = used as u8;
        pack(&above[..width.mini_block()], used, out);
    }
}

/// Appends small values as one run: of equal ones, or of `width` bits each.
pub fn run(values: &[u32], width: u32, out: &mut Vec<u8>) {
    let Some(&first) = values.first() else {
        return;
    };
    if values.iter().all(|&value| value == first) {
        varint((values.len() as u64) << 1, out);
        out.extend_from_slice(&first.to_le_bytes()[..width.div_ceil(8) as usize]);
        return;
    }
    let groups = values.len().div_ceil(8);
    varint((groups as u64) << 1 | 1, out);
    let begin = out.len();
    pack(values, width, out);
    out.resize(begin + groups * width as usize, 0);
}

/// Appends values of `width` bits, lowest bits first.
#[inline(always)]
fn pack<T: Copy + Into<u64>>(values: &[T], width: u32, out: &mut Vec<u8>) {
    let (mut word, mut filled) = (0, 0);
    for &value in values {
        let value: u64 = value.into();
        word |= value << filled;
        filled += width;
        if filled >= u64::BITS {
            out.extend_from_slice(&word.to_le_bytes());
            filled -= u64::BITS;
            // What of the value was in the word already: all of it, or what `filled` leaves.
            word = value.checked_shr(width - filled).unwrap_or(0);
        }
    }
    out.extend_from_slice(&word.to_le_bytes()[..filled.div_ceil(8) as usize]);
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn zigzag(value: i64, out: &mut Vec<u8>) {
    varint((value << 1 ^ value >> 63) as u64, out);
}
