//! Rows become Arrow batches: indices into [`Names`] turn into dictionaries, sentinels into nulls.

use super::merge::SortKey;
use super::writer::Row;
use super::{schema, Names, Visit, CALLER_IS_SERVER, NO_ID, NO_NAME, NO_TIME};
use arrow_array::types::{Int32Type, Int64Type, UInt64Type};
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, DictionaryArray, Float64Array, PrimitiveArray, RecordBatch,
    StringArray, UInt32Array, UInt64Array, UInt8Array,
};
use arrow_schema::{ArrowError, SchemaRef};
use std::sync::Arc;

type Batch = Result<RecordBatch, ArrowError>;

/// A request as its client saw it: the root of a call tree, or a connection attempt that failed.
#[derive(Clone, Debug, PartialEq)]
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

/// A request of a client that knows more of it than the wire shows.
#[derive(Clone, Debug, PartialEq)]
pub struct SentRequest {
    pub request: Request,
    /// When it was to be sent.
    pub intended: i64,
    /// Of the response.
    pub first_byte: i64,
}

/// Something that lasted, at a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Index into [`Names::servers`].
    pub place: u32,
    pub kind: &'static str,
    pub begin: i64,
    pub end: i64,
    pub detail: Option<String>,
}

/// An event and its place in the stream: events that begin together stay in the order they came.
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

/// A sample and its place in the stream.
pub struct NumberedSample {
    pub sample: Sample,
    pub number: u64,
}

/// No place in a dictionary; null in the table.
const NO_INDEX: i32 = -1;

fn dictionary(values: Vec<&str>, keys: impl Iterator<Item = u32>) -> Result<ArrayRef, ArrowError> {
    let index = |key| i32::try_from(key).unwrap_or(i32::MAX);
    let keys = keys.map(|key| if key == NO_NAME { NO_INDEX } else { index(key) });
    let keys = nullable::<Int32Type>(keys, NO_INDEX);
    let values = StringArray::from(values);
    Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(
        keys,
        Arc::new(values),
    )?))
}

pub(super) fn named(
    values: &[String],
    keys: impl Iterator<Item = u32>,
) -> Result<ArrayRef, ArrowError> {
    dictionary(values.iter().map(String::as_str).collect(), keys)
}

/// Callers are hosts, or servers where the call graph knows better.
fn callers(names: &Names, callers: impl Iterator<Item = u32>) -> Result<ArrayRef, ArrowError> {
    let hosts = u32::try_from(names.hosts.len()).unwrap_or(u32::MAX);
    let values = names
        .hosts
        .iter()
        .chain(&names.servers)
        .map(String::as_str)
        .collect();
    let keys = callers.map(|caller| match caller {
        NO_NAME => NO_NAME,
        _ if caller & CALLER_IS_SERVER != 0 => (caller & !CALLER_IS_SERVER).saturating_add(hosts),
        _ => caller,
    });
    dictionary(values, keys)
}

pub(super) fn moments(values: impl Iterator<Item = i64>) -> ArrayRef {
    Arc::new(nullable::<Int64Type>(values, NO_TIME))
}

fn ids(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(nullable::<UInt64Type>(values, NO_ID))
}

/// The values, null where they are `missing`. Mostly nothing is, and then nothing is looked at one by one.
fn nullable<T: ArrowPrimitiveType>(
    values: impl Iterator<Item = T::Native>,
    missing: T::Native,
) -> PrimitiveArray<T> {
    let values: Vec<T::Native> = values.collect();
    if values.contains(&missing) {
        let known = |value| (value != missing).then_some(value);
        values.into_iter().map(known).collect()
    } else {
        PrimitiveArray::new(values.into(), None)
    }
}

pub(super) fn counts(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(values))
}

