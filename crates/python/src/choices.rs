//! `_core.agreement`: the choices of balancers, compared with policies.
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::de::value::StrDeserializer;
use serde::de::IntoDeserializer;
use serde::Deserialize;
use tailrace_core::replay::{Agreement, Call, Choosing};
use tailrace_core::sim::plan::Policy;

/// How a choice is made: "recorded", "turns", or by the policy of this name.
pub fn chosen(name: &str) -> PyResult<Choosing> {
    match name {
        "recorded" => Ok(Choosing::AsRecorded),
        "turns" => Ok(Choosing::InTurn),
        policy => named(policy).map(Choosing::ByPolicy),
    }
}

/// A policy without settings.
fn named(policy: &str) -> PyResult<Policy> {
    let name: StrDeserializer<'_, serde::de::value::Error> = policy.into_deserializer();
    Policy::deserialize(name)
        .map_err(|_| PyValueError::new_err(format!("{policy} is no policy without settings")))
}

/// Compares the recorded choices of a balancer with a policy. Of each call, `chosen` is its candidate
/// (of so many `candidates`), `ready` when it was chosen (after `sent`: not known), `sent` and
/// `departure` when it was sent and answered, and `bytes` those of the call and its answer. Returns how
/// many choices the policy does not leave open, how many of them agree, and how many would agree by
/// chance.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub fn agreement(
    py: Python<'_>,
    policy: &str,
    candidates: usize,
    chosen: PyBuffer<u32>,
    ready: PyBuffer<i64>,
    sent: PyBuffer<i64>,
    departure: PyBuffer<i64>,
    bytes: PyBuffer<u64>,
) -> PyResult<(u32, u32, f64)> {
    let policy = named(policy)?;
    let (chosen, ready) = (chosen.to_vec(py)?, ready.to_vec(py)?);
    let (sent, departure, bytes) = (sent.to_vec(py)?, departure.to_vec(py)?, bytes.to_vec(py)?);
    let n = chosen.len();
    let columns = [ready.len(), sent.len(), departure.len(), bytes.len()];
    if columns.iter().any(|&length| length != n) {
        return Err(PyValueError::new_err("columns of unequal length"));
    }
    let call = |i: usize| Call {
        candidate: chosen[i],
        ready: ready[i],
        sent: sent[i],
        departure: departure[i],
        bytes: bytes[i],
    };
    let found = py.detach(|| {
        let calls: Vec<Call> = (0..n).map(call).collect();
        Agreement::with(&policy, candidates, &calls)
    });
    Ok((found.choices, found.agreed, found.by_chance))
}
