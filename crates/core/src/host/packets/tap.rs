//! A ring of packets of some interfaces, any of which may go, and come again under its name.

use std::io;

use super::entrance::Sockets;
use super::links::Links;
use super::ring::{Ring, RingPacket};
use crate::host::options::Packets as Options;
use crate::host::sys;

/// An interface that goes away is down first.
const DOWN_NS: i64 = 50_000_000;

pub struct Tap {
    wanted: Options,
    /// None: the namespace is gone.
    opened: Option<Opened>,
}

struct Opened {
    ring: Ring,
    links: Links,
    /// Something may have changed since the last look at the links.
    changed: bool,
    /// What the ring said of its interface.
    failed: Option<io::Error>,
    /// The interface is down: until something changes, the ring has nothing to say but that.
    down: bool,
    /// That is known already.
    told: bool,
}

impl Tap {
    /// At least one of the interfaces must be there; what is to be told of the others is returned.
    pub fn open(wanted: &Options, sockets: Sockets) -> io::Result<(Tap, Vec<String>)> {
        let opened = Opened::new(wanted, sockets)?;
        let missing = opened.links.missing();
        if !missing.is_empty() && missing.len() == wanted.interfaces.len() {
            let said = format!("there is no interface {}", missing.join(", "));
            return Err(io::Error::new(io::ErrorKind::NotFound, said));
        }
        let late =
            |name: &&str| format!("{name} is not there yet: its packets are read when it is");
        let told = missing.iter().map(late).collect();
        let tap = Tap {
            wanted: wanted.clone(),
            opened: Some(opened),
        };
        Ok((tap, told))
    }

    /// From now on packets come by other sockets, or (None) by none.
    pub fn lead(&mut self, sockets: Option<Sockets>) -> io::Result<()> {
        self.opened = None;
        if let Some(sockets) = sockets {
            self.opened = Some(Opened::new(&self.wanted, sockets)?);
        }
        Ok(())
    }

    /// Waits at most `ms` for packets, or until something has changed.
    pub fn wait(&mut self, ms: i32) {
        match &mut self.opened {
            Some(opened) => opened.wait(ms),
            None => sys::sleep_until(sys::steady_ns() + i64::from(ms) * 1_000_000),
        }
    }

    /// Takes up what has come again; what has changed, as sentences.
    pub fn look(&mut self) -> Vec<String> {
        let opened = self.opened.as_mut();
        opened.map_or_else(Vec::new, |opened| opened.look(&self.wanted))
    }

    /// Hands over what is in the next full block; false when there is none.
    pub fn take(&mut self, each: &mut impl FnMut(RingPacket<'_>)) -> bool {
        let opened = self.opened.as_mut();
        opened.is_some_and(|opened| {
            let taken = opened.ring.take(each);
            opened.told &= !taken;
            taken
        })
    }

    /// Packets that the ring had no room for, since the last call.
    pub fn dropped(&self) -> u64 {
        let opened = self.opened.as_ref();
        opened.map_or(0, |opened| opened.ring.dropped().unwrap_or(0))
    }
}

/// To those interfaces that there are; where none is, to nothing.
fn listen(ring: &mut Ring, wanted: &Options, links: &Links) -> io::Result<()> {
    let numbers = links.numbers();
    if numbers.is_empty() && !wanted.interfaces.is_empty() {
        return Ok(());
    }
    ring.pick(&numbers, &wanted.ports, wanted.snap)?;
    // Binding anew takes a moment in which packets are lost: of several, those that stay shall lose none.
    match (wanted.interfaces.len(), numbers.as_slice()) {
        (1, [one]) => ring.bind(*one)?,
        _ => ring.bind(0)?,
    }
    if wanted.promiscuous {
        numbers
            .iter()
            .try_for_each(|number| ring.see_all(*number))?;
    }
    Ok(())
}

impl Opened {
    fn new(wanted: &Options, sockets: Sockets) -> io::Result<Opened> {
        let links = Links::new(&wanted.interfaces, sockets.events);
        let mut ring = Ring::new(sockets.packets, wanted.ring_bytes)?;
        listen(&mut ring, wanted, &links)?;
        Ok(Opened {
            ring,
            links,
            changed: false,
            failed: None,
            down: false,
            told: false,
        })
    }

    fn wait(&mut self, ms: i32) {
        let ring = (!self.down).then(|| self.ring.socket());
        let (failed, changed) = sys::wait(ring, self.links.events(), ms);
        self.changed |= changed;
        if failed {
            self.failed = self.ring.failure();
        }
    }

    fn look(&mut self, wanted: &Options) -> Vec<String> {
        let failed = self.failed.take();
        if failed.is_some() {
            sys::sleep_until(sys::steady_ns() + DOWN_NS);
        } else if !self.changed {
            return Vec::new();
        }
        self.changed = false;
        self.down = failed.is_some();
        let mut told = self.links.look();
        if !told.is_empty() {
            // It may be down at first, which is nothing to report.
            self.told = true;
        }
        if !told.is_empty() || self.down {
            // One that is gone again already is reported by its next event.
            let _ = listen(&mut self.ring, wanted, &self.links);
        }
        if let (Some(error), false) = (failed, self.told) {
            self.told = true;
            told.push(format!(
                "{}: {error}: from here on packets are missing until the interface is up again",
                self.links.names()
            ));
        }
        told
    }
}
