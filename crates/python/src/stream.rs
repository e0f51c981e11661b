//! Tables between Python and the engine, by Arrow's C stream interface: a capsule holds the stream's C struct
//! (<https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>).

use std::ffi::CStr;

use arrow_array::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::{RecordBatch, RecordBatchIterator};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

const CAPSULE: &CStr = c"arrow_array_stream";

/// The capsule that `__arrow_c_stream__` returns: a stream of this one batch.
pub fn export(py: Python<'_>, batch: RecordBatch) -> PyResult<Bound<'_, PyCapsule>> {
    let schema = batch.schema();
    let batches = RecordBatchIterator::new([Ok(batch)], schema);
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), CAPSULE)
}

/// A table that Python reads through its `__arrow_c_stream__`.
#[pyclass(frozen, module = "tailrace._core")]
pub struct Table(pub RecordBatch);

#[pymethods]
impl Table {
    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    /// The consumer may request another schema; a producer may ignore that.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        export(py, self.0.clone())
    }
}

/// The batches of an object with `__arrow_c_stream__`. The reader does not need the interpreter's
/// lock.
pub fn import(table: &Bound<'_, PyAny>) -> PyResult<ArrowArrayStreamReader> {
    let capsule = table.call_method0("__arrow_c_stream__")?;
    let stream = capsule
        .cast::<PyCapsule>()?
        .pointer_checked(Some(CAPSULE))?;
    #[allow(unsafe_code)]
    // SAFETY: a capsule of this name holds a valid ArrowArrayStream. Its content moves into the reader, and what stays in the
    // capsule is marked as released.
    let reader = unsafe { ArrowArrayStreamReader::from_raw(stream.as_ptr().cast()) };
    reader.map_err(|error| PyValueError::new_err(error.to_string()))
}
