//! The engine of Tailrace, without Python.
//!
//! ```text
//! bounds     the largest accepted inputs
//! whole      files that are written completely or not at all
//! saved      the state of a reading as bytes, from which a reading that was killed goes on
//! record     the rows that all modules exchange, and their Parquet files
//! capture    packets → segments → connections → exchanges → visits
//! callgraph  visits → visits with their parent and their request
//! window     visits → integer sums per (server, window), and what follows from them
//! rng        random numbers that depend on the entity, not on the order of events
//! workload   clients: which one sends which request when
//! sim        a plan → the visits, samples and events of a simulated system
//! replay     visits → the same network of queues, run again with some of the lost capacity restored, by the
//!            balancers of `sim`
//! json       JSON in one pass, without a tree
//! lines      lines of text that have one of a few layouts → columns, and visits
//! stays      visits of logs in the order of their ends, in files from some size on
//! spans      files of traces → columns of spans, and how these belong together
//! load       a plan → requests to real servers, and their outcome
//! export     visits → the packets that they would have put on the wire
//! confine    removes the rights of a process once it has opened what it needs
//! host       a live Linux host → segments of samples and visits
//! ```

pub mod bounds;
pub mod callgraph;
pub mod capture;
#[cfg(target_os = "linux")]
pub mod confine;
pub mod error;
pub mod export;
#[cfg(target_os = "linux")]
pub mod host;
pub mod json;
pub mod lines;
#[cfg(target_os = "linux")]
pub mod load;
pub mod record;
pub mod replay;
pub mod rng;
pub mod saved;
pub mod sim;
pub mod spans;
pub mod stays;
pub mod whole;
pub mod window;
pub mod workload;
