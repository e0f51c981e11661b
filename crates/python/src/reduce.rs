//! `_core.reduce`: visits.parquet files in, windows out as an Arrow stream.

use std::path::PathBuf;

use arrow_array::RecordBatch;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use tailrace_core::window::{self, Plan, Reduction, Source};

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

/// Decode the columns that a reduction reads and do nothing with them: the bound of
/// `benches/reduce`. Returns the rows.
#[pyfunction]
pub fn _decode_visits(py: Python<'_>, visits: Vec<PathBuf>, threads: usize) -> PyResult<u64> {
    detached(py, || Source::open(&visits, false)?.decode_only(threads))
}
