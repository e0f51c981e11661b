//! Long work: the interpreter lock is released, and progress and Ctrl-C go through Python a few times a second.

use crate::guard::detached;
use pyo3::prelude::*;
use tailrace_core::error::{Error, Result};

/// A reading that waits for standard input asks this: a signal has come, whose handler raises an exception.
pub fn is_ended() -> bool {
    Python::attach(|py| py.check_signals().is_err())
}

/// Runs `work`, which reports its progress now and then; an exception from `progress` stops it and
/// is raised again.
pub fn with_progress<N, T>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce(&mut dyn FnMut(N, N) -> Result<()>) -> Result<T> + Send,
) -> PyResult<T>
where
    N: for<'py> IntoPyObject<'py>,
    T: Send,
{
    let mut stopped: Option<PyErr> = None;
    let done = detached(py, || {
        let mut tell = |done: N, total: N| -> Result<()> {
            Python::attach(|py| {
                py.check_signals()?;
                progress.map_or(Ok(()), |progress| {
                    progress.call1(py, (done, total)).map(drop)
                })
            })
            .map_err(|error| {
                stopped = Some(error);
                Error::Interrupted
            })
        };
        work(&mut tell)
    });
    done.map_err(|error| stopped.take().unwrap_or(error))
}
