//! Runs a recording again as the same network of queues, with some of its lost capacity restored.
//! ```text
//! program    visits → the steps of each: it works, it sends a call, it waits for one
//! capacity   how fast each server was at each time, from the usual demand of its requests
//! network    the programs at given capacities: arrivals, waiting, drops and departures
//! accepting  when a server takes visits out of its accept queue
//! calls      which candidate receives a call, and the wait for a connection
//! attempts   callers that wait no longer, and attempts that follow others
//! path       packets that were lost on their way
//! choice     the candidates that balancers choose
//! section    some of the visits of a network, as a smaller network
//! ```
//!
//! At the capacities at which works were measured, visits leave when they left in the recording.

mod accepting;
#[cfg(test)]
mod accepting_tests;
mod attempts;
#[cfg(test)]
mod attempts_tests;
mod calls;
mod capacity;
mod choice;
#[cfg(test)]
mod discipline_tests;
mod network;
mod path;
mod pieces;
mod program;
mod section;
#[cfg(test)]
mod tests;

pub use capacity::{answers_first, in_order, Capacity, Need};
pub use choice::{Agreement, Call, Choosing};
pub use network::{Attempt, Held, Limits, Needs, Network, Outcome};
pub use pieces::Grid;
pub use program::{Part, Program, Step, Visits, KINDS};
