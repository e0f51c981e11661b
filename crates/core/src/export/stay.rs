//! Visits and requests in the order in which they began.
//! ```text
//! visits.parquet   by departure ┐
//! requests.parquet by end       ┴▶ stays.parquet by sent: a request beside the visit at its root
//! ```
//!
//! Packets must be written in order of time, and a visit first appears when it is sent. The tables
//! are sorted by its end, which may be a minute later, so the rows go through an external sort
//! ([`TableWriter`], in runs on disk). Its memory does not depend on the length of the run. Several
//! passes by time range would read the tables again for each range, and one long visit would
//! stretch every range that it touches.

use std::path::Path;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::names::Names;
use super::report::Report;
use super::rows::{Batch, Rows};
use crate::error::Result;
use crate::record::columns::Columns;
use crate::record::writer::{Row, TableWriter};
use crate::record::{self, SortKey, NO_NAME, NO_TIME};

/// A number of bytes that is not known.
pub const NO_BYTES: u64 = u64::MAX;

/// A visit, or a request as its client saw it.
#[derive(Clone, Debug, PartialEq)]
pub struct Stay {
    pub sent: i64,
    /// For a request and the visit at its root, the request's id; for other visits their own.
    pub key: u64,
    pub is_request: bool,
    pub has_parent: bool,
    pub server: u32,
    pub caller: u32,
    pub interaction: u32,
    pub status: u32,
    /// For a request: when it was connected.
    pub arrival: i64,
    pub first_byte: i64,
    /// For a request: its end.
    pub departure: i64,
    pub drops: u8,
    pub data_drops: u8,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

/// Sorts the run's visits and requests into `scratch`; `tell(rows read)` is called now and then.
pub fn sort(
    run: &Path,
    scratch: &Path,
    names: &mut Names,
    report: &mut Report,
    tell: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let mut visits = Rows::open(&run.join("visits.parquet"), visits)?;
    let mut requests = Rows::open_if_there(&run.join("requests.parquet"), requests)?;
    let mut sorted = TableWriter::create(scratch)?;
    let no_names = record::Names::default();
    let mut done = 0;
    loop {
        let request = match &mut requests {
            Some(requests) => requests.peek(names)?.map(|request| request.departure),
            None => None,
        };
        let visit = visits.peek(names)?.map(|visit| visit.departure);
        let stay = match (visit, request, &mut requests) {
            (None, None, _) => break,
            (visit, Some(request), Some(requests)) if visit.is_none_or(|v| v > request) => {
                requests.next(names)?
            }
            _ => visits.next(names)?,
        };
        if let Some(stay) = stay {
            if stay.makes_sense() {
                sorted.push(stay, &no_names)?;
            } else {
                report.leave_out("rows whose times contradict one another");
            }
        }
        done += 1;
        if done % 4096 == 0 {
            tell(done)?;
        }
    }
    sorted.finish(&no_names)?;
    Ok(())
}

/// How many rows [`sort`] will read.
pub fn count(run: &Path) -> Result<u64> {
    let visits = Rows::open(&run.join("visits.parquet"), visits)?;
    let requests = Rows::open_if_there(&run.join("requests.parquet"), requests)?;
    Ok(visits.total + requests.map_or(0, |requests| requests.total))
}

/// The sorted rows.
pub fn sorted(scratch: &Path) -> Result<Rows<Stay>> {
    Rows::open(scratch, stays)
}

impl Stay {
    fn makes_sense(&self) -> bool {
        let Stay {
            sent,
            arrival,
            first_byte,
            departure,
            ..
        } = *self;
        let answered = first_byte == NO_TIME || (arrival..=departure).contains(&first_byte);
        if self.is_request {
            0 <= sent && sent <= departure
        } else {
            0 <= sent && sent <= arrival && arrival <= departure && answered
        }
    }
}

fn visits(batch: &Batch<'_>, names: &mut Names, out: &mut Vec<Stay>) -> Result<()> {
    let (visit, parent) = (batch.ids("visit", true)?, batch.ids("parent", false)?);
    let request = batch.ids("request", false)?;
    let server = batch.names("server", true, names)?;
    let caller = batch.names("caller", false, names)?;
    let interaction = batch.names("interaction", false, names)?;
    let status = batch.names("status", true, names)?;
    let (sent, arrival) = (batch.times("sent", true)?, batch.times("arrival", true)?);
    let first_byte = batch.times("first_byte", false)?;
    let departure = batch.times("departure", true)?;
    let (drops, data_drops) = (batch.small("drops")?, batch.small("data_drops")?);
    let (bytes_in, bytes_out) = (
        batch.ids("bytes_in", false)?,
        batch.ids("bytes_out", false)?,
    );
    for row in 0..batch.len() {
        let root = request.get(row).filter(|_| parent.get(row).is_none());
        let time = |time: Option<i64>| time.unwrap_or(NO_TIME);
        out.push(Stay {
            sent: time(sent.get(row)),
            key: root.or(visit.get(row)).unwrap_or(0),
            is_request: false,
            has_parent: parent.get(row).is_some(),
            server: server.get(row),
            caller: caller.get(row),
            interaction: interaction.get(row),
            status: status.get(row),
            arrival: time(arrival.get(row)),
            first_byte: time(first_byte.get(row)),
            departure: time(departure.get(row)),
            drops: drops.get(row).unwrap_or(0),
            data_drops: data_drops.get(row).unwrap_or(0),
            bytes_in: bytes_in.get(row).unwrap_or(NO_BYTES),
            bytes_out: bytes_out.get(row).unwrap_or(NO_BYTES),
        });
    }
    Ok(())
}

fn requests(batch: &Batch<'_>, names: &mut Names, out: &mut Vec<Stay>) -> Result<()> {
    let request = batch.ids("request", true)?;
    let server = batch.names("server", true, names)?;
    let interaction = batch.names("interaction", false, names)?;
    let status = batch.names("status", true, names)?;
    let (sent, end) = (batch.times("sent", true)?, batch.times("end", true)?);
    let connected = batch.times("connected", false)?;
    let (drops, data_drops) = (batch.small("drops")?, batch.small("data_drops")?);
    for row in 0..batch.len() {
        out.push(Stay {
            sent: sent.get(row).unwrap_or(NO_TIME),
            key: request.get(row).unwrap_or(0),
            is_request: true,
            has_parent: false,
            server: server.get(row),
            caller: NO_NAME,
            interaction: interaction.get(row),
            status: status.get(row),
            arrival: connected.get(row).unwrap_or(NO_TIME),
            first_byte: NO_TIME,
            departure: end.get(row).unwrap_or(NO_TIME),
            drops: drops.get(row).unwrap_or(0),
            data_drops: data_drops.get(row).unwrap_or(0),
            bytes_in: NO_BYTES,
            bytes_out: NO_BYTES,
        });
    }
    Ok(())
}

const TIMES: [&str; 4] = ["sent", "arrival", "first_byte", "departure"];
const COUNTS: [&str; 3] = ["key", "bytes_in", "bytes_out"];
const NUMBERS: [&str; 4] = ["server", "caller", "interaction", "status"];
const SMALL: [&str; 4] = ["drops", "data_drops", "is_request", "has_parent"];

impl Row for Stay {
    const KEY: SortKey = SortKey {
        time: "sent",
        id: Some("key"),
    };

