//! `record`: writes segments of this host until Python stops it. `join`: joins segments into
//! tables.

use crate::guard::detached;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;
use tailrace_core::confine;
use tailrace_core::error::Error;
use tailrace_core::host::options::{Options, INTERVAL_MAX, INTERVAL_MIN};
use tailrace_core::host::packets::decoder;
use tailrace_core::host::recorder::{self, Said};

/// The shortest and the longest time between two samples.
pub const SAMPLING_NS: (i64, i64) = (INTERVAL_MIN, INTERVAL_MAX);

/// `say(kind, sentence)` is called five times a second; an exception from it ends the recording and
/// is raised again.
#[pyfunction]
pub fn record(py: Python<'_>, options: &str, folder: PathBuf, say: Py<PyAny>) -> PyResult<String> {
    let options: Options = serde_json::from_str(options)
        .map_err(|error| PyValueError::new_err(format!("options: {error}")))?;
    let mut stopped: Option<PyErr> = None;
    let done = detached(py, || {
        recorder::record(&options, &folder, &mut |said| {
            Python::attach(|py| {
                py.check_signals()?;
                let (kind, sentence) = match &said {
                    Said::Recording => ("recording", ""),
                    Said::Warning(sentence) => ("warning", sentence.as_str()),
                    Said::Nothing => ("", ""),
                };
                say.call1(py, (kind, sentence))?.extract(py)
            })
            .map_err(|error: PyErr| {
                stopped = Some(error);
                Error::Interrupted
            })
        })
    });
    let state = done.map_err(|error| stopped.take().unwrap_or(error))?;
    serde_json::to_string(&state).map_err(|error| PyValueError::new_err(error.to_string()))
}

#[pyfunction]
pub fn join(
    py: Python<'_>,
    folder: PathBuf,
    out: PathBuf,
    together: Vec<Vec<String>>,
) -> PyResult<String> {
    let report = detached(py, || {
        tailrace_core::host::join::join(&folder, &out, together)
    })?;
    serde_json::to_string(&report).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Of the process that decodes packets for a recorder, which is its standard input.
#[pyfunction]
pub fn decode_packets(py: Python<'_>) -> PyResult<()> {
    detached(py, || {
        decoder::run().map_err(|source| Error::Io {
            path: "the recorder".into(),
            source,
        })
    })
}

/// Gives up every right, and nothing else: what the process has open or owns, it keeps.
#[pyfunction]
pub fn give_up_rights() -> PyResult<()> {
    Ok(confine::give_up_rights()?)
}

/// Gives up every right but those named, and writing anywhere but in these folders.
#[pyfunction]
#[pyo3(name = "confine")]
pub fn confine_to(folders: Vec<PathBuf>, kept: Vec<String>) -> PyResult<()> {
    Ok(confine::to_folders(&folders, &kept)?)
}
