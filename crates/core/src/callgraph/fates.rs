//! Whether calls from one host to a server lie inside the visits of the servers that may have made them.

use crate::record::Visit;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// Calls outside all visits of possible callers count as requests of their own if they come at this
/// many moments, at least a tenth of a second apart, and are this share of their interaction. A
/// recording that starts during a stall, or loses packets, has many at once, but not for two
/// seconds.
const DIRECT: (u64, f64) = (20, 0.2);
const MOMENT_NS: i64 = 100_000_000;
/// Interactions that are counted separately.
const FATES: usize = 4096;

#[derive(Clone, Copy, Default, Deserialize, Serialize)]
pub struct Fate {
    inside: u64,
    outside: u64,
    /// The number of moments with calls outside, and the end of the last one.
    moments: u64,
    pub moment_end: Option<i64>,
}

impl Fate {
    fn count(&mut self, inside: bool, sent: i64) {
        if inside {
            self.inside += 1;
            return;
        }
        self.outside += 1;
        if self.moment_end.is_none_or(|end| sent >= end) {
            self.moments += 1;
            self.moment_end = Some(sent.saturating_add(MOMENT_NS));
        }
    }

    pub fn is_direct(self) -> bool {
        self.moments >= DIRECT.0
            && self.outside as f64 >= DIRECT.1 * (self.inside + self.outside) as f64
    }
}

/// By calling host, server and interaction.
pub type Fates = FxHashMap<(u32, u32, u32), Fate>;

pub fn count_fate(fates: &mut Fates, pair: (u32, u32), call: &Visit, inside: bool) {
    let of = (pair.0, pair.1, call.interaction);
    if fates.len() < FATES || fates.contains_key(&of) {
        fates.entry(of).or_default().count(inside, call.sent);
    }
}
