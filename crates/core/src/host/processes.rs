//! Finds the processes and their places. Processes that hold a listening socket belong to its
//! server, with their children of the same name; the others are grouped by name, and kernel threads
//! are one group.
//!
//! A check lists `/proc` and reads the new processes. A low-priority thread does it, never the
//! sampling one.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};

use super::containers;
use super::formats::process;
use super::listeners::{Asker, Listener, Picked};
use super::namespaces::{Netns, Now};
use super::sys;
use super::together::{self, Place};
use super::unix_sockets::UnixSockets;

/// The parent of all kernel threads, and their name here.
const KTHREADD: (i32, &str) = (2, "kthreadd");
/// It may hold sockets for servers that it starts on demand.
pub const INIT: i32 = 1;
const KERNEL: &str = "kernel threads";

/// The least time between two checks. On a host with so many processes that a check takes long, it
/// is five hundred times the length of a check, so a check takes no more than 0.2 % of a core.
const PAUSE_NS: i64 = 1_000_000_000;
const PAUSE_MAX_NS: i64 = 5_000_000_000;
const PAUSE_TIMES: i64 = 500;

/// The time after which a process is read again, because a fork has its parent's name until exec.
const YOUNG: u8 = 2;

/// The place that a process belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The place of its listening ports (`NODE:PORT`); else a place for its name.
    pub places: Vec<String>,
    pub listens: bool,
}

impl Owner {
    fn nobody(place: String) -> Owner {
        Owner {
            places: vec![place],
            listens: false,
        }
    }
}

/// A process that is new, or belongs to another place than assumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub pid: i32,
    pub parent: i32,
    pub name: String,
    pub owner: Owner,
    /// It began after the previous check, at this time of the steady clock, or that check was at this
    /// time; None: it was there before, or this is the first check.
    pub since: Option<i64>,
}

/// A namespace in which listeners are read.
pub struct Namespace {
    pub(super) node: String,
    /// None: the recorder's.
    netns: Option<Netns>,
    /// None: the namespace is gone, and the recorder must not keep it alive.
    asker: Option<Asker>,
    pub(super) addresses: Vec<IpAddr>,
}

impl Namespace {
    /// The namespace of the path; None: the recorder's.
    pub fn open(node: &str, netns: Option<&Path>) -> io::Result<Namespace> {
        let open = || Ok((Asker::new()?, sys::addresses()?));
        let (netns, (asker, addresses)) = match netns {
            None => (None, open()?),
            Some(path) => {
                let (netns, opened) = Netns::enter(path, open)?;
                (Some(netns), opened)
            }
        };
        Ok(Namespace {
            node: node.to_owned(),
            netns,
            asker: Some(asker),
            addresses,
        })
    }

    /// Whether it still exists, or another one has its path.
    fn look(&mut self) {
        let Some(netns) = &mut self.netns else {
            return;
        };
        match netns.now() {
            Now::Same => return,
            Now::Gone => {}
            Now::Another => {
                let path = netns.path().to_owned();
                if let Ok(another) = Namespace::open(&self.node, Some(&path)) {
                    *self = another;
                    return;
                }
            }
        }
        self.asker = None;
    }

    pub(super) fn path(&self) -> Option<&Path> {
        self.netns.as_ref().map(Netns::path)
    }
}

struct Known {
    name: String,
    owner: Owner,
    looks: u8,
}

pub struct Processes {
    proc: PathBuf,
    pub(super) namespaces: Vec<Namespace>,
    picked: Picked,
    /// Inode number of a socket → its listener, and its address.
    sockets: FxHashMap<u32, Vec<(usize, Listener)>>,
    known: FxHashMap<i32, Known>,
    /// Identifier of a container → the name of servers in it.
    containers: BTreeMap<String, String>,
    /// The name of a process, and its number, for each listener that has one.
    pub(super) names: FxHashMap<(usize, IpAddr, u16), (i32, String)>,
    /// The processes that held each port at the first check and serve there.
    pub(super) holders: FxHashMap<Place, BTreeSet<i32>>,
    /// When the last check began, by the steady clock.
    looked: Option<i64>,
    unix_sockets: UnixSockets,
}

