//! The packet thread: from the ring to visits, or to a capture.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use super::clock::Clock;
use super::options::Packets as Options;
use super::ring::RingPacket;
use super::segments::{Outbox, Segment, Tell, SEGMENT_NS};
use super::state::Shared;
use super::sys;
use super::tap::Tap;
use crate::capture::live::Live;
use crate::error::{Error, Result};
use crate::record::rows::{Event, NumberedEvent};
use crate::record::stays::Stay;
use crate::record::writer::{Row, TableWriter};
use crate::record::Names;
use crate::whole::Partial;

/// How long it sleeps at most without packets: the end of a segment is not far missed.
const WAIT_MS: i32 = 50;
/// The youngest block of the ring is handed over when it is old enough.
const LAST_BLOCK_NS: i64 = 50_000_000;
/// A file is locked while it is written to: never for long.
const PIECE: usize = 128 << 10;
/// pcap of nanoseconds whose packets begin with the IP header (LINKTYPE_RAW).
const PCAP_MAGIC: u32 = 0xa1b2_3c4d;
const PCAP_RAW: u32 = 101;

pub struct Packets {
    tap: Tap,
    into: Into,
    clock: Clock,
    source: String,
    dropped: u64,
    events: u64,
    shared: Arc<Shared>,
    outbox: Outbox,
    tell: Tell,
}

enum Into {
    Visits(Box<Live>),
    Capture {
        bytes: Vec<u8>,
        count: u64,
        last: i64,
        snap: u32,
    },
}

impl Packets {
    pub fn open(
        options: &Options,
        clock: Clock,
        shared: Arc<Shared>,
        outbox: Outbox,
        tell: Tell,
    ) -> Result<Packets> {
        let names: Vec<&str> = options.interfaces.iter().map(|i| i.name.as_str()).collect();
        let source = match names.as_slice() {
            [] => "all interfaces".to_owned(),
            names => names.join(", "),
        };
        let opened = Tap::open(options).map_err(|error| refused(&source, &error))?;
        let into = if options.raw {
            Into::Capture {
                bytes: Vec::new(),
                count: 0,
                last: 0,
                snap: options.snap,
            }
        } else {
            Into::Visits(Box::new(Live::new(&options.decode, &source)?))
        };
        let (tap, late) = opened;
        let packets = Packets {
            tap,
            into,
            clock,
            source,
            dropped: 0,
            events: 0,
            shared,
            outbox,
            tell,
        };
        late.into_iter().for_each(|sentence| packets.warn(sentence));
        Ok(packets)
    }

    pub fn run(mut self, stop: &AtomicBool) {
        sys::stand_back();
        let mut segment_ends = sys::steady_ns() + SEGMENT_NS;
        while !stop.load(Ordering::Relaxed) {
            self.tap.wait(WAIT_MS);
            self.drain();
            for sentence in self.tap.look() {
                self.warn(sentence);
            }
            let now = sys::steady_ns();
            if now >= segment_ends {
                segment_ends = now + SEGMENT_NS;
                self.close_segment();
            }
        }
        sys::sleep_until(sys::steady_ns() + LAST_BLOCK_NS);
        self.drain();
        if let Into::Visits(live) = &mut self.into {
            live.finish();
        }
        self.close_segment();
    }

    fn drain(&mut self) {
        let (into, clock) = (&mut self.into, &mut self.clock);
        loop {
            clock.look();
            let mut each = |packet: RingPacket<'_>| {
                let time = clock.stamped(packet.time);
                into.packet(RingPacket { time, ..packet });
            };
            if !self.tap.take(&mut each) {
                break;
            }
        }
    }

    fn warn(&self, sentence: String) {
        (self.tell)(sentence.clone());
        self.shared.note(sentence);
    }

    fn close_segment(&mut self) {
        self.dropped += self.tap.dropped();
        let now = self.clock.time(sys::steady_ns());
        match &mut self.into {
            Into::Visits(live) => {
                let (visits, events) = live.take();
                self.shared.lock().packets = Some(live.report(self.dropped));
                let names = live.names();
                let visits = visits.into_iter().map(Stay).collect();
                put(&self.outbox, "stays.parquet", now, visits, names);
                let numbered = |event: Event| {
                    self.events += 1;
                    let number = self.events;
                    NumberedEvent { event, number }
                };
                let events = events.into_iter().map(numbered).collect();
                put(&self.outbox, "events.parquet", now, events, names);
            }
            Into::Capture {
                bytes,
                count,
                last,
                snap,
            } => {
                if self.dropped > 0 {
                    let what = format!("{}: packets the ring had no room for", self.source);
                    self.shared.lose(&what, std::mem::take(&mut self.dropped));
                }
                let packets = std::mem::take(bytes);
                if packets.is_empty() {
                    return;
                }
                bytes.reserve(packets.len());
                let head = head(*snap);
                self.outbox.put(Segment {
                    table: "packets.pcap",
                    rows: std::mem::take(count),
                    bytes: packets.len(),
                    end: *last,
                    write: Box::new(move |path| whole(path, &head, &packets)),
                });
            }
        }
    }
}

impl Into {
    #[inline]
    fn packet(&mut self, packet: RingPacket<'_>) {
        match self {
            Into::Visits(live) => {
                live.packet(packet.time, packet.bytes, packet.length, packet.interface)
            }
            Into::Capture {
                bytes, count, last, ..
            } => {
                *last = packet.time;
                *count += 1;
                let seconds = (packet.time / 1_000_000_000) as u32;
                let rest = (packet.time % 1_000_000_000) as u32;
                let captured = packet.bytes.len() as u32;
                for word in [seconds, rest, captured, packet.length] {
                    bytes.extend(word.to_le_bytes());
                }
                bytes.extend(packet.bytes);
            }
        }
    }
}

fn put<R: Row + Send + 'static>(
    outbox: &Outbox,
    table: &'static str,
    end: i64,
    rows: Vec<R>,
    names: &Names,
) {
    if rows.is_empty() {
        return;
    }
    let names = names.clone();
    outbox.put(Segment {
        table,
        rows: rows.len() as u64,
        bytes: std::mem::size_of_val(rows.as_slice()),
        end,
        write: Box::new(move |path| {
            let mut writer: TableWriter<R> = TableWriter::create(path)?;
            for row in rows {
                writer.push(row, &names)?;
            }
            writer.finish(&names).map(drop)
        }),
    });
}

pub fn head(snap: u32) -> [u8; 24] {
    let mut head = [0; 24];
    head[0..4].copy_from_slice(&PCAP_MAGIC.to_le_bytes());
    head[4..6].copy_from_slice(&2_u16.to_le_bytes());
    head[6..8].copy_from_slice(&4_u16.to_le_bytes());
    head[16..20].copy_from_slice(&snap.to_le_bytes());
    head[20..24].copy_from_slice(&PCAP_RAW.to_le_bytes());
    head
}

fn whole(path: &Path, head: &[u8], packets: &[u8]) -> Result<()> {
    let (partial, mut file) = Partial::create(path)?;
    let written = io::Write::write_all(&mut file, head).and_then(|()| {
        let mut pieces = packets.chunks(PIECE);
        pieces.try_for_each(|piece| io::Write::write_all(&mut file, piece))
    });
    written.map_err(|source| Error::Io {
        path: path.to_owned(),
        source,
    })?;
    partial.publish(path)
}

fn refused(source: &str, error: &io::Error) -> Error {
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
