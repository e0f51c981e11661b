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
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// The status of a visit that its client gave up.
const GIVEN_UP: &str = "abandoned";
/// Visits that are remembered, about 10 MB.
const REMEMBERED: usize = 1 << 16;
/// Visits that are looked at for one call, so that thousands that have made their calls cost no more.
const STEPS: usize = 192;

/// Server, arrival and number of a visit.
type Key = (u32, i64, u64);

#[derive(Clone, Debug, Deserialize, Serialize)]
struct GivenUp {
    request: u64,
    departure: i64,
    /// The servers that it is known to have called.
    called: Vec<u32>,
}

/// Visits that their clients gave up.
#[derive(Debug, Default, Deserialize, Serialize)]
pub struct Outlived {
    visits: BTreeMap<Key, GivenUp>,
    /// In the order in which they came here.
    order: VecDeque<Key>,
}

impl Outlived {
    /// A tree of this request goes on to the next sink.
    pub fn note(&mut self, tree: &Tree, request: u64, statuses: &[String]) {
        let visit = &tree.visit;
        let status = statuses.get(visit.status as usize);
        if status.is_none_or(|status| status != GIVEN_UP) {
            return;
        }
        if self.order.len() == REMEMBERED {
            if let Some(oldest) = self.order.pop_front() {
                self.visits.remove(&oldest);
            }
        }
        let key = (visit.server, visit.arrival, visit.visit);
        self.order.push_back(key);
        let given_up = GivenUp {
            request,
            departure: visit.departure,
            called: tree.calls.iter().map(|call| call.visit.server).collect(),
        };
        self.visits.insert(key, given_up);
    }

    /// The server, the visit and the request to which a call belongs that outlived its visit to one of `callers`.
    pub fn take(&mut self, callers: &[u32], call: &Visit) -> Option<(u32, u64, u64)> {
        let newest = callers.iter().filter_map(|&server| {
            let came = (server, i64::MIN, 0)..=(server, call.sent, u64::MAX);
            let before = self.visits.range(came).rev().take(STEPS);
            let made = |one: &GivenUp| {
                (call.sent..call.departure).contains(&one.departure)
                    && !one.called.contains(&call.server)
            };
            let mut possible = before.filter(|(_, one)| made(one));
            possible.next().map(|(&key, _)| key)
        });
        let key = newest.max_by_key(|&(_, arrival, _)| arrival)?;
        let found = self.visits.get_mut(&key)?;
        found.called.push(call.server);
        Some((key.0, key.2, found.request))
    }
}
