//! Python bindings.
use pyo3::prelude::*;

mod callgraph;
mod choices;
mod decode;
mod export;
mod guard;
mod lines;
#[cfg(target_os = "linux")]
mod load;
mod names;
mod progress;
#[cfg(target_os = "linux")]
mod record;
mod reduce;
mod replay;
mod simulate;
mod spans;
mod stays;
mod stream;
mod table;
mod write_table;

#[pymodule]
fn _core(m: &Bound<'_, PyModule>) -> PyResult<()> {
    guard::remember_panics();
    tailrace_core::capture::standard::ask(progress::is_ended);
    m.add("EngineFault", m.py().get_type::<guard::EngineFault>())?;
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_function(wrap_pyfunction!(decode::decode, m)?)?;
    m.add_function(wrap_pyfunction!(export::export, m)?)?;
    m.add_class::<lines::LineCutter>()?;
    m.add_class::<lines::LineHalves>()?;
    m.add_class::<stays::StayStore>()?;
    m.add_class::<stays::StayTables>()?;
    m.add_class::<stays::LineVisits>()?;
    #[cfg(target_os = "linux")]
    m.add("SAMPLING_NS", record::SAMPLING_NS)?;
    #[cfg(target_os = "linux")]
    m.add_function(wrap_pyfunction!(record::record, m)?)?;
    #[cfg(target_os = "linux")]
    m.add_function(wrap_pyfunction!(record::join, m)?)?;
    #[cfg(target_os = "linux")]
    m.add_function(wrap_pyfunction!(record::decode_packets, m)?)?;
    #[cfg(target_os = "linux")]
    m.add_function(wrap_pyfunction!(record::confine_to, m)?)?;
    #[cfg(target_os = "linux")]
    m.add_function(wrap_pyfunction!(record::give_up_rights, m)?)?;
    #[cfg(target_os = "linux")]
    m.add_function(wrap_pyfunction!(load::load_worker, m)?)?;
    #[cfg(target_os = "linux")]
    m.add_function(wrap_pyfunction!(load::load_tables, m)?)?;
    m.add_class::<names::Names>()?;
    m.add_function(wrap_pyfunction!(names::waits_for_a_job, m)?)?;
    m.add_function(wrap_pyfunction!(names::folded_word, m)?)?;
    m.add_function(wrap_pyfunction!(names::without_rare_words, m)?)?;
    m.add_class::<replay::Replay>()?;
    m.add_class::<replay::Section>()?;
    m.add_function(wrap_pyfunction!(callgraph::rejoined, m)?)?;
    m.add_function(wrap_pyfunction!(choices::agreement, m)?)?;
    m.add_function(wrap_pyfunction!(reduce::reduce, m)?)?;
    m.add_function(wrap_pyfunction!(reduce::partial, m)?)?;
    m.add_function(wrap_pyfunction!(reduce::finish, m)?)?;
    m.add_function(wrap_pyfunction!(reduce::_decode_visits, m)?)?;
    m.add_function(wrap_pyfunction!(simulate::simulate, m)?)?;
    m.add_class::<spans::SpanCutter>()?;
    m.add_function(wrap_pyfunction!(spans::span_keys, m)?)?;
    m.add_function(wrap_pyfunction!(spans::span_texts, m)?)?;
    m.add_class::<spans::SpanStore>()?;
    m.add_class::<spans::SpanRows>()?;
    m.add_class::<spans::LinkedSpans>()?;
    m.add_class::<spans::FoundVisits>()?;
    m.add_class::<spans::VisitRuns>()?;
    m.add_class::<spans::VisitReading>()?;
    m.add_function(wrap_pyfunction!(table::examine_table, m)?)?;
    m.add_function(wrap_pyfunction!(table::table_shape, m)?)?;
    m.add_function(wrap_pyfunction!(write_table::write_tables, m)?)?;
    m.add_function(wrap_pyfunction!(write_table::write_table, m)?)?;
    Ok(())
}
