//! Division by the window length without a division: one multiplication and a shift.
//!
//! Granlund and Montgomery, "Division by invariant integers using multiplication" (PLDI 1994), theorem 4.2, for
//! dividends below 2^63, where the multiplier fits in 64 bits and the quotient is exact.

#[derive(Clone, Copy, Debug)]
pub(crate) struct Divisor {
    multiplier: u64,
    shift: u32,
}

impl Divisor {
    /// `d` is at least 2.
    pub fn new(d: i64) -> Self {
        let d = d.max(2) as u128;
        let log2 = 128 - (d - 1).leading_zeros();
        let multiplier = (1u128 << (63 + log2)).div_ceil(d) as u64;
        Divisor {
            multiplier,
            shift: log2 - 1,
        }
    }

    /// `x / d` for x below 2^63.
    #[inline(always)]
    pub fn divide(self, x: u64) -> u64 {
        ((u128::from(x) * u128::from(self.multiplier)) >> 64) as u64 >> self.shift
    }
}

#[cfg(test)]
mod tests {
    use super::Divisor;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn divides_exactly(d in 2i64..20_000_000_000, x in 0u64..(1 << 63)) {
            prop_assert_eq!(Divisor::new(d).divide(x), x / d as u64);
            let edge = x - x % d as u64;
            prop_assert_eq!(Divisor::new(d).divide(edge), edge / d as u64);
            if edge > 0 {
                prop_assert_eq!(Divisor::new(d).divide(edge - 1), (edge - 1) / d as u64);
            }
        }
    }
}
