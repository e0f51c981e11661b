//! `table_shape`: how large a Parquet file is, before anything of it is decoded.

use crate::decode::raised;
use pyo3::prelude::*;
use std::path::PathBuf;
use tailrace_core::record::shape;

#[pyfunction]
pub fn table_shape(py: Python<'_>, path: PathBuf) -> PyResult<(u64, u64)> {
    let (_, shape) = py.detach(|| shape::open(&path)).map_err(raised)?;
    Ok((shape.rows, shape.bytes))
}
