//! `export`: a run folder becomes a capture; progress and Ctrl-C go through Python a few times a second.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;
use tailrace_core::error::{Error, Result};
use tailrace_core::export as engine;

use crate::decode::raised;

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
    let mut stopped: Option<PyErr> = None;
    let report = py.detach(|| {
        let mut tell = |done: u64, total: u64| -> Result<()> {
            Python::attach(|py| {
                py.check_signals()?;
                progress.as_ref().map_or(Ok(()), |progress| {
                    progress.call1(py, (done, total)).map(drop)
                })
            })
            .map_err(|error| {
                stopped = Some(error);
                Error::Interrupted
            })
        };
        engine::export(&run, &folder, &options, &mut tell)
    });
    let report = report.map_err(|error| stopped.take().unwrap_or_else(|| raised(error)))?;
    serde_json::to_string(&report).map_err(|error| PyValueError::new_err(error.to_string()))
}
