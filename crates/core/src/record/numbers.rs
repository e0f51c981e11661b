//! The whole numbers of a column, packed as DELTA_BINARY_PACKED block by block. Unpacked values
//! stay in the processor's first cache.
//! ```text
//! page: [values of a block, blocks, values, the first] [block] [block] …
//! block: [the least difference] [bits of each mini-block] [by how much each difference is above the least]
//! ```
//!
//! Source: <https://parquet.apache.org/docs/file-format/data-pages/encodings/>.

use super::packing::{pack, varint, zigzag};
use arrow_schema::DataType;

/// Parts of a block that have a width of their own.
const MINI_BLOCKS: usize = 4;
/// Values of a block, at most.
const BLOCK_MAX: usize = 64 * MINI_BLOCKS;

/// Numbers of one type have 64 or 32 bits. A mini-block has as many values, which the library's
/// reader decodes fastest, and differences wrap around at the type's limits.
pub struct Numbers {
    wide: bool,
    /// With this bit flipped, numbers sort like signed ones.
    order: i64,
    /// Values that are not packed yet.
    pub pending: Vec<i64>,
    /// The current page: the number of packed values, the first and the last of them, and their
    /// blocks.
    count: usize,
    first: i64,
    last: i64,
    blocks: Vec<u8>,
    /// The least and the greatest of all packed values, with `order` flipped.
    range: Option<(i64, i64)>,
}

impl Numbers {
    pub fn new(kind: &DataType) -> Self {
        Numbers {
            wide: matches!(kind, DataType::Int64 | DataType::UInt64),
            order: match kind {
                DataType::UInt64 => i64::MIN,
                _ => 0,
            },
            pending: Vec::new(),
            count: 0,
            first: 0,
            last: 0,
            blocks: Vec::new(),
            range: None,
        }
    }

    /// Packs full blocks.
    pub fn pack(&mut self) {
        if self.wide {
            self.pack_blocks::<64>(64 * MINI_BLOCKS);
        } else {
            self.pack_blocks::<32>(32 * MINI_BLOCKS);
        }
    }

    /// Appends the page with all remaining values, and begins the next one.
    pub fn end_page(&mut self, out: &mut Vec<u8>) {
        if self.wide {
            self.end_page_of::<64>(out);
        } else {
            self.end_page_of::<32>(out);
        }
    }

    /// The least and the greatest in the type's own order.
    pub fn range(&self) -> Option<(i64, i64)> {
        self.range
            .map(|(least, greatest)| (least ^ self.order, greatest ^ self.order))
    }

    /// In blocks of at least `least` values.
    fn pack_blocks<const BITS: usize>(&mut self, least: usize) {
        let values = std::mem::take(&mut self.pending);
        let mut rest = &values[..];
        if let (0, Some((&first, others))) = (self.count, rest.split_first()) {
            (self.first, self.last, self.count) = (first, first, 1);
            self.widen(first ^ self.order, first ^ self.order);
            rest = others;
        }
        while rest.len() >= least {
            let (block, others) = rest.split_at(rest.len().min(BITS * MINI_BLOCKS));
            let (low, high) = pack_block::<BITS>(self.last, block, self.order, &mut self.blocks);
            self.widen(low, high);
            self.last = block[block.len() - 1];
            self.count += block.len();
            rest = others;
        }
        let packed = values.len() - rest.len();
        self.pending = values;
        self.pending.drain(..packed);
    }

    fn widen(&mut self, low: i64, high: i64) {
        let (least, greatest) = self.range.unwrap_or((low, high));
        self.range = Some((least.min(low), greatest.max(high)));
    }

    fn end_page_of<const BITS: usize>(&mut self, out: &mut Vec<u8>) {
        self.pack_blocks::<BITS>(1);
        varint((BITS * MINI_BLOCKS) as u64, out);
        varint(MINI_BLOCKS as u64, out);
        varint(std::mem::take(&mut self.count) as u64, out);
        zigzag(wrapped::<BITS>(std::mem::take(&mut self.first)), out);
        out.append(&mut self.blocks);
    }
}

