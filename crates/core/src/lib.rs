//! The engine of Tailrace, with no Python in it.
//!
//! ```text
//! bounds     the most that is taken of each thing
//! whole      files that are there whole or not at all
//! record     the rows that cross every seam, and their Parquet files
//! capture    packets → segments → connections → exchanges → visits
//! callgraph  visits → visits that know their parent and their request
//! window     visits → integer sums per (server, window), and what follows from them
//! replay     visits → the network of queues that they were, run again with some of its lost capacity given back
//! rng        random numbers that depend on who draws, not on the order of events
//! workload   who asks when for what
//! sim        a plan → the visits, samples and events of a system that was never built
//! load       a plan → requests to real servers, and what became of them
//! export     visits → the packets they would have put on the wire
//! confine    what a process may still do, once it has opened what it needs
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
#[cfg(target_os = "linux")]
pub mod load;
pub mod record;
pub mod replay;
pub mod rng;
pub mod sim;
pub mod whole;
pub mod window;
pub mod workload;
