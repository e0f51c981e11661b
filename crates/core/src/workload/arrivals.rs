//! When the next one comes of those that nobody waits for.

use super::plan::Arrivals;
use crate::rng::Stream;

/// Open arrivals while they go on.
pub struct Arriving {
    stream: Stream,
    /// Of modulated arrivals: the state and until when it lasts.
    state: usize,
    until: i64,
}

impl Arriving {
    pub fn new(stream: Stream) -> Self {
        Arriving {
            stream,
            state: 0,
            until: i64::MIN,
        }
    }

    /// The arrival after one at `now`; never, of other than Poisson and modulated arrivals.
    pub fn next(&mut self, arrivals: &Arrivals, now: i64) -> i64 {
        match arrivals {
            Arrivals::Poisson { rate } => now + (self.stream.exponential() * 1e9 / rate) as i64,
            Arrivals::Modulated { rates, stays } => {
                let mut at = now;
                if self.until == i64::MIN {
                    self.until = now + (self.stream.exponential() * stays[0] as f64) as i64;
                }
                loop {
                    let rate = rates[self.state];
                    let gap = self.stream.exponential() * 1e9 / rate.max(1e-9);
                    if at as f64 + gap <= self.until as f64 {
                        return at + gap as i64;
                    }
                    at = self.until;
                    self.state = (self.state + 1) % rates.len();
                    self.until = at + (self.stream.exponential() * stays[self.state] as f64) as i64;
                }
            }
            _ => i64::MAX,
        }
    }
}
