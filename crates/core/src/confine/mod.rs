//! Removes the rights of a process once it has opened what it needs, by means of Linux that need no
//! rights.
//! ```text
//! capabilities   the rights of root, for each thread       landlock   which folders may be written to
//! seccomp        which system calls are permitted             no_new_privs, so that no program restores rights
//! ```
//!
//! Each is used if the kernel has it. Call these before other threads begin: some affect only the
//! calling thread and its children.

pub mod capabilities;
mod landlock;
mod seccomp;

use std::io;
use std::path::PathBuf;

use rustix::thread::{CapabilitySet, Gid, Uid};

/// The decoding process runs as `nobody`, which exists on every Linux and owns no files.
const NOBODY: u32 = 65534;

/// Rights that reading and writing other users' files may need.
pub const NAMED: [(&str, CapabilitySet); 2] = [
    ("CAP_DAC_READ_SEARCH", CapabilitySet::DAC_READ_SEARCH),
    ("CAP_DAC_OVERRIDE", CapabilitySet::DAC_OVERRIDE),
];

/// For processes that read and explain files: no rights but `kept` (of [`NAMED`]), no new files
/// outside the folders `writable`, no sockets, no programs, and no other process.
pub fn to_folders(writable: &[PathBuf], kept: &[String]) -> io::Result<()> {
    let named = NAMED
        .iter()
        .filter(|(name, _)| kept.iter().any(|kept| kept == name));
    let kept = named.map(|(_, one)| *one).collect();
    capabilities::keep(kept, CapabilitySet::empty())?;
    landlock::restrict(landlock::WRITING, writable)?;
    seccomp::restrict()
}

/// Every capability, and nothing else.
pub fn give_up_rights() -> io::Result<()> {
    capabilities::keep(CapabilitySet::empty(), CapabilitySet::empty())
}

/// For the process that decodes packets from a socket: no files at all, and the rights of `nobody`.
pub fn to_what_is_open() -> io::Result<()> {
    // A process without these rights keeps its user, and loses the rest below.
    if capabilities::held().contains(CapabilitySet::SETUID | CapabilitySet::SETGID) {
        let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
        rustix::thread::set_thread_groups(&[])?;
        rustix::thread::set_thread_res_gid(group, group, group)?;
        rustix::thread::set_thread_res_uid(user, user, user)?;
    }
    give_up_rights()?;
    landlock::restrict(landlock::ALL, &[])?;
    seccomp::restrict()
}
