//! `_core.reduce`: visits.parquet files in, windows out as an Arrow stream.

use std::path::PathBuf;

use arrow_array::RecordBatch;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use tailrace_core::window::{self, Partial, Plan, Reduction, Source};

use crate::guard::detached;
use crate::stream;

/// The windows, as an Arrow stream, and how many rows were read for them.
#[pyclass(frozen, module = "tailrace._core")]
pub struct Windows {
    batch: RecordBatch,
    /// Rows of the visits files that were read.
    #[pyo3(get)]
    rows: u64,
    /// Invalid visits.
    #[pyo3(get)]
    left_out: u64,
}

#[pymethods]
impl Windows {
    /// The consumer may request another schema; a producer may ignore that.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        stream::export(py, self.batch.clone())
    }
}

#[pyfunction]
#[pyo3(signature = (visits, window_ns, *, by_interaction = false, begin = None, end = None, vlrt_ns = 1_000_000_000,
                    queue_max = true, percentiles = true, idle_windows = None, threads = 0))]
#[allow(clippy::too_many_arguments)]
pub fn reduce(
    py: Python<'_>,
    visits: Vec<PathBuf>,
    window_ns: i64,
    by_interaction: bool,
    begin: Option<i64>,
    end: Option<i64>,
    vlrt_ns: i64,
    queue_max: bool,
    percentiles: bool,
    idle_windows: Option<u32>,
    threads: usize,
) -> PyResult<Windows> {
    let plan = Plan {
        window_ns,
        by_interaction,
        begin,
        end,
        vlrt_ns,
        queue_max,
        percentiles,
        idle_windows,
        threads,
    };
    let Reduction {
        windows,
        rows,
        left_out,
    } = detached(py, || window::reduce(&visits, &plan))?;
    Ok(Windows {
        batch: windows,
        rows,
        left_out,
    })
}

/// The sums of visits files, to be merged with those of other files by `finish`.
#[pyfunction]
#[pyo3(signature = (visits, window_ns, *, by_interaction = false, begin = None, end = None, vlrt_ns = 1_000_000_000,
                    threads = 0))]
#[allow(clippy::too_many_arguments)]
pub fn partial(
    py: Python<'_>,
    visits: Vec<PathBuf>,
    window_ns: i64,
    by_interaction: bool,
    begin: Option<i64>,
    end: Option<i64>,
    vlrt_ns: i64,
    threads: usize,
) -> PyResult<Windows> {
    let plan = Plan {
        window_ns,
        by_interaction,
        begin,
        end,
        vlrt_ns,
        threads,
        ..Plan::default()
    };
    detached(py, || {
        let sums = window::partial(&Source::open(&visits, by_interaction)?, &plan)?;
        Ok(Windows {
            batch: sums.to_batch()?,
            rows: sums.rows,
            left_out: sums.left_out,
        })
    })
}

/// The windows of partials of one plan: tables with the columns that `partial` returns.
#[pyfunction]
#[pyo3(signature = (partials, window_ns, *, by_interaction = false, begin = None, end = None, idle_windows = None))]
pub fn finish(
    py: Python<'_>,
    partials: Vec<Bound<'_, PyAny>>,
    window_ns: i64,
    by_interaction: bool,
    begin: Option<i64>,
    end: Option<i64>,
    idle_windows: Option<u32>,
) -> PyResult<Windows> {
    let mut batches = Vec::new();
    for table in &partials {
        for batch in stream::import(table)? {
            batches.push(batch.map_err(|error| PyValueError::new_err(error.to_string()))?);
        }
    }
    let plan = Plan {
        window_ns,
        by_interaction,
        begin,
        end,
        idle_windows,
        ..Plan::default()
    };
    let done = detached(py, || {
        window::finish(batches.iter().map(Partial::from_columns), &plan)
    })?;
    Ok(Windows {
        batch: done.windows,
        rows: done.rows,
        left_out: done.left_out,
    })
}

/// Decode the columns that a reduction reads and do nothing with them: the bound of
/// `benches/reduce`. Returns the rows.
#[pyfunction]
pub fn _decode_visits(py: Python<'_>, visits: Vec<PathBuf>, threads: usize) -> PyResult<u64> {
    detached(py, || Source::open(&visits, false)?.decode_only(threads))
}
