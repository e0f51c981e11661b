//! What is kept of all visits as they come.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::ArrowError;
use rustc_hash::FxHashMap;

use super::Row;

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Pairs of a server and an interaction.
    pub pairs: usize,
    /// The first requests.
    pub requests: usize,
    /// Times to connect are long from here on, in ns.
    pub long: i64,
    /// Long times to connect, and short ones.
    pub long_kept: usize,
    pub short_kept: usize,
}

/// How long connecting took.
#[derive(Debug, Default)]
pub struct Waits {
    /// How many were long; the first ones are kept.
    pub count: u64,
    pub long: Vec<i64>,
    pub short: Vec<i64>,
}

/// The first requests: what they and their longest calls took, in ns, and the numbers of their interactions.
#[derive(Debug, Default)]
pub struct Sample {
    pub numbers: Vec<i64>,
    pub took: Vec<i64>,
    pub longest: Vec<i64>,
    pub interactions: Vec<i64>,
}

impl Waits {
    /// The long ones, and the short ones.
    pub fn tables(&self) -> Result<[RecordBatch; 2], ArrowError> {
        let table = |waits| RecordBatch::try_from_iter([("wait", column(waits))]);
        Ok([table(&self.long)?, table(&self.short)?])
    }
}

fn column(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

impl Sample {
    pub fn table(&self) -> Result<RecordBatch, ArrowError> {
        RecordBatch::try_from_iter([
            ("took", column(&self.took)),
            ("longest", column(&self.longest)),
            ("interaction", column(&self.interactions)),
        ])
    }
}

#[derive(Debug)]
pub struct Seen {
    bounds: Bounds,
    counts: FxHashMap<u64, u64>,
    /// Of calls, and of requests: the pair of the last ones, and how many of them are not counted yet.
    last: [(u64, u64); 2],
    beyond: u64,
    waits: Waits,
    sample: Sample,
}

impl Seen {
    pub fn new(bounds: Bounds) -> Seen {
        Seen {
            bounds,
            counts: FxHashMap::default(),
            last: [(0, 0); 2],
            beyond: 0,
            waits: Waits::default(),
            sample: Sample::default(),
        }
    }

    #[inline]
    pub fn add(&mut self, row: &Row) {
        let pair = u64::from(row.server) << 32 | u64::from(row.interaction);
        let last = &mut self.last[usize::from(row.entry)];
        if last.0 == pair {
            last.1 += 1;
        } else {
            let (pair, count) = std::mem::replace(last, (pair, 1));
            self.count(pair, count);
        }
        if row.wait > 0 {
            self.add_wait(row.wait);
        }
        if row.entry {
            if self.sample.numbers.len() < self.bounds.requests {
                self.sample.numbers.push(row.number);
                self.sample.took.push(row.departure.wrapping_sub(row.sent));
                self.sample.longest.push(0);
                self.sample.interactions.push(i64::from(row.interaction));
            }
        } else if row.parent >= 0 && self.sample.numbers.last() >= Some(&row.parent) {
            self.add_call(row);
        }
    }

    fn count(&mut self, pair: u64, count: u64) {
        if count == 0 {
            return;
        }
        *self.counts.entry(pair).or_insert(0) += count;
        if self.counts.len() > self.bounds.pairs {
            self.counts.remove(&pair);
            self.beyond += count;
        }
    }

    fn add_wait(&mut self, wait: i64) {
        let (waits, bounds) = (&mut self.waits, &self.bounds);
        let is_long = wait >= bounds.long;
        waits.count += u64::from(is_long);
        let (kept, most) = match is_long {
            true => (&mut waits.long, bounds.long_kept),
            false => (&mut waits.short, bounds.short_kept),
        };
        if kept.len() < most {
            kept.push(wait);
        }
    }

    fn add_call(&mut self, row: &Row) {
        let sample = &mut self.sample;
        let last = sample.numbers.len().saturating_sub(1);
        let at = match sample.numbers.get(last) {
            Some(&number) if number == row.parent => Ok(last),
            _ => sample.numbers.binary_search(&row.parent),
        };
        if let Some(longest) = at.ok().and_then(|at| sample.longest.get_mut(at)) {
            *longest = (*longest).max(row.departure.wrapping_sub(row.sent));
        }
    }

    /// How many visits each server and interaction have together, in the order of their numbers, and how many have
    /// others.
    pub fn pairs(&mut self) -> (Vec<(u32, u32, u64)>, u64) {
        for (pair, count) in std::mem::take(&mut self.last) {
            self.count(pair, count);
        }
        let counts = self.counts.iter();
        let mut counts: Vec<_> = counts
            .map(|(pair, &count)| ((pair >> 32) as u32, *pair as u32, count))
            .collect();
        counts.sort_unstable();
        (counts, self.beyond)
    }

    pub fn waits(&self) -> &Waits {
        &self.waits
    }

    pub fn sample(&self) -> &Sample {
        &self.sample
    }
}
