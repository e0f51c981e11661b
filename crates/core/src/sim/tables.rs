//! The results of a run: rows for the tables of a run folder, and a report.

use super::plan::{Plan, Workload};
use super::stay::{Status, STATUSES};
use super::Sim;
use crate::error::Result;
use crate::record::rows::{Event, NumberedEvent, NumberedSample, Request, Sample};
use crate::record::writer::TableWriter;
use crate::record::{Names, Visit, CALLER_IS_SERVER, NO_ID, NO_TIME};
use serde::Serialize;
use std::collections::HashSet;
use std::path::Path;

/// Receives rows in the order of time.
pub trait Sink {
    fn visit(&mut self, visit: Visit) -> Result<()>;
    fn request(&mut self, request: Request) -> Result<()>;
    fn sample(&mut self, sample: Sample) -> Result<()>;
    fn event(&mut self, event: Event) -> Result<()>;
    fn finish(&mut self) -> Result<()>;
}

/// Only counts.
impl Sink for () {
    fn visit(&mut self, _: Visit) -> Result<()> {
        Ok(())
    }
    fn request(&mut self, _: Request) -> Result<()> {
        Ok(())
    }
    fn sample(&mut self, _: Sample) -> Result<()> {
        Ok(())
    }
    fn event(&mut self, _: Event) -> Result<()> {
        Ok(())
    }
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Rows of each table that are sorted at a time, and how many of them are held back. They come in
/// the order of time, except those of one moment and events that began a while ago; holding back
/// more only takes time.
const SORTED: usize = 1 << 13;
const HELD: usize = 1 << 11;

/// Writes `visits`, `requests`, `samples` and `events.parquet`, completely or not at all.
pub struct Tables {
    names: Names,
    visits: TableWriter<Visit>,
    requests: TableWriter<Request>,
    samples: TableWriter<NumberedSample>,
    events: TableWriter<NumberedEvent>,
}

impl Tables {
    pub fn create(plan: &Plan, folder: &Path) -> Result<Self> {
        let path = |table: &str| folder.join(format!("{table}.parquet"));
        Ok(Tables {
            names: names(plan),
            visits: TableWriter::with_capacity(&path("visits"), SORTED, HELD)?,
            requests: TableWriter::with_capacity(&path("requests"), SORTED, HELD)?,
            samples: TableWriter::with_capacity(&path("samples"), SORTED, HELD)?,
            events: TableWriter::with_capacity(&path("events"), SORTED, HELD)?,
        })
    }
}

impl Sink for Tables {
    fn visit(&mut self, visit: Visit) -> Result<()> {
        self.visits.push(visit, &self.names)
    }

    fn request(&mut self, request: Request) -> Result<()> {
        self.requests.push(request, &self.names)
    }

    fn sample(&mut self, sample: Sample) -> Result<()> {
        let number = self.samples.rows();
        self.samples
            .push(NumberedSample { sample, number }, &self.names)
    }

    fn event(&mut self, event: Event) -> Result<()> {
        let number = self.events.rows();
        self.events
            .push(NumberedEvent { event, number }, &self.names)
    }

    fn finish(&mut self) -> Result<()> {
        self.visits.finish(&self.names)?;
        self.requests.finish(&self.names)?;
        self.samples.finish(&self.names)?;
        self.events.finish(&self.names)?;
        Ok(())
    }
}

/// Servers first; then the groups and nodes that are not servers, as places of samples and events.
fn names(plan: &Plan) -> Names {
    let mut names = Names {
        servers: places(plan),
        hosts: vec!["clients".to_owned()],
        interactions: plan.classes.iter().map(|c| c.name.clone()).collect(),
        statuses: STATUSES.map(str::to_owned).to_vec(),
        ..Names::default()
    };
    names.server_hosts = vec![0; names.servers.len()];
    names
}

pub fn places(plan: &Plan) -> Vec<String> {
    let mut places: Vec<String> = plan.servers.iter().map(|s| s.name.clone()).collect();
    let mut known: HashSet<&str> = plan.servers.iter().map(|s| s.name.as_str()).collect();
    let others = plan
        .groups
        .iter()
        .map(|g| &g.name)
        .chain(plan.nodes.iter().map(|n| &n.name));
    places.extend(others.filter(|other| known.insert(other)).cloned());
    places
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Counts {
    /// Answered requests of clients (with hedges, and with embedded ones): their number, those
    /// before the end, those over 1 s and 3 s, and the sum of their response times, ns; for
    /// requests sent after the ramp.
    pub answered: u64,
    pub in_time: u64,
    pub over_1s: u64,
    pub over_3s: u64,
    pub response_ns: f64,
    pub failed: u64,
    /// Requests sent to each server in the ramp and answered after it, before the end.
    pub early: Vec<u64>,
    pub visits: u64,
    /// Lost SYNs of each server, ramp included.
    pub drops: Vec<u64>,
    pub events: u64,
    /// Stays that were still open at the end: 0, unless something hangs for ever.
    pub unfinished: u64,
}

/// A stall as it really happened, ns since the Unix epoch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StallSeen {
    pub kind: String,
    pub place: String,
    pub begin: i64,
    pub end: i64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub counts: Counts,
    pub stalls: Vec<StallSeen>,
    /// Simulated time at the end, ns since the begin.
    pub end: i64,
    #[serde(skip)]
    epoch: i64,
}

impl Report {
    pub fn new(plan: &Plan) -> Self {
        Report {
            counts: Counts {
                drops: vec![0; plan.servers.len()],
                early: vec![0; plan.servers.len()],
                ..Counts::default()
            },
            stalls: Vec::new(),
            end: 0,
            epoch: plan.epoch,
        }
    }

