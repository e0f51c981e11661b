//! Prequal's choice by probes (Wydrowski et al., Load is not what you should balance, NSDI 2024):
//! a call asks a few candidates that it draws for the requests inside and the response time of each.
//! Those with more requests inside than is usual are hot. Of the cold ones, the fastest is taken; if
//! all are hot, the one with the fewest requests inside.

use std::collections::VecDeque;

use crate::rng::Stream;

/// Candidates that a call asks; the paper's rate is three for each request.
const PROBES: usize = 3;
/// A candidate is hot above this quantile of the requests inside that were seen (the paper's 2⁻⁰·²⁵).
const HOT: f64 = 0.84;
/// Answers to probes that are remembered.
const SEEN: usize = 128;
/// Weight of the newest response time in the mean of a candidate.
pub const NEWEST: f64 = 0.125;

#[derive(Clone, Default)]
pub struct Prequal {
    seen: VecDeque<u32>,
}

impl Prequal {
    /// One of `eligible`, if there is any. `response` is the mean response time of each.
    pub fn choose(
        &mut self,
        mut eligible: Vec<usize>,
        stream: &mut Stream,
        inside: impl Fn(usize) -> u32,
        response: impl Fn(usize) -> f64,
    ) -> Option<usize> {
        let asked = eligible.len().min(PROBES);
        for place in 0..asked {
            let other = place + stream.below((eligible.len() - place) as u32) as usize;
            eligible.swap(place, other);
        }
        let found: Vec<_> = eligible[..asked]
            .iter()
            .map(|&i| (i, inside(i), response(i)))
            .collect();
        for &(_, count, _) in &found {
            if self.seen.len() == SEEN {
                self.seen.pop_front();
            }
            self.seen.push_back(count);
        }
        let usual = self.usual();
        let cold = found.iter().filter(|&&(_, count, _)| count <= usual);
        let fastest = cold.min_by(|a, b| a.2.total_cmp(&b.2));
        let chosen = fastest.or_else(|| found.iter().min_by_key(|&&(_, count, _)| count));
        chosen.map(|&(i, ..)| i)
    }

    fn usual(&self) -> u32 {
        let mut sorted: Vec<u32> = self.seen.iter().copied().collect();
        sorted.sort_unstable();
        let at = (sorted.len() as f64 * HOT) as usize;
        sorted
            .get(at.min(sorted.len().saturating_sub(1)))
            .copied()
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Purpose;

    #[test]
    fn of_the_cold_the_fastest_is_taken_and_of_hot_ones_the_emptiest() {
        let mut stream = Stream::of(1, 0, 0, Purpose::Balance);
        let mut prequal = Prequal::default();
        let inside = [1, 1, 50];
        let response = [20.0, 10.0, 1.0];
        let mut ask = |prequal: &mut Prequal, which: Vec<usize>| {
            prequal.choose(which, &mut stream, |i| inside[i], |i| response[i])
        };
        for _ in 0..20 {
            ask(&mut prequal, vec![0, 1]);
        }
        // The stalled one answered fast until it stalled, and has 50 inside.
        assert_eq!(ask(&mut prequal, vec![0, 1, 2]), Some(1));
        assert_eq!(ask(&mut prequal, vec![2]), Some(2));
        assert_eq!(ask(&mut prequal, Vec::new()), None);
    }
}
