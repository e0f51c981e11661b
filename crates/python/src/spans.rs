//! `SpanCutter`, `link_spans`: files of traces in, columns of spans out as Arrow streams.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tailrace_core::error::Error;
use tailrace_core::spans::{links, Cut, Cutter, Form, Trace};

use crate::guard::detached;
use crate::stream::{self, Table};

/// Reads a file of traces in blocks.
#[pyclass(module = "tailrace._core")]
pub struct SpanCutter(Cutter);

/// The rows, the texts that their numbers mean, how many spans lack something, how many elements are damaged, why reading
/// ended, and whether there is more in this block.
type Found = (Table, Vec<String>, u32, u32, Option<String>, bool);

fn wrong(message: impl ToString) -> PyErr {
    PyValueError::new_err(message.to_string())
}

#[pymethods]
impl SpanCutter {
    #[new]
    fn new(form: &str, plan: &str, size: u64) -> PyResult<Self> {
        let form = Form::of(form).ok_or_else(|| wrong("no such form of traces"))?;
        let plan = serde_json::from_str(plan).map_err(wrong)?;
        Cutter::new(form, &plan, size)
            .map(SpanCutter)
            .map_err(wrong)
    }

    /// The spans of the next block of the file; `last` after the last one.
    fn feed(&mut self, py: Python<'_>, block: &[u8], last: bool) -> PyResult<Found> {
        let cutter = &mut self.0;
        let cut: Cut = detached(py, move || {
            let cut = cutter.feed(block, last);
            cut.map_err(|error| Error::Options(error.to_string()))
        })?;
        Ok((
            Table(cut.rows),
            cut.texts,
            cut.without,
            cut.damaged,
            cut.stopped,
            cut.more,
        ))
    }
}

#[pyfunction]
pub fn span_keys(trace: &str, id: &str, parent: Option<&str>) -> (u64, u64, Option<u64>) {
    let trace = Trace::of(trace.as_bytes());
    let above = parent.map(|id| trace.key_of_span(id.as_bytes()));
    (trace.key(), trace.key_of_span(id.as_bytes()), above)
}

/// The links of these spans as a table, the order of the visits, and the number of cycles.
#[pyfunction]
pub fn link_spans(py: Python<'_>, table: &Bound<'_, PyAny>) -> PyResult<(Table, Vec<u32>, u32)> {
    let reader = stream::import(table)?;
    detached(py, || {
        let fault = |message: String| Error::Options(message);
        let mut spans = links::Spans::default();
        for rows in reader {
            let rows = rows.map_err(|error| fault(error.to_string()))?;
            let added = spans.add(&rows);
            added.ok_or_else(|| fault("the spans lack a column".to_owned()))?;
        }
        let found = links::Links::of(&spans);
        let cycles = found.cycles;
        let columns = found.into_columns();
        let (rows, order) = columns.map_err(|error| fault(error.to_string()))?;
        Ok((Table(rows), order, cycles))
    })
}
