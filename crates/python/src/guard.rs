//! How the engine works for Python: without the interpreter lock, and with errors and panics turned
//! into exceptions.
//!
//! No panic reaches Python, where it would not be an `Exception` and would end the process with
//! exit code 1.

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyKeyboardInterrupt, PyOSError, PyValueError};
use pyo3::prelude::*;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::Mutex;
use tailrace_core::error::{Error, Result};

create_exception!(
    tailrace._core,
    EngineFault,
    PyException,
    "A fault of the engine itself: what it was about, and in which line."
);

/// The error of a damaged or full disk, with the kernel's number if there is one.
const EIO: i32 = 5;
/// With this environment variable a panic is also reported on standard error.
const TRACEBACK: &str = "TAILRACE_TRACEBACK";

/// The message of the first panic since the last [`detached`]. It may come from another thread, if
/// the caught panic is only a consequence.
static SAID: Mutex<Option<String>> = Mutex::new(None);

/// Panics are remembered instead of printed.
pub fn remember_panics() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |panicked| {
        if std::env::var_os(TRACEBACK).is_some() {
            report(panicked);
        }
        if let Ok(mut said) = SAID.lock() {
            said.get_or_insert_with(|| sentence(panicked));
        }
    }));
}

fn sentence(panicked: &PanicHookInfo<'_>) -> String {
    let payload = panicked.payload();
    let what = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("it stopped");
    match panicked.location() {
        Some(place) => format!("{what}, {}:{}", place.file(), place.line()),
        None => what.to_owned(),
    }
}

/// Runs `work` without the interpreter lock.
pub fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    forget();
    match py.detach(|| panic::catch_unwind(AssertUnwindSafe(work))) {
        Ok(done) => done.map_err(raised),
        Err(_) => Err(EngineFault::new_err(
            forget().unwrap_or_else(|| "it stopped".to_owned()),
        )),
    }
}

fn forget() -> Option<String> {
    SAID.lock().ok().and_then(|mut said| said.take())
}

/// Python chooses FileNotFoundError, PermissionError … by the number of a system's error.
fn raised(error: Error) -> PyErr {
    match error {
        Error::Io { path, source } => {
            let said = source.to_string();
            let sentence = said.split(" (os error").next().unwrap_or(&said).to_owned();
            PyOSError::new_err((source.raw_os_error().unwrap_or(EIO), sentence, path))
        }
        Error::Interrupted => PyKeyboardInterrupt::new_err(()),
        error => PyValueError::new_err(error.to_string()),
    }
}