impl Processes {
    pub fn new(namespaces: Vec<Namespace>, picked: Picked) -> Processes {
        Processes {
            proc: PathBuf::from("/proc"),
            namespaces,
            picked,
            sockets: FxHashMap::default(),
            known: FxHashMap::default(),
            containers: BTreeMap::new(),
            names: FxHashMap::default(),
            holders: FxHashMap::default(),
            looked: None,
            unix_sockets: UnixSockets::default(),
        }
    }

    /// Names servers in these containers after them, instead of after their processes.
    pub fn in_containers(self, containers: BTreeMap<String, String>) -> Processes {
        Processes { containers, ..self }
    }

    /// Checks repeatedly, and reports what it finds, until `stop` is set (and it is
    /// unparked) or the receiver is gone. `warn` gets what no packet can show.
    pub fn follow(mut self, tell: &Sender<Found>, stop: &AtomicBool, warn: &impl Fn(String)) {
        sys::stand_back();
        while !stop.load(Ordering::Relaxed) {
            let begun = sys::steady_ns();
            if self
                .look()
                .into_iter()
                .any(|found| tell.send(found).is_err())
            {
                return;
            }
            self.unix_calls().into_iter().for_each(warn);
            let took = sys::steady_ns() - begun;
            let pause = (took * PAUSE_TIMES).clamp(PAUSE_NS, PAUSE_MAX_NS);
            thread::park_timeout(Duration::from_nanos(pause.unsigned_abs()));
        }
    }

    /// What is new since the last check. Processes that cannot be read (ended, or of another user)
    /// are skipped.
    pub fn look(&mut self) -> Vec<Found> {
        let now = sys::steady_ns();
        let anew = self.ask();
        let pids = pids(&self.proc);
        let alive: FxHashSet<i32> = pids.iter().copied().collect();
        self.known.retain(|pid, _| alive.contains(pid));
        let mut found = Vec::new();
        // Parents have smaller numbers than their children, unless numbers wrapped around: then the
        // second check finds them.
        for pid in pids {
            let looks = self.known.get(&pid).map_or(0, |known| known.looks);
            if looks >= YOUNG && !anew {
                continue;
            }
            let Some(status) = status(&self.proc, pid) else {
                continue;
            };
            let owner = self.owner(pid, &status);
            let looked = self.looked.filter(|_| looks == 0);
            let new = Found {
                pid,
                parent: status.parent,
                name: status.name.clone(),
                owner: owner.clone(),
                since: looked.map(|looked| looked.max(status.began)),
            };
            let known = Known {
                name: status.name,
                owner,
                looks: looks.saturating_add(1).min(YOUNG),
            };
            let before = self.known.insert(pid, known);
            if before.is_none_or(|before| before.owner != new.owner) {
                found.push(new);
            }
        }
        self.looked = Some(now);
        found
    }

    /// The servers that others began to call over Unix sockets since the last check, a sentence each.
    fn unix_calls(&mut self) -> Vec<String> {
        let (proc, known) = (&self.proc, &self.known);
        let servers = known.iter().filter(|(_, one)| one.owner.listens);
        let servers: Vec<_> = servers
            .map(|(pid, one)| (*pid, one.name.as_str()))
            .collect();
        let mut said = Vec::new();
        for namespace in &mut self.namespaces {
            let Some(asker) = &mut namespace.asker else {
                continue;
            };
            let holder = |inode| {
                let mut pids = known
                    .keys()
                    .filter(|pid| held(proc, **pid).contains(&inode));
                pids.next().map(|pid| known[pid].name.clone())
            };
            let looked = self
                .unix_sockets
                .look(asker, &servers, |pid| held(proc, pid), holder);
            // A kernel without unix_diag shows no calls.
            said.extend(
                looked
                    .unwrap_or_default()
                    .iter()
                    .map(super::unix_sockets::Call::sentence),
            );
        }
        said
    }

    /// The addresses of a namespace: all of one host.
    pub fn addresses(&self, netns: Option<&Path>) -> Vec<IpAddr> {
        let mut known = self.namespaces.iter();
        let asked = known.find(|namespace| namespace.path() == netns);
        asked.map_or_else(Vec::new, |namespace| namespace.addresses.clone())
    }

