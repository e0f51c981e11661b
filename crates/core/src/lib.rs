//! The engine of Tailrace, with no Python in it.
//!
//! ```text
//! record     the rows that cross every seam, and their Parquet files
//! capture    packets → segments → connections → exchanges → visits
//! callgraph  visits → visits that know their parent and their request
//! window     visits → integer sums per (server, window), and what follows from them
//! ```

pub mod callgraph;
pub mod capture;
pub mod error;
pub mod record;
pub mod window;
