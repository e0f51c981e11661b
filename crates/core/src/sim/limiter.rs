//! A limit of the requests inside a server that adapts to the response times of its visits. What
//! comes above it is refused at once. The rules and their defaults are those of Netflix'
//! concurrency-limits (`AIMDLimit`, `Gradient2Limit`).

use super::plan::{Adaptive, Limit};

/// The first samples of the long-term mean are averaged evenly.
const WARMUP: u32 = 10;
/// A long-term mean of more than twice the last response time is stale and shrinks faster.
const STALE: f64 = 2.0;
const SHRINKS: f64 = 0.95;
/// One step never takes more than half of the limit.
const LEAST_GRADIENT: f64 = 0.5;

pub struct Limiter<'a> {
    settings: &'a Limit,
    limit: f64,
    /// Long-term mean of response times, and the number of samples in it, up to `WARMUP`.
    long: f64,
    samples: u32,
}

impl<'a> Limiter<'a> {
    pub fn new(settings: &'a Limit) -> Self {
        Limiter {
            settings,
            limit: f64::from(settings.initial),
            long: 0.0,
            samples: 0,
        }
    }

    /// Whether one more may be inside, when it makes `inside` of them.
    #[inline]
    pub fn admits(&self, inside: u32) -> bool {
        f64::from(inside) <= self.limit
    }

    /// A visit took `took` ns; when it was admitted, `abreast` were inside.
    pub fn answered(&mut self, took: i64, abreast: u32) {
        let (took, abreast) = (took.max(1) as f64, f64::from(abreast));
        let next = match &self.settings.kind {
            Adaptive::Aimd { timeout, backoff } => self.additive(took, abreast, *timeout, *backoff),
            Adaptive::Gradient {
                tolerance,
                queue,
                smoothing,
                window,
            } => {
                let long = self.long_term(took, *window);
                if abreast < self.limit / 2.0 {
                    return;
                }
                let gradient = (tolerance * long / took).clamp(LEAST_GRADIENT, 1.0);
                let target = self.limit * gradient + queue;
                self.limit * (1.0 - smoothing) + target * smoothing
            }
        };
        self.limit = next.clamp(f64::from(self.settings.min), f64::from(self.settings.max));
    }

    /// One more after a quick answer while the limit is in use, and a share of it after a slow one.
    fn additive(&self, took: f64, abreast: f64, timeout: i64, backoff: f64) -> f64 {
        if took > timeout as f64 {
            (self.limit * backoff).floor()
        } else if 2.0 * abreast >= self.limit {
            self.limit + 1.0
        } else {
            self.limit
        }
    }

    /// Adds a sample; returns the mean with it.
    fn long_term(&mut self, took: f64, window: u32) -> f64 {
        if self.samples < WARMUP {
            self.samples += 1;
            self.long += (took - self.long) / f64::from(self.samples);
        } else {
            let weight = 2.0 / (f64::from(window) + 1.0);
            self.long += (took - self.long) * weight;
        }
        let long = self.long;
        if long > STALE * took {
            self.long *= SHRINKS;
        }
        long
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn limit(initial: u32, kind: Adaptive) -> Limit {
        Limit {
            initial,
            min: 2,
            max: 100,
            kind,
        }
    }

    #[test]
    fn aimd_adds_one_after_a_quick_answer_and_keeps_nine_tenths_after_a_slow_one() {
        let settings = limit(
            20,
            Adaptive::Aimd {
                timeout: 100 * MS,
                backoff: 0.9,
            },
        );
        let mut limiter = Limiter::new(&settings);
        assert!(limiter.admits(20) && !limiter.admits(21));
        limiter.answered(MS, 9);
        assert_eq!(limiter.limit, 20.0, "less than half was in use");
        limiter.answered(MS, 10);
        assert_eq!(limiter.limit, 21.0);
        limiter.answered(101 * MS, 1);
        assert_eq!(limiter.limit, 18.0, "0.9 · 21 = 18.9, of which whole ones");
        for _ in 0..50 {
            limiter.answered(101 * MS, 1);
        }
        assert_eq!(limiter.limit, 2.0);
    }

    #[test]
    fn the_gradient_grows_by_a_part_of_the_queue_and_shrinks_with_the_response_time() {
        let settings = limit(
            20,
            Adaptive::Gradient {
                tolerance: 1.5,
                queue: 4.0,
                smoothing: 0.2,
                window: 600,
            },
        );
        let mut limiter = Limiter::new(&settings);
        limiter.answered(10 * MS, 20);
        // the mean is 10 ms: gradient 1, target 24
        assert!((limiter.limit - 20.8).abs() < 1e-9);
        limiter.answered(10 * MS, 10);
        assert!((limiter.limit - 20.8).abs() < 1e-9, "less than half in use");
        limiter.answered(70 * MS, 20);
        // the mean is 30 ms: gradient 45 / 70, target 20.8 · 9 / 14 + 4
        let target = 20.8 * 9.0 / 14.0 + 4.0;
        assert!((limiter.limit - (0.8 * 20.8 + 0.2 * target)).abs() < 1e-9);
        let before = limiter.limit;
        limiter.answered(10_000 * MS, 20);
        // far beyond the mean: no less than half
        let target = before * 0.5 + 4.0;
        assert!((limiter.limit - (0.8 * before + 0.2 * target)).abs() < 1e-9);
    }
}
