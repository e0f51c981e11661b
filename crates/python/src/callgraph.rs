//! `_core.rejoined`: calls that lost their parent.
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tailrace_core::callgraph::rejoin::{self, Span};

/// Returns the visit of each call, or -1. `begin` and `end` are those of the visits, `sent` and
/// `departure` those of the calls, and `parent` is the known visit of each call, or -1.
#[pyfunction]
pub fn rejoined(
    py: Python<'_>,
    begin: PyBuffer<i64>,
    end: PyBuffer<i64>,
    sent: PyBuffer<i64>,
    departure: PyBuffer<i64>,
    parent: PyBuffer<i64>,
) -> PyResult<Vec<i64>> {
    let visits = spans(py, &begin, &end)?;
    let calls = spans(py, &sent, &departure)?;
    let known = |visit: i64| {
        usize::try_from(visit)
            .ok()
            .filter(|&visit| visit < visits.len())
    };
    let parents: Vec<_> = parent.to_vec(py)?.into_iter().map(known).collect();
    if parents.len() != calls.len() {
        return Err(PyValueError::new_err("columns of unequal length"));
    }
    let found = py.detach(|| rejoin::rejoined(&visits, &calls, &parents));
    Ok(found
        .into_iter()
        .map(|visit| visit.map_or(-1, |visit| visit as i64))
        .collect())
}

fn spans(py: Python<'_>, begin: &PyBuffer<i64>, end: &PyBuffer<i64>) -> PyResult<Vec<Span>> {
    let (begin, end) = (begin.to_vec(py)?, end.to_vec(py)?);
    if begin.len() != end.len() {
        return Err(PyValueError::new_err("columns of unequal length"));
    }
    Ok(begin.into_iter().zip(end).collect())
}
