//! How long a client thinks.

use super::plan::{Chain, Time};
use crate::rng::Stream;

/// The think-time mode that the clients of a process share.
pub struct Mode {
    pub fast: bool,
    pub stream: Stream,
}

impl Mode {
    /// Changes the mode as after a draw; whether it did.
    #[inline]
    pub fn leave(&mut self, chain: &Chain) -> bool {
        let leaves = self.stream.uniform() < chain.leaves(self.fast);
        self.fast ^= leaves;
        leaves
    }
}

impl Chain {
    /// Mean think time of a mode.
    #[inline]
    pub fn mean(&self, fast: bool) -> f64 {
        if fast {
            self.fast
        } else {
            self.slow
        }
    }

    /// Chance of leaving a mode after a draw.
    #[inline]
    pub fn leaves(&self, fast: bool) -> f64 {
        if fast {
            self.to_slow
        } else {
            self.to_fast
        }
    }
}

/// Whether a new chain begins in the fast mode: as often as draws are made there.
pub fn starts_fast(chain: &Chain, stream: &mut Stream) -> bool {
    stream.uniform() < chain.to_fast / (chain.to_fast + chain.to_slow)
}

/// A think time without modes; one longer than `most` is none at all (0: no such rule).
#[inline]
pub fn think(time: &Time, most: i64, stream: &mut Stream) -> i64 {
    let pause = time.draw(stream) as i64;
    if most > 0 && pause > most {
        0
    } else {
        pause
    }
}
