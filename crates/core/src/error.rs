//! The error type of the engine: what was found, where, and what to do.

use std::fmt;
use std::path::PathBuf;

#[derive(Debug)]
pub enum Error {
    /// The operating system reported an error for `path`.
    Io {
        path: PathBuf,
        source: std::io::Error,
    },
    /// `path` has the wrong content; `offset` is the byte where it was detected.
    Format {
        path: PathBuf,
        offset: u64,
        found: String,
        hint: &'static str,
    },
    /// A Parquet or Arrow table could not be read or written.
    Table { path: PathBuf, message: String },
    /// An option is wrong; the sentence names it.
    Options(String),
    /// What an earlier reading saved cannot be used, for this reason.
    Saved(String),
    /// The caller asked to stop (Ctrl-C).
    Interrupted,
}

pub type Result<T> = std::result::Result<T, Error>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { path, source } => write!(f, "{}: {source}", path.display()),
            Error::Format {
                path,
                offset,
                found,
                hint,
            } => {
                write!(f, "{}: at byte {offset}: {found}; {hint}", path.display())
            }
            Error::Table { path, message } => write!(f, "{}: {message}", path.display()),
            Error::Saved(reason) => {
                write!(f, "what an earlier reading saved cannot be used: {reason}")
            }
            Error::Options(message) => f.write_str(message),
            Error::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
