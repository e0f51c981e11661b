//! The state of a long reading, beside the tables that it writes. A reading that was killed goes on from there.
//! ```text
//! packets ──▶ those of saved segments: counted and compared only ──▶ the rest: decoded
//!                                 └─ they differ: the input is another one, and the reading starts over
//! out/reading.saved     the checksum of the rest, then: the place, the state, what is in the tables
//! out/<table>.….tmp     the rows of finished segments; the state has the length and the checksum of each file
//! ```
//!
//! Both stay when the tables are complete, until the caller has all that it wants (dataset/unfinished.py): a reading that
//! is killed while it merges, or later, goes on after its last segment.
//!
//! Saved state holds what clients and servers sent, so only its user may read it. It is for the same build of Tailrace
//! only, so the reader of captures keeps the version beside it.

mod words;

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use flate2::Crc;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
pub use words::{array, fixed, fixed_counts, fixed_list, fixed_or_none, Fixed};

const SAVED: &str = "reading.saved";
const SAVING: &str = "reading.saving";
/// The end of the name of a file that is not complete: see [`crate::whole`].
const PARTIAL: &str = ".tmp";
const PIECE: usize = 1 << 18;
const SUM: usize = 4;

pub fn bytes<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    postcard::to_allocvec(value).map_err(|error| Error::Saved(error.to_string()))
}

pub fn value<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    postcard::from_bytes(bytes).map_err(|error| Error::Saved(error.to_string()))
}

/// Writes the state of a reading, completely or not at all.
pub fn save<T: Serialize>(out: &Path, state: &T) -> Result<()> {
    let (target, partial) = (out.join(SAVED), out.join(SAVING));
    #[cfg(test)]
    crate::whole::killing::step()?;
    let failed = |source| Error::Io {
        path: target.clone(),
        source,
    };
    let mut mine = OpenOptions::new();
    let file = mine.write(true).create(true).truncate(true).mode(0o600);
    let file = file.open(&partial).map_err(failed)?;
    let mut file = BufWriter::with_capacity(PIECE, file);
    file.write_all(&[0; SUM]).map_err(failed)?;
    let mut to = Summed {
        to: file,
        sum: Crc::new(),
        failed: None,
    };
    if let Err(error) = postcard::to_io(state, &mut to) {
        return Err(match to.failed {
            Some(source) => failed(source),
            None => Error::Saved(error.to_string()),
        });
    }
    let sum = to.sum.sum().to_le_bytes();
    let written = to.to.into_inner().map_err(|error| error.into_error());
    let finished = written.and_then(|file| {
        file.write_all_at(&sum, 0)?;
        file.sync_all()
    });
    finished.map_err(failed)?;
    #[cfg(test)]
    crate::whole::killing::step()?;
    fs::rename(&partial, &target).map_err(failed)
}

/// What an earlier reading saved in this folder; None: nothing.
pub fn earlier(out: &Path) -> Result<Option<Vec<u8>>> {
    let path = out.join(SAVED);
    let mut bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::Io { path, source }),
    };
    let content = bytes.split_off(SUM.min(bytes.len()));
    let mut sum = Crc::new();
    sum.update(&content);
    match bytes == sum.sum().to_le_bytes() {
        true => Ok(Some(content)),
        false => Err(Error::Saved("its file is damaged".to_owned())),
    }
}

/// Removes what was to become this file when the earlier reading was killed, except what is kept.
pub fn tidy(target: &Path, kept: &[Kept]) -> Result<()> {
    let out = target.parent().unwrap_or(Path::new("."));
    let file = target.file_name().unwrap_or_default().to_string_lossy();
    let unfinished = |name: &str| {
        let partial = name
            .strip_prefix(&*file)
            .is_some_and(|end| end.ends_with(PARTIAL));
        partial && !kept.iter().any(|kept| kept.name == name)
    };
    remove(out, unfinished)
}

/// The saved state is of no use any more; nor are these files, and what was to become one of them.
pub fn forget(out: &Path, files: &[&str]) -> Result<()> {
    let useless = |name: &str| {
        let of_one = |file: &&str| name.strip_prefix(file).is_some_and(is_partial);
        name == SAVED || name == SAVING || files.iter().any(of_one)
    };
    remove(out, useless)
}

fn remove(folder: &Path, which: impl Fn(&str) -> bool) -> Result<()> {
    let failed = |source| Error::Io {
        path: folder.to_owned(),
        source,
    };
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_name().to_str().is_some_and(&which) {
            fs::remove_file(entry.path()).map_err(failed)?;
        }
    }
    Ok(())
}

/// Of the end of a file's name: it is complete, or as [`crate::whole`] names it until then.
fn is_partial(end: &str) -> bool {
    end.is_empty() || end.ends_with(PARTIAL)
}

/// A finished file beside the saved state.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Kept {
    name: String,
    len: u64,
    sum: u32,
}

impl Kept {
    /// The file is on the disk after this.
    pub fn of(path: &Path) -> Result<Kept> {
        let failed = |source| Error::Io {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        let (len, sum) = summed(file).map_err(failed)?;
        let name = path.file_name().unwrap_or_default();
        Ok(Kept {
            name: name.to_string_lossy().into_owned(),
            len,
            sum,
        })
    }

    /// Where it is, if it is as it was.
    pub fn path(&self, out: &Path) -> Result<PathBuf> {
        let wrong = |what| Error::Saved(format!("{} {what}", self.name));
        if Path::new(&self.name).file_name() != Some(self.name.as_ref()) {
            return Err(wrong("lies elsewhere"));
        }
        let path = out.join(&self.name);
        let found = File::open(&path).and_then(summed);
        match found {
            Ok(found) if found == (self.len, self.sum) => Ok(path),
            Ok(_) => Err(wrong("is damaged")),
            Err(_) => Err(wrong("is missing")),
        }
    }
}

fn summed(mut file: File) -> std::io::Result<(u64, u32)> {
    let (mut sum, mut len, mut piece) = (Crc::new(), 0, vec![0; PIECE]);
    loop {
        let n = file.read(&mut piece)?;
        if n == 0 {
            return Ok((len, sum.sum()));
        }
        len += n as u64;
        sum.update(piece.get(..n).unwrap_or(&[]));
    }
}

struct Summed<W: Write> {
    to: W,
    sum: Crc,
    /// Why it cannot be written; the serialiser does not hand it on.
    failed: Option<std::io::Error>,
}

impl<W: Write> Summed<W> {
    fn kept<T>(&mut self, done: std::io::Result<T>) -> std::io::Result<T> {
        if let Err(error) = &done {
            if error.kind() != std::io::ErrorKind::Interrupted {
                let same = error.raw_os_error().map(std::io::Error::from_raw_os_error);
                self.failed = same.or(Some(error.kind().into()));
            }
        }
        done
    }
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.to.write(bytes);
        let n = self.kept(written)?;
        self.sum.update(bytes.get(..n).unwrap_or(&[]));
        Ok(n)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let flushed = self.to.flush();
        self.kept(flushed)
    }
}
