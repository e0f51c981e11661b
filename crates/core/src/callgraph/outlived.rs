//! Calls that go on although the visit that made them was given up.
//!
//! ```text
//! caller  ├── visit ──┤ its client gave up
//! callee    ├─────────────── call ──────────┤
//! ```
//! A call normally lies inside its visit. When a client gives up, the visit ends at that moment, and its server may go on
//! to wait for the call. Such a call belongs to the last visit that came before it was sent and had no call to this server
//! yet.

use super::lane::Tree;
use crate::record::Visit;
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The status of a visit that its client gave up.
const GIVEN_UP: &str = "abandoned";
/// Visits that are remembered, about 6 MB.
const REMEMBERED: usize = 1 << 16;

#[derive(Clone, Debug, Deserialize, Serialize)]
struct GivenUp {
    server: u32,
    visit: u64,
    request: u64,
    arrival: i64,
    departure: i64,
    /// The servers that it is known to have called.
    called: Vec<u32>,
}

/// Visits that their clients gave up, in the order of their departures.
#[derive(Debug, Default, Deserialize, Serialize)]
pub struct Outlived {
    visits: VecDeque<GivenUp>,
}

impl Outlived {
    /// A tree of this request goes on to the next sink.
    pub fn note(&mut self, tree: &Tree, request: u64, statuses: &[String]) {
        let visit = &tree.visit;
        let status = statuses.get(visit.status as usize);
        if status.is_none_or(|status| status != GIVEN_UP) {
            return;
        }
        if self.visits.len() == REMEMBERED {
            self.visits.pop_front();
        }
        self.visits.push_back(GivenUp {
            server: visit.server,
            visit: visit.visit,
            request,
            arrival: visit.arrival,
            departure: visit.departure,
            called: tree.calls.iter().map(|call| call.visit.server).collect(),
        });
    }

    /// The server, the visit and the request to which a call belongs that outlived its visit to one of `callers`.
    pub fn take(&mut self, callers: &FxHashSet<u32>, call: &Visit) -> Option<(u32, u64, u64)> {
        let made = |one: &GivenUp| {
            callers.contains(&one.server)
                && (one.arrival..=one.departure).contains(&call.sent)
                && call.departure > one.departure
                && !one.called.contains(&call.server)
        };
        let possible = self.visits.iter_mut().filter(|one| made(one));
        let found = possible.max_by_key(|one| one.arrival)?;
        found.called.push(call.server);
        Some((found.server, found.visit, found.request))
    }
}
