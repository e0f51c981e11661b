//! A live host → segments of its record.
//!
//! ```text
//! formats   what /proc, /sys and cgroups say → numbers          listeners  inet_diag → accept queues
//! probes    one source each, read in place → samples            sampler    all of them on a steady beat
//! nodes     what of them goes and comes again
//! packets   AF_PACKET → visits (in a process of its own), or a capture
//! segments  rows of a second → a closed file; a ring of them    state      what the recording says of itself
//! processes whose each one is → probes, names of servers        join       segments → tables
//! recorder  the threads, from beginning to end
//! ```
//! It must never cause the stall it looks for: memory is bounded, writes are small and steady and never forced, and no
//! thread that samples waits for a disk.

mod clock;
pub mod formats;
pub mod join;
pub mod listeners;
mod namespaces;
mod nodes;
pub mod options;
pub mod packets;
pub mod places;
pub mod probes;
pub mod processes;
pub mod recorder;
mod sampler;
mod segments;
pub mod state;
mod sys;
