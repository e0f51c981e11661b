//! Writing files completely or not at all, and never through another user's link. Each file is new,
//! has an unpredictable name, and then replaces the target. A symbolic link of that name is
//! replaced; the file that it points to stays unchanged.

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// A file is locked only briefly, while it is written to.
const PIECE: usize = 128 << 10;

/// A file with another name until it is complete; removed when given up.
#[derive(Debug)]
pub struct Partial {
    pub path: PathBuf,
    keep: bool,
}

impl Partial {
    /// A new file beside `target`, as `<name>.<random>.tmp`.
    pub fn create(target: &Path) -> Result<(Self, File)> {
        let mut name = target.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".{:016x}.tmp", unforeseen()));
        let path = target.with_file_name(name);
        #[cfg(test)]
        killing::step()?;
        let file = create_new(&path)?;
        Ok((Partial { path, keep: false }, file))
    }

    /// A file that an earlier process began.
    pub fn of(path: PathBuf) -> Self {
        Partial { path, keep: true }
    }

    /// It stays when it is given up.
    pub fn keep(&mut self) {
        self.keep = true;
    }

    /// Gives the file its name.
    pub fn publish(mut self, target: &Path) -> Result<()> {
        #[cfg(test)]
        killing::step()?;
        std::fs::rename(&self.path, target).map_err(|source| Error::Io {
            path: target.to_path_buf(),
            source,
        })?;
        self.keep = true;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        #[cfg(test)]
        if killing::killed() {
            return;
        }
        if !self.keep {
            // The error cannot be reported here; the name shows that the file is incomplete.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Writes a file that gets its name only when it is complete.
pub fn write(target: &Path, head: &[u8], rest: &[u8]) -> Result<()> {
    let (partial, mut file) = Partial::create(target)?;
    let written = file.write_all(head).and_then(|()| {
        let mut pieces = rest.chunks(PIECE);
        pieces.try_for_each(|piece| file.write_all(piece))
    });
    written.map_err(|source| Error::Io {
        path: target.to_path_buf(),
        source,
    })?;
    partial.publish(target)
}

/// A new file in a folder that only its writer knows; never the target of a link.
pub fn create_new(path: &Path) -> Result<File> {
    let made = OpenOptions::new().write(true).create_new(true).open(path);
    made.map_err(|source| Error::Io {
        path: path.to_path_buf(),
        source,
    })
}

/// The keys of std's hashes come from the operating system's random numbers, once for each thread,
/// and each key is different.
fn unforeseen() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// A test kills the work of its thread before any step that changes which files there are. A process that is killed
/// does nothing after that, so its files stay as they are.
#[cfg(test)]
pub mod killing {
    use crate::error::{Error, Result};
    use std::cell::Cell;

    thread_local! {
        static STEPS_LEFT: Cell<Option<u32>> = const { Cell::new(None) };
    }

    /// Does `work` and kills it after so many steps.
    pub fn after<T>(steps: u32, work: impl FnOnce() -> T) -> T {
        STEPS_LEFT.set(Some(steps));
        let done = work();
        STEPS_LEFT.set(None);
        done
    }

    pub(super) fn killed() -> bool {
        STEPS_LEFT.get() == Some(0)
    }

    pub fn step() -> Result<()> {
        if killed() {
            return Err(Error::Interrupted);
        }
        STEPS_LEFT.set(STEPS_LEFT.get().map(|left| left - 1));
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_replaced_and_what_it_leads_to_stays() {
        let name = format!("tailrace-whole-{:016x}", unforeseen());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).unwrap();
        let (theirs, target) = (folder.join("theirs"), folder.join("table"));
        std::fs::write(&theirs, "theirs").unwrap();
        std::os::unix::fs::symlink(&theirs, &target).unwrap();
        let (partial, mut file) = Partial::create(&target).unwrap();
        file.write_all(b"ours").unwrap();
        partial.publish(&target).unwrap();
        assert_eq!(std::fs::read(&theirs).unwrap(), b"theirs");
        assert_eq!(std::fs::read(&target).unwrap(), b"ours");
        assert!(create_new(&target).is_err());
        drop(Partial::create(&target).unwrap());
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
