//! `simulate`: a plan becomes the tables of a run folder and a report.

use crate::progress::with_progress;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;
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
    let report = with_progress(py, progress.as_ref(), |tell| match &out {
        Some(folder) => {
            let tables = Tables::create(&plan, folder)?;
            sim::run(&plan, tables, tell).map(|(report, _)| report)
        }
        None => sim::run(&plan, (), tell).map(|(report, ())| report),
    })?;
    serde_json::to_string(&report).map_err(|error| PyValueError::new_err(error.to_string()))
}
