//! The record: the rows that all modules exchange, and the Parquet files they become.
//!
//! Moments are whole nanoseconds since the Unix epoch; [`NO_TIME`] means that a moment is unknown.
//! Names (servers, interactions, statuses, hosts) are indices into the [`Names`] of the recording.

mod arrow_note;
pub mod beside;
mod chunk;
pub(crate) mod columns;
mod dictionary;
pub mod encoding;
pub mod examine;
pub(crate) mod file;
mod gather;
pub mod join;
mod library;
mod merge;
mod numbers;
mod packing;
pub mod read;
pub mod rows;
pub mod schema;
pub mod shape;
pub mod stays;
pub mod tables;
#[cfg(test)]
mod tests;
mod thrift;
pub(crate) mod types;
pub mod writer;

use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashMap;

pub use merge::SortKey;

/// An unknown moment or duration; null in the table.
pub const NO_TIME: i64 = i64::MIN;
/// An unknown name; null in the table.
pub const NO_NAME: u32 = u32::MAX;
/// No such visit or request; null in the table. Ids start at 1.
pub const NO_ID: u64 = 0;

/// In [`Visit::caller`]: the rest of the number is an index into [`Names::servers`]. Set by [`crate::callgraph`] where the
/// calling server is known; without it the number is an index into [`Names::hosts`].
pub const CALLER_IS_SERVER: u32 = 1 << 31;

/// One stay of a request in one server, or one connection attempt that never became one.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Visit {
    pub visit: u64,
    /// Index into [`Names::servers`].
    pub server: u32,
    /// The host that called: index into [`Names::hosts`] (see [`CALLER_IS_SERVER`]).
    pub caller: u32,
    /// Ordinal of the calling connection in the recording (1, 2, …): the `client` of a request.
    pub connection: u32,
    /// Index into [`Names::interactions`].
    pub interaction: u32,
    /// Hash of what identifies the request to both sides of a proxy (path, request id header); 0 when unknown.
    pub key: u64,
    /// First SYN of the first attempt, or the first byte on a kept connection.
    pub sent: i64,
    /// When the connection was established, where this visit opened one.
    pub connected: i64,
    /// The SYN that was accepted, or the first byte on a kept connection.
    pub arrival: i64,
    /// When a worker took it; it is not visible on the wire.
    pub start: i64,
    /// First byte of the response.
    pub first_byte: i64,
    /// Last byte of the response; of a failed attempt, when it was given up.
    pub departure: i64,
    /// SYNs that were lost before one was accepted.
    pub drops: u8,
    /// Losses after the SYN (the second drop mode): SYN-ACK repeats and retransmissions of the first data.
    pub data_drops: u8,
    /// Index into [`Names::statuses`].
    pub status: u32,
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// False for a connection attempt that failed: it is a request of its client, and not a stay in
    /// the server.
    pub served: bool,
    /// Filled by [`crate::callgraph`]: the visit that called, the request at the root, time spent in calls downstream.
    pub parent: u64,
    pub request: u64,
    pub downstream_ns: i64,
}

/// The statuses of visits without a whole answer.
const UNANSWERED: [&str; 5] = ["refused", "timeout", "reset", "abandoned", "unknown"];

/// The meaning of the indices in the rows. It grows while rows are made; an index never changes its
/// meaning.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Names {
    /// `servers[i]` runs on `hosts[server_hosts[i]]`.
    pub servers: Vec<String>,
    pub server_hosts: Vec<u32>,
    pub hosts: Vec<String>,
    pub interactions: Vec<String>,
    /// `folded[i]` is the interaction by which rows of interaction `i` are called in tables: what is not common to many
    /// requests may name a person ([`crate::capture`]). Without an entry it is called as it is.
    pub folded: Vec<u32>,
    pub statuses: Vec<String>,
    /// How often an entry of `folded` has changed.
    pub refolded: u64,
    /// The hosts that tables have called so far, and whether by their address.
    #[serde(with = "called")]
    pub called: Arc<Mutex<FxHashMap<u32, bool>>>,
}

