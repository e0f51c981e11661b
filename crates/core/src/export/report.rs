//! What was written, and what the wire cannot carry.

use std::collections::BTreeMap;

use serde::Serialize;

#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    pub packets: u64,
    pub bytes: u64,
    /// First and last packet, ns since the Unix epoch.
    pub begin: Option<i64>,
    pub end: Option<i64>,
    pub connections: u64,
    pub visits: u64,
    /// Requests that never became a visit.
    pub failed_requests: u64,
    /// Visits with a value that reads back differently, by what it is.
    pub changed: BTreeMap<&'static str, u64>,
    /// Rows that are not in the capture, by reason.
    pub left_out: BTreeMap<&'static str, u64>,
}

impl Report {
    pub fn change(&mut self, what: &'static str) {
        *self.changed.entry(what).or_insert(0) += 1;
    }

    pub fn leave_out(&mut self, why: &'static str) {
        *self.left_out.entry(why).or_insert(0) += 1;
    }
}
