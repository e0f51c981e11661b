//! `_core.Names`, `_core.waits_for_a_job`, `_core.folded_word`, `_core.without_rare_words`:
//! requests of text are named as those of packets.

use pyo3::prelude::*;
use tailrace_core::callgraph::jobs;
use tailrace_core::capture::names::{self, Namer};
use tailrace_core::capture::wire::Raw;

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

    /// What names requests, and the names by their numbers.
    pub fn parts(&mut self) -> (&mut Namer, &mut Vec<String>) {
        (&mut self.namer, &mut self.names)
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

    /// The names by their numbers, from this number on.
    fn listed(&self, first: usize) -> Vec<String> {
        self.names.get(first..).unwrap_or(&[]).to_vec()
    }

    fn of_statement(&mut self, sql: &str) -> &str {
        self.name(Raw::Sql(sql.as_bytes()))
    }
}

#[pyfunction]
pub fn waits_for_a_job(name: &str) -> bool {
    jobs::waits_for_a_job(name)
}

#[pyfunction]
pub fn folded_word(word: &str) -> String {
    names::word(word)
}

#[pyfunction]
pub fn without_rare_words(counted: Vec<(String, String, u64)>) -> Vec<(String, String)> {
    names::without_rare_words(&counted)
}
