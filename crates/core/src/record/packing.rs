//! Whole numbers in few bits, as Parquet's encodings lay them out: DELTA_BINARY_PACKED for columns, and runs for what is
//! small (indices of a dictionary).
//!
//! Source: <https://parquet.apache.org/docs/file-format/data-pages/encodings/>. The library writes the same, bit by bit;
//! here it is a word at a time.

/// Parts of a block that have a width of their own.
const MINI_BLOCKS: usize = 4;

/// Values that are packed at once, at most.
const PACKED_MAX: usize = 64;

/// Appends the values as DELTA_BINARY_PACKED: `BITS` is how many the column's type has, 32 or 64, where differences wrap
/// around, and how many values a mini-block has, which the library's reader decodes fastest like this.
pub fn delta_packed<const BITS: usize>(values: &[i64], out: &mut Vec<u8>) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        #[allow(unsafe_code)]
        // SAFETY: the processor has what it was built for.
        return unsafe { avx2::delta_packed::<BITS>(values, out) };
    }
    delta_packed_anywhere::<BITS>(values, out);
}

/// The least and the greatest value, each with the bits of `order` flipped.
pub fn range(values: &[i64], order: i64) -> Option<(i64, i64)> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        #[allow(unsafe_code)]
        // SAFETY: the processor has what it was built for.
        return unsafe { avx2::range(values, order) };
    }
    range_anywhere(values, order)
}

/// The same for processors that compare four numbers at once.
#[cfg(target_arch = "x86_64")]
mod avx2 {
    #[target_feature(enable = "avx2")]
    pub fn delta_packed<const BITS: usize>(values: &[i64], out: &mut Vec<u8>) {
        super::delta_packed_anywhere::<BITS>(values, out);
    }

    #[target_feature(enable = "avx2")]
    pub fn range(values: &[i64], order: i64) -> Option<(i64, i64)> {
        super::range_anywhere(values, order)
    }
}

#[inline(always)]
fn range_anywhere(values: &[i64], order: i64) -> Option<(i64, i64)> {
    let flipped = || values.iter().map(|value| value ^ order);
    let (&first, least) = (values.first()?, flipped().fold(i64::MAX, i64::min));
    let greatest = flipped().fold(first ^ order, i64::max);
    Some((least, greatest))
}

#[inline(always)]
fn delta_packed_anywhere<const BITS: usize>(values: &[i64], out: &mut Vec<u8>) {
    let block = BITS * MINI_BLOCKS;
    varint(block as u64, out);
    varint(MINI_BLOCKS as u64, out);
    varint(values.len() as u64, out);
    zigzag(wrapped::<BITS>(values.first().copied().unwrap_or(0)), out);
    let mut differences = [0; PACKED_MAX * MINI_BLOCKS];
    let others = values.get(1..).unwrap_or(&[]);
    for (values, before) in others.chunks(block).zip(values.chunks(block)) {
        let differences = &mut differences[..values.len()];
        for ((difference, value), before) in differences.iter_mut().zip(values).zip(before) {
            *difference = wrapped::<BITS>(value.wrapping_sub(*before));
        }
        pack_block::<BITS>(differences, out);
    }
}

#[inline(always)]
const fn wrapped<const BITS: usize>(difference: i64) -> i64 {
    match BITS {
        32 => difference as i32 as i64,
        _ => difference,
    }
}

/// The least difference, the bits of each mini-block, and by how much each difference is above the least.
#[inline(always)]
fn pack_block<const BITS: usize>(differences: &[i64], out: &mut Vec<u8>) {
    let least = differences.iter().copied().fold(i64::MAX, i64::min);
    zigzag(least, out);
    let widths = out.len();
    out.extend_from_slice(&[0; MINI_BLOCKS]);
    let mask = u64::MAX >> (64 - BITS);
    for (number, mini_block) in differences.chunks(BITS).enumerate() {
        let (mut above, mut bits) = ([0; BITS], 0);
        for (place, &difference) in above.iter_mut().zip(mini_block) {
            *place = difference.wrapping_sub(least) as u64 & mask;
            bits |= *place;
        }
        let used = u64::BITS - bits.leading_zeros();
        out[widths + number] = used as u8;
        pack(&mut above, used, out);
    }
}

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
fn pack(mut values: &mut [u64], mut width: u32, out: &mut Vec<u8>) {
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
