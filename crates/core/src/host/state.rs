//! The state of the recording: `recording.json`, written every second. If the recorder is killed,
//! it is correct except for the last second.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fs, io};

use serde::Serialize;

use super::sys;
use crate::error::{Error, Result};
use crate::whole;

pub const FILE: &str = "recording.json";

#[derive(Clone, Debug, Default, Serialize)]
pub struct State {
    pub format: u32,
    /// The recorder ended in order; otherwise it was killed, and everything after `end` is lost.
    pub closed: bool,
    /// First and last moment that closed segments hold.
    pub begin: i64,
    pub end: i64,
    pub interval_ns: i64,
    pub nodes: Vec<NodeState>,
    /// Names of servers from their processes, and their addresses.
    pub servers: BTreeMap<String, Vec<String>>,
    /// Those of them that are one server: its name → their names → the places of their samples.
    pub together: BTreeMap<String, BTreeMap<String, String>>,
    /// Addresses of the host whose packets are recorded.
    pub same_host: Vec<IpAddr>,
    /// CPUs that a place may use: as of its first sample, for all of its processes together.
    pub cpus: BTreeMap<String, BTreeSet<u32>>,
    pub sampling: Sampling,
    /// What was decoded of packets ([`crate::capture::decode::Report`]); None where none were recorded.
    pub packets: Option<serde_json::Value>,
    pub lost: BTreeMap<String, u64>,
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct NodeState {
    pub name: String,
    pub addresses: Vec<String>,
    pub cores: u64,
}

/// How punctual the samples were.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Sampling {
    pub rounds: u64,
    /// Rounds left out because the previous one was not done or the host did not schedule the
    /// recorder.
    pub missed: u64,
    /// How long after its time a part of a round began.
    pub late_ns_p99: i64,
    pub late_ns_max: i64,
    /// CPU time of the whole recorder.
    pub cpu_ns: i64,
}

/// The state, shared by the threads of the recorder.
#[derive(Default)]
pub struct Shared {
    state: Mutex<State>,
    decoding_ns: AtomicI64,
}

impl Shared {
    pub fn new(state: State) -> Shared {
        Shared {
            state: Mutex::new(state),
            ..Shared::default()
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// CPU time of the processes that decode.
    pub fn decoding_used(&self, ns: i64) {
        self.decoding_ns.store(ns, Ordering::Relaxed);
    }

    pub fn decoding_ns(&self) -> i64 {
        self.decoding_ns.load(Ordering::Relaxed)
    }

    /// CPU time of all of the recorder.
    pub fn cpu_ns(&self) -> i64 {
        sys::own_cpu_ns() + self.decoding_ns()
    }

    pub fn lose(&self, what: &str, count: u64) {
        if count > 0 {
            *self.lock().lost.entry(what.to_owned()).or_insert(0) += count;
        }
    }

    /// CPUs of a place, or of one more process of it; None: unknown.
    pub fn may_use(&self, place: &str, cpus: Option<BTreeSet<u32>>) {
        if let Some(cpus) = cpus {
            let mut state = self.lock();
            state.cpus.entry(place.to_owned()).or_default().extend(cpus);
        }
    }

    /// Further addresses of a node.
    pub fn has(&self, node: &str, addresses: &[IpAddr]) {
        let mut state = self.lock();
        let Some(node) = state.nodes.iter_mut().find(|known| known.name == node) else {
            return;
        };
        for address in addresses.iter().map(ToString::to_string) {
            if !node.addresses.contains(&address) {
                node.addresses.push(address);
            }
        }
    }

    pub fn note(&self, sentence: String) {
        self.lock().notes.push(sentence);
    }

    /// Writes the state into `folder`. The old one stays until the new one is complete. If the disk
    /// is full, it is overwritten in place, because it holds what was lost.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let text = serde_json::to_vec_pretty(&*self.lock());
        let path = folder.join(FILE);
        let text = text.map_err(|source| Error::Io {
            path: path.clone(),
            source: source.into(),
        })?;
        match whole::write(&path, &text, &[]) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::StorageFull => {
                over(&path, &text).map_err(|_| Error::Io { path, source })
            }
            replaced => replaced,
        }
    }
}

/// Writes into the existing size of a file.
fn over(path: &Path, text: &[u8]) -> io::Result<()> {
    const BLOCK: u64 = 512;
    let mut options = fs::OpenOptions::new();
    let file = options
        .write(true)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)?;
    let length = text.len() as u64;
    if file.metadata()?.blocks() * BLOCK < length {
        return Err(io::ErrorKind::StorageFull.into());
    }
    file.write_all_at(text, 0)?;
    file.set_len(length)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_over_within_its_room() {
        let path = std::env::temp_dir().join(format!("tailrace-over-{}", std::process::id()));
        fs::write(&path, "what was there before").unwrap();
        over(&path, b"what is now").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"what is now");
        assert!(over(&path, &vec![0; 1 << 20]).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"what is now");
        fs::remove_file(&path).unwrap();
    }
}