pub(super) fn small(values: impl Iterator<Item = u8>) -> ArrayRef {
    Arc::new(UInt8Array::from_iter_values(values))
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

    fn batch(rows: &[Self], names: &Names) -> Batch {
        let columns = vec![
            ids(rows.iter().map(|v| v.visit)),
            ids(rows.iter().map(|v| v.parent)),
            ids(rows.iter().map(|v| v.request)),
            named(&names.servers, rows.iter().map(|v| v.server))?,
            named(&names.interactions, rows.iter().map(|v| v.interaction))?,
            callers(names, rows.iter().map(|v| v.caller))?,
            moments(rows.iter().map(|v| v.sent)),
            moments(rows.iter().map(|v| v.arrival)),
            moments(rows.iter().map(|v| v.start)),
            moments(rows.iter().map(|v| v.first_byte)),
            moments(rows.iter().map(|v| v.departure)),
            small(rows.iter().map(|v| v.drops)),
            small(rows.iter().map(|v| v.data_drops)),
            named(&names.statuses, rows.iter().map(|v| v.status))?,
            counts(rows.iter().map(|v| v.bytes_in)),
            counts(rows.iter().map(|v| v.bytes_out)),
            moments(rows.iter().map(|v| v.downstream_ns)),
        ];
        RecordBatch::try_new(Self::schema(), columns)
    }
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

    fn batch(rows: &[Self], names: &Names) -> Batch {
        RecordBatch::try_new(Self::schema(), request_columns(rows.iter(), names)?)
    }
}

fn request_columns<'r>(
    rows: impl Iterator<Item = &'r Request> + Clone,
    names: &Names,
) -> Result<Vec<ArrayRef>, ArrowError> {
    Ok(vec![
        ids(rows.clone().map(|r| r.request)),
        Arc::new(UInt32Array::from_iter_values(
            rows.clone().map(|r| r.client),
        )),
        named(&names.servers, rows.clone().map(|r| r.server))?,
        named(&names.interactions, rows.clone().map(|r| r.interaction))?,
        moments(rows.clone().map(|r| r.sent)),
        moments(rows.clone().map(|r| r.connected)),
        moments(rows.clone().map(|r| r.end)),
        named(&names.statuses, rows.clone().map(|r| r.status))?,
        small(rows.clone().map(|r| r.drops)),
        small(rows.clone().map(|r| r.data_drops)),
        Arc::new(rows.map(|r| r.bytes).collect::<UInt64Array>()),
    ])
}

impl Row for SentRequest {
    const KEY: SortKey = Request::KEY;

    fn schema() -> SchemaRef {
        schema::sent_requests()
    }

    fn key(&self) -> (i64, u64) {
        self.request.key()
    }

    fn batch(rows: &[Self], names: &Names) -> Batch {
        let mut columns = request_columns(rows.iter().map(|r| &r.request), names)?;
        columns.push(moments(rows.iter().map(|r| r.intended)));
        columns.push(moments(rows.iter().map(|r| r.first_byte)));
        RecordBatch::try_new(Self::schema(), columns)
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

    fn batch(rows: &[Self], names: &Names) -> Batch {
        let kinds: DictionaryArray<Int32Type> = rows.iter().map(|r| r.event.kind).collect();
        let columns: Vec<ArrayRef> = vec![
            named(&names.servers, rows.iter().map(|r| r.event.place))?,
            Arc::new(kinds),
            moments(rows.iter().map(|r| r.event.begin)),
            moments(rows.iter().map(|r| r.event.end)),
            Arc::new(
                rows.iter()
                    .map(|r| r.event.detail.as_deref())
                    .collect::<StringArray>(),
            ),
        ];
        RecordBatch::try_new(Self::schema(), columns)
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

    fn batch(rows: &[Self], names: &Names) -> Batch {
        let metrics: DictionaryArray<Int32Type> = rows.iter().map(|r| r.sample.metric).collect();
        let columns: Vec<ArrayRef> = vec![
            moments(rows.iter().map(|r| r.sample.time)),
            moments(rows.iter().map(|r| r.sample.interval)),
            named(&names.servers, rows.iter().map(|r| r.sample.place))?,
            Arc::new(metrics),
            Arc::new(Float64Array::from_iter_values(
                rows.iter().map(|r| r.sample.value),
            )),
        ];
        RecordBatch::try_new(Self::schema(), columns)
    }
}