/// Appends a block of the values that follow `last`; returns the least and the greatest of them with `order` flipped.
fn pack_block<const BITS: usize>(
    last: i64,
    block: &[i64],
    order: i64,
    out: &mut Vec<u8>,
) -> (i64, i64) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        #[allow(unsafe_code)]
        // SAFETY: the processor has the features that the program was built for.
        return unsafe { pack_block_avx2::<BITS>(last, block, order, out) };
    }
    pack_block_anywhere::<BITS>(last, block, order, out)
}

/// For processors that compare four numbers at once.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn pack_block_avx2<const BITS: usize>(
    last: i64,
    block: &[i64],
    order: i64,
    out: &mut Vec<u8>,
) -> (i64, i64) {
    pack_block_anywhere::<BITS>(last, block, order, out)
}

#[inline(always)]
const fn wrapped<const BITS: usize>(difference: i64) -> i64 {
    match BITS {
        32 => difference as i32 as i64,
        _ => difference,
    }
}

#[inline(always)]
fn pack_block_anywhere<const BITS: usize>(
    last: i64,
    block: &[i64],
    order: i64,
    out: &mut Vec<u8>,
) -> (i64, i64) {
    let mut differences = [0; BLOCK_MAX];
    let differences = &mut differences[..block.len()];
    differences[0] = wrapped::<BITS>(block[0].wrapping_sub(last));
    for ((difference, value), before) in differences[1..].iter_mut().zip(&block[1..]).zip(block) {
        *difference = wrapped::<BITS>(value.wrapping_sub(*before));
    }
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
    let flipped = || block.iter().map(|value| value ^ order);
    (
        flipped().fold(i64::MAX, i64::min),
        flipped().fold(i64::MIN, i64::max),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn packed(
        pack: impl Fn(i64, &[i64], i64, &mut Vec<u8>) -> (i64, i64),
        last: i64,
        block: &[i64],
        order: i64,
    ) -> (Vec<u8>, (i64, i64)) {
        let mut out = Vec::new();
        let range = pack(last, block, order, &mut out);
        (out, range)
    }

    proptest! {
        #[test]
        fn every_processor_packs_the_same(
            last: i64,
            block in prop_oneof![vec(any::<i64>(), 1..=BLOCK_MAX), vec(-9i64..9, 1..=BLOCK_MAX)],
            order in prop_oneof![Just(0), Just(i64::MIN)],
        ) {
            let (here, anywhere) = (pack_block::<64>, pack_block_anywhere::<64>);
            prop_assert_eq!(packed(here, last, &block, order), packed(anywhere, last, &block, order));
            let narrow: Vec<i64> = block.iter().take(BLOCK_MAX / 2).map(|&value| i64::from(value as i32)).collect();
            let (here, anywhere) = (pack_block::<32>, pack_block_anywhere::<32>);
            prop_assert_eq!(packed(here, 0, &narrow, order), packed(anywhere, 0, &narrow, order));
        }

        #[test]
        fn a_page_is_the_same_however_its_values_came(values in vec(any::<i64>(), 0..700), first in 0usize..700) {
            let kind = DataType::UInt64;
            let (mut at_once, mut in_parts) = (Numbers::new(&kind), Numbers::new(&kind));
            let (begin, end) = values.split_at(first.min(values.len()));
            at_once.pending.extend(&values);
            for part in [begin, end] {
                in_parts.pending.extend(part);
                in_parts.pack();
            }
            let (mut page, mut other) = (Vec::new(), Vec::new());
            at_once.end_page(&mut page);
            in_parts.end_page(&mut other);
            prop_assert_eq!(page, other);
            let ends = (values.iter().map(|&v| v as u64).min(), values.iter().map(|&v| v as u64).max());
            let range = in_parts.range().map(|(least, greatest)| (least as u64, greatest as u64)).unzip();
            prop_assert_eq!(range, ends);
        }
    }
}
