//! What is sampled under one name: a network namespace, a control group, or both. Either may go
//! away and come back, as in a container that restarts.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::listeners::{Asker, Picked};
use super::mounts;
use super::namespaces::{Netns, Now};
use super::places::Places;
use super::probes::cgroup::Cgroup;
use super::probes::network::{QueueProbe, TcpProbe};
use super::probes::{Probe, Source};
use super::sys;

pub type Probes = Vec<Box<dyn Probe>>;

/// Opens the probes of a network namespace (None: the recorder's), and lists its addresses.
pub struct Network {
    pub name: String,
    pub place: u32,
    pub picked: Picked,
    pub places: Places,
}

impl Network {
    pub fn open(&self, netns: Option<&Path>) -> io::Result<(Option<Netns>, Probes, Vec<IpAddr>)> {
        let open = || {
            let netstat = Source::open("/proc/thread-self/net/netstat")?;
            Ok((netstat, Asker::new()?, sys::addresses()?))
        };
        let (netns, (netstat, asker, addresses)) = match netns {
            None => (None, open()?),
            Some(path) => {
                let (netns, opened) = Netns::enter(path, open)?;
                (Some(netns), opened)
            }
        };
        let own = netns.is_none();
        let queues = QueueProbe::new(asker, &self.name, &self.picked, own, self.places.clone());
        let tcp = TcpProbe::new(self.place, netstat, &self.name);
        Ok((netns, vec![Box::new(tcp), Box::new(queues)], addresses))
    }
}

/// The change of a namespace or a group since the last check.
pub enum Turn {
    Same,
    /// Its probes must be removed, because they would keep it alive.
    Gone,
    /// It exists again, and these probes sample it.
    Back(Probes),
}

pub struct Namespace {
    network: Network,
    netns: Netns,
    there: bool,
    /// It is not the first one; its addresses may be added after it.
    another: bool,
}

impl Namespace {
    pub fn open(network: Network, path: &Path) -> io::Result<(Namespace, Probes, Vec<IpAddr>)> {
        let (netns, probes, addresses) = network.open(Some(path))?;
        let netns = netns.ok_or(io::ErrorKind::NotFound)?;
        let opened = Namespace {
            network,
            netns,
            there: true,
            another: false,
        };
        Ok((opened, probes, addresses))
    }

    pub fn look(&mut self) -> Turn {
        match self.netns.now() {
            Now::Same => Turn::Same,
            _ if self.there => {
                self.there = false;
                Turn::Gone
            }
            Now::Gone => Turn::Same,
            Now::Another => self.take_up(),
        }
    }

    /// A namespace that is only half created cannot be entered yet.
    fn take_up(&mut self) -> Turn {
        let path = self.netns.path().to_owned();
        let Ok((Some(netns), probes, _)) = self.network.open(Some(&path)) else {
            return Turn::Same;
        };
        self.netns = netns;
        self.there = true;
        self.another = true;
        Turn::Back(probes)
    }

    /// The current addresses of a namespace that has come back.
    pub fn new_addresses(&self) -> Vec<IpAddr> {
        if !self.another || !self.there {
            return Vec::new();
        }
        let found = Netns::enter(self.netns.path(), sys::addresses);
        found.map_or_else(|_| Vec::new(), |(_, addresses)| addresses)
    }

    pub fn node(&self) -> &str {
        &self.network.name
    }

    pub fn what(&self) -> String {
        let path = self.netns.path().display();
        format!("the network namespace {path} of {}", self.network.name)
    }
}

pub struct Group {
    node: String,
    place: u32,
    path: PathBuf,
    there: bool,
    /// Its state at the last check, if it is gone.
    found: Option<Cgroup>,
}

impl Group {
    pub fn open(
        node: &str,
        place: u32,
        path: &Path,
        mountinfo: &str,
    ) -> io::Result<(Group, Probes)> {
        let found = Cgroup::find(path, mountinfo)?;
        let probes = found.probes(place)?;
        let opened = Group {
            node: node.to_owned(),
            place,
            path: path.to_owned(),
            there: true,
            found: Some(found),
        };
        Ok((opened, probes))
    }

    /// One of its files reported that it is gone. Returns whether that is new.
    pub fn is_gone(&mut self) -> bool {
        self.found = None;
        std::mem::replace(&mut self.there, false)
    }

    pub fn look(&mut self) -> Turn {
        if self.there {
            return Turn::Same;
        }
        let mountinfo = mounts::mountinfo();
        let now = Cgroup::find(&self.path, &mountinfo).ok();
        let before = std::mem::replace(&mut self.found, now);
        // It is created in one hierarchy after the other: it is complete only if nothing has
        // changed since the last check.
        match &self.found {
            Some(found) if before.as_ref() == Some(found) => match found.probes(self.place) {
                Ok(probes) => {
                    self.there = true;
                    Turn::Back(probes)
                }
                Err(_) => Turn::Same,
            },
            _ => Turn::Same,
        }
    }

    /// CPUs that it may use.
    pub fn cpus(&self) -> Option<BTreeSet<u32>> {
        self.found.as_ref()?.cpus()
    }

    pub fn node(&self) -> &str {
        &self.node
    }

    pub fn what(&self) -> String {
        format!("the control group {} of {}", self.path.display(), self.node)
    }
}
