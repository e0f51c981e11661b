//! The times of open arrivals.

use super::plan::Arrivals;
use crate::rng::Stream;

/// Open arrivals while they last.
pub struct Arriving {
    stream: Stream,
    /// For modulated arrivals: the state, and when it began and ends.
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

    /// The interval in which the rate is above the mean of all states.
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

    /// The state at an arbitrary moment: each by its share of the time.
    fn state_by_time(&self, stays: &[i64]) -> usize {
        let all: f64 = stays.iter().map(|&stay| stay as f64).sum();
        // A copy, so that the fork draws nothing from the stream of the arrivals.
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

    /// The arrival after the one at `now`; never, if the arrivals are neither Poisson nor
    /// modulated.
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
