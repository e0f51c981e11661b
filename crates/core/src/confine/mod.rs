//! What a process may still do once it has opened what it needs: Linux' own means, which take no rights to use.
//!
//! ```text
//! capabilities   what root may do, thread by thread       landlock   which folders may be written to
//! seccomp        which system calls there are             no_new_privs, and no program gives anything back
//! ```
//! Each is used where the kernel has it. Call these before other threads begin: some are about the calling thread and
//! those that it makes.

pub mod capabilities;
mod landlock;
mod seccomp;

use std::io;
use std::path::PathBuf;

use rustix::thread::{CapabilitySet, Gid, Uid};

/// Whoever decodes needs no user of its own: `nobody` of every Linux, who owns nothing.
const NOBODY: u32 = 65534;

/// Rights that reading and writing other users' files may take.
pub const NAMED: [(&str, CapabilitySet); 2] = [
    ("CAP_DAC_READ_SEARCH", CapabilitySet::DAC_READ_SEARCH),
    ("CAP_DAC_OVERRIDE", CapabilitySet::DAC_OVERRIDE),
];

/// What reads and explains files: no rights but `kept` (of [`NAMED`]), no new files outside the folders `writable`, no
/// sockets, no programs, and no other process.
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

/// What decodes packets from a socket that it was given: no file at all, and the rights of nobody.
pub fn to_what_is_open() -> io::Result<()> {
    // A process without these rights stays who it is, and loses the rest below.
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
