//! Random numbers that depend on the entity and the purpose, never on the order of events. Every
//! entity has its own counter-based stream, so two configurations of one system can be compared
//! under common random numbers.
//!
//! The n-th number of a stream is the SplitMix64 finaliser of `key + n·γ` (Steele, Lea, Flood,
//! OOPSLA 2014). Exponential numbers use the ziggurat method (Marsaglia, Tsang, 2000) with tables
//! computed by `libm`, so the same seed gives the same bytes on any machine.

use std::sync::LazyLock;

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The purpose of a stream: the streams of one entity differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    Think = 1,
    Choice,
    Request,
    Start,
    Mode,
    Arrival,
    Balance,
    Phase,
    Path,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream(u64);

#[inline(always)]
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Stream {
    /// The stream of `entity` (a number that is unique for this purpose) in one replication.
    pub fn of(seed: u64, replication: u64, entity: u64, purpose: Purpose) -> Self {
        let mut key = mix(seed.wrapping_add(GAMMA));
        for part in [replication, entity, purpose as u64] {
            key = mix(key ^ mix(part.wrapping_add(GAMMA)).rotate_left(17));
        }
        Stream(key)
    }

    /// 64 random bits.
    #[inline(always)]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GAMMA);
        mix(self.0)
    }

    /// A separate stream for a part of this one's purpose.
    #[inline(always)]
    pub fn fork(&mut self) -> Stream {
        Stream(mix(self.bits() ^ GAMMA))
    }

    /// Uniform in [0, 1).
    #[inline(always)]
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in 0..n; n > 0.
    #[inline]
    pub fn below(&mut self, n: u32) -> u32 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u32
    }

    /// Exponential with mean 1.
    #[inline(always)]
    pub fn exponential(&mut self) -> f64 {
        let tables = &*ZIGGURAT;
        loop {
            let bits = self.bits();
            let layer = (bits & 0xff) as usize;
            let u = (bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64);
            let x = u * tables.x[layer];
            if x < tables.x[layer + 1] {
                return x;
            }
            if let Some(x) = self.exponential_outside(layer, x) {
                return x;
            }
        }
    }

    /// The rare part of the ziggurat: the tail, and the wedge between a layer and the curve.
    #[cold]
    fn exponential_outside(&mut self, layer: usize, x: f64) -> Option<f64> {
        let tables = &*ZIGGURAT;
        if layer == 0 {
            return Some(TAIL - libm::log(1.0 - self.uniform()));
        }
        let (low, high) = (tables.f[layer], tables.f[layer + 1]);
        (low + (high - low) * self.uniform() < libm::exp(-x)).then_some(x)
    }
}

/// Where the tail begins, and the area of each of the 256 layers.
const TAIL: f64 = 7.697_117_470_131_05;
const AREA: f64 = 0.003_949_659_822_581_557;

struct Ziggurat {
    /// Right ends of the layers, widest first, and the density there.
    x: [f64; 257],
    f: [f64; 257],
}

static ZIGGURAT: LazyLock<Ziggurat> = LazyLock::new(|| {
    let (mut x, mut f) = ([0.0; 257], [0.0; 257]);
    x[0] = AREA / libm::exp(-TAIL);
    x[1] = TAIL;
    for i in 2..256 {
        x[i] = -libm::log(AREA / x[i - 1] + libm::exp(-x[i - 1]));
    }
    for i in 0..257 {
        f[i] = libm::exp(-x[i]);
    }
    Ziggurat { x, f }
});

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(entity: u64) -> Stream {
        Stream::of(1, 0, entity, Purpose::Think)
    }

    #[test]
    fn the_same_key_gives_the_same_numbers_on_any_machine() {
        let mut s = stream(7);
        let bits: Vec<u64> = (0..3).map(|_| s.bits()).collect();
        let exponential: Vec<u64> = (0..3).map(|_| s.exponential().to_bits()).collect();
        let mut again = stream(7);
        assert_eq!(bits, (0..3).map(|_| again.bits()).collect::<Vec<_>>());
        assert_eq!(
            exponential,
            (0..3)
                .map(|_| again.exponential().to_bits())
                .collect::<Vec<_>>()
        );
        assert_eq!(
            Stream(0).bits(),
            0xe220_a839_7b1d_cdaf,
            "SplitMix64's published first number of seed 0"
        );
    }

    #[test]
    fn entities_and_purposes_draw_differently() {
        let first = |seed, replication, entity, purpose| {
            Stream::of(seed, replication, entity, purpose).bits()
        };
        let all = [
            first(1, 0, 0, Purpose::Think),
            first(1, 0, 1, Purpose::Think),
            first(1, 1, 0, Purpose::Think),
            first(2, 0, 0, Purpose::Think),
            first(1, 0, 0, Purpose::Choice),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b));
        }
    }

    #[test]
    fn exponential_numbers_have_the_moments_and_the_tail_of_the_law() {
        let n = 2_000_000;
        let (mut sum, mut squares, mut over) = (0.0, 0.0, [0u32; 12]);
        let mut s = stream(3);
        for _ in 0..n {
            let x = s.exponential();
            sum += x;
            squares += x * x;
            for (k, count) in over.iter_mut().enumerate() {
                *count += u32::from(x > k as f64);
            }
        }
        let mean = sum / f64::from(n);
        assert!((mean - 1.0).abs() < 4.0 / f64::from(n).sqrt(), "{mean}");
        let second = squares / f64::from(n);
        assert!(
            (second - 2.0).abs() < 4.0 * (20.0 / f64::from(n)).sqrt(),
            "{second}"
        );
        for (k, &count) in over.iter().enumerate() {
            let expected = f64::from(n) * (-(k as f64)).exp();
            assert!(
                (f64::from(count) - expected).abs() <= 4.5 * expected.sqrt() + 1.0,
                "P(X > {k}): {count}, {expected}"
            );
        }
    }

    #[test]
    fn below_is_even() {
        let mut s = stream(5);
        let mut counts = [0u32; 7];
        for _ in 0..70_000 {
            counts[s.below(7) as usize] += 1;
        }
        let chi: f64 = counts
            .iter()
            .map(|&c| (f64::from(c) - 10_000.0).powi(2) / 10_000.0)
            .sum();
        assert!(
            chi < 27.9,
            "chi-square with 6 degrees of freedom, one in 10,000: {chi}"
        );
    }
}
