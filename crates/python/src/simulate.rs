//! `simulate`: a plan becomes the tables of a run folder and a report.

use crate::decode::raised;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;
use tailrace_core::error::{Error, Result};
use tailrace_core::sim::{self, plan::Plan, Tables};

#[pyfunction]
#[pyo3(signature = (plan, out = None, progress = None))]
pub fn simulate(
    py: Python<'_>,
    plan: &str,
    out: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let plan: Plan = serde_json::from_str(plan)
        .map_err(|error| PyValueError::new_err(format!("plan: {error}")))?;
    let mut stopped: Option<PyErr> = None;
    let report = py.detach(|| {
        let mut tell = |done: i64, total: i64| -> Result<()> {
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
        match &out {
            Some(folder) => {
                let tables = Tables::create(&plan, folder)?;
                sim::run(&plan, tables, &mut tell).map(|(report, _)| report)
            }
            None => sim::run(&plan, (), &mut tell).map(|(report, ())| report),
        }
    });
    let report = report.map_err(|error| stopped.take().unwrap_or_else(|| raised(error)))?;
    serde_json::to_string(&report).map_err(|error| PyValueError::new_err(error.to_string()))
}
