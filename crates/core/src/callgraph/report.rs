//! The results of the call graph, for the manifest and the topology.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    pub requests: u64,
    /// Servers at loopback addresses, and the host that names their machine.
    pub machines: BTreeMap<String, String>,
    pub edges: Vec<EdgeReport>,
    /// Servers that clients call.
    pub entries: Vec<String>,
    /// Visits without an owner whose caller's host has a server that calls theirs.
    pub unlinked: Unlinked,
    /// Visits that came too late to be sorted.
    pub late: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct EdgeReport {
    pub caller: String,
    pub callee: String,
    /// Visits of the callee that a visit of the caller owns, and their number per visit of the
    /// caller.
    pub linked: u64,
    pub calls_mean: f64,
    /// Of all visits of the callee that came from the caller's host.
    pub linked_share: f64,
    /// Calls of one visit overlap.
    pub parallel: bool,
    /// False: too few visits to decide; assumed because nothing else on the caller's host could
    /// have called.
    pub observed: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Unlinked {
    /// Sent before the first visit of a possible parent: the recording began too late.
    pub before_parents: u64,
    /// No parent had departed when the recording ended.
    pub after_parents: u64,
    /// No parent claimed it in time.
    pub unclaimed: u64,
    /// Given up because too many were waiting.
    pub crowded: u64,
    /// Failed connection attempts of a server.
    pub attempts: u64,
    /// Of those above, the ones that count as requests of another client on the caller's host.
    pub own_requests: u64,
}
