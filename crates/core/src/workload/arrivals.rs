//! When the next one comes of those that nobody waits for.

use super::plan::Arrivals;
use crate::rng::Stream;

/// Open arrivals while they go on.
pub struct Arriving {
    stream: Stream,
    /// Of modulated arrivals: the state, since when it lasts and until when.
    state: usize,
    since: i64,
    until: i64,
}

impl Arriving {
    pub fn new(stream: Stream) -> Self {
        Arriving {
            stream,
            state: 0,
            since: 0,
            until: i64::MIN,
        }
    }

    /// Since when and until when more come than the mean of all states.
    pub fn burst(&self, arrivals: &Arrivals) -> Option<(i64, i64)> {
        let Arrivals::Modulated { rates, stays } = arrivals else {
            return None;
        };
        let weights = || stays.iter().map(|&stay| stay as f64);
        let come: f64 = rates
            .iter()
            .zip(weights())
            .map(|(rate, stay)| rate * stay)
            .sum();
        let mean = come / weights().sum::<f64>();
        let more = self.until > i64::MIN && rates[self.state] > mean;
        more.then_some((self.since, self.until))
    }

    /// The state in which somebody finds them who comes at any time: each by its share of the time.
    fn state_by_time(&self, stays: &[i64]) -> usize {
        let all: f64 = stays.iter().map(|&stay| stay as f64).sum();
        // By a copy, whose fork draws nothing from what draws the arrivals.
        let mut copy = self.stream;
        let mut left = copy.fork().uniform() * all;
        for (state, &stay) in stays.iter().enumerate() {
            left -= stay as f64;
            if left < 0.0 {
                return state;
            }
        }
        stays.len() - 1
    }

    /// The arrival after one at `now`; never, of other than Poisson and modulated arrivals.
    pub fn next(&mut self, arrivals: &Arrivals, now: i64) -> i64 {
        match arrivals {
            Arrivals::Poisson { rate } => now + (self.stream.exponential() * 1e9 / rate) as i64,
            Arrivals::Modulated { rates, stays } => {
                let mut at = now;
                if self.until == i64::MIN {
                    self.state = self.state_by_time(stays);
                    self.since = now;
                    self.until =
                        now + (self.stream.exponential() * stays[self.state] as f64) as i64;
                }
                loop {
                    let rate = rates[self.state];
                    let gap = self.stream.exponential() * 1e9 / rate.max(1e-9);
                    if at as f64 + gap <= self.until as f64 {
                        return at + gap as i64;
                    }
                    at = self.until;
                    self.since = at;
                    self.state = (self.state + 1) % rates.len();
                    self.until = at + (self.stream.exponential() * stays[self.state] as f64) as i64;
                }
            }
            _ => i64::MAX,
        }
    }
}
