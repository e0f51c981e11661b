//! A run folder becomes a capture: the packets that its visits would have put on the wire.
//! ```text
//! visits, requests ─ stay: sorted by sent ─▶ sweep ─▶ frame ─▶ pcap
//!                                             │ connections: which one carries a visit
//!                                             │ losses: the times of the lost SYNs
//!                                             └ conversation: its packets, in the protocols of wire/
//! ```
//!
//! The decoder ([`crate::capture`]) reads the capture back into the same visits. The two share no
//! code, so that each tests the other. Memory is bounded by the visits that are open at once.
//!
//! # Options (JSON)
//!
//! | field | meaning |
//! |---|---|
//! | `snaplen` | bytes kept of each packet |
//! | `servers` | list of `name`, `address` (`"ip:port"`), `protocol` (`"http"`, `"ajp"`, `"mysql"`, `"opaque"`) |
//! | `hosts` | object, caller that is no server → its IP address |
//! | `anyone` | IP address of callers without a name |
//! | `callers` | object, server → the only server that calls it: the caller of visits that have a parent and no caller |
//! | `pools` | list of `[caller, callee]`: these calls use kept connections, as do those by AJP and MySQL |

mod connections;
mod conversation;
mod frame;
mod losses;
mod message;
mod names;
mod options;
mod pcap;
pub mod report;
mod rows;
mod stay;
mod sweep;
mod talk;
#[cfg(test)]
mod tests;
mod wire;

use std::path::Path;

pub use options::Options;
use report::Report;
use sweep::Sweep;

use crate::error::Result;
use names::Names;

/// Written into the given folder: the capture, and temporarily the sorted rows.
pub const CAPTURE: &str = "capture.pcap";
const SORTED: &str = "stays.parquet";

/// TCP flags as on the wire.
mod flags {
    pub const FIN: u8 = 0x01;
    pub const SYN: u8 = 0x02;
    pub const RST: u8 = 0x04;
    pub const PSH: u8 = 0x08;
    pub const ACK: u8 = 0x10;
}

/// Writes `folder`/capture.pcap from the tables in `run`. `progress(rows done, rows in all)` is
/// called now and then and may stop the work; every row counts twice, for sorting and for writing.
pub fn export(
    run: &Path,
    folder: &Path,
    options: &Options,
    progress: &mut dyn FnMut(u64, u64) -> Result<()>,
) -> Result<Report> {
    let mut names = Names::default();
    let mut report = Report::default();
    let rows = stay::count(run)?;
    let scratch = folder.join(SORTED);
    progress(0, 2 * rows)?;
    stay::sort(run, &scratch, &mut names, &mut report, &mut |done| {
        progress(done, 2 * rows)
    })?;
    let mut sweep = Sweep::new(run, &folder.join(CAPTURE), options, names, report)?;
    sweep.all(stay::sorted(&scratch)?, &mut |done| {
        progress(rows + done, 2 * rows)
    })?;
    // It is no longer needed, and the folder is removed as well.
    let _ = std::fs::remove_file(&scratch);
    sweep.finish()
}
