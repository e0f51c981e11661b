//! A live host → segments of its record.
//!
//! ```text
//! formats   text of /proc, /sys and cgroups → numbers          listeners  inet_diag → accept queues
//! probes    one source each, read in place → samples           sampler    all of them at a fixed interval
//! nodes     namespaces and groups that go away and come back
//! packets   AF_PACKET → visits (in a process of its own), or a capture
//! segments  rows of a second → a closed file; a ring of them   state      the state file of the recording
//! processes the server of each process → probes, names         join       segments → tables
//! containers the container of each process            mounts    where control groups are
//! recorder  the threads, from beginning to end
//! ```
//!
//! The recorder must never cause the stall that it looks for: memory is bounded, writes are small
//! and steady and never forced, and no sampling thread waits for a disk.

mod clock;
pub mod containers;
pub mod formats;
pub mod join;
pub mod listeners;
mod mounts;
mod namespaces;
mod naming;
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
mod together;
mod unix_sockets;