    fn schema() -> SchemaRef {
        let fields = |names: &[&str], kind: DataType| {
            let field = |name: &&str| Field::new(*name, kind.clone(), false);
            names.iter().map(field).collect::<Vec<_>>()
        };
        Arc::new(Schema::new(
            [
                fields(&TIMES, DataType::Int64),
                fields(&COUNTS, DataType::UInt64),
                fields(&NUMBERS, DataType::UInt32),
                fields(&SMALL, DataType::UInt8),
            ]
            .concat(),
        ))
    }

    fn key(&self) -> (i64, u64) {
        (self.sent, self.key)
    }

    fn put(
        rows: &[Self],
        _: &record::Names,
        columns: &mut Columns<'_>,
    ) -> parquet::errors::Result<()> {
        let times: [fn(&Stay) -> i64; 4] =
            [|s| s.sent, |s| s.arrival, |s| s.first_byte, |s| s.departure];
        let counts: [fn(&Stay) -> u64; 3] = [|s| s.key, |s| s.bytes_in, |s| s.bytes_out];
        let numbers: [fn(&Stay) -> u32; 4] =
            [|s| s.server, |s| s.caller, |s| s.interaction, |s| s.status];
        let small: [fn(&Stay) -> u8; 4] = [
            |s| s.drops,
            |s| s.data_drops,
            |s| u8::from(s.is_request),
            |s| u8::from(s.has_parent),
        ];
        for of in times {
            columns.numbers(rows.iter().map(of))?;
        }
        for of in counts {
            columns.counts(rows.iter().map(of))?;
        }
        for of in numbers {
            columns.numbers(rows.iter().map(of))?;
        }
        for of in small {
            columns.numbers(rows.iter().map(of))?;
        }
        Ok(())
    }
}

fn stays(batch: &Batch<'_>, _: &mut Names, out: &mut Vec<Stay>) -> Result<()> {
    let [sent, arrival, first_byte, departure] = TIMES.map(|name| batch.times(name, true));
    let (sent, arrival, first_byte, departure) = (sent?, arrival?, first_byte?, departure?);
    let [key, bytes_in, bytes_out] = COUNTS.map(|name| batch.ids(name, true));
    let (key, bytes_in, bytes_out) = (key?, bytes_in?, bytes_out?);
    let [server, caller, interaction, status] =
        NUMBERS.map(|name| batch.numbers::<arrow_array::types::UInt32Type>(name, true));
    let (server, caller, interaction, status) = (server?, caller?, interaction?, status?);
    let [drops, data_drops, is_request, has_parent] = SMALL.map(|name| batch.small(name));
    let (drops, data_drops) = (drops?, data_drops?);
    let (is_request, has_parent) = (is_request?, has_parent?);
    for row in 0..batch.len() {
        out.push(Stay {
            sent: sent.get(row).unwrap_or(NO_TIME),
            key: key.get(row).unwrap_or(0),
            is_request: is_request.get(row) == Some(1),
            has_parent: has_parent.get(row) == Some(1),
            server: server.get(row).unwrap_or(NO_NAME),
            caller: caller.get(row).unwrap_or(NO_NAME),
            interaction: interaction.get(row).unwrap_or(NO_NAME),
            status: status.get(row).unwrap_or(NO_NAME),
            arrival: arrival.get(row).unwrap_or(NO_TIME),
            first_byte: first_byte.get(row).unwrap_or(NO_TIME),
            departure: departure.get(row).unwrap_or(NO_TIME),
            drops: drops.get(row).unwrap_or(0),
            data_drops: data_drops.get(row).unwrap_or(0),
            bytes_in: bytes_in.get(row).unwrap_or(NO_BYTES),
            bytes_out: bytes_out.get(row).unwrap_or(NO_BYTES),
        });
    }
    Ok(())
}
