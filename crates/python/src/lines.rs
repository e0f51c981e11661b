//! `_core.cut_lines`: lines of text that have one of a few layouts in, their columns out as an Arrow stream.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tailrace_core::error::Error;
use tailrace_core::lines::{self, Plan};

use crate::guard::detached;
use crate::stream::Table;

/// The rows of the lines of `block` that have a layout of `plan`, which crates/core/src/lines documents.
#[pyfunction]
pub fn cut_lines(py: Python<'_>, block: &[u8], plan: &str) -> PyResult<Table> {
    let wrong = |message: String| PyValueError::new_err(message);
    let plan: Plan = serde_json::from_str(plan).map_err(|error| wrong(error.to_string()))?;
    if let Some(fault) = plan.fault() {
        return Err(wrong(fault.to_owned()));
    }
    detached(py, || {
        let rows = lines::cut(block, &plan);
        rows.map(Table)
            .map_err(|error| Error::Options(error.to_string()))
    })
}
