//! The transactions of connections to databases: from a BEGIN to the COMMIT or ROLLBACK, all calls on a connection are of
//! one visit.

use super::lane::Place;
use super::model::NO_CONNECTION;
use crate::record::{Names, Visit};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// The most calls of a transaction, and the most transactions at once, that are followed.
const CALLS: usize = 1 << 10;
const OPEN: usize = 1 << 12;
/// Of so many transactions, nearly all end if all but a tenth do.
const ENOUGH: u64 = 20;

/// What a call is in the transaction of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    First,
    Last,
    Other,
}

impl Part {
    pub fn of(visit: &Visit, names: &Names) -> Part {
        let name = names.interactions.get(visit.interaction as usize);
        match name.map(String::as_str) {
            Some("BEGIN") => Part::First,
            Some("COMMIT" | "ROLLBACK") => Part::Last,
            _ => Part::Other,
        }
    }
}

/// The calls of each transaction that has not ended, by connection.
#[derive(Debug, Default, Deserialize, Serialize)]
pub struct Transactions {
    open: FxHashMap<u32, Vec<Place>>,
    begun: u64,
    ended: u64,
    /// Visits without a rival that ended while a transaction inside them was open, such as those that never commit.
    left_open: u64,
}

impl Transactions {
    /// Adds a call. Returns the calls of its transaction if it is the last of them.
    pub fn add(&mut self, connection: u32, place: Place, part: Part) -> Option<Vec<Place>> {
        if connection == NO_CONNECTION {
            return None;
        }
        if part == Part::First {
            if self.open.len() >= OPEN {
                self.open.clear();
            }
            self.begun += 1;
            self.open.insert(connection, vec![place]);
            return None;
        }
        let calls = self.open.get_mut(&connection)?;
        calls.push(place);
        if part == Part::Last {
            self.ended += 1;
            return self.open.remove(&connection);
        }
        if calls.len() > CALLS {
            self.open.remove(&connection);
        }
        None
    }

    pub fn is_open(&self, connection: u32, place: Place) -> bool {
        let first = self.open.get(&connection).and_then(|calls| calls.first());
        first.is_some_and(|&first| place >= first)
    }

    /// A visit without a rival has ended; `is_open`: and a transaction inside it has not.
    pub fn learn(&mut self, is_open: bool) {
        self.left_open += u64::from(is_open);
    }

    /// Whether nearly all transactions end, and those of nearly all visits end before them.
    pub fn end_in_visits(&self) -> bool {
        let few = self.begun / 10;
        self.ended >= ENOUGH && self.ended * 10 >= self.begun * 9 && self.left_open <= few
    }
}
