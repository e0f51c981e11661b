//! The sockets that packets come by. To open them takes rights (CAP_NET_RAW; CAP_SYS_ADMIN for another namespace); all that
//! follows takes none.

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
    /// Of interfaces that come and go.
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

/// A namespace that may go, and come again under its path.
pub struct Entrance {
    /// None: ours, which stays.
    netns: Option<Netns>,
    there: bool,
}

pub struct Change {
    pub said: String,
    /// To read from now on; None: the namespace is gone, and nothing of ours shall keep it.
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

    /// What has changed since the last look.
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
            // One that is only half made cannot be entered yet.
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
