//! `write_table`: a table from Python becomes Parquet the way a Dataset wants it.

use arrow_array::RecordBatchReader;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3_arrow::input::AnyRecordBatch;
use std::path::PathBuf;
use tailrace_core::error::Error;
use tailrace_core::record::encoding;

#[pyfunction]
pub fn write_table(py: Python<'_>, table: AnyRecordBatch, path: PathBuf) -> PyResult<u64> {
    let reader: Box<dyn RecordBatchReader + Send> = table.into_reader()?;
    py.detach(|| encoding::write_table(reader, &path))
        .map_err(|error| match error {
            Error::Io { .. } => PyOSError::new_err(error.to_string()),
            error => PyValueError::new_err(error.to_string()),
        })
}
