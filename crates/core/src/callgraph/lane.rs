//! Finished calls from one host to one server that no visit owns yet.

use super::model::{Call, Frame, CALLS_MAX, NO_CONNECTION};
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
            connection: if self.own_connection {
                visit.connection
            } else {
                NO_CONNECTION
            },
            sent: visit.sent,
            departure: visit.departure,
            key: visit.key,
            failed: self.failed,
        }
    }
}

#[derive(Debug, Default, Deserialize, Serialize)]
pub struct Lane {
    by_sent: BTreeMap<Place, Waiting>,
    /// The newest waiting call of each connection on which all calls since the opening are waiting.
    by_connection: FxHashMap<u32, Place>,
    by_departure: BTreeSet<(i64, Place)>,
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
    pub fn push(&mut self, tree: Tree, number: u64, failed: bool) {
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
            own_connection,
            before,
            failed,
        };
        self.by_sent.insert(place, waiting);
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
        let soonest = soonest.filter(|(_, call)| frame.contains(call));
        found.extend(soonest.take(LOOKED_AT));
        if found.len() == LOOKED_AT {
            let until = (frame.departure, (i64::MAX, u64::MAX));
            let latest = self.by_departure.range(..=until).rev().take(STEPS);
            let latest = latest.filter(|(_, place)| place.0 >= frame.arrival);
            found.extend(
                latest
                    .take(LOOKED_AT)
                    .flat_map(|&(_, place)| self.along_connection(place))
                    .filter(|(_, call)| frame.contains(call)),
            );
            found.sort_unstable_by_key(|&(place, _)| place);
            found.dedup_by_key(|&mut (place, _)| place);
        }
    }

    /// A call and the earlier calls on its connection.
    fn along_connection(&self, place: Place) -> impl Iterator<Item = (Place, Call)> + '_ {
        let at = |place: Place| Some((place, self.by_sent.get(&place)?));
        successors(at(place), move |(_, waiting)| at(waiting.before?))
            .take(CALLS_MAX)
            .map(|(place, waiting)| (place, waiting.call()))
    }

    pub fn take(&mut self, place: Place) -> Option<Tree> {
        let Waiting { tree, .. } = self.by_sent.remove(&place)?;
        self.by_departure.remove(&(tree.visit.departure, place));
        let connection = tree.visit.connection;
        if self.by_connection.get(&connection) == Some(&place) {
            self.by_connection.remove(&connection);
        }
        Some(*tree)
    }

    pub fn oldest(&self) -> Option<i64> {
        self.by_departure.first().map(|&(departure, _)| departure)
    }

    pub fn take_oldest(&mut self) -> Option<Tree> {
        let (_, place) = *self.by_departure.first()?;
        self.take(place)
    }
}
