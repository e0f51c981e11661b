//! What to record, as JSON.
//!
//! | field | meaning |
//! |---|---|
//! | `interval_ns` | between two samples, 5 ms to 10 s |
//! | `epoch_ns` | the offset of the record's times from CLOCK_MONOTONIC; null: that of the system clock at the begin |
//! | `duration_ns` | the recording ends by itself after this time; null: when it is stopped |
//! | `keep_ns` | keep only this much of the past (a ring); null: all |
//! | `nodes` | list of `{"name", "netns", "cgroup", "found"}`; paths, null where there is none |
//! | `containers` | identifier of a container → the name of servers in it |
//! | `processes` | list of `{"name", "pid"}`: CPU time of these |
//! | `every_process` | sample the CPU time of all processes, and name servers after those that listen |
//! | `ports` | only listeners on these ports are recorded; empty: all |
//! | `leave_out` | list of `"ip:port"`: listening sockets of the recorder itself, which are not recorded; the address is as the socket has it, such as `0.0.0.0` |
//! | `keep_dac_override` | its folder is inside another user's: keep the right to write there, for the caller |
//! | `packets` | null, or see [`Packets`]; its `decode` are the options of [`crate::capture::decode`] |

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};

use super::listeners::Picked;
use super::packets::{INTERFACES_MAX, PORTS_MAX};
use crate::capture::decode::{self, Addresses};
use crate::error::{Error, Result};

/// A shorter interval would make sampling as costly as what it looks for; a longer one cannot show
/// a stall.
pub const INTERVAL_MIN: i64 = 5_000_000;
pub const INTERVAL_MAX: i64 = 10_000_000_000;

/// The place of samples of the host as a whole.
pub const HOST: &str = "host";

#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    pub interval_ns: i64,
    pub epoch_ns: Option<i64>,
    pub duration_ns: Option<i64>,
    pub keep_ns: Option<i64>,
    pub nodes: Vec<Node>,
    pub containers: BTreeMap<String, String>,
    pub processes: Vec<Process>,
    pub every_process: bool,
    pub ports: Vec<u16>,
    pub leave_out: Vec<SocketAddr>,
    pub keep_dac_override: bool,
    pub packets: Option<Packets>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            interval_ns: 50_000_000,
            epoch_ns: None,
            duration_ns: None,
            keep_ns: None,
            nodes: Vec::new(),
            containers: BTreeMap::new(),
            processes: Vec::new(),
            every_process: false,
            ports: Vec::new(),
            leave_out: Vec::new(),
            keep_dac_override: false,
            packets: None,
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    pub name: String,
    #[serde(default)]
    pub netns: Option<PathBuf>,
    #[serde(default)]
    pub cgroup: Option<PathBuf>,
    /// The user has not named it: it may be gone when the recording begins.
    #[serde(default)]
    pub found: bool,
}

/// Which packets are recorded, and whether they are decoded or kept.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Packets {
    /// Interfaces, all in one network namespace; empty: every interface of the recorder's.
    #[serde(default)]
    pub interfaces: Vec<Interface>,
    /// Only packets with one of these ports at either end; empty: all TCP.
    #[serde(default)]
    pub ports: Vec<u16>,
    /// Also packets for other hosts: those that pass a bridge or come to a mirror port.
    #[serde(default)]
    pub promiscuous: bool,
    /// Bytes kept of each packet, from its IP header on.
    pub snap: u32,
    /// Memory of the ring.
    pub ring_bytes: usize,
    /// Keep the packets instead of decoding them.
    #[serde(default)]
    pub raw: bool,
    /// The command that becomes the process that decodes them: it runs [`super::packets::decoder::run`].
    #[serde(default)]
    pub decoder: Vec<String>,
    #[serde(default)]
    pub decode: decode::Options,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Interface {
    pub name: String,
    /// The network namespace that it is in; None: the recorder's.
    #[serde(default)]
    pub netns: Option<PathBuf>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    pub name: String,
    pub pid: i32,
}

impl Options {
    pub fn picked(&self) -> Picked {
        Picked {
            ports: self.ports.clone(),
            leave_out: self.leave_out.clone(),
        }
    }

    pub fn check(&self) -> Result<()> {
        let interval = self.interval_ns;
        if !(INTERVAL_MIN..=INTERVAL_MAX).contains(&interval) {
            return Err(Error::Options(format!(
                "a sampling interval of {interval} ns: it must be 5 ms to 10 s"
            )));
        }
        if let Some(packets) = &self.packets {
            packets.check()?;
        }
        let names = self.nodes.iter().map(|node| node.name.as_str());
        let mut names: Vec<&str> = names.chain([HOST]).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(Error::Options(format!(
                "two nodes are called {}; give them different names ({HOST} is this host)",
                pair[0]
            ))),
            None => Ok(()),
        }
    }
}

impl Packets {
    /// The namespace whose packets they are; None: the recorder's.
    pub fn netns(&self) -> Option<&Path> {
        self.interfaces
            .first()
            .and_then(|first| first.netns.as_deref())
    }

    /// Those of the servers with several ports of which the user has named none, nor another one like them.
    pub fn unnamed(
        &self,
        found: &[(String, Vec<SocketAddr>)],
        together: BTreeMap<String, BTreeMap<String, String>>,
    ) -> BTreeMap<String, BTreeMap<String, String>> {
        let given = self.given();
        let is_named = |name: &String| {
            let its = found.iter().filter(|(other, _)| other == name);
            let mut addresses = its.flat_map(|(_, addresses)| addresses);
            self.decode.servers.contains_key(name)
                || addresses.any(|address| given.contains(address))
        };
        together
            .into_iter()
            .filter(|(name, ports)| !is_named(name) && !ports.keys().any(is_named))
            .collect()
    }

    /// The addresses to which the user has given names.
    fn given(&self) -> FxHashSet<SocketAddr> {
        let given = self.decode.servers.values().flat_map(Addresses::all);
        given.filter_map(|address| address.parse().ok()).collect()
    }

    /// Gives servers these names, except those that the user has named; returns the added names.
    pub fn name_servers(
        &mut self,
        found: Vec<(String, Vec<SocketAddr>)>,
    ) -> BTreeMap<String, Vec<String>> {
        let given = self.given();
        let mut added: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, addresses) in found {
            for address in addresses.iter().filter(|address| !given.contains(address)) {
                let name = match self.decode.servers.contains_key(&name) {
                    true => format!("{name}:{}", address.port()),
                    false => name.clone(),
                };
                added.entry(name).or_default().push(address.to_string());
            }
        }
        let many = added
            .iter()
            .map(|(name, all)| (name.clone(), Addresses::Many(all.clone())));
        self.decode.servers.extend(many);
        added
    }

    fn check(&self) -> Result<()> {
        let wrong = |sentence: String| Err(Error::Options(sentence));
        if self.ports.len() > PORTS_MAX || self.interfaces.len() > INTERFACES_MAX {
            return wrong(format!(
                "packets of {} ports on {} interfaces: at most {PORTS_MAX} and {INTERFACES_MAX} can be picked; \
                 leave one out to record all",
                self.ports.len(),
                self.interfaces.len()
            ));
        }
        let first = self.interfaces.first();
        let elsewhere = first.and_then(|first| {
            let mut others = self.interfaces.iter();
            others.find(|other| other.netns != first.netns)
        });
        match elsewhere {
            Some(other) => wrong(format!(
                "interface {} is in another network namespace than the first; record where all packets pass, such as \
                 at the bridge",
                other.name
            )),
            None => Ok(()),
        }
    }
}
