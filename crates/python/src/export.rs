//! `export`: a run folder becomes a capture; progress and Ctrl-C go through Python a few times a second.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;
use tailrace_core::export as engine;

use crate::progress::with_progress;

#[pyfunction]
#[pyo3(signature = (run, folder, options, progress = None))]
pub fn export(
    py: Python<'_>,
    run: PathBuf,
    folder: PathBuf,
    options: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let options: engine::Options = serde_json::from_str(options)
        .map_err(|error| PyValueError::new_err(format!("options: {error}")))?;
    let report = with_progress(py, progress.as_ref(), |tell| {
        engine::export(&run, &folder, &options, tell)
    })?;
    serde_json::to_string(&report).map_err(|error| PyValueError::new_err(error.to_string()))
}
