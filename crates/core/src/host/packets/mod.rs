//! Packets of the host.
//!
//! ```text
//! entrance (opens the sockets, which needs rights) ─▶ tap (a ring, and a filter; interfaces by their links)
//!                                               ├▶ keeping    a capture
//!                                               └▶ decoder    visits, in a process of its own without any rights
//! decoding: the recorder's side of that process, connected by a channel
//! ```

mod channel;
pub mod decoder;
mod decoding;
mod entrance;
mod filter;
mod keeping;
mod links;
mod lives;
mod ring;
mod tap;

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use decoding::Decoding;
pub use filter::{INTERFACES_MAX, PORTS_MAX};
use keeping::Keeping;
use ring::RingPacket;
use tap::Tap;

use super::clock::Clock;
use super::options::Packets as Options;
use super::segments::{Outbox, Tell, SEGMENT_NS};
use super::state::Shared;
use super::sys;
use crate::error::{Error, Result};

/// How long it sleeps at most without packets, so that the end of a segment is not delayed.
const WAIT_MS: i32 = 50;
/// The youngest block of the ring is read when it is old enough.
const LAST_BLOCK_NS: i64 = 50_000_000;

pub enum Packets {
    Kept(Box<Keeping>),
    Decoded(Box<Decoding>),
}

impl Packets {
    pub fn open(
        options: &Options,
        clock: Clock,
        shared: Arc<Shared>,
        outbox: Outbox,
        tell: Tell,
    ) -> Result<Packets> {
        let to = To {
            shared,
            outbox,
            tell,
        };
        if options.raw {
            let opened = Keeping::open(options, clock, to)?;
            Ok(Packets::Kept(Box::new(opened)))
        } else {
            let opened = Decoding::open(options, clock, to)?;
            Ok(Packets::Decoded(Box::new(opened)))
        }
    }

    pub fn run(self, stop: &AtomicBool) {
        match self {
            Packets::Kept(keeping) => keeping.run(stop),
            Packets::Decoded(decoding) => decoding.run(stop),
        }
    }
}

/// The recorder's source of packet events.
pub struct To {
    shared: Arc<Shared>,
    outbox: Outbox,
    tell: Tell,
}

impl To {
    fn warn(&self, sentence: String) {
        (self.tell)(sentence.clone());
        self.shared.note(sentence);
    }
}

/// The receiver of packets.
trait Taker {
    fn packet(&mut self, packet: RingPacket<'_>);
    /// A segment is over; this many packets found no room in the ring since the last one.
    fn close(&mut self, now: i64, dropped: u64) -> io::Result<()>;
    /// A change of the interfaces, as a sentence.
    fn told(&mut self, sentence: String) -> io::Result<()>;
    /// There are no more packets.
    fn end(&mut self) {}
}

/// Reads packets until `go_on` returns None; it may also switch the tap to other sockets, and
/// report it. An error comes from the receiver.
fn read(
    tap: &mut Tap,
    clock: &mut Clock,
    taker: &mut impl Taker,
    mut go_on: impl FnMut(&mut Tap) -> Option<Vec<String>>,
) -> io::Result<()> {
    let mut segment_ends = sys::steady_ns() + SEGMENT_NS;
    while let Some(told) = go_on(tap) {
        tap.wait(WAIT_MS);
        drain(tap, clock, taker);
        for sentence in told.into_iter().chain(tap.look()) {
            taker.told(sentence)?;
        }
        let now = sys::steady_ns();
        if now >= segment_ends {
            segment_ends = now + SEGMENT_NS;
            taker.close(clock.time(now), tap.dropped())?;
        }
    }
    sys::sleep_until(sys::steady_ns() + LAST_BLOCK_NS);
    drain(tap, clock, taker);
    taker.end();
    taker.close(clock.time(sys::steady_ns()), tap.dropped())
}

fn drain(tap: &mut Tap, clock: &mut Clock, taker: &mut impl Taker) {
    loop {
        clock.look();
        let mut each = |packet: RingPacket<'_>| {
            let time = clock.stamped(packet.time);
            taker.packet(RingPacket { time, ..packet });
        };
        if !tap.take(&mut each) {
            break;
        }
    }
}

/// A description of the packets, for messages.
fn source(options: &Options) -> String {
    let names: Vec<&str> = options.interfaces.iter().map(|i| i.name.as_str()).collect();
    match names.as_slice() {
        [] => "all interfaces".to_owned(),
        names => names.join(", "),
    }
}

fn refused(options: &Options, error: &io::Error) -> Error {
    let source = source(options);
    if error.kind() == io::ErrorKind::PermissionDenied {
        return Error::Options(format!(
            "packets of {source}: the right to read them (CAP_NET_RAW) is missing; run it with sudo, or give the \
             interpreter that right with setcap cap_net_raw+ep, or record samples alone, without --interface"
        ));
    }
    let said = error.to_string();
    let said = said.split(" (os error").next().unwrap_or(&said).to_owned();
    Error::Options(format!("packets of {source}: {said}"))
}
