//! What the recording says of itself: `recording.json`, written again every second, so that it is true, but for the last
//! second, whenever the recorder is killed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::error::{Error, Result};

pub const FILE: &str = "recording.json";

#[derive(Clone, Debug, Default, Serialize)]
pub struct State {
    pub format: u32,
    /// The recorder came to its own end; otherwise it was killed, and what came after `end` is lost.
    pub closed: bool,
    /// First and last moment that closed segments hold.
    pub begin: i64,
    pub end: i64,
    pub interval_ns: i64,
    pub nodes: Vec<NodeState>,
    /// What servers are called after their processes, and their addresses.
    pub servers: BTreeMap<String, Vec<String>>,
    /// Addresses of the host whose packets are recorded.
    pub same_host: Vec<IpAddr>,
    /// CPUs that a place may use: as of when it was first sampled, all of its processes together.
    pub cpus: BTreeMap<String, BTreeSet<u32>>,
    pub sampling: Sampling,
    /// What was decoded of packets ([`crate::capture::decode::Report`]); None where none were recorded.
    pub packets: Option<crate::capture::decode::Report>,
    pub lost: BTreeMap<String, u64>,
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct NodeState {
    pub name: String,
    pub addresses: Vec<String>,
    pub cores: u64,
}

/// How well the samples kept their times.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Sampling {
    pub rounds: u64,
    /// Rounds left out because the one before was not done or the host did not let the recorder run.
    pub missed: u64,
    /// How long after its time a round began.
    pub late_ns_p99: i64,
    pub late_ns_max: i64,
    /// CPU time of the whole recorder.
    pub cpu_ns: i64,
}

/// The state, shared by the threads of the recorder.
#[derive(Default)]
pub struct Shared(Mutex<State>);

impl Shared {
    pub fn new(state: State) -> Shared {
        Shared(Mutex::new(state))
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn lose(&self, what: &str, count: u64) {
        if count > 0 {
            *self.lock().lost.entry(what.to_owned()).or_insert(0) += count;
        }
    }

    /// Of a place, or of one more process of it; None: it is not known.
    pub fn may_use(&self, place: &str, cpus: Option<BTreeSet<u32>>) {
        if let Some(cpus) = cpus {
            let mut state = self.lock();
            state.cpus.entry(place.to_owned()).or_default().extend(cpus);
        }
    }

    pub fn note(&self, sentence: String) {
        self.lock().notes.push(sentence);
    }

    /// Writes the state into `folder`; the old one stays until the new one is whole.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let text = serde_json::to_vec_pretty(&*self.lock());
        let path = folder.join(FILE);
        let failed = |source: std::io::Error| Error::Io {
            path: path.clone(),
            source,
        };
        let text = text.map_err(|error| failed(error.into()))?;
        let partial = folder.join(format!("{FILE}.tmp"));
        std::fs::write(&partial, text).map_err(failed)?;
        std::fs::rename(&partial, &path).map_err(failed)
    }
}
