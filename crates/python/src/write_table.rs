//! `write_table`: writes a table from Python as Parquet, in the form of a Dataset.

use std::path::PathBuf;

use pyo3::prelude::*;
use tailrace_core::record::encoding;

use crate::guard::detached;
use crate::stream;

#[pyfunction]
pub fn write_table(py: Python<'_>, table: &Bound<'_, PyAny>, path: PathBuf) -> PyResult<u64> {
    let reader = stream::import(table)?;
    detached(py, || encoding::write_table(reader, &path))
}
