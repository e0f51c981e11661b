//! `SpanCutter`: files of traces in, columns of spans out. `SpanStore`, `LinkedSpans` and `VisitRuns`: these spans in, the
//! tables of visits and requests out as Arrow streams.

use std::path::PathBuf;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::RecordBatch;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tailrace_core::error::{Error, Result};
use tailrace_core::spans::linked::Linked;
use tailrace_core::spans::runs::{self, Reading, Runs};
use tailrace_core::spans::store::{Span, Store, NAMED};
use tailrace_core::spans::visits::{Pairs, Possible};
use tailrace_core::spans::{visits, Cut, Cutter, Form, Trace};

use crate::guard::detached;
use crate::stream::{self, Table};

/// Reads a file of traces in blocks.
#[pyclass(module = "tailrace._core")]
pub struct SpanCutter(Cutter);

/// The rows, the texts that their numbers mean, how many spans lack something, how many elements are damaged, why reading
/// ended, and whether there is more in this block.
type Found = (Table, Vec<String>, u32, u32, Option<String>, bool);
type Listed = Vec<(u32, u32, u64)>;

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

/// For each column that names something, the numbers of the texts that rows have.
#[pyfunction]
pub fn span_texts(table: &Table, texts: usize) -> Vec<Vec<u32>> {
    let each = NAMED.iter().map(|name| {
        let mut used = vec![false; texts];
        let column = table.0.column_by_name(name);
        let numbers = column.and_then(|column| column.as_primitive_opt::<UInt32Type>());
        for &number in numbers.map_or(&[][..], |numbers| numbers.values()) {
            if let Some(used) = used.get_mut(number as usize) {
                *used = true;
            }
        }
        let used = (0..).zip(used).filter(|(_, used)| *used);
        used.map(|(number, _)| number).collect()
    });
    each.collect()
}

/// All spans, before they are linked.
#[pyclass(module = "tailrace._core")]
pub struct SpanStore(Store);

/// Spans of whole traces.
#[pyclass(module = "tailrace._core")]
#[derive(Default)]
pub struct SpanRows(Vec<Span>);

#[pymethods]
impl SpanRows {
    #[new]
    fn new() -> Self {
        SpanRows::default()
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// The spans with what is above each; none are left here.
    fn link(&mut self, py: Python<'_>) -> PyResult<LinkedSpans> {
        let spans = std::mem::take(&mut self.0);
        detached(py, move || Ok(LinkedSpans(Linked::of(spans))))
    }
}

#[pymethods]
impl SpanStore {
    #[new]
    fn new(shift: u32) -> PyResult<Self> {
        if shift >= u64::BITS {
            return Err(wrong("a key has 64 bits"));
        }
        Ok(SpanStore(Store::new(shift)))
    }

    /// Adds rows; returns how many end before they begin, and the range of the shares of traces that samplers kept.
    fn add(
        &mut self,
        py: Python<'_>,
        table: &Bound<'_, PyAny>,
        codes: Vec<Vec<u32>>,
    ) -> PyResult<(u64, Option<(f64, f64)>)> {
        let store = &mut self.0;
        let batches: Vec<RecordBatch> = match table.cast::<Table>() {
            Ok(table) => vec![table.get().0.clone()],
            Err(_) => {
                let reader = stream::import(table)?;
                let batches: std::result::Result<_, _> = reader.collect();
                batches.map_err(wrong)?
            }
        };
        detached(py, move || {
            let mut all = (0, None);
            for rows in batches {
                let added = store.add(&rows, &codes)?;
                all.0 += added.backwards;
                let both = all.1.zip(added.kept);
                let range =
                    both.map(|((a, b), (c, d)): ((f64, f64), (f64, f64))| (a.min(c), b.max(d)));
                all.1 = range.or(all.1).or(added.kept);
            }
            Ok(all)
        })
    }

    fn add_spans(&mut self, spans: &SpanRows) {
        self.0.add_spans(&spans.0);
    }

    #[getter]
    fn held(&self) -> usize {
        self.0.held()
    }

    #[getter]
    fn has_many_hosts(&self) -> bool {
        self.0.has_many_hosts()
    }

    fn distribute(&mut self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let store = &mut self.0;
        detached(py, move || store.distribute(&path))
    }

    fn parts(&self) -> Vec<(u64, bool)> {
        self.0.parts()
    }

    fn take(&mut self) -> SpanRows {
        SpanRows(self.0.take())
    }

    fn read(
        &self,
        py: Python<'_>,
        part: usize,
        first: usize,
        most: usize,
        into: &mut SpanRows,
    ) -> PyResult<()> {
        let (store, into) = (&self.0, &mut into.0);
        detached(py, move || store.read(part, first, most, into))
    }
}

fn made<E: ToString>(rows: std::result::Result<RecordBatch, E>) -> Result<Table> {
    let rows = rows.map_err(|error| Error::Options(error.to_string()));
    rows.map(Table)
}

fn listed(pairs: Pairs) -> Listed {
    let pairs = pairs.into_iter();
    pairs.map(|((a, b), count)| (a, b, count)).collect()
}

/// The spans of a part, with what is above each.
#[pyclass(module = "tailrace._core")]
pub struct LinkedSpans(Linked);

#[pymethods]
impl LinkedSpans {
    #[getter]
    fn twice(&self) -> usize {
        self.0.twice
    }

