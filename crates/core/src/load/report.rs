//! A worker's progress and its final report.

use super::log::Seen;
use super::status::Status;
use serde::Serialize;
use std::collections::BTreeMap;

/// Of the recorded requests, unless stated otherwise.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    pub requests: u64,
    pub statuses: BTreeMap<String, u64>,
    pub over_1s: u64,
    pub drops: u64,
    pub data_drops: u64,
    /// Requests that were never sent, ramp included: no source port was free, or no more sockets
    /// were available.
    pub no_port: u64,
    pub no_socket: u64,
    /// Rows that the disk could not take in time.
    pub rows_lost: u64,
    /// Stretches in which this process was late, their total length, and the largest delay.
    pub late: u64,
    pub late_ns: i64,
    pub late_worst_ns: i64,
    pub sockets_most: usize,
    /// How long it worked; whether it was stopped early.
    pub lasted_ns: i64,
    pub stopped: bool,
}

/// Progress.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Progress {
    pub done_ns: i64,
    pub total_ns: i64,
    pub requests: u64,
    pub failed: u64,
    pub open: usize,
}

impl Report {
    pub fn count(&mut self, seen: &Seen) {
        self.requests += 1;
        self.over_1s += u64::from(seen.end - seen.sent > 1_000_000_000);
        self.drops += u64::from(seen.drops);
        self.data_drops += u64::from(seen.data_drops);
        if !Status(seen.status).is_ok() {
            *self.statuses.entry(Status(seen.status).name()).or_default() += 1;
        }
    }

    pub fn failed(&self) -> u64 {
        self.statuses.values().sum()
    }
}
