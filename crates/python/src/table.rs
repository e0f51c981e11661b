//! `table_shape`: the decoded size of a Parquet file, before any decoding. `examine_table`: checks
//! that its rows keep the format.

use crate::guard::detached;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;
use tailrace_core::record::{examine, shape};

#[pyfunction]
pub fn table_shape(py: Python<'_>, path: PathBuf) -> PyResult<(u64, u64)> {
    let (_, shape) = detached(py, || shape::open(&path))?;
    Ok((shape.rows, shape.bytes))
}

#[pyfunction]
pub fn examine_table(py: Python<'_>, path: PathBuf, promises: &str) -> PyResult<String> {
    let wrong = |error: serde_json::Error| PyValueError::new_err(error.to_string());
    let promises: examine::Promises = serde_json::from_str(promises).map_err(wrong)?;
    let examined = detached(py, || examine::examine(&path, &promises))?;
    serde_json::to_string(&examined).map_err(wrong)
}