mod called {
    use super::{Arc, FxHashMap, Mutex, PoisonError};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    type Called = Arc<Mutex<FxHashMap<u32, bool>>>;

    pub fn serialize<S: Serializer>(called: &Called, to: S) -> Result<S::Ok, S::Error> {
        let called = called.lock().unwrap_or_else(PoisonError::into_inner);
        called.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Called, D::Error> {
        FxHashMap::deserialize(from).map(|called| Arc::new(Mutex::new(called)))
    }
}

impl Names {
    /// Whether the tables call a host by its address: as at first, for two names of one host show whose number it has.
    pub fn by_address(&self, host: u32, serves: impl FnOnce() -> bool) -> bool {
        let mut called = self.called.lock().unwrap_or_else(PoisonError::into_inner);
        *called.entry(host).or_insert_with(serves)
    }

    /// From now on, rows of an interaction are called by another.
    pub fn refold(&mut self, interaction: u32, called: u32) {
        if let Some(place) = self.folded.get_mut(interaction as usize) {
            *place = called;
            self.refolded += 1;
        }
    }

    /// Whether visits of this status have a whole answer, also if it is an error.
    pub fn is_answered(&self, status: u32) -> bool {
        let text = self.statuses.get(status as usize);
        !text.is_some_and(|text| UNANSWERED.contains(&text.as_str()))
    }

    /// How much there is.
    pub fn extent(&self) -> Extent {
        Extent {
            servers: self.servers.len(),
            hosts: self.hosts.len(),
            interactions: self.interactions.len(),
            folded: self.folded.len(),
            statuses: self.statuses.len(),
            refolded: self.refolded,
        }
    }

    /// What came after there was so much.
    pub fn since(&self, told: Extent) -> Growth {
        fn tail<T: Clone>(all: &[T], from: usize) -> Vec<T> {
            all.get(from..).unwrap_or_default().to_vec()
        }
        let folded_from = match self.refolded == told.refolded {
            true => told.folded,
            false => 0,
        };
        Growth {
            servers: tail(&self.servers, told.servers),
            server_hosts: tail(&self.server_hosts, told.servers),
            hosts: tail(&self.hosts, told.hosts),
            interactions: tail(&self.interactions, told.interactions),
            statuses: tail(&self.statuses, told.statuses),
            folded_from,
            folded: tail(&self.folded, folded_from),
            refolded: self.refolded,
        }
    }

    /// Takes what came to the names of which these are a copy.
    pub fn grow(&mut self, growth: Growth) {
        self.servers.extend(growth.servers);
        self.server_hosts.extend(growth.server_hosts);
        self.hosts.extend(growth.hosts);
        self.interactions.extend(growth.interactions);
        self.statuses.extend(growth.statuses);
        self.folded.truncate(growth.folded_from);
        self.folded.extend(growth.folded);
        self.refolded = growth.refolded;
    }

    /// The index of the name that a table has for an interaction.
    pub fn shown(&self, interaction: u32) -> u32 {
        let folded = self.folded.get(interaction as usize);
        folded.copied().unwrap_or(interaction)
    }
}

/// How much there is in [`Names`], and how often it has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    servers: usize,
    hosts: usize,
    interactions: usize,
    folded: usize,
    statuses: usize,
    refolded: u64,
}

/// What came to [`Names`].
pub struct Growth {
    servers: Vec<String>,
    server_hosts: Vec<u32>,
    hosts: Vec<String>,
    interactions: Vec<String>,
    statuses: Vec<String>,
    /// The first of the entries that are new or have changed.
    folded_from: usize,
    folded: Vec<u32>,
    refolded: u64,
}

/// Takes finished visits, roughly in the order of `departure`. The decoder fills one; the call graph is one and fills one.
pub trait VisitSink {
    fn push(&mut self, visit: Visit, names: &Names) -> crate::error::Result<()>;
    fn finish(&mut self, names: &Names) -> crate::error::Result<()>;
}
