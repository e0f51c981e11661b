//! `_core.LineCutter`: lines of text that have one of a few layouts in, their columns out as an Arrow stream; and
//! `_core.LineHalves`: the names of requests into the lines of their ends.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tailrace_core::error::Error;
use tailrace_core::lines::halves::Halves;
use tailrace_core::lines::{Cutter, Plan};

use crate::guard::detached;
use crate::names::Names;
use crate::stream::Table;

#[pyclass]
pub struct LineCutter(Cutter);

#[pymethods]
impl LineCutter {
    #[new]
    fn new(plan: &str) -> PyResult<LineCutter> {
        let wrong = |message: String| PyValueError::new_err(message);
        let plan: Plan = serde_json::from_str(plan).map_err(|error| wrong(error.to_string()))?;
        match plan.fault() {
            Some(fault) => Err(wrong(fault.to_owned())),
            None => Ok(LineCutter(Cutter::new(plan))),
        }
    }

    /// The rows of the lines of `block`, up to `end`, that have a layout of the plan, which crates/core/src/lines
    /// documents.
    #[pyo3(signature = (block, names, end = usize::MAX))]
    fn cut(
        &mut self,
        py: Python<'_>,
        block: &[u8],
        names: &mut Names,
        end: usize,
    ) -> PyResult<Table> {
        let block = block.get(..end).unwrap_or(block);
        detached(py, || {
            let (namer, listed) = names.parts();
            let rows = self.0.cut(block, namer, listed);
            rows.map(Table)
                .map_err(|error| Error::Options(error.to_string()))
        })
    }

    /// How many lines the last block had.
    #[getter]
    fn lines(&self) -> u32 {
        self.0.lines()
    }

    /// The texts of a column, from this number on.
    fn texts(&self, column: &str, first: usize) -> Vec<String> {
        self.0.texts(column, first).to_vec()
    }
}

#[pyclass]
#[derive(Default)]
pub struct LineHalves(Halves);

#[pymethods]
impl LineHalves {
    #[new]
    fn new() -> LineHalves {
        LineHalves::default()
    }

    /// The lines of a block, with the names of requests in the lines of their ends.
    fn join<'py>(&mut self, py: Python<'py>, block: &Bound<'py, PyBytes>) -> Bound<'py, PyBytes> {
        let joined = self.0.join(block.as_bytes());
        joined.map_or_else(|| block.clone(), |joined| PyBytes::new(py, &joined))
    }

    /// How many ends got a name, and how many did not.
    #[getter]
    fn counts(&self) -> (u64, u64) {
        (self.0.named, self.0.nameless)
    }
}
