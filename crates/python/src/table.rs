//! `table_shape`: how large a Parquet file is, before anything of it is decoded.

use crate::guard::detached;
use pyo3::prelude::*;
use std::path::PathBuf;
use tailrace_core::record::shape;

#[pyfunction]
pub fn table_shape(py: Python<'_>, path: PathBuf) -> PyResult<(u64, u64)> {
    let (_, shape) = detached(py, || shape::open(&path))?;
    Ok((shape.rows, shape.bytes))
}
