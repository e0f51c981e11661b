//! Rows as tables of visits or of requests; names are numbers of the caller's.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, UInt32Array, UInt64Array, UInt8Array};
use arrow_buffer::NullBuffer;
use arrow_schema::ArrowError;

use super::{Merged, Row};
use crate::error::{Error, Result};

/// Rows of a table: 6 MB.
const ROWS: usize = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Visits,
    Requests,
}

/// The tables of all rows, one after the other.
pub struct Tables {
    rows: Merged,
    kind: Kind,
    /// Times to connect, in ns, of which each shows one lost attempt more than the one before.
    windows: Vec<(i64, i64)>,
    /// The least of them.
    least: i64,
}

impl Tables {
    pub fn new(rows: Merged, kind: Kind, windows: Vec<(i64, i64)>) -> Tables {
        let least = windows.iter().map(|&(from, _)| from).min();
        Tables {
            rows,
            kind,
            windows,
            least: least.unwrap_or(i64::MAX),
        }
    }

    /// The next table; None after the last one. Tables may be empty.
    pub fn next_table(&mut self) -> Result<Option<RecordBatch>> {
        let mut columns = Columns::with_capacity(ROWS);
        let mut any = false;
        for _ in 0..ROWS {
            let Some(row) = self.rows.next()? else {
                break;
            };
            any = true;
            if row.entry || self.kind == Kind::Visits {
                columns.push(&row, self.drops(row.wait));
            }
        }
        let table = any.then(|| match self.kind {
            Kind::Visits => columns.visits(),
            Kind::Requests => columns.requests(),
        });
        let table = table.transpose();
        table.map_err(|error| Error::Options(error.to_string()))
    }

    /// Attempts that were lost before a connection that took so long.
    fn drops(&self, wait: i64) -> u8 {
        if wait < self.least {
            return 0;
        }
        let within = |&(from, to): &(i64, i64)| (from..=to).contains(&wait);
        let found = self.windows.iter().rposition(within);
        found.map_or(0, |at| u8::try_from(at + 1).unwrap_or(u8::MAX))
    }
}

#[derive(Default)]
struct Columns {
    number: Vec<u64>,
    texts: [Vec<u32>; 4],
    sent: Vec<i64>,
    arrival: Vec<i64>,
    departure: Vec<i64>,
    drops: Vec<u8>,
    parent: Vec<i64>,
    request: Vec<i64>,
    bytes_out: Vec<i64>,
    downstream: Vec<i64>,
}

impl Columns {
    fn with_capacity(rows: usize) -> Columns {
        Columns {
            number: Vec::with_capacity(rows),
            texts: std::array::from_fn(|_| Vec::with_capacity(rows)),
            sent: Vec::with_capacity(rows),
            arrival: Vec::with_capacity(rows),
            departure: Vec::with_capacity(rows),
            drops: Vec::with_capacity(rows),
            parent: Vec::with_capacity(rows),
            request: Vec::with_capacity(rows),
            bytes_out: Vec::with_capacity(rows),
            downstream: Vec::with_capacity(rows),
        }
    }

    #[inline]
    fn push(&mut self, row: &Row, drops: u8) {
        // A visit whose first attempt was lost was accepted when the connection was there.
        let accepted = row.sent.saturating_add(row.wait).min(row.departure);
        self.number.push(row.number as u64);
        let texts = [row.server, row.interaction, row.caller, row.status];
        for (column, text) in self.texts.iter_mut().zip(texts) {
            column.push(text);
        }
        self.sent.push(row.sent);
        self.arrival
            .push(if drops > 0 { accepted } else { row.arrival });
        self.departure.push(row.departure);
        self.drops.push(drops);
        self.parent.push(row.parent);
        self.request.push(row.request);
        self.bytes_out.push(row.bytes_out);
        self.downstream.push(row.downstream);
    }

    fn visits(self) -> std::result::Result<RecordBatch, ArrowError> {
        let count = self.number.len();
        let [server, interaction, caller, status] = self.texts.map(whole::<UInt32Array, u32>);
        batch(vec![
            ("visit", whole::<UInt64Array, _>(self.number)),
            ("server", server),
            ("interaction", interaction),
            ("caller", caller),
            ("status", status),
            ("sent", whole::<Int64Array, _>(self.sent)),
            ("arrival", whole::<Int64Array, _>(self.arrival)),
            ("departure", whole::<Int64Array, _>(self.departure)),
            ("drops", whole::<UInt8Array, _>(self.drops)),
            ("data_drops", whole::<UInt8Array, _>(vec![0; count])),
            ("parent", known(self.parent)),
            ("request", known(self.request)),
            ("bytes_out", known(self.bytes_out)),
            ("downstream_ns", known_signed(self.downstream)),
        ])
    }

    fn requests(self) -> std::result::Result<RecordBatch, ArrowError> {
        let count = self.number.len();
        let [server, interaction, _, status] = self.texts.map(whole::<UInt32Array, u32>);
        batch(vec![
            ("request", whole::<UInt64Array, _>(self.number)),
            ("server", server),
            ("interaction", interaction),
            ("status", status),
            ("sent", whole::<Int64Array, _>(self.sent)),
            ("end", whole::<Int64Array, _>(self.departure)),
            ("drops", whole::<UInt8Array, _>(self.drops)),
            ("data_drops", whole::<UInt8Array, _>(vec![0; count])),
            ("bytes", known(self.bytes_out)),
        ])
    }
}

fn whole<A: From<Vec<T>> + arrow_array::Array + 'static, T>(values: Vec<T>) -> ArrayRef {
    Arc::new(A::from(values))
}

fn nulls(values: &[i64]) -> Option<NullBuffer> {
    let unknown = values.iter().any(|&value| value < 0);
    unknown.then(|| NullBuffer::from_iter(values.iter().map(|&value| value >= 0)))
}

/// Numbers that are negative where they are unknown.
fn known(values: Vec<i64>) -> ArrayRef {
    let nulls = nulls(&values);
    let values: Vec<_> = values.into_iter().map(|value| value as u64).collect();
    Arc::new(UInt64Array::new(values.into(), nulls))
}

fn known_signed(values: Vec<i64>) -> ArrayRef {
    let nulls = nulls(&values);
    Arc::new(Int64Array::new(values.into(), nulls))
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> std::result::Result<RecordBatch, ArrowError> {
    let nullable = columns.into_iter().map(|(name, array)| (name, array, true));
    RecordBatch::try_from_iter_with_nullable(nullable)
}
