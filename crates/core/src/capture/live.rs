//! Packets of a live host become visits without parents, as they come. Parents are found when the
//! recording is read ([`crate::record::stays`] stores the visits until then), because a call is
//! linked only seconds after it ended, and a recorder that is killed must not lose seconds.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::decode::{is_left_out, servers, tell, Options, Report};
use super::flow::Flow;
use super::ledger::Ledger;
use super::link::{self, Kinds, Link};
use super::names::Namer;
use super::packet::Packet;
use super::report::{FileReport, InterfaceReport, SourceReport};
use super::strangers::{self, Strangers};
use crate::callgraph::{self, CallGraph};
use crate::error::Result;
use crate::record::rows::Event;
use crate::record::stays;
use crate::record::tables::TablesSink;
use crate::record::{Names, Visit, VisitSink};

pub struct Live {
    flow: Flow,
    seen: FileReport,
    kinds: Kinds,
    left_out: Vec<SocketAddr>,
}

impl Live {
    /// `source` describes the packets, for messages.
    pub fn new(options: &Options, source: &str) -> Result<Live> {
        let namer = Namer::new(&options.interactions, options.keep_queries)?;
        Ok(Live {
            flow: Flow::new(Ledger::new(servers(options)?, namer)),
            seen: FileReport {
                path: source.to_owned(),
                format: "live",
                compression: "none",
                ..FileReport::default()
            },
            kinds: Kinds::default(),
            left_out: options.leave_out.clone(),
        })
    }

    /// How many visits and connections there have been so far.
    pub fn made(&self) -> (u64, u32) {
        self.flow.ledger.made()
    }

    /// The numbers of visits and connections begin behind these.
    pub fn follow(&mut self, made: (u64, u32)) {
        self.flow.ledger.follow(made);
    }

    /// A packet from its IP header on, `length` bytes long before it was cut.
    #[inline]
    pub fn packet(&mut self, time: i64, bytes: &[u8], length: u32, interface: u16) {
        let packet = Packet {
            time,
            at: 0,
            captured: bytes.len() as u32,
            wire: length,
            link: Link::Raw,
            interface,
            untimed: false,
            turn: 0,
        };
        self.seen.packets += 1;
        self.seen.cut += u64::from(packet.captured < length);
        self.seen.begin = Some(self.seen.begin.map_or(time, |begin| begin.min(time)));
        self.seen.end = self.seen.end.max(Some(time));
        if let Some(segment) = link::segment(&packet, bytes, 0, &mut self.kinds) {
            self.seen.segments += u64::from(!segment.datagram);
            if !is_left_out(&self.left_out, &segment) {
                self.flow.segment(&segment);
            }
        }
    }

    /// Everything that has ended since the last call; visits are roughly in the order of departure.
    pub fn take(&mut self) -> (Vec<Visit>, Vec<Event>) {
        let ledger = &mut self.flow.ledger;
        ledger.settle();
        let events = ledger.events();
        (std::mem::take(&mut ledger.visits), events)
    }

    pub fn names(&self) -> &Names {
        &self.flow.ledger.names
    }

    /// The recording is over: open exchanges will not end.
    pub fn finish(&mut self) {
        self.flow.finish();
    }

    /// The current report; the call graph is not known yet. `dropped` packets had no room in the
    /// ring.
    pub fn report(&self, dropped: u64) -> Report {
        let mut seen = self.seen.clone();
        (seen.not_tcp, seen.tunnels) = (self.kinds.not_tcp(), self.kinds.tunnels());
        seen.quic_connections = self.kinds.quic_connections();
        seen.interfaces = vec![InterfaceReport {
            name: seen.path.clone(),
            dropped_system: Some(dropped),
            ..InterfaceReport::default()
        }];
        tell(&self.flow.ledger, SourceReport { files: vec![seen] })
    }
}

/// The results for the visits of a recording.
#[derive(Debug, Default, Serialize)]
pub struct Linked {
    pub visits: u64,
    pub requests: u64,
    pub incomplete: u64,
    pub graph: callgraph::report::Report,
    pub strangers: strangers::Report,
    #[serde(skip)]
    pub damaged: Vec<PathBuf>,
}

/// Gives the visits of `segments` their parents and writes them to `out`/{visits,requests}.parquet. `together`: lists of
/// names that one server has at its ports.
pub fn link(segments: &[PathBuf], out: &Path, together: Vec<Vec<String>>) -> Result<Linked> {
    let graph = CallGraph::new(TablesSink::create(out)?).with_ports(together);
    let mut strangers = Strangers::new(graph);
    let mut reader = stays::Reader::default();
    let mut damaged = Vec::new();
    for path in segments {
        let read = reader.read(path, &mut |visit, names| strangers.push(visit, names))?;
        if !read {
            damaged.push(path.clone());
        }
    }
    strangers.finish(&reader.names)?;
    let graph = strangers.next();
    let tables = graph.next();
    Ok(Linked {
        visits: tables.visits(),
        requests: tables.requests(),
        incomplete: tables.incomplete(),
        graph: graph.report(&reader.names),
        strangers: strangers.report(&reader.names),
        damaged,
    })
}
