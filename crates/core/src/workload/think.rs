//! How long a client thinks.

use super::plan::{Arrivals, Chain, Time};
use crate::rng::Stream;

/// After this many draws, modes that hardly ever change are left as they are.
const SETTLES: u32 = 10_000_000;

/// The think-time mode that the clients of a process share.
pub struct Mode {
    pub fast: bool,
    /// When it began.
    since: i64,
    stream: Stream,
    /// The modes of the clients at the begin.
    thinkers: Thinkers,
}

impl Mode {
    /// The mode of process `number`, whose clients begin at `begin`.
    pub fn new(arrivals: &Arrivals, number: u32, begin: i64, mut stream: Stream) -> Self {
        let mut mode = Mode {
            fast: begins_fast(arrivals, &mut stream),
            since: begin,
            stream,
            thinkers: Thinkers::default(),
        };
        if let Arrivals::Closed {
            clients,
            chain: Some(chain),
            spread: None,
            ..
        } = arrivals
        {
            let rest = clients.saturating_sub(number);
            mode.settle(chain, rest.div_ceil(chain.chains.max(1)));
        }
        mode
    }

    /// Changes the mode as after a draw at `now`; returns the fast mode that ended.
    #[inline]
    pub fn leave(&mut self, chain: &Chain, now: i64) -> Option<(i64, i64)> {
        let begun = self.surge();
        if !self.turn(chain) {
            return None;
        }
        self.since = now;
        begun.map(|since| (since, now))
    }

    /// When the fast mode began that lasts.
    pub fn surge(&self) -> Option<i64> {
        self.fast.then_some(self.since)
    }

    #[inline]
    fn turn(&mut self, chain: &Chain) -> bool {
        let leaves = self.stream.uniform() < chain.leaves(self.fast);
        self.fast ^= leaves;
        leaves
    }

    /// Lets the clients only think, for ten cycles of the modes and ten mean think times.
    ///
    /// Think times are exponential, so the numbers of fast and slow thinkers are a Markov chain.
    fn settle(&mut self, chain: &Chain, clients: u32) {
        let all = f64::from(clients.max(1));
        let cycle = 1.0 / chain.to_fast + 1.0 / chain.to_slow;
        let end = 10.0 * chain.mean_think() * (1.0 + cycle / all);
        let mut fast = (all * chain.time_fast()).round();
        let mut now = 0.0;
        for _ in 0..SETTLES {
            let of_fast = fast / chain.fast;
            let rate = of_fast + (all - fast) / chain.slow;
            now += self.stream.exponential() / rate;
            if now >= end {
                break;
            }
            fast += f64::from(self.fast) - f64::from(self.stream.uniform() * rate < of_fast);
            self.turn(chain);
        }
        self.thinkers = Thinkers {
            fast: fast as u32,
            all: clients,
        };
    }

    /// The mode of the next client that thinks at the begin: chance decides which of them are fast.
    pub fn first(&mut self) -> bool {
        let Thinkers { fast, all } = &mut self.thinkers;
        let is_fast = self.stream.below((*all).max(1)) < *fast;
        *fast -= u32::from(is_fast);
        *all = all.saturating_sub(1);
        is_fast
    }
}

#[derive(Default)]
struct Thinkers {
    fast: u32,
    all: u32,
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

    /// Share of draws in the fast mode.
    fn share_fast(&self) -> f64 {
        self.to_fast / (self.to_fast + self.to_slow)
    }

    fn mean_think(&self) -> f64 {
        let fast = self.share_fast();
        fast * self.fast + (1.0 - fast) * self.slow
    }

    /// Share of the think time that is in the fast mode.
    fn time_fast(&self) -> f64 {
        self.share_fast() * self.fast / self.mean_think()
    }

    /// Probability of leaving a mode after a draw.
    #[inline]
    pub fn leaves(&self, fast: bool) -> f64 {
        if fast {
            self.to_slow
        } else {
            self.to_fast
        }
    }
}

/// Whether a new chain begins in the fast mode: by the time spent in it if its clients think at the
/// begin, by the draws made in it if they send.
pub fn begins_fast(arrivals: &Arrivals, stream: &mut Stream) -> bool {
    let Arrivals::Closed {
        chain: Some(chain),
        spread,
        ..
    } = arrivals
    else {
        return false;
    };
    let share = match spread {
        None => chain.time_fast(),
        Some(_) => chain.share_fast(),
    };
    stream.uniform() < share
}

/// A think time without modes; one longer than `most` becomes 0 (0: no such rule).
#[inline]
pub fn think(time: &Time, most: i64, stream: &mut Stream) -> i64 {
    let pause = time.draw(stream) as i64;
    if most > 0 && pause > most {
        0
    } else {
        pause
    }
}

/// The rest of a think time at an arbitrary moment (the equilibrium distribution of renewal
/// theory): a uniform share of a length-biased think time.
pub fn rest(time: &Time, most: i64, stream: &mut Stream) -> i64 {
    match *time {
        // It has no memory, and the rule makes no difference.
        Time::Exponential(mean) if most == 0 || most as f64 >= 7.0 * mean => {
            think(time, most, stream)
        }
        _ => {
            // If nearly all think times are too long, there are none.
            let fits = |&length: &f64| most == 0 || length <= most as f64;
            let mut lengths = (0..1000).map(|_| time.draw_by_length(stream));
            let length = lengths.find(fits).unwrap_or(0.0);
            (length * stream.uniform()) as i64
        }
    }
}
