//! `decode`: captures become tables and a report; progress and Ctrl-C go through Python a few times a second.

use crate::progress::with_progress;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;
use tailrace_core::capture::decode::{self as engine, Options};

#[pyfunction]
#[pyo3(signature = (paths, out, options, progress = None))]
pub fn decode(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    out: PathBuf,
    options: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let options: Options = serde_json::from_str(options)
        .map_err(|error| PyValueError::new_err(format!("options: {error}")))?;
    let report = with_progress(py, progress.as_ref(), |tell| {
        engine::decode(&paths, &out, &options, tell)
    })?;
    serde_json::to_string(&report).map_err(|error| PyValueError::new_err(error.to_string()))
}
