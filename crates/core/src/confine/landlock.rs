//! Landlock restricts the files that a thread and its children may open (Documentation/userspace-api/landlock.rst).
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

// linux/landlock.h, which names rights by the version that introduced them
const VERSION: libc::c_ulong = 1;
const BENEATH: libc::c_int = 1;
const EXECUTE: u64 = 1 << 0;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
/// Removing and making, by kind of file.
const REMOVE_DIR_TO_MAKE_SYM: u64 = 0x1ff0;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;

/// Everything that changes what lies in a folder.
pub const WRITING: u64 = WRITE_FILE | REMOVE_DIR_TO_MAKE_SYM | REFER | TRUNCATE;
pub const ALL: u64 = WRITING | EXECUTE | READ_FILE | READ_DIR;

/// The right to write to a terminal, `/dev/null` and the like.
const DEVICES: &str = "/dev";
const IN_DEVICES: u64 = WRITE_FILE | TRUNCATE;

#[repr(C)]
struct Ruleset {
    handled: u64,
}

#[repr(C, packed)]
struct Beneath {
    allowed: u64,
    folder: RawFd,
}

/// Removes the rights `handled` everywhere except below `folders`. A kernel without Landlock changes nothing.
pub fn restrict(handled: u64, folders: &[PathBuf]) -> io::Result<()> {
    let Some(known) = known_rights() else {
        return Ok(());
    };
    let rules = Ruleset {
        handled: handled & known,
    };
    // SAFETY: the kernel reads a live structure of the given size, and returns a new descriptor.
    let ruleset = unsafe {
        let size = size_of::<Ruleset>();
        let fd = checked(libc::syscall(
            libc::SYS_landlock_create_ruleset,
            &rules,
            size,
            0,
        ))?;
        OwnedFd::from_raw_fd(fd as RawFd)
    };
    for folder in folders {
        allow(&ruleset, &named(folder)?, rules.handled)?;
    }
    if let (false, Ok(devices)) = (folders.is_empty(), named(Path::new(DEVICES))) {
        allow(&ruleset, &devices, IN_DEVICES & rules.handled)?;
    }
    rustix::thread::set_no_new_privs(true)?;
    // SAFETY: a descriptor of ours, and no flags.
    checked(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) })
        .map(drop)
}

/// Opens a folder even if it is not readable.
fn named(folder: &Path) -> io::Result<File> {
    File::options()
        .read(true)
        .custom_flags(libc::O_PATH)
        .open(folder)
}

fn allow(ruleset: &OwnedFd, folder: &File, allowed: u64) -> io::Result<()> {
    let rule = Beneath {
        allowed,
        folder: folder.as_raw_fd(),
    };
    // SAFETY: the kernel reads a live structure of the given kind.
    let added = unsafe {
        let set = ruleset.as_raw_fd();
        libc::syscall(libc::SYS_landlock_add_rule, set, BENEATH, &rule, 0)
    };
    checked(added).map(drop)
}

/// Rights that this kernel can restrict; None: it has no Landlock, or it is switched off.
fn known_rights() -> Option<u64> {
    // SAFETY: asks for the version, with no structure.
    let version = unsafe {
        let none = std::ptr::null::<Ruleset>();
        libc::syscall(libc::SYS_landlock_create_ruleset, none, 0, VERSION)
    };
    match version {
        ..=0 => None,
        1 => Some(ALL & !REFER & !TRUNCATE),
        2 => Some(ALL & !TRUNCATE),
        _ => Some(ALL),
    }
}

fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
