//! A fixed log-linear histogram of whole numbers, and the rank rule of Tailrace.
//!
//! Layout of HDR histograms: 32 buckets per octave, so a bucket is at most 1/32 of its values wide
//! and its midpoint is within 1.6 % of each of them. Values below 64 have a bucket each and are
//! exact. The bounds are fixed, so two histograms merge by adding counts, and the order of merging
//! does not matter (in t-digest and KLL it does).
//!
//! The percentile q of n values is the nearest rank: value number ceil(q·n), counted from 1. The
//! result is the midpoint of that value's bucket, rounded down.

/// Buckets that hold every u64.
pub const BUCKETS: usize = 32 * 60;

/// The bucket of a value: its exponent and the five bits after its leading one.
#[inline]
pub fn bucket(value: u64) -> u16 {
    if value < 64 {
        return value as u16;
    }
    let exponent = 63 - value.leading_zeros();
    let mantissa = (value >> (exponent - 5)) as u16 & 31;
    (exponent as u16 - 4) * 32 + mantissa
}

/// The smallest and the largest value of a bucket.
pub fn bounds(bucket: u16) -> (u64, u64) {
    if bucket < 64 {
        return (u64::from(bucket), u64::from(bucket));
    }
    let exponent = u32::from(bucket) / 32 + 4;
    let low = (32 + u64::from(bucket) % 32) << (exponent - 5);
    (low, low + ((1u64 << (exponent - 5)) - 1))
}

/// The middle of a bucket, rounded down.
pub fn midpoint(bucket: u16) -> u64 {
    let (low, high) = bounds(bucket);
    low + (high - low) / 2
}

/// A quantile as a ratio of whole numbers, so that the rank is exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantile {
    pub numerator: u64,
    pub denominator: u64,
}

/// p50, p95, p99 and p99.9.
pub const QUANTILES: [Quantile; 4] = [
    Quantile {
        numerator: 1,
        denominator: 2,
    },
    Quantile {
        numerator: 95,
        denominator: 100,
    },
    Quantile {
        numerator: 99,
        denominator: 100,
    },
    Quantile {
        numerator: 999,
        denominator: 1000,
    },
];

#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    /// The buckets in use lie in lowest..=highest.
    lowest: usize,
    highest: usize,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            counts: vec![0; BUCKETS],
            total: 0,
            lowest: BUCKETS,
            highest: 0,
        }
    }
}

impl Histogram {
    pub fn add(&mut self, bucket: u16) {
        let at = usize::from(bucket).min(BUCKETS - 1);
        self.counts[at] += 1;
        self.total += 1;
        self.lowest = self.lowest.min(at);
        self.highest = self.highest.max(at);
    }

    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
        self.lowest = self.lowest.min(other.lowest);
        self.highest = self.highest.max(other.highest);
    }

    pub fn clear(&mut self) {
        if self.total > 0 {
            self.counts[self.lowest..=self.highest].fill(0);
        }
        (self.total, self.lowest, self.highest) = (0, BUCKETS, 0);
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    /// None when the histogram is empty.
    pub fn percentile(&self, q: Quantile) -> Option<u64> {
        let rank = (u128::from(self.total) * u128::from(q.numerator))
            .div_ceil(u128::from(q.denominator))
            .max(1) as u64;
        let mut seen = 0;
        for at in self.lowest..=self.highest {
            seen += self.counts[at];
            if seen >= rank {
                return Some(midpoint(at as u16));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        values.iter().for_each(|&v| histogram.add(bucket(v)));
        histogram
    }

    #[test]
    fn buckets_are_a_partition_of_u64() {
        let mut next = 0u64;
        for at in 0..BUCKETS as u16 {
            let (low, high) = bounds(at);
            assert_eq!(low, next);
            assert_eq!((bucket(low), bucket(high)), (at, at));
            next = high.wrapping_add(1);
        }
        assert_eq!(next, 0, "the last bucket ends at u64::MAX");
    }

    #[test]
    fn an_empty_histogram_has_no_percentile() {
        assert_eq!(Histogram::default().percentile(QUANTILES[0]), None);
    }

    proptest! {
        #[test]
        fn percentile_is_the_bucket_of_the_nearest_rank(mut values in prop::collection::vec(0u64..(1 << 50), 1..300)) {
            let histogram = of(&values);
            values.sort_unstable();
            for q in QUANTILES {
                let rank = (values.len() as u64 * q.numerator).div_ceil(q.denominator) as usize;
                let exact = values[rank - 1];
                let got = histogram.percentile(q).unwrap();
                prop_assert_eq!(got, midpoint(bucket(exact)));
                prop_assert!((got as f64 - exact as f64).abs() <= exact as f64 / 62.0);
            }
        }

        #[test]
        fn merging_equals_counting_together(a in prop::collection::vec(any::<u64>(), 0..50), b in prop::collection::vec(any::<u64>(), 0..50)) {
            let mut merged = of(&a);
            merged.merge(&of(&b));
            let together = of(&[a, b].concat());
            prop_assert_eq!(&merged.counts, &together.counts);
            prop_assert_eq!(merged.percentile(QUANTILES[2]), together.percentile(QUANTILES[2]));
        }
    }
}