    #[getter]
    fn cycles(&self) -> u32 {
        self.0.cycles
    }

    fn marked(&self) -> [usize; 3] {
        self.0.marked()
    }

    fn calls(&self, py: Python<'_>) -> PyResult<Table> {
        detached(py, || made(self.0.calls()))
    }

    fn shift(&mut self, py: Python<'_>, added: Vec<i64>) -> PyResult<()> {
        let linked = &mut self.0;
        detached(py, move || {
            linked.shift(&added);
            Ok(())
        })
    }

    fn columns(&self, py: Python<'_>) -> PyResult<Table> {
        detached(py, || made(self.0.columns()))
    }

    fn visits(
        &self,
        py: Python<'_>,
        servers: &[u8],
        times: (i64, i64, i64),
        slack: i64,
    ) -> PyResult<FoundVisits> {
        let (earliest, latest, longest) = times;
        detached(py, || {
            let possible = Possible {
                servers,
                earliest,
                latest,
                longest,
                slack,
            };
            Ok(FoundVisits(visits::Found::of(&self.0, &possible)))
        })
    }
}

/// The visits of a part of the spans.
#[pyclass(module = "tailrace._core")]
pub struct FoundVisits(visits::Found);

#[pymethods]
impl FoundVisits {
    fn __len__(&self) -> usize {
        self.0.visits.len()
    }

    /// Visits left out, calls outside of their client's span, visits without the span of their caller, and visits whose
    /// worker is known.
    #[getter]
    fn counts(&self) -> [usize; 4] {
        let found = &self.0;
        [found.damaged, found.skewed, found.orphans, found.taken()]
    }

    #[getter]
    fn rooted(&self) -> bool {
        self.0.rooted
    }

    fn waits(&self, py: Python<'_>) -> PyResult<Table> {
        let waits: arrow_array::ArrayRef = std::sync::Arc::new(self.0.waits());
        detached(py, || made(RecordBatch::try_from_iter([("wait", waits)])))
    }

    fn calls(&self, py: Python<'_>) -> PyResult<Listed> {
        detached(py, || Ok(listed(self.0.calls())))
    }

    fn interactions(&self, py: Python<'_>) -> PyResult<Listed> {
        detached(py, || Ok(listed(self.0.interactions())))
    }

    fn remote(&self) -> Vec<u32> {
        self.0.remote()
    }

    fn of_callers(&self, py: Python<'_>) -> PyResult<Table> {
        detached(py, || made(self.0.of_callers()))
    }

    fn requests(&self, py: Python<'_>, ok: u32, most: usize) -> PyResult<(Table, usize, Listed)> {
        detached(py, || {
            let found = self.0.requests(ok, most);
            let (rows, succeeded, failed) =
                found.map_err(|error| Error::Options(error.to_string()))?;
            Ok((Table(rows), succeeded, listed(failed)))
        })
    }
}

/// Visits in the order in which they ended.
#[pyclass(module = "tailrace._core")]
#[derive(Default)]
pub struct VisitRuns(Runs);

#[pymethods]
impl VisitRuns {
    #[new]
    fn new() -> Self {
        VisitRuns::default()
    }

    fn __len__(&self) -> usize {
        self.0.count
    }

    #[getter]
    fn held(&self) -> usize {
        self.0.held()
    }

    /// Adds the visits that were found; none are left there.
    fn add(&mut self, py: Python<'_>, found: &mut FoundVisits) -> PyResult<()> {
        let visits = std::mem::take(&mut found.0.visits);
        let runs = &mut self.0;
        detached(py, move || {
            runs.add(visits);
            Ok(())
        })
    }

    fn spill(&mut self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let runs = &mut self.0;
        detached(py, move || runs.spill(&path))
    }

    fn reading(&self, py: Python<'_>, most: usize) -> PyResult<VisitReading> {
        detached(py, || Reading::of(&self.0, most)).map(VisitReading)
    }
}

/// One reading of all visits.
#[pyclass(module = "tailrace._core")]
pub struct VisitReading(Reading);

#[pymethods]
impl VisitReading {
    /// The next rows of the table of visits, or of that of requests; None at the end.
    fn next(
        &mut self,
        py: Python<'_>,
        runs: &VisitRuns,
        requests: bool,
        least_entry: u8,
    ) -> PyResult<Option<Table>> {
        let reading = &mut self.0;
        detached(py, || {
            let block = reading.next(&runs.0)?;
            let rows = match (block.is_empty(), requests) {
                (true, _) => return Ok(None),
                (false, true) => runs::requests(&block, least_entry),
                (false, false) => runs::visits(&block, least_entry),
            };
            made(rows).map(Some)
        })
    }
}
