//! Unchanged packets: a capture, in segments of a second.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use super::entrance::Entrance;
use super::ring::RingPacket;
use super::tap::Tap;
use super::{read, refused, source, Taker, To};
use crate::capture::pcap::HEADER;
use crate::error::Result;
use crate::host::clock::Clock;
use crate::host::options::Packets as Options;
use crate::host::segments::Segment;
use crate::host::sys;
use crate::whole;

/// pcap of nanoseconds whose packets begin with the IP header (LINKTYPE_RAW).
const PCAP_MAGIC: u32 = 0xa1b2_3c4d;
const PCAP_RAW: u32 = 101;

pub struct Keeping {
    entrance: Entrance,
    tap: Tap,
    clock: Clock,
    capture: Capture,
}

struct Capture {
    bytes: Vec<u8>,
    count: u64,
    last: i64,
    snap: u32,
    source: String,
    to: To,
}

impl Keeping {
    pub fn open(options: &Options, clock: Clock, to: To) -> Result<Keeping> {
        let opened = Entrance::open(options.netns())
            .and_then(|(entrance, sockets)| Ok((entrance, Tap::open(options, sockets)?)));
        let (entrance, (tap, late)) = opened.map_err(|error| refused(options, &error))?;
        late.into_iter().for_each(|sentence| to.warn(sentence));
        let capture = Capture {
            bytes: Vec::new(),
            count: 0,
            last: 0,
            snap: options.snap,
            source: source(options),
            to,
        };
        Ok(Keeping {
            entrance,
            tap,
            clock,
            capture,
        })
    }

    pub fn run(mut self, stop: &AtomicBool) {
        sys::stand_back();
        let entrance = &mut self.entrance;
        let go_on = |tap: &mut Tap| {
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            let mut told = Vec::new();
            for change in entrance.look() {
                told.push(change.said);
                told.extend(
                    tap.lead(change.sockets)
                        .err()
                        .map(|error| error.to_string()),
                );
            }
            Some(told)
        };
        // Storing packets cannot fail on their content.
        let _ = read(&mut self.tap, &mut self.clock, &mut self.capture, go_on);
    }
}

impl Taker for Capture {
    #[inline]
    fn packet(&mut self, packet: RingPacket<'_>) {
        self.last = packet.time;
        self.count += 1;
        let seconds = (packet.time / 1_000_000_000) as u32;
        let rest = (packet.time % 1_000_000_000) as u32;
        let captured = packet.bytes.len() as u32;
        for word in [seconds, rest, captured, packet.length] {
            self.bytes.extend(word.to_le_bytes());
        }
        self.bytes.extend(packet.bytes);
    }

    fn close(&mut self, _now: i64, dropped: u64) -> io::Result<()> {
        let what = format!("{}: packets the ring had no room for", self.source);
        self.to.shared.lose(&what, dropped);
        let packets = std::mem::take(&mut self.bytes);
        if packets.is_empty() {
            return Ok(());
        }
        self.bytes.reserve(packets.len());
        let head = head(self.snap);
        self.to.outbox.put(Segment {
            table: "packets.pcap",
            rows: std::mem::take(&mut self.count),
            bytes: packets.len(),
            end: self.last,
            write: Box::new(move |path| whole::write(path, &head, &packets)),
        });
        Ok(())
    }

    fn told(&mut self, sentence: String) -> io::Result<()> {
        self.to.warn(sentence);
        Ok(())
    }
}

fn head(snap: u32) -> [u8; HEADER] {
    let mut head = [0; HEADER];
    head[0..4].copy_from_slice(&PCAP_MAGIC.to_le_bytes());
    head[4..6].copy_from_slice(&2_u16.to_le_bytes());
    head[6..8].copy_from_slice(&4_u16.to_le_bytes());
    head[16..20].copy_from_slice(&snap.to_le_bytes());
    head[20..24].copy_from_slice(&PCAP_RAW.to_le_bytes());
    head
}
