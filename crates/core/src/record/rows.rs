//! The rows of each table, and the column for each of their values: indices into [`Names`] become
//! names there, sentinels nulls.

use super::columns::Columns;
use super::merge::SortKey;
use super::writer::Row;
use super::{schema, Names, Visit};
use arrow_array::{Float64Array, StringArray, UInt64Array};
use arrow_schema::SchemaRef;
use parquet::errors::Result;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A request as its client saw it: the root of a call tree, or a connection attempt that failed.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Request {
    pub request: u64,
    pub client: u32,
    pub server: u32,
    pub interaction: u32,
    pub sent: i64,
    pub connected: i64,
    pub end: i64,
    pub status: u32,
    pub drops: u8,
    pub data_drops: u8,
    pub bytes: Option<u64>,
}

impl Request {
    pub fn of(root: &Visit) -> Self {
        Request {
            request: root.request,
            client: root.connection,
            server: root.server,
            interaction: root.interaction,
            sent: root.sent,
            connected: root.connected,
            end: root.departure,
            status: root.status,
            drops: root.drops,
            data_drops: root.data_drops,
            bytes: root.served.then_some(root.bytes_out),
        }
    }
}

/// A request from a client that knows more about it than the wire shows.
#[derive(Clone, Debug, PartialEq)]
pub struct SentRequest {
    pub request: Request,
    /// When it was due.
    pub intended: i64,
    /// First byte of the response.
    pub first_byte: i64,
}

/// Something that lasted, at a server.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Event {
    /// Index into [`Names::servers`].
    pub place: u32,
    #[serde(with = "crate::saved::fixed")]
    pub kind: crate::saved::Fixed,
    pub begin: i64,
    pub end: i64,
    pub detail: Option<String>,
}

/// An event and its position in the stream: events that begin together keep their order.
#[derive(Deserialize, Serialize)]
pub struct NumberedEvent {
    pub event: Event,
    pub number: u64,
}

/// A metric of one place in one sampling interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The end of the interval.
    pub time: i64,
    pub interval: i64,
    /// Index into [`Names::servers`].
    pub place: u32,
    pub metric: &'static str,
    pub value: f64,
}

/// A sample and its position in the stream.
pub struct NumberedSample {
    pub sample: Sample,
    pub number: u64,
}

impl Row for Visit {
    const KEY: SortKey = SortKey {
        time: "departure",
        id: Some("visit"),
    };

    fn schema() -> SchemaRef {
        schema::visits()
    }

    fn key(&self) -> (i64, u64) {
        (self.departure, self.visit)
    }

    fn put(rows: &[Self], names: &Names, columns: &mut Columns<'_>) -> Result<()> {
        let all = || rows.iter();
        columns.ids(all().map(|v| v.visit))?;
        columns.ids(all().map(|v| v.parent))?;
        columns.ids(all().map(|v| v.request))?;
        columns.named(&names.servers, all().map(|v| v.server))?;
        columns.named(
            &names.interactions,
            all().map(|v| names.shown(v.interaction)),
        )?;
        columns.callers(names, all().map(|v| v.caller))?;
        columns.times(all().map(|v| v.sent))?;
        put_course(all, names, columns)?;
        columns.times(all().map(|v| v.downstream_ns))
    }
}

/// Counts of visits, from their arrival on: as decoded, and in the table.
pub(super) fn put_course<'v, I: Iterator<Item = &'v Visit>>(
    all: impl Fn() -> I,
    names: &Names,
    columns: &mut Columns<'_>,
) -> Result<()> {
    columns.times(all().map(|v| v.arrival))?;
    columns.times(all().map(|v| v.start))?;
    columns.times(all().map(|v| v.first_byte))?;
    columns.times(all().map(|v| v.departure))?;
    columns.numbers(all().map(|v| v.drops))?;
    columns.numbers(all().map(|v| v.data_drops))?;
    columns.named(&names.statuses, all().map(|v| v.status))?;
    columns.counts(all().map(|v| v.bytes_in))?;
    columns.counts(all().map(|v| v.bytes_out))
}

impl Row for Request {
    const KEY: SortKey = SortKey {
        time: "end",
        id: Some("request"),
    };

    fn schema() -> SchemaRef {
        schema::requests()
    }

    fn key(&self) -> (i64, u64) {
        (self.end, self.request)
    }

    fn put(rows: &[Self], names: &Names, columns: &mut Columns<'_>) -> Result<()> {
        put_requests(|| rows.iter(), names, columns)
    }
}

fn put_requests<'r, I: Iterator<Item = &'r Request>>(
    all: impl Fn() -> I,
    names: &Names,
    columns: &mut Columns<'_>,
) -> Result<()> {
    columns.ids(all().map(|r| r.request))?;
    columns.numbers(all().map(|r| r.client))?;
    columns.named(&names.servers, all().map(|r| r.server))?;
    columns.named(
        &names.interactions,
        all().map(|r| names.shown(r.interaction)),
    )?;
    columns.times(all().map(|r| r.sent))?;
    columns.times(all().map(|r| r.connected))?;
    columns.times(all().map(|r| r.end))?;
    columns.named(&names.statuses, all().map(|r| r.status))?;
    columns.numbers(all().map(|r| r.drops))?;
    columns.numbers(all().map(|r| r.data_drops))?;
    columns.array(Arc::new(all().map(|r| r.bytes).collect::<UInt64Array>()))
}

impl Row for SentRequest {
    const KEY: SortKey = Request::KEY;

    fn schema() -> SchemaRef {
        schema::sent_requests()
    }

    fn key(&self) -> (i64, u64) {
        self.request.key()
    }

    fn put(rows: &[Self], names: &Names, columns: &mut Columns<'_>) -> Result<()> {
        put_requests(|| rows.iter().map(|r| &r.request), names, columns)?;
        columns.times(rows.iter().map(|r| r.intended))?;
        columns.times(rows.iter().map(|r| r.first_byte))
    }
}

impl Row for NumberedEvent {
    const KEY: SortKey = SortKey {
        time: "begin",
        id: None,
    };

    fn schema() -> SchemaRef {
        schema::events()
    }

    fn key(&self) -> (i64, u64) {
        (self.event.begin, self.number)
    }

    fn put(rows: &[Self], names: &Names, columns: &mut Columns<'_>) -> Result<()> {
        let all = || rows.iter().map(|r| &r.event);
        columns.named(&names.servers, all().map(|e| e.place))?;
        columns.texts(all().map(|e| e.kind))?;
        columns.times(all().map(|e| e.begin))?;
        columns.times(all().map(|e| e.end))?;
        let details = all().map(|e| e.detail.as_deref());
        columns.array(Arc::new(details.collect::<StringArray>()))
    }
}

impl Row for NumberedSample {
    const KEY: SortKey = SortKey {
        time: "time",
        id: None,
    };

    fn schema() -> SchemaRef {
        schema::samples()
    }

    fn key(&self) -> (i64, u64) {
        (self.sample.time, self.number)
    }

    fn put(rows: &[Self], names: &Names, columns: &mut Columns<'_>) -> Result<()> {
        let all = || rows.iter().map(|r| &r.sample);
        columns.times(all().map(|s| s.time))?;
        columns.times(all().map(|s| s.interval))?;
        columns.named(&names.servers, all().map(|s| s.place))?;
        columns.texts(all().map(|s| s.metric))?;
        let values = all().map(|s| s.value);
        columns.array(Arc::new(Float64Array::from_iter_values(values)))
    }
}
