//! `load`: a worker's plan becomes requests and a log; `load_tables`: logs become the tables of a run folder.

use crate::guard::detached;
use crate::progress::with_progress;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;
use tailrace_core::error::Error;
use tailrace_core::load::{self, plan::Plan, table, Header, Writer};

#[pyfunction]
pub fn load_worker(py: Python<'_>, plan: &str, log: PathBuf, tell: Py<PyAny>) -> PyResult<String> {
    let plan: Plan = serde_json::from_str(plan)
        .map_err(|error| PyValueError::new_err(format!("plan: {error}")))?;
    let header = Header {
        servers: plan.targets.iter().map(|t| t.name.clone()).collect(),
        interactions: plan.classes.iter().map(|c| c.name.clone()).collect(),
    };
    let mut refused: Option<PyErr> = None;
    let done = detached(py, || {
        let writer = Writer::create(&log, &header)?;
        load::run(&plan, writer, &mut |progress| {
            Python::attach(|py| -> PyResult<bool> {
                py.check_signals()?;
                tell.call1(py, (text(&progress)?,))?.extract(py)
            })
            .map_err(|error| {
                refused = Some(error);
                Error::Interrupted
            })
        })
    });
    match done {
        Ok(report) => text(&report),
        Err(error) => Err(refused.unwrap_or(error)),
    }
}

fn text(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyValueError::new_err(error.to_string()))
}

#[pyfunction]
#[pyo3(signature = (logs, folder, progress = None))]
pub fn load_tables(
    py: Python<'_>,
    logs: Vec<PathBuf>,
    folder: PathBuf,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let rows = with_progress(py, progress.as_ref(), |tell| {
        table::write(&logs, &folder, tell)
    })?;
    text(&rows)
}
