//! Clients and their requests: what the simulator's clients and those of the load generator have in
//! common.
//!
//! Everything is drawn from streams that the caller keeps, and no clock is read.

mod arrivals;
pub mod check;
mod choice;
pub mod plan;
mod think;
mod walk;

pub use arrivals::Arriving;
pub use choice::Chooser;
pub use think::{begins_fast, rest, think, Mode};
pub use walk::{Position, Walk};