    /// Reads the listeners; true if they have changed.
    fn ask(&mut self) -> bool {
        let mut sockets: FxHashMap<u32, Vec<(usize, Listener)>> = FxHashMap::default();
        let picked = &self.picked;
        for (node, namespace) in self.namespaces.iter_mut().enumerate() {
            namespace.look();
            let own = namespace.netns.is_none();
            let Some(asker) = &mut namespace.asker else {
                continue;
            };
            // A namespace that cannot be read has no listeners for now.
            let _ = asker.ask(&mut |listener| {
                if picked.holds(&listener, own) {
                    sockets
                        .entry(listener.inode)
                        .or_default()
                        .push((node, listener));
                }
            });
        }
        let anew = sockets.len() != self.sockets.len()
            || sockets
                .keys()
                .any(|inode| !self.sockets.contains_key(inode));
        self.sockets = sockets;
        anew
    }

    fn owner(&mut self, pid: i32, status: &Status) -> Owner {
        let (name, parent) = (status.name.as_str(), status.parent);
        let is_kernel = |known: &Known| known.owner.places == [KERNEL];
        if (pid, name) == KTHREADD
            || parent == KTHREADD.0 && self.known.get(&parent).is_some_and(is_kernel)
        {
            return Owner::nobody(KERNEL.to_owned());
        }
        let mut places = Vec::new();
        for inode in held(&self.proc, pid) {
            for (node, listener) in self.sockets.get(&inode).into_iter().flatten() {
                let Some(namespace) = self.namespaces.get(*node) else {
                    continue;
                };
                places.push(format!("{}:{}", namespace.node, listener.port));
                if self.looked.is_none() && pid != INIT && together::serves(name) {
                    let held_by = self.holders.entry((*node, listener.port));
                    held_by.or_default().insert(pid);
                }
                let key = (*node, listener.ip, listener.port);
                if self.names.get(&key).is_none_or(|(first, _)| *first == INIT) {
                    let name = self.name_of(pid, name);
                    self.names.insert(key, (pid, name));
                }
            }
        }
        if !places.is_empty() {
            places.sort();
            places.dedup();
            return Owner {
                places,
                listens: true,
            };
        }
        match self.known.get(&parent) {
            Some(known) if known.name == name => known.owner.clone(),
            _ => Owner::nobody(place_of(name)),
        }
    }

    /// What a server of this process is called.
    fn name_of(&self, pid: i32, name: &str) -> String {
        let within = match self.containers.is_empty() {
            true => None,
            false => containers::of_process(&self.proc, pid),
        };
        let container = within.and_then(|id| self.containers.get(&id));
        container.map_or(name, String::as_str).to_owned()
    }
}

/// Numbers of all processes, in their order.
fn pids(proc: &Path) -> Vec<i32> {
    let entries = std::fs::read_dir(proc).into_iter().flatten().flatten();
    let mut pids: Vec<i32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    pids.sort_unstable();
    pids
}

/// The place of processes that do not listen.
pub fn place_of(name: &str) -> String {
    format!("process {name}")
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub name: String,
    pub parent: i32,
    /// What the steady clock showed when it began.
    pub began: i64,
}

/// None: there is no such process.
pub fn status(proc: &Path, pid: i32) -> Option<Status> {
    let text = std::fs::read(proc.join(pid.to_string()).join("stat")).ok()?;
    let found = process::parse(&text)?;
    Some(Status {
        name: String::from_utf8_lossy(found.name).into_owned(),
        parent: found.parent,
        began: sys::steady_of_ticks(found.began_ticks),
    })
}

