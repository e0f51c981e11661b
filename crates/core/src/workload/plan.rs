//! The part of a plan that describes clients and their requests (JSON).
//!
//! Times are whole nanoseconds; a `class` is an index into the plan's list of classes.

use crate::rng::Stream;
use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Arrivals {
    /// Each client sends, waits for the answer, thinks, and sends again.
    Closed {
        clients: u32,
        think: Time,
        /// A think time drawn longer than this becomes 0 (the original client: 70 s); 0: no such
        /// rule.
        #[serde(default)]
        think_max: i64,
        #[serde(default)]
        chain: Option<Chain>,
        /// First requests are spread over this; 0: all at once; none: each client thinks first, so
        /// that the load is stationary from the begin.
        #[serde(default)]
        spread: Option<i64>,
        /// Thinking clients are one source: this is faster, and equal in distribution for
        /// exponential think times.
        #[serde(default)]
        aggregate: bool,
    },
    Poisson {
        rate: f64,
    },
    /// Poisson whose rate switches; it stays in each state for an exponential time.
    Modulated {
        rates: Vec<f64>,
        stays: Vec<i64>,
    },
    Trace(Trace),
    Batch {
        size: u32,
        first: i64,
        period: i64,
    },
}

/// Recorded requests, a value a request in each column.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// Send times of the first ones; of the others, the time that the client thinks after the
    /// answer before.
    pub times: Vec<i64>,
    /// Empty: drawn.
    #[serde(default)]
    pub classes: Vec<u32>,
    /// How many of them, from the first on, are sent at their times; none: all.
    #[serde(default)]
    pub opens: Option<u32>,
    /// The request that the same client sends next ([`LAST`]: none); empty: nobody sends another.
    #[serde(default)]
    pub next: Vec<u32>,
    /// Factors for the work of each request in each tier of the plan, row by row; empty: 1.
    #[serde(default)]
    pub factors: Vec<f32>,
}

/// No request follows.
pub const LAST: u32 = u32::MAX;

impl Trace {
    /// The times of those that are sent at their times.
    pub fn opening(&self) -> &[i64] {
        let opens = self.opens.map_or(usize::MAX, |opens| opens as usize);
        &self.times[..opens.min(self.times.len())]
    }

    /// The request that follows the one of this number.
    pub fn after(&self, number: u32) -> Option<u32> {
        let next = self.next.get(number as usize).copied();
        next.filter(|&next| next != LAST)
    }
}

/// Two think-time modes, switched after each draw (Mi et al., ICAC'09): slow and fast, with mean
/// times.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chain {
    pub slow: f64,
    pub fast: f64,
    /// Probability of leaving the slow mode, and of leaving the fast one.
    pub to_fast: f64,
    pub to_slow: f64,
    /// The number of chains, each shared by the clients of one process; 0: one per client.
    pub chains: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Choice {
    /// Class and weight.
    Mix(Vec<(u32, f64)>),
    Walk(Walk),
}

/// RUBBoS's walk: the outcomes of each state from left to right; the remainder to 1 means staying;
/// then back and end.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Walk {
    /// Class of each state.
    pub classes: Vec<u32>,
    /// Square, `from` × `to`.
    pub transitions: Vec<Vec<f64>>,
    pub back: Vec<f64>,
    pub end: Vec<f64>,
    pub start: u32,
    pub length_max: u32,
    #[serde(default)]
    pub dead_ends: Vec<DeadEnd>,
    /// A second table for this share of the clients (authors).
    #[serde(default)]
    pub other: Option<Box<Walk>>,
    #[serde(default)]
    pub other_share: f64,
}

/// A page without a link to some states (empty: to any) in a share of cases; a client that would go
/// there goes back instead.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeadEnd {
    pub state: u32,
    pub share: f64,
    pub to: Vec<u32>,
}

/// The distribution of a time or an amount of work, ns.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Time {
    Constant(f64),
    Exponential(f64),
    Uniform {
        low: f64,
        high: f64,
    },
    /// Gamma with a whole shape.
    Erlang {
        mean: f64,
        shape: u32,
    },
    /// `first` with probability `share`, else `second`: both exponential means.
    Hyperexponential {
        share: f64,
        first: f64,
        second: f64,
    },
}

impl Time {
    /// A drawn value, ns.
    #[inline]
    pub fn draw(&self, stream: &mut Stream) -> f64 {
        match *self {
            Time::Exponential(mean) => mean * stream.exponential(),
            _ => self.draw_other(stream),
        }
    }

    fn draw_other(&self, stream: &mut Stream) -> f64 {
        match *self {
            Time::Constant(value) => value,
            Time::Exponential(mean) => mean * stream.exponential(),
            Time::Uniform { low, high } => low + (high - low) * stream.uniform(),
            Time::Erlang { mean, shape } => {
                let sum: f64 = (0..shape).map(|_| stream.exponential()).sum();
                mean * sum / f64::from(shape)
            }
            Time::Hyperexponential {
                share,
                first,
                second,
            } => {
                let mean = if stream.uniform() < share {
                    first
                } else {
                    second
                };
                mean * stream.exponential()
            }
        }
    }
    /// A value drawn in proportion to itself, ns: the length of what is in progress at an arbitrary
    /// moment (length-biased sampling).
    pub fn draw_by_length(&self, stream: &mut Stream) -> f64 {
        match *self {
            Time::Constant(value) => value,
            Time::Exponential(mean) => mean * (stream.exponential() + stream.exponential()),
            Time::Uniform { low, high } => {
                (low * low + (high * high - low * low) * stream.uniform()).sqrt()
            }
            Time::Erlang { mean, shape } => {
                let sum: f64 = (0..=shape).map(|_| stream.exponential()).sum();
                mean * sum / f64::from(shape)
            }
            Time::Hyperexponential {
                share,
                first,
                second,
            } => {
                let of_first = share * first;
                let is_first = stream.uniform() * (of_first + (1.0 - share) * second) < of_first;
                Time::Exponential(if is_first { first } else { second }).draw_by_length(stream)
            }
        }
    }
}
