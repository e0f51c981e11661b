//! A recording run again as the network of queues that it was, with some of its lost capacity given back.
//!
//! ```text
//! program    visits → what each does in turn: it works, it sends a call, it waits for one
//! capacity   how fast each server was at each time, by what requests of their kinds usually need
//! network    the programs at given capacities: who arrives, waits, is dropped, and leaves when
//! ```
//!
//! At the capacities under which works were measured, visits leave when they left in the recording.

mod capacity;
mod network;
mod program;
#[cfg(test)]
mod tests;

pub use capacity::{Capacity, Grid, Need};
pub use network::{Limits, Network, Outcome};
pub use program::{Part, Program, Step, Visits, KINDS};
