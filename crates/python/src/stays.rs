//! `_core.StayStore`, `_core.LineVisits`: visits of logs in, tables in the order of their ends out, as Arrow streams.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tailrace_core::error::Error;
use tailrace_core::lines::visits::{Outcome, Times, Visits, UNUSUAL};
use tailrace_core::stays::{Bounds, Kind, NewFile, Store, Tables};

use crate::guard::detached;
use crate::stream::{self, Table};

/// Visits, of which those that do not fit into memory are in files.
#[pyclass(module = "tailrace._core")]
pub struct StayStore(Store);

/// The pairs of servers and interactions with the number of their visits, and the number of visits with others.
type Pairs = (Vec<(u32, u32, u64)>, u64);

fn new_file(path: Py<PyAny>) -> NewFile {
    Box::new(move || {
        Python::attach(|py| path.call0(py)?.extract::<PathBuf>(py))
            .map_err(|error| Error::Options(error.to_string()))
    })
}

fn fault(error: impl ToString) -> PyErr {
    PyValueError::new_err(error.to_string())
}

#[pymethods]
impl StayStore {
    #[new]
    fn new(
        path: Py<PyAny>,
        most: u64,
        kept: (usize, usize),
        waits: (i64, usize, usize),
    ) -> StayStore {
        let ((pairs, requests), (long, long_kept, short_kept)) = (kept, waits);
        let bounds = Bounds {
            pairs,
            requests,
            long,
            long_kept,
            short_kept,
        };
        StayStore(Store::new(new_file(path), most, bounds))
    }

    fn add(&mut self, py: Python<'_>, tables: Vec<Bound<'_, PyAny>>) -> PyResult<()> {
        let readers = tables.iter().map(stream::import);
        let readers = readers.collect::<PyResult<Vec<_>>>()?;
        detached(py, || {
            let mut batches = Vec::<RecordBatch>::new();
            for batch in readers.into_iter().flatten() {
                batches.push(batch.map_err(|error| Error::Options(error.to_string()))?);
            }
            match self.0.add_all(&batches)? {
                true => Ok(()),
                false => Err(Error::Options(
                    "a table lacks a column of visits".to_owned(),
                )),
            }
        })
    }

    fn tables(
        &mut self,
        py: Python<'_>,
        kind: &str,
        windows: Vec<(i64, i64)>,
    ) -> PyResult<StayTables> {
        let kind = match kind {
            "visits" => Kind::Visits,
            "requests" => Kind::Requests,
            _ => return Err(PyValueError::new_err("no such kind of table")),
        };
        let rows = detached(py, || self.0.rows())?;
        Ok(StayTables(Tables::new(rows, kind, windows)))
    }

    fn shift(&mut self, py: Python<'_>, ranges: Vec<(i64, i64)>, by: i64) -> PyResult<()> {
        detached(py, || self.0.shift(&ranges, by))
    }

    fn pairs(&mut self) -> Pairs {
        self.0.seen().pairs()
    }

    /// How many times to connect were long; the long ones and the short ones that are kept.
    fn waits(&mut self) -> PyResult<(u64, Table, Table)> {
        let waits = self.0.seen().waits();
        let [long, short] = waits.tables().map_err(fault)?;
        Ok((waits.count, Table(long), Table(short)))
    }

    fn sample(&mut self) -> PyResult<Table> {
        self.0.seen().sample().table().map(Table).map_err(fault)
    }
}

/// The tables of visits or requests, one after the other.
#[pyclass(module = "tailrace._core")]
pub struct StayTables(Tables);

#[pymethods]
impl StayTables {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Table>> {
        let tables = &mut self.0;
        Ok(detached(py, move || tables.next_table())?.map(Table))
    }
}

/// Turns columns of lines into visits.
#[pyclass(module = "tailrace._core")]
pub struct LineVisits(Visits);

/// What is unknown; or the numbers of visits and of lines without a duration, whether all stamps are whole seconds, whether
/// some are no whole milliseconds, the calls that each server got, how many lines have each text of flags, and the ends
/// of requests of a local clock.
type Taken = (
    Vec<(&'static str, u32)>,
    u64,
    u64,
    bool,
    bool,
    Vec<(u32, u64)>,
    Vec<(u32, u64)>,
    Option<Table>,
);

/// `end` and `number` of requests; none: nobody wants them.
fn of_ends(ends: &[(i64, i64)]) -> PyResult<Option<Table>> {
    if ends.is_empty() {
        return Ok(None);
    }
    let column = |of: fn(&(i64, i64)) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(ends.iter().map(of)))
    };
    let columns = [
        ("end", column(|one| one.0)),
        ("number", column(|one| one.1)),
    ];
    let table = RecordBatch::try_from_iter(columns).map_err(fault)?;
    Ok(Some(Table(table)))
}

#[pymethods]
impl LineVisits {
    #[new]
    fn new(
        times: (i64, i64, i64, bool, bool),
        bounds: (i64, i64, i64, i64),
        needed: Vec<String>,
        named: Option<i64>,
    ) -> PyResult<LineVisits> {
        let (stamp, duration, parts, at_end, local) = times;
        if parts < 1 {
            return Err(PyValueError::new_err("a unit has a part at least"));
        }
        let (earliest, latest, longest, longest_visit) = bounds;
        let times = Times {
            stamp,
            duration,
            parts,
            at_end,
            named,
            local,
            earliest,
            latest,
            longest,
            longest_visit,
        };
        Ok(LineVisits(Visits::new(times, needed)))
    }

    /// The number of the server's own name.
    fn serve(&mut self, server: u32) {
        self.0.serve(server);
    }

    /// After a line with this status, it may be that no request came.
    fn unasked(&mut self, status: u32) {
        self.0.without_request(status);
    }

    /// A number in a column has this meaning; None: lines that have it are unusual.
    fn mean(&mut self, column: &str, number: u32, meaning: Option<u32>) -> PyResult<()> {
        let meaning = meaning.unwrap_or(UNUSUAL);
        match self.0.mean(column, number, meaning) {
            true => Ok(()),
            false => Err(PyValueError::new_err("no such column has meanings")),
        }
    }

    fn take(
        &self,
        py: Python<'_>,
        table: &Table,
        rows: (usize, usize),
        number: i64,
        store: &mut StayStore,
    ) -> PyResult<Option<Taken>> {
        let rows = rows.0..rows.1;
        let taken = detached(py, || self.0.take(&table.0, rows, number, &mut store.0))?;
        Ok(match taken {
            Outcome::Unusual => None,
            Outcome::Unknown(unknown) => {
                Some((unknown, 0, 0, true, false, Vec::new(), Vec::new(), None))
            }
            Outcome::Taken(one) => Some((
                Vec::new(),
                one.visits,
                one.untimed,
                one.whole,
                one.fine,
                one.calls,
                one.flags,
                of_ends(&one.ends)?,
            )),
        })
    }
}
