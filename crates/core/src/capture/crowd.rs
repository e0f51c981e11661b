//! Connection attempts that are counted together: their number, senders, destinations and times.

use std::hash::Hash;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// Distinct senders and destinations: a flood from forged addresses has as many as it has packets.
const TOLD_APART: usize = 1 << 16;
/// Destinations that are named.
const NAMED: usize = 5;

/// `S` is the sender, `P` the destination.
#[derive(Debug, Deserialize, Serialize)]
#[serde(bound(
    serialize = "S: Serialize, P: Serialize",
    deserialize = "S: Deserialize<'de> + Eq + Hash, P: Deserialize<'de> + Eq + Hash"
))]
pub struct Crowd<S, P> {
    attempts: u64,
    senders: FxHashMap<S, u64>,
    places: FxHashMap<P, u64>,
    span: Option<(i64, i64)>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// "unanswered", "refused" or "half-open".
    pub state: &'static str,
    pub attempts: u64,
    pub senders: u64,
    pub endpoints: u64,
    /// False: there are more senders, or more endpoints, than can be distinguished.
    pub exact: bool,
    pub begin: i64,
    pub end: i64,
    /// The destinations with most of them.
    pub to: Vec<(String, u64)>,
}

impl<S, P> Default for Crowd<S, P> {
    fn default() -> Self {
        Crowd {
            attempts: 0,
            senders: FxHashMap::default(),
            places: FxHashMap::default(),
            span: None,
        }
    }
}

impl<S: Eq + Hash, P: Eq + Hash + Ord + Copy> Crowd<S, P> {
    pub fn count(&mut self, sender: S, place: P, begin: i64, end: i64) {
        self.attempts += 1;
        count(&mut self.senders, sender);
        count(&mut self.places, place);
        let (first, last) = self.span.unwrap_or((begin, end));
        self.span = Some((first.min(begin), last.max(end)));
    }

    /// Sender, destination, and number.
    pub fn members(&self) -> (&FxHashMap<S, u64>, &FxHashMap<P, u64>) {
        (&self.senders, &self.places)
    }

    pub fn attempts(&self) -> u64 {
        self.attempts
    }

    /// None where there are none.
    pub fn report(&self, state: &'static str, name: impl Fn(P) -> String) -> Option<Report> {
        let (begin, end) = self.span?;
        let mut most: Vec<(P, u64)> = self.places.iter().map(|(&p, &n)| (p, n)).collect();
        most.sort_unstable_by_key(|&(place, count)| (std::cmp::Reverse(count), place));
        Some(Report {
            state,
            attempts: self.attempts,
            senders: self.senders.len() as u64,
            endpoints: self.places.len() as u64,
            exact: self.senders.len().max(self.places.len()) < TOLD_APART,
            begin,
            end,
            to: most
                .iter()
                .take(NAMED)
                .map(|&(p, n)| (name(p), n))
                .collect(),
        })
    }
}

fn count<K: Eq + Hash>(counts: &mut FxHashMap<K, u64>, key: K) {
    if counts.len() < TOLD_APART || counts.contains_key(&key) {
        *counts.entry(key).or_insert(0) += 1;
    }
}
