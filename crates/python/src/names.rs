//! `_core.Names`, `_core.folded_word`, `_core.without_rare_words`: requests of text are named as those of packets.

use std::sync::Arc;

use arrow_array::builder::UInt32Builder;
use arrow_array::{ArrayRef, DictionaryArray, RecordBatch, StringArray};
use pyo3::prelude::*;
use tailrace_core::capture::names::{self, Namer};
use tailrace_core::capture::wire::Raw;
use tailrace_core::error::Error;
use tailrace_core::record::encoding;

use crate::guard::detached;
use crate::stream::{self, Table};

#[pyclass]
#[derive(Default)]
pub struct Names {
    namer: Namer,
    names: Vec<String>,
}

impl Names {
    fn name(&mut self, raw: Raw<'_>) -> &str {
        let id = self.namer.name(raw, &mut self.names);
        self.names
            .get(id as usize)
            .map_or(names::OTHER, String::as_str)
    }
}

impl Names {
    /// The number of a request's name; None without a method.
    fn id(&mut self, request: &str) -> Option<u32> {
        let (method, target) = request.split_once(' ').unwrap_or((request, ""));
        if method.is_empty() {
            return None;
        }
        let (method, target) = (method.as_bytes(), target.as_bytes());
        Some(
            self.namer
                .name(Raw::Http { method, target }, &mut self.names),
        )
    }
}

#[pymethods]
impl Names {
    #[new]
    fn new() -> Names {
        Names::default()
    }

    fn of_request(&mut self, method: &str, target: &str) -> &str {
        let (method, target) = (method.as_bytes(), target.as_bytes());
        self.name(Raw::Http { method, target })
    }

    /// The names of the requests in the first column, each a method, a space and a target; null without a method.
    fn of_requests(&mut self, py: Python<'_>, requests: &Bound<'_, PyAny>) -> PyResult<Table> {
        let reader = stream::import(requests)?;
        detached(py, || {
            let mut ids = UInt32Builder::new();
            for rows in reader {
                let rows = rows.map_err(fault)?;
                for text in encoding::plain_text(rows.column(0)).iter() {
                    ids.append_option(text.and_then(|text| self.id(text)));
                }
            }
            let names: StringArray = self.names.iter().map(Some).collect();
            let column = DictionaryArray::try_new(ids.finish(), Arc::new(names)).map_err(fault)?;
            let rows = RecordBatch::try_from_iter([("name", Arc::new(column) as ArrayRef)]);
            rows.map(Table).map_err(fault)
        })
    }

    fn of_statement(&mut self, sql: &str) -> &str {
        self.name(Raw::Sql(sql.as_bytes()))
    }
}

fn fault(error: impl ToString) -> Error {
    Error::Options(error.to_string())
}

#[pyfunction]
pub fn folded_word(word: &str) -> String {
    names::word(word)
}

#[pyfunction]
pub fn without_rare_words(counted: Vec<(String, String, u64)>) -> Vec<(String, String)> {
    names::without_rare_words(&counted)
}