/// Numbers of the sockets that a process holds.
fn held(proc: &Path, pid: i32) -> Vec<u32> {
    let files = std::fs::read_dir(proc.join(pid.to_string()).join("fd"));
    files
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|file| {
            let link = std::fs::read_link(file.path()).ok()?;
            let link = link.to_str()?;
            let inode = link.strip_prefix("socket:[")?.strip_suffix(']')?;
            inode.parse().ok()
        })
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::probes::testing::Sleeper;
    use super::*;
    use std::net::{Ipv4Addr, SocketAddr, TcpListener};

    fn of(found: &[Found], pid: u32) -> Option<Found> {
        let pid = i32::try_from(pid).unwrap();
        found.iter().find(|found| found.pid == pid).cloned()
    }

    fn here(port: u16) -> Processes {
        let namespace = Namespace {
            node: "web".to_owned(),
            netns: None,
            asker: Some(Asker::new().unwrap()),
            addresses: vec![
                Ipv4Addr::LOCALHOST.into(),
                Ipv4Addr::new(10, 0, 0, 3).into(),
            ],
        };
        let ports = vec![port];
        Processes::new(
            vec![namespace],
            Picked {
                ports,
                ..Picked::default()
            },
        )
    }

    #[test]
    fn a_listening_process_is_reported_with_its_name_and_addresses() {
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut processes = here(port);
        let own = of(&processes.look(), std::process::id()).unwrap();
        assert_eq!(
            (own.owner.places, own.since),
            (vec![format!("web:{port}")], None)
        );
        let servers = processes.servers(None);
        assert_eq!(servers.len(), 1, "{servers:?}");
        let (name, addresses) = &servers[0];
        let told = status(Path::new("/proc"), own.pid).unwrap().name;
        assert_eq!(*name, told);
        assert_eq!(
            addresses.iter().map(|a| a.to_string()).collect::<Vec<_>>(),
            [format!("127.0.0.1:{port}"), format!("10.0.0.3:{port}")]
        );
    }

    #[test]
    fn two_ports_of_one_process_are_one_server() {
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let ports = listeners.map(|listener| (listener.local_addr().unwrap().port(), listener));
        let mut processes = here(ports[0].0);
        processes.picked.ports.push(ports[1].0);
        processes.look();
        let together = processes.together();
        let name = status(Path::new("/proc"), std::process::id() as i32)
            .unwrap()
            .name;
        let places = ports
            .each_ref()
            .map(|(port, _)| (format!("{name}:{port}"), format!("web:{port}")));
        assert_eq!(together, BTreeMap::from([(name, BTreeMap::from(places))]));
    }

    #[test]
    fn loopback_addresses_count_only_where_packets_are_recorded() {
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut processes = here(port);
        processes.look();
        let elsewhere = processes.servers(Some(Path::new("/run/netns/other")));
        let addresses: Vec<_> = elsewhere.into_iter().flat_map(|(_, all)| all).collect();
        assert_eq!(addresses, [SocketAddr::from(([10, 0, 0, 3], port))]);
    }

    #[test]
    fn a_server_in_a_container_has_the_name_of_the_container() {
        let folder = std::env::temp_dir().join(format!("tailrace-pods-{}", std::process::id()));
        let id = "ab".repeat(32);
        std::fs::create_dir_all(folder.join("7")).unwrap();
        std::fs::write(folder.join("7/cgroup"), format!("0::/docker/{id}\n")).unwrap();
        let named = BTreeMap::from([(id, "shop/web-0/nginx".to_owned())]);
        let mut processes = here(1).in_containers(named);
        processes.proc.clone_from(&folder);
        assert_eq!(processes.name_of(7, "nginx"), "shop/web-0/nginx");
        assert_eq!(processes.name_of(8, "nginx"), "nginx");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_process_that_began_since_is_young_and_has_its_own_name() {
        let mut processes = here(1);
        let before = processes.look();
        assert!(of(&before, std::process::id()).is_some());
        let child = Sleeper::start();
        let found = of(&processes.look(), child.0.id()).unwrap();
        assert_eq!(
            (found.owner, found.since.is_some()),
            (Owner::nobody("process sleep".to_owned()), true)
        );
        processes.look();
        assert_eq!(of(&processes.look(), child.0.id()), None);
    }

    #[test]
    fn a_process_is_read_from_its_folder() {
        let folder = std::env::temp_dir().join(format!("tailrace-proc-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("7")).unwrap();
        let fields = "3 7 7 0 -1 4194304 9 0 3 0 5 5 0 0 20 0 1 0 1";
        std::fs::write(folder.join("7/stat"), format!("7 (a) R (b) S {fields}")).unwrap();
        let told = status(&folder, 7).unwrap();
        assert_eq!((told.name.as_str(), told.parent), ("a) R (b", 3));
        std::fs::write(folder.join("7/stat"), "7 (cut").unwrap();
        assert_eq!(status(&folder, 7), None);
        assert_eq!((pids(&folder), held(&folder, 7)), (vec![7], vec![]));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
