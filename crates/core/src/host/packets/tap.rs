//! A ring of packets of some interfaces, any of which may go away and come back under its name.

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
    /// Something may have changed since the last check of the links.
    changed: bool,
    /// The ring's last error about its interface.
    failed: Option<io::Error>,
    /// The interface is down: until something changes, the ring reports only that.
    down: bool,
    /// This is already known.
    told: bool,
}

impl Tap {
    /// At least one of the interfaces must exist; returns sentences about the others.
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

    /// From now on packets come from other sockets, or (None) from none.
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

    /// Takes up what has come back; returns the changes, as sentences.
    pub fn look(&mut self) -> Vec<String> {
        let opened = self.opened.as_mut();
        opened.map_or_else(Vec::new, |opened| opened.look(&self.wanted))
    }

    /// Passes on the next full block; false if there is none.
    pub fn take(&mut self, each: &mut impl FnMut(RingPacket<'_>)) -> bool {
        let opened = self.opened.as_mut();
        opened.is_some_and(|opened| {
            let taken = opened.ring.take(each);
            opened.told &= !taken;
            taken
        })
    }

    /// Packets without room in the ring, since the last call.
    pub fn dropped(&self) -> u64 {
        let opened = self.opened.as_ref();
        opened.map_or(0, |opened| opened.ring.dropped().unwrap_or(0))
    }
}

/// Binds to the existing interfaces; if there is none, to nothing.
fn listen(ring: &mut Ring, wanted: &Options, links: &Links) -> io::Result<()> {
    let numbers = links.numbers();
    if numbers.is_empty() && !wanted.interfaces.is_empty() {
        return Ok(());
    }
    ring.pick(&numbers, &wanted.ports, wanted.snap)?;
    // Binding again loses packets for a moment: if several exist, those that stay must lose none.
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
            // It may be down at first, which is not reported.
            self.told = true;
        }
        if !told.is_empty() || self.down {
            // If it is already gone again, its next event reports that.
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
