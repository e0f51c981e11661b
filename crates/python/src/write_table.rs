//! `write_table`, `write_tables`: write a table from Python as Parquet, in the form of a Dataset.

use std::path::PathBuf;

use arrow_array::ffi_stream::ArrowArrayStreamReader;
use arrow_array::RecordBatchReader;
use pyo3::prelude::*;
use pyo3::types::PyIterator;
use tailrace_core::record::encoding::{self, Growing};

use crate::guard::detached;
use crate::stream;

#[pyfunction]
pub fn write_table(py: Python<'_>, table: &Bound<'_, PyAny>, path: PathBuf) -> PyResult<u64> {
    let reader = stream::import(table)?;
    detached(py, || encoding::write_table(reader, &path))
}

/// The same from tables with the same columns, which an iterator gives one after the other. Without a table, there is no
/// file.
#[pyfunction]
pub fn write_tables(py: Python<'_>, tables: &Bound<'_, PyAny>, path: PathBuf) -> PyResult<u64> {
    let tables = tables.try_iter()?.unbind();
    let next = || Python::attach(|py| next_of(tables.bind(py)));
    detached(py, || {
        let mut growing: Option<Growing> = None;
        loop {
            let reader = match next() {
                Ok(Some(reader)) => reader,
                Ok(None) => break,
                Err(raised) => return Ok(Err(raised)),
            };
            let table = match growing.take() {
                Some(table) => table,
                None => Growing::create(&path, &reader.schema())?,
            };
            growing.insert(table).add(reader)?;
        }
        growing.map_or(Ok(Ok(0)), |table| table.finish().map(Ok))
    })?
}

fn next_of(tables: &Bound<'_, PyIterator>) -> PyResult<Option<ArrowArrayStreamReader>> {
    let table = tables.clone().next().transpose()?;
    table.map(|table| stream::import(&table)).transpose()
}
