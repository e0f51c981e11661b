//! Where packets come from: interfaces of one namespace, any of which may go, and come again under its name.

use std::io;
use std::path::Path;

use super::links::Links;
use super::namespaces::{Netns, Now};
use super::options::Packets as Options;
use super::ring::{Ring, RingPacket};
use super::sys;

/// An interface that goes away is down first.
const DOWN_NS: i64 = 50_000_000;

pub struct Tap {
    wanted: Options,
    names: Vec<String>,
    namespace: Option<Netns>,
    /// None: the namespace is gone, and nothing of ours shall keep it.
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
    /// At least one of the interfaces must be there; what is told of the others is returned.
    pub fn open(wanted: &Options) -> io::Result<(Tap, Vec<String>)> {
        let names: Vec<String> = wanted.interfaces.iter().map(|i| i.name.clone()).collect();
        let (namespace, opened) = enter(wanted, &names)?;
        let missing = opened.links.missing();
        if !missing.is_empty() && missing.len() == names.len() {
            let said = format!("there is no interface {}", missing.join(", "));
            return Err(io::Error::new(io::ErrorKind::NotFound, said));
        }
        let late =
            |name: &&str| format!("{name} is not there yet: its packets are read when it is");
        let told = missing.iter().map(late).collect();
        let tap = Tap {
            wanted: wanted.clone(),
            names,
            namespace,
            opened: Some(opened),
        };
        Ok((tap, told))
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
        let mut told = self.look_at_namespace();
        if let Some(opened) = &mut self.opened {
            told.extend(opened.look(&self.wanted));
        }
        told
    }

    fn look_at_namespace(&mut self) -> Vec<String> {
        let Some(namespace) = &mut self.namespace else {
            return Vec::new();
        };
        let now = namespace.now();
        if now == Now::Same {
            return Vec::new();
        }
        let which = format!("the network namespace {}", namespace.path().display());
        let mut told = Vec::new();
        if self.opened.take().is_some() {
            told.push(format!(
                "{which} is gone: its packets are missing until there is one of that name again"
            ));
        }
        if now == Now::Another {
            // One that is only half made cannot be entered yet.
            if let Ok((namespace, opened)) = enter(&self.wanted, &self.names) {
                told.push(format!(
                    "{which} is there: its packets are read from here on"
                ));
                self.namespace = namespace;
                self.opened = Some(opened);
            }
        }
        told
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

fn enter(wanted: &Options, names: &[String]) -> io::Result<(Option<Netns>, Opened)> {
    let open = || {
        let links = Links::open(names)?;
        let mut ring = Ring::open(wanted.ring_bytes)?;
        listen(&mut ring, wanted, &links)?;
        Ok(Opened {
            ring,
            links,
            changed: false,
            failed: None,
            down: false,
            told: false,
        })
    };
    match wanted.netns() {
        None => open().map(|opened| (None, opened)),
        Some(path) => entered(path, open),
    }
}

fn entered<T: Send>(
    path: &Path,
    open: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<(Option<Netns>, T)> {
    Netns::enter(path, open).map(|(namespace, opened)| (Some(namespace), opened))
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
