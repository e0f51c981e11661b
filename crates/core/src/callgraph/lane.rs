//! Finished calls from one host to one server that no visit owns yet. The calls of one transaction are of one visit,
//! so they become one call when it ends.

use super::model::{Call, Frame, CALLS_MAX, NO_CONNECTION};
use super::transactions::{Part, Transactions};
use crate::record::{Visit, NO_TIME};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::iter::successors;

/// Calls examined from either end of a visit: those sent soonest after its arrival, and those that
/// departed latest, with the earlier calls of their own connections. This bounds the time of a
/// choice; calls in between are far from both ends.
const LOOKED_AT: usize = 32;
/// Steps through calls that do not fit, so that thousands without an owner cost no more.
const STEPS: usize = 192;

/// A visit with everything below it.
#[derive(Debug, Deserialize, Serialize)]
pub struct Tree {
    pub visit: Visit,
    pub calls: Vec<Tree>,
    /// The number of visits in it.
    pub size: usize,
}

/// When a call was sent, and its number.
pub type Place = (i64, u64);

#[derive(Debug, Deserialize, Serialize)]
struct Waiting {
    /// Boxed, because the map moves its values when it grows.
    tree: Box<Tree>,
    /// The later calls of the transaction that it began.
    later: Vec<Tree>,
    /// Its connection was opened by a call that was still waiting when this one came, or by itself.
    own_connection: bool,
    /// The call before it on such a connection.
    before: Option<Place>,
    failed: bool,
}

impl Waiting {
    fn call(&self) -> Call {
        let visit = &self.tree.visit;
        Call {
            connection: if self.own_connection || !self.later.is_empty() {
                visit.connection
            } else {
                NO_CONNECTION
            },
            sent: visit.sent,
            departure: self.departure(),
            key: visit.key,
            failed: self.failed,
        }
    }

    fn departure(&self) -> i64 {
        self.later.last().unwrap_or(&self.tree).visit.departure
    }
}

#[derive(Debug, Default, Deserialize, Serialize)]
pub struct Lane {
    by_sent: BTreeMap<Place, Waiting>,
    /// The newest waiting call of each connection on which all calls since the opening are waiting.
    by_connection: FxHashMap<u32, Place>,
    by_departure: BTreeSet<(i64, Place)>,
    transactions: Transactions,
    /// Running mean of the time between departures, ns.
    between: f64,
    newest: i64,
    seen: u64,
}

impl Lane {
    /// The number of calls so far.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// `number` distinguishes calls that were sent in the same instant.
    pub fn push(&mut self, tree: Tree, number: u64, failed: bool, part: Part) {
        let place = (tree.visit.sent, number);
        let departure = tree.visit.departure;
        if self.seen > 0 {
            let step = departure.saturating_sub(self.newest).max(0) as f64;
            self.between += (step - self.between) / (self.seen.min(256) as f64);
        }
        self.seen += 1;
        self.newest = self.newest.max(departure);
        self.by_departure.insert((departure, place));
        let connection = tree.visit.connection;
        let own_connection = connection != NO_CONNECTION
            && (tree.visit.connected != NO_TIME || self.by_connection.contains_key(&connection));
        let before = own_connection
            .then(|| self.by_connection.insert(connection, place))
            .flatten();
        let waiting = Waiting {
            tree: Box::new(tree),
            later: Vec::new(),
            own_connection,
            before,
            failed,
        };
        self.by_sent.insert(place, waiting);
        if let Some(places) = self.transactions.add(connection, place, part) {
            self.join(connection, &places);
        }
    }

    /// Makes these calls of a connection one call, if all still wait.
    fn join(&mut self, connection: u32, places: &[Place]) {
        let (Some((&first, others)), true) = (
            places.split_first(),
            places.iter().all(|place| self.by_sent.contains_key(place)),
        ) else {
            return;
        };
        let mut later = Vec::new();
        for &place in others {
            self.remove(place, &mut later);
        }
        if let Some(waiting) = self.by_sent.get_mut(&first) {
            self.by_departure.remove(&(waiting.departure(), first));
            waiting.later = later;
            self.by_departure.insert((waiting.departure(), first));
            if waiting.own_connection {
                self.by_connection.insert(connection, first);
            }
        }
    }

