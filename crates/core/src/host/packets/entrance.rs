//! The sockets of the packets. Opening them needs rights (CAP_NET_RAW; CAP_SYS_ADMIN for another
//! namespace); everything after that needs none.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::thread::CapabilitySet;

use super::links;
use crate::confine::capabilities;
use crate::host::namespaces::{Netns, Now};
use crate::host::sys;

pub struct Sockets {
    pub packets: OwnedFd,
    /// Events of interfaces.
    pub events: OwnedFd,
}

impl Sockets {
    /// In the network namespace of this thread.
    fn open() -> io::Result<Sockets> {
        Ok(Sockets {
            packets: sys::socket(libc::AF_PACKET, libc::SOCK_DGRAM, 0)?,
            events: links::events()?,
        })
    }
}

/// A namespace that may go away, and come back under its path.
pub struct Entrance {
    /// None: the recorder's own, which stays.
    netns: Option<Netns>,
    there: bool,
}

pub struct Change {
    pub said: String,
    /// The sockets to read from now on; None: the namespace is gone, and the recorder must not keep
    /// it alive.
    pub sockets: Option<Sockets>,
}

impl Entrance {
    pub fn open(netns: Option<&Path>) -> io::Result<(Entrance, Sockets)> {
        let (netns, sockets) = match netns {
            None => (None, Sockets::open()?),
            Some(path) => {
                let (netns, sockets) = enter(path)?;
                (Some(netns), sockets)
            }
        };
        let there = true;
        Ok((Entrance { netns, there }, sockets))
    }

    /// Changes since the last check.
    pub fn look(&mut self) -> Vec<Change> {
        let Some(netns) = &mut self.netns else {
            return Vec::new();
        };
        let now = netns.now();
        if now == Now::Same {
            return Vec::new();
        }
        let path = netns.path().to_owned();
        let which = format!("the network namespace {}", path.display());
        let mut changes = Vec::new();
        if std::mem::take(&mut self.there) {
            changes.push(Change {
                said: format!(
                    "{which} is gone: its packets are missing until there is one of that name again"
                ),
                sockets: None,
            });
        }
        if now == Now::Another {
            // A namespace that is only half created cannot be entered yet.
            if let Ok((another, sockets)) = enter(&path) {
                *netns = another;
                self.there = true;
                changes.push(Change {
                    said: format!("{which} is there: its packets are read from here on"),
                    sockets: Some(sockets),
                });
            }
        }
        changes
    }
}

fn enter(path: &Path) -> io::Result<(Netns, Sockets)> {
    Netns::enter(path, || {
        capabilities::raised(CapabilitySet::NET_RAW, Sockets::open)
    })
}
