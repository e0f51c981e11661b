//! The plan of one worker of the load generator, to which `tailrace.load` lowers an experiment or
//! plain options (JSON).
//!
//! Times are whole nanoseconds after the begin, unless stated otherwise. `class` is an index into
//! `classes`.

use crate::error::Result;
use crate::workload::check::{arrivals, choice, index, lasts, refuse};
use crate::workload::plan::{Arrivals, Choice};
use serde::Deserialize;
use std::net::{IpAddr, SocketAddr};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub seed: u64,
    pub replication: u64,
    /// The moment at which the load begins, on CLOCK_MONOTONIC; and the offset of Unix time from
    /// that clock.
    pub begin: i64,
    pub unix: i64,
    pub duration: i64,
    /// Requests sent earlier are not recorded (the ramp).
    pub record_from: i64,
    /// How long to wait for answers after the end.
    pub drain: i64,
    /// If a timer fires this late, the time since it was due is invalid.
    pub late_after: i64,
    /// The number of this worker, and of all workers.
    pub share: u32,
    pub shares: u32,
    /// The most requests of this worker (0: no limit), and the most sockets.
    pub requests_max: u64,
    pub sockets_max: u32,
    pub targets: Vec<Target>,
    /// Source addresses, used in turn; empty: the kernel's choice.
    pub sources: Vec<IpAddr>,
    pub classes: Vec<Class>,
    pub workloads: Vec<Workload>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// The server's name in the record.
    pub name: String,
    pub address: SocketAddr,
    /// The rest of its requests after the path: header fields, each ended by CR LF.
    pub fields: String,
    /// Prefix of every path.
    pub prefix: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    pub name: String,
    /// Drawn for each request, uniformly: a whole number from the first to the second.
    pub draws: Vec<(u32, u32)>,
    /// The path with its query, made of these parts.
    pub path: Vec<Piece>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Piece {
    Text(String),
    /// A drawn number, by its index: as it is, or as the number of a text, from 0.
    Number(u32),
    OneOf(u32, Vec<String>),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    pub name: String,
    /// Its clients are assigned to these in turn.
    pub targets: Vec<u32>,
    pub arrivals: Arrivals,
    pub choice: Choice,
    /// Fetched one after another when a page has arrived.
    pub embedded: Vec<u32>,
    /// Clients keep their connections.
    pub kept: bool,
    /// A client gives up waiting (0: never), and repeats this many times after a pause.
    pub timeout: i64,
    pub retries: u32,
    pub retry_pause: i64,
    pub begin: i64,
    pub end: Option<i64>,
}

impl Plan {
    pub fn check(&self) -> Result<()> {
        for (what, value) in [
            ("duration", self.duration),
            ("record_from", self.record_from),
            ("drain", self.drain),
            ("late_after", self.late_after),
        ] {
            lasts(what, value)?;
        }
        index("share", self.share, self.shares as usize)?;
        for (i, class) in self.classes.iter().enumerate() {
            let drawn = |d: &u32| class.draws.get(*d as usize).is_some_and(|(l, h)| l <= h);
            let whole = class.path.iter().all(|piece| match piece {
                Piece::Text(_) => true,
                Piece::Number(draw) => drawn(draw),
                Piece::OneOf(draw, texts) => drawn(draw) && !texts.is_empty(),
            });
            if !whole {
                return refuse(format!("classes[{i}].path has nothing to draw from"));
            }
        }
        for (i, workload) in self.workloads.iter().enumerate() {
            self.check_workload(&format!("workloads[{i}]"), workload)?;
        }
        Ok(())
    }

    fn check_workload(&self, what: &str, workload: &Workload) -> Result<()> {
        for (name, value) in [
            ("timeout", workload.timeout),
            ("retry_pause", workload.retry_pause),
            ("begin", workload.begin),
        ] {
            lasts(&format!("{what}.{name}"), value)?;
        }
        if workload.targets.is_empty() {
            return refuse(format!("{what}.targets is empty"));
        }
        for &target in &workload.targets {
            index(&format!("{what}.targets"), target, self.targets.len())?;
        }
        for &class in &workload.embedded {
            index(&format!("{what}.embedded"), class, self.classes.len())?;
        }
        choice(what, &workload.choice, self.classes.len())?;
        arrivals(what, &workload.arrivals, self.classes.len())
    }

    /// Whether a client belongs to this worker. Clients that share a chain of think-time modes stay
    /// together.
    pub fn is_mine(&self, workload: &Workload, number: u64) -> bool {
        let chains = match &workload.arrivals {
            Arrivals::Closed { chain: Some(c), .. } => u64::from(c.chains),
            _ => 0,
        };
        let group = if chains > 0 { number % chains } else { number };
        group % u64::from(self.shares) == u64::from(self.share)
    }
}