    /// An operation of a client is over.
    pub fn count(&mut self, took: i64, status: Status, in_time: bool) {
        let counts = &mut self.counts;
        if status != Status::Ok {
            counts.failed += 1;
            return;
        }
        counts.answered += 1;
        counts.in_time += u64::from(in_time);
        counts.response_ns += took as f64;
        counts.over_1s += u64::from(took >= 1_000_000_000);
        counts.over_3s += u64::from(took >= 3_000_000_000);
    }

    /// A stall of this kind at this place, in time since the begin.
    pub fn stall(&mut self, kind: &str, place: String, begin: i64, end: i64) {
        let (begin, end) = (self.epoch + begin, self.epoch + end);
        // Throttled in successive quota periods: one stall. Crowds are reported in advance, in any
        // order.
        let same = |seen: &&mut StallSeen| seen.kind == kind && seen.place == place;
        if let Some(last) = self.stalls.iter_mut().rev().find(same) {
            if last.end >= begin && last.begin <= end {
                (last.begin, last.end) = (last.begin.min(begin), last.end.max(end));
                return;
            }
        }
        self.stalls.push(StallSeen {
            kind: kind.to_owned(),
            place,
            begin,
            end,
        });
    }

    /// More requests than usual, attributed to the server that they reach first.
    pub fn burst(&mut self, plan: &Plan, workload: &Workload, begin: i64, end: i64) {
        let entry = workload.entries.first().map_or(0, |&e| e as usize);
        self.stall(
            "workload-burst",
            plan.servers[entry].name.clone(),
            begin,
            end,
        );
    }
}

impl<S: Sink> Sim<'_, S> {
    /// A stay ends in its server.
    pub(super) fn write_visit(&mut self, stay: u32) {
        let s = &self.stays[stay];
        let class = &self.plan.classes[s.class as usize];
        if class.silent {
            let (server, begin) = (s.server, s.arrival);
            return self.event(server, "silent_client", begin, None);
        }
        if !s.recorded {
            return;
        }
        let epoch = self.plan.epoch;
        let (caller, parent) = if s.is_root() {
            (0, NO_ID)
        } else {
            (s.caller | CALLER_IS_SERVER, s.caller_visit)
        };
        let visit = Visit {
            visit: s.visit,
            server: s.server,
            caller,
            connection: s.asker,
            interaction: s.class,
            key: 0,
            sent: epoch + s.sent,
            connected: if s.kept { NO_TIME } else { epoch + s.arrival },
            arrival: epoch + s.arrival,
            start: epoch + s.start,
            first_byte: epoch + self.now,
            departure: epoch + self.now,
            drops: s.drops,
            data_drops: s.data_drops,
            status: s.status as u32,
            bytes_in: class.bytes_in,
            bytes_out: class.bytes_out,
            served: true,
            parent,
            request: s.request,
            downstream_ns: s.downstream,
        };
        self.report.counts.visits += 1;
        let row = self.sink.visit(visit);
        self.keep(row);
    }

    /// The client's view of a request, when it ends.
    pub(super) fn write_request(&mut self, stay: u32, status: Status) {
        let s = &self.stays[stay];
        if !s.recorded || self.plan.classes[s.class as usize].silent {
            return;
        }
        let epoch = self.plan.epoch;
        let answered = matches!(status, Status::Ok | Status::Failed);
        let connected = s.arrival >= 0 && !s.kept;
        let request = Request {
            request: s.request,
            client: s.asker,
            server: s.server,
            interaction: s.class,
            sent: epoch + s.sent,
            connected: if connected {
                epoch + s.arrival
            } else {
                NO_TIME
            },
            end: epoch + self.now,
            status: status as u32,
            drops: s.drops,
            data_drops: s.data_drops,
            bytes: answered.then(|| self.plan.classes[s.class as usize].bytes_out),
        };
        let row = self.sink.request(request);
        self.keep(row);
    }

    /// A SYN or its data was lost here; it is repeated at `until`.
    pub(super) fn dropped(&mut self, server: u32, kind: &'static str, until: i64) {
        self.write_event(server, kind, self.now, until, None);
    }

    /// Something lasted from `begin` to now; `cause` is its name in the truth.
    pub(super) fn happened(
        &mut self,
        place: usize,
        kind: &'static str,
        cause: &str,
        begin: i64,
        detail: Option<String>,
    ) {
        self.report
            .stall(cause, self.monitor.places[place].clone(), begin, self.now);
        self.write_event(place as u32, kind, begin, self.now, detail);
    }

    pub(super) fn event(
        &mut self,
        place: u32,
        kind: &'static str,
        begin: i64,
        detail: Option<String>,
    ) {
        self.write_event(place, kind, begin, self.now, detail);
    }

    fn write_event(
        &mut self,
        place: u32,
        kind: &'static str,
        begin: i64,
        end: i64,
        detail: Option<String>,
    ) {
        if end < self.plan.record_from {
            return;
        }
        let epoch = self.plan.epoch;
        let row = self.sink.event(Event {
            place,
            kind,
            begin: epoch + begin,
            end: epoch + end,
            detail,
        });
        self.keep(row);
    }
}
