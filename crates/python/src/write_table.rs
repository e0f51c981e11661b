//! `write_table`: a table from Python becomes Parquet the way a Dataset wants it.

use crate::guard::detached;
use arrow_array::RecordBatchReader;
use pyo3::prelude::*;
use pyo3_arrow::input::AnyRecordBatch;
use std::path::PathBuf;
use tailrace_core::record::encoding;

#[pyfunction]
pub fn write_table(py: Python<'_>, table: AnyRecordBatch, path: PathBuf) -> PyResult<u64> {
    let reader: Box<dyn RecordBatchReader + Send> = table.into_reader()?;
    detached(py, || encoding::write_table(reader, &path))
}