    /// Calls per nanosecond.
    pub fn rate(&self) -> f64 {
        1.0 / self.between.max(1e3)
    }

    /// Calls that lie inside the visit, sorted by `sent`, in place of what `found` has.
    pub fn inside(&self, frame: &Frame, found: &mut Vec<(Place, Call)>) {
        found.clear();
        if frame.arrival > frame.departure {
            return;
        }
        let span = (frame.arrival, 0)..=(frame.departure, u64::MAX);
        let soonest = self
            .by_sent
            .range(span)
            .take(STEPS)
            .map(|(&place, waiting)| (place, waiting.call()));
        let fits = |place: Place, call: &Call| frame.contains(call) && !self.goes_on(place);
        let soonest = soonest.filter(|&(place, ref call)| fits(place, call));
        found.extend(soonest.take(LOOKED_AT));
        if found.len() == LOOKED_AT {
            let until = (frame.departure, (i64::MAX, u64::MAX));
            let latest = self.by_departure.range(..=until).rev().take(STEPS);
            let latest = latest.filter(|(_, place)| place.0 >= frame.arrival);
            found.extend(
                latest
                    .take(LOOKED_AT)
                    .flat_map(|&(_, place)| self.along_connection(place))
                    .filter(|&(place, ref call)| fits(place, call)),
            );
            found.sort_unstable_by_key(|&(place, _)| place);
            found.dedup_by_key(|&mut (place, _)| place);
        }
    }

    /// Whether a call belongs to a transaction that has not ended: then its visit has not ended, either.
    fn goes_on(&self, place: Place) -> bool {
        let connection = |waiting: &Waiting| waiting.tree.visit.connection;
        self.transactions.end_in_visits()
            && self
                .by_sent
                .get(&place)
                .is_some_and(|waiting| self.transactions.is_open(connection(waiting), place))
    }

    /// Learns from a visit without a rival whether transactions end within their visits.
    pub fn learn(&mut self, frame: &Frame) {
        if frame.arrival > frame.departure {
            return;
        }
        let span = (frame.arrival, 0)..=(frame.departure, u64::MAX);
        let inside = self.by_sent.range(span).take(STEPS);
        let mut inside = inside.filter(|(_, waiting)| frame.contains(&waiting.call()));
        let of = |waiting: &Waiting| waiting.tree.visit.connection;
        let is_open = inside.any(|(&place, one)| self.transactions.is_open(of(one), place));
        self.transactions.learn(is_open);
    }

    /// A call and the earlier calls on its connection.
    fn along_connection(&self, place: Place) -> impl Iterator<Item = (Place, Call)> + '_ {
        let at = |place: Place| Some((place, self.by_sent.get(&place)?));
        successors(at(place), move |(_, waiting)| at(waiting.before?))
            .take(CALLS_MAX)
            .map(|(place, waiting)| (place, waiting.call()))
    }

    /// Moves a call, or those of a transaction, to the end of `into`.
    pub fn take(&mut self, place: Place, into: &mut Vec<Tree>) {
        if let Some(connection) = self.remove(place, into) {
            if self.by_connection.get(&connection) == Some(&place) {
                self.by_connection.remove(&connection);
            }
        }
    }

    /// Returns the connection.
    fn remove(&mut self, place: Place, into: &mut Vec<Tree>) -> Option<u32> {
        let waiting = self.by_sent.remove(&place)?;
        self.by_departure.remove(&(waiting.departure(), place));
        let connection = waiting.tree.visit.connection;
        into.push(*waiting.tree);
        into.extend(waiting.later);
        Some(connection)
    }

    pub fn oldest(&self) -> Option<i64> {
        self.by_departure.first().map(|&(departure, _)| departure)
    }

    pub fn take_oldest(&mut self) -> Vec<Tree> {
        let mut taken = Vec::new();
        if let Some(&(_, place)) = self.by_departure.first() {
            self.take(place, &mut taken);
        }
        taken
    }
}
