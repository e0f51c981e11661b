//! Network namespaces known by a path, where another namespace may replace a removed one.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::sys;

/// The namespace at a path, as it was last entered.
pub struct Netns {
    path: PathBuf,
    /// None: it is gone. Its number is valid while the recorder holds something open in the
    /// namespace; later the kernel reuses it.
    number: Option<(u64, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Now {
    Same,
    Gone,
    /// Another one exists, or will at once: its file is created before it.
    Another,
}

impl Netns {
    /// Runs `work` in the namespace. What it opens there stays in the namespace, and keeps it
    /// alive.
    pub fn enter<T: Send>(
        path: &Path,
        work: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<(Netns, T)> {
        let file = File::open(path)?;
        let entered = Netns {
            path: path.to_owned(),
            number: Some(number(&file.metadata()?)),
        };
        Ok((entered, sys::in_namespace(&file, work)?))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the path leads to the namespace that was entered.
    pub fn now(&mut self) -> Now {
        let found = match fs::metadata(&self.path) {
            // A thread without the rights cannot look at the namespace of a process that has some.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => self.number,
            found => found.map(|found| number(&found)).ok(),
        };
        if found.is_some() && found == self.number {
            return Now::Same;
        }
        self.number = None;
        // A process has one namespace; another process with the same number is unrelated.
        match found {
            Some(_) if !self.path.starts_with("/proc") => Now::Another,
            _ => Now::Gone,
        }
    }
}

fn number(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn at(path: &Path) -> Netns {
        Netns {
            path: path.to_owned(),
            number: fs::metadata(path).map(|found| number(&found)).ok(),
        }
    }

    #[test]
    fn a_namespace_that_is_gone_is_an_error() {
        let gone = Netns::enter(Path::new("/run/netns/never-there"), || Ok(()));
        assert_eq!(gone.err().unwrap().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn what_comes_after_one_that_was_gone_is_another_even_by_its_number() {
        let path = std::env::temp_dir().join(format!("tailrace-netns-{}", std::process::id()));
        let other = path.with_extension("other");
        fs::write(&path, "").unwrap();
        let mut netns = at(&path);
        assert_eq!(netns.now(), Now::Same);
        fs::rename(&path, &other).unwrap();
        assert_eq!(netns.now(), Now::Gone);
        fs::rename(&other, &path).unwrap();
        assert_eq!(netns.now(), Now::Another);
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_process_has_no_other_one() {
        let mut own = at(Path::new("/proc/self/ns/net"));
        assert_eq!(own.now(), Now::Same);
        own.number = Some((0, 0));
        assert_eq!(own.now(), Now::Gone);
    }
}
