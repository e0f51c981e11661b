//! Standard input, which may be silent for hours. Meanwhile it asks whether the user has ended the work.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::event::{poll, PollFd, PollFlags, Timespec};

use crate::error::{Error, Result};

/// A signal ends the wait at once; this is for one that came just before it.
const SILENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};

static IS_ENDED: OnceLock<fn() -> bool> = OnceLock::new();

/// What tells whether the user has ended the work; it is called on the thread that reads. Without it, reading waits.
pub fn ask(is_ended: fn() -> bool) {
    let _ = IS_ENDED.set(is_ended);
}

pub struct Standard {
    input: File,
    stopped: Arc<AtomicBool>,
}

impl Standard {
    /// `stopped` becomes true when the user ends the work; the read then fails.
    pub fn new(stopped: Arc<AtomicBool>) -> Result<Standard> {
        let input = io::stdin().as_fd().try_clone_to_owned();
        let input = input.map_err(|source| Error::Io {
            path: Path::new("-").to_owned(),
            source,
        })?;
        Ok(Standard {
            input: File::from(input),
            stopped,
        })
    }
}

impl Read for Standard {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut input = [PollFd::new(&self.input, PollFlags::IN)];
            let is_silent = matches!(
                poll(&mut input, Some(&SILENCE)),
                Ok(0) | Err(rustix::io::Errno::INTR)
            );
            if !is_silent {
                return self.input.read(buffer);
            }
            if IS_ENDED.get().is_some_and(|is_ended| is_ended()) {
                self.stopped.store(true, Ordering::Relaxed);
                return Err(io::Error::other("the user ended the work"));
            }
        }
    }
}
