//! The process that decodes packets. It receives the packet sockets, gives up every right, and
//! reports decoded visits. An attacker who takes it over through a packet can open nothing, reach
//! nothing, and harm no other process.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::AsFd;

use serde::{Deserialize, Serialize};

use super::channel::{Channel, Frame};
use super::ring::RingPacket;
use super::tap::Tap;
use super::{read, refused, Taker};
use crate::capture::decode::Report;
use crate::capture::live::Live;
use crate::confine;
use crate::host::clock::Clock;
use crate::host::options::Packets as Options;
use crate::host::sys;
use crate::record::rows::{Event, NumberedEvent};
use crate::record::stays::Stay;
use crate::record::writer::{write_sorted, Row};
use crate::record::Names;

/// Messages of the recorder. The first is `Begin`, with sockets.
#[derive(Serialize, Deserialize)]
pub enum Order {
    Begin(Box<Begin>),
    /// Use other sockets, which come with it; without sockets, none.
    Lead,
    Stop,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct Begin {
    pub wanted: Options,
    pub clock: Clock,
    /// A description of the packets, for messages.
    pub source: String,
    /// What the decoders before it have numbered.
    pub made: Made,
}

/// The last numbers of visits, connections and events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    pub visits: (u64, u32),
    pub events: u64,
}

/// Messages of the decoder. The first is `Ready` or `Refused`.
#[derive(Serialize, Deserialize)]
pub enum Said {
    Ready,
    Refused(String),
    /// What the segments that follow have numbered.
    Made(Made),
    /// With its file.
    Segment {
        table: Table,
        rows: u64,
        end: i64,
    },
    /// The current state: a [`Report`], and the CPU time of this process.
    Report(serde_json::Value, i64),
    Note(String),
    Lost(String, u64),
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Table {
    Stays,
    Events,
}

impl Table {
    /// The suffix of the file's name.
    pub fn name(self) -> &'static str {
        match self {
            Table::Stays => "stays.parquet",
            Table::Events => "events.parquet",
        }
    }
}

/// The main function of the process. Its standard input is the recorder's end of the channel; it
/// ends with it.
pub fn run() -> io::Result<()> {
    let channel = Channel::of(io::stdin().as_fd().try_clone_to_owned()?);
    sys::ignore_endings();
    sys::stand_back();
    let Some(Frame {
        head: Order::Begin(begin),
        sockets: Some(sockets),
        ..
    }) = channel.receive()?
    else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let Begin {
        wanted,
        mut clock,
        source,
        made,
    } = *begin;
    let opened = Tap::open(&wanted, sockets).map_err(|error| refused(&wanted, &error));
    let live = opened.and_then(|opened| Ok((opened, Live::new(&wanted.decode, &source)?)));
    let ((mut tap, late), mut live) = match live {
        Ok(opened) => opened,
        Err(error) => return channel.send(&Said::Refused(error.to_string()), &[], None),
    };
    confine::to_what_is_open()?;
    channel.send(&Said::Ready, &[], None)?;
    live.follow(made.visits);
    let mut decoded = Decoded {
        live,
        channel: &channel,
        dropped: 0,
        events: made.events,
    };
    for sentence in late {
        decoded.told(sentence)?;
    }
    read(&mut tap, &mut clock, &mut decoded, |tap| {
        obey(&channel, tap)
    })
}

fn obey(channel: &Channel, tap: &mut Tap) -> Option<Vec<String>> {
    let mut told = Vec::new();
    while channel.wait(0) {
        match channel.receive() {
            Ok(Some(Frame {
                head: Order::Lead,
                sockets,
                ..
            })) => told.extend(tap.lead(sockets).err().map(|error| error.to_string())),
            // The recorder requested the end, or is gone.
            _ => return None,
        }
    }
    Some(told)
}

struct Decoded<'a> {
    live: Live,
    channel: &'a Channel,
    dropped: u64,
    events: u64,
}

impl Taker for Decoded<'_> {
    #[inline]
    fn packet(&mut self, packet: RingPacket<'_>) {
        self.live
            .packet(packet.time, packet.bytes, packet.length, packet.interface);
    }

    fn close(&mut self, now: i64, dropped: u64) -> io::Result<()> {
        self.dropped += dropped;
        let (visits, events) = self.live.take();
        let report: Report = self.live.report(self.dropped);
        let first = self.events + 1;
        self.events += events.len() as u64;
        let made = Made {
            visits: self.live.made(),
            events: self.events,
        };
        self.channel.send(&Said::Made(made), &[], None)?;
        let names = self.live.names();
        let visits = visits.into_iter().map(Stay).collect();
        self.put(Table::Stays, now, visits, names)?;
        let numbered = |(number, event): (u64, Event)| NumberedEvent { event, number };
        let events = (first..).zip(events).map(numbered).collect();
        self.put(Table::Events, now, events, names)?;
        let report = serde_json::to_value(report)?;
        let said = Said::Report(report, sys::own_cpu_ns());
        self.channel.send(&said, &[], None)
    }

    fn told(&mut self, sentence: String) -> io::Result<()> {
        self.channel.send(&Said::Note(sentence), &[], None)
    }

    fn end(&mut self) {
        self.live.finish();
    }
}

impl Decoded<'_> {
    fn put<R: Row>(&self, table: Table, end: i64, rows: Vec<R>, names: &Names) -> io::Result<()> {
        let count = rows.len() as u64;
        if count == 0 {
            return Ok(());
        }
        let (said, bytes) = match packed(rows, names) {
            Ok(bytes) => (
                Said::Segment {
                    table,
                    rows: count,
                    end,
                },
                bytes,
            ),
            Err(error) => (
                Said::Lost(format!("rows of {}: {error}", table.name()), count),
                Vec::new(),
            ),
        };
        self.channel.send(&said, &bytes, None)
    }
}

/// The rows as a file of their table, in memory.
fn packed<R: Row>(rows: Vec<R>, names: &Names) -> io::Result<Vec<u8>> {
    let mut file: File = sys::memory_file()?;
    write_sorted(rows, names, file.try_clone()?)?;
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}
