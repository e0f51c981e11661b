//! The logs of all workers become `requests.parquet` and `events.parquet`.

use super::log::{Log, Row, Seen};
use super::status::Status;
use crate::error::Result;
use crate::record::rows::{Event, NumberedEvent, Request, SentRequest};
use crate::record::writer::TableWriter;
use crate::record::{Names, NO_ID};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};

/// The kind of event for a late load generator.
pub const LATE: &str = "load_late";
/// The kind of event for a surge of a workload.
pub const SURGE: &str = "surge";

/// Numbers of requests, late stretches and surges in the tables.
#[derive(Debug, Default, serde::Serialize)]
pub struct Rows {
    pub requests: u64,
    pub late: u64,
    pub surges: u64,
}

/// Merges the rows of the logs, each sorted by end. `progress(bytes, bytes in all)`.
pub fn write(
    logs: &[PathBuf],
    folder: &Path,
    progress: &mut dyn FnMut(u64, u64) -> Result<()>,
) -> Result<Rows> {
    let mut opened = Vec::with_capacity(logs.len());
    let mut heads = BinaryHeap::new();
    for path in logs {
        let mut log = Log::open(path)?;
        if let Some(row) = log.next()? {
            heads.push(Reverse((row.end(), opened.len())));
            opened.push((log, row));
        }
    }
    let mut tables = Tables::create(folder)?;
    let bytes = |path: &PathBuf| path.metadata().map_or(0, |m| m.len());
    let (mut done, total) = (0u64, logs.iter().map(bytes).sum::<u64>());
    while let Some(Reverse((_, at))) = heads.pop() {
        let (log, row) = &mut opened[at];
        tables.push(row, log)?;
        done += super::log::ROW as u64;
        if let Some(next) = log.next()? {
            heads.push(Reverse((next.end(), at)));
            *row = next;
        }
        if done % (1 << 22) < super::log::ROW as u64 {
            progress(done.min(total), total)?;
        }
    }
    tables.finish()
}

struct Tables {
    requests: TableWriter<SentRequest>,
    events: TableWriter<NumberedEvent>,
    names: Names,
    rows: Rows,
}

impl Tables {
    fn create(folder: &Path) -> Result<Self> {
        Ok(Tables {
            requests: TableWriter::create(&folder.join("requests.parquet"))?,
            events: TableWriter::create(&folder.join("events.parquet"))?,
            names: Names::default(),
            rows: Rows::default(),
        })
    }

    fn push(&mut self, row: &Row, log: &Log) -> Result<()> {
        if self.names.servers.is_empty() {
            // The same in all workers of a load.
            self.names.servers = log.header.servers.clone();
            self.names.servers.push("load".into());
            self.names.interactions = log.header.interactions.clone();
        }
        match *row {
            Row::Request(seen) => {
                let row = self.request(&seen);
                self.rows.requests += 1;
                self.requests.push(row, &self.names)
            }
            Row::Late { begin, end, worst } => {
                let event = Event {
                    place: self.names.servers.len() as u32 - 1,
                    kind: LATE,
                    begin,
                    end,
                    detail: Some(format!("{} µs", worst / 1000)),
                };
                self.rows.late += 1;
                self.event(event)
            }
            Row::Surge { server, begin, end } => {
                self.rows.surges += 1;
                self.event(Event {
                    place: u32::from(server),
                    kind: SURGE,
                    begin,
                    end,
                    detail: None,
                })
            }
        }
    }

    fn event(&mut self, event: Event) -> Result<()> {
        let number = self.rows.late + self.rows.surges;
        self.events
            .push(NumberedEvent { event, number }, &self.names)
    }

    fn request(&mut self, seen: &Seen) -> SentRequest {
        let name = Status(seen.status).name();
        let known = self.names.statuses.iter().position(|s| *s == name);
        let status = known.unwrap_or_else(|| {
            self.names.statuses.push(name);
            self.names.statuses.len() - 1
        });
        debug_assert_ne!(seen.request, NO_ID);
        SentRequest {
            intended: seen.intended,
            first_byte: seen.first_byte,
            request: Request {
                request: seen.request,
                client: seen.client,
                server: u32::from(seen.server),
                interaction: u32::from(seen.class),
                sent: seen.sent,
                connected: seen.connected,
                end: seen.end,
                status: status as u32,
                drops: seen.drops,
                data_drops: seen.data_drops,
                bytes: Some(seen.bytes),
            },
        }
    }

    fn finish(mut self) -> Result<Rows> {
        self.requests.finish(&self.names)?;
        if self.rows.late + self.rows.surges > 0 {
            self.events.finish(&self.names)?;
        }
        Ok(self.rows)
    }
}
