//! A load generator: the simulator's clients as real ones, over HTTP/1.1.
//! ```text
//! plan ─► engine ─ client (what, when) ─ asking (one request) ─ socket, response ─► log ─► table
//!            └ timers, lateness
//! ```
//!
//! One worker is one thread with one epoll. Several workers are several processes, each with its
//! share of the clients.

mod arriving;
mod asking;
mod client;
mod clock;
mod connections;
mod engine;
mod lateness;
mod log;
pub mod plan;
mod report;
pub mod response;
mod socket;
mod status;
pub mod table;
mod timers;

pub use engine::run;
pub use log::{Header, Writer};
pub use report::{Progress, Report};
