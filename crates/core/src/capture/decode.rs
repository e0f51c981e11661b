//! Captures in, tables and a report out.
//!
//! # Options (JSON)
//!
//! | field | meaning |
//! |---|---|
//! | `servers` | object, name → `"ip:port"` (or a list of them): the servers and their names; overrides all evidence |
//! | `together` | lists of names of servers that are one server at several ports: none of a list is assumed to call another of it |
//! | `protocols` | object, port → `"http"`, `"http2"`, `"ajp"`, `"fastcgi"`, `"mysql"`, `"postgres"`, `"redis"`, `"memcached"`, `"mongodb"`, `"kafka"`, `"cassandra"`, `"amqp"`, `"ldap"`, `"dns"`, `"opaque"`: the protocol of servers on that port |
//! | `interactions` | rules that name interactions: list of `{"match": expression, "name": text}`, tried in this order; see [`super::names`] |
//! | `keep_queries` | true: names keep everything that was sent, with queries, literals and what is otherwise folded |
//! | `clock_offsets` | list in the order of the captures, ns to add to each one's clock; null: infer it |
//! | `same_host` | list of addresses of one host, including loopback: its programs may call from any of them |
//! | `segment` | packets after which the state is saved, again and again; 0: never. See [`crate::saved`] |
//! | `threads` | how many threads decode at most; 0: one for each core. The tables are the same to the byte |
//! | `hosts`, `ports` | lists; only connections with one of these addresses and one of these ports are read (empty: all) |
//! | `leave_out` | list of `"ip:port"`; connections with one of these ends are not read |
//!
//! # Report (JSON)
//!
//! | field | meaning |
//! |---|---|
//! | `files` | per capture: see [`super::report::FileReport`] (packets, bytes, losses, clock offset) |
//! | `begin`, `end` | first and last packet, ns since the Unix epoch; null without packets |
//! | `servers` | per server that accepted a connection, or that the user named: `name`, `address`, `host`, `protocol` (null: unknown), `evidence` (how it is known to be one), `connections` (established), `attempts`, `syn_repeats` (lost SYNs), `synack_repeats`, `data_drops` (losses after the SYN), `greeted` (connections on which it spoke first), `unheard` and `unheard_longest_ns` (those on which it should have, and said nothing), `refused`, `unanswered`, `half_open`, `attempts_unfinished`, `visits`, `visits_max` (at once), `established_max`, `visits_unfinished` (open at the end), `unfinished_since` (when the oldest of these was sent), `unreadable` (bytes by reason), `opaque` (connections read by change of direction, by reason), `software` (what it said that it runs: `server`, `via`, `powered_by`) |
//! | `counts` | see [`super::ledger::Counts`] |
//! | `lookups` | DNS over UDP: see [`super::lookups::Report`] |
//! | `quic` | see [`super::quic::Report`] |
//! | `apart` | attempts without evidence that a client made them: see [`super::crowd::Report`] |
//! | `strangers` | `apart`: the same of those that turned out to be scans; `kept`: per server the failed attempts that are requests (`refused`, `unanswered`, `reset`) |
//! | `graph` | see [`crate::callgraph::report::Report`] |
//! | `visits`, `requests`, `events` | rows written |
//! | `incomplete` | visits left out because an essential value is unknown |
//! | `notes` | sentences for the user |
//! | `resumed` | packets whose visits an earlier reading, which was killed, had saved |
//! | `started_over` | why what such a reading had saved was of no use; null: there was none, or it was |

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::crowd;
use super::flow::Flow;
use super::ledger::{Counts, Ledger};
use super::lookups;
use super::merge::{segments, SourceOptions};
use super::names::{Namer, Rule, NAMES_MAX, OTHER};
use super::place::Place;
use super::quic;
use super::report::{FileReport, SourceReport};
use super::servers::{Evidence, Server, Servers, Tally, OTHER_SERVERS};
use super::stages::Stages;
use super::strangers::{self, Strangers};
use super::tls::Keys;
use super::wire::software::Software;
use super::wire::Kind;
use super::{Endpoint, Segment};
use crate::callgraph::{self, CallGraph};
use crate::error::{Error, Result};
use crate::record::beside::Beside;
use crate::record::rows::{NumberedEvent, Request};
use crate::record::tables::{EventWriter, Paused, TablesSink};
use crate::record::{writer, Visit, VisitSink};
use crate::saved;

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    pub servers: BTreeMap<String, Addresses>,
    pub together: Vec<Vec<String>>,
    pub protocols: BTreeMap<u16, String>,
    pub interactions: Vec<Rule>,
    pub keep_queries: bool,
    pub clock_offsets: Vec<Option<i64>>,
    pub same_host: Vec<IpAddr>,
    pub hosts: Vec<IpAddr>,
    pub ports: Vec<u16>,
    pub leave_out: Vec<SocketAddr>,
    pub keys: Option<PathBuf>,
    pub segment: u64,
    pub threads: usize,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Addresses {
    One(String),
    Many(Vec<String>),
}

impl Addresses {
    pub fn all(&self) -> &[String] {
        match self {
            Addresses::One(one) => std::slice::from_ref(one),
            Addresses::Many(many) => many,
        }
    }
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    pub files: Vec<FileReport>,
    pub begin: Option<i64>,
    pub end: Option<i64>,
    pub servers: Vec<ServerReport>,
    pub counts: Counts,
    pub lookups: lookups::Report,
    pub quic: quic::Report,
    pub apart: Vec<crowd::Report>,
    pub strangers: strangers::Report,
    pub graph: callgraph::report::Report,
    pub visits: u64,
    pub requests: u64,
    pub events: u64,
    pub incomplete: u64,
    pub notes: Vec<String>,
    pub resumed: u64,
    pub started_over: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct ServerReport {
    pub name: String,
    pub address: String,
    pub host: String,
    pub protocol: Option<&'static str>,
    pub evidence: &'static str,
    #[serde(flatten)]
    pub tally: Tally,
}

/// Decodes `paths` ("-" alone is standard input) into `out`/{visits,requests,events}.parquet. With segments, it goes on
/// where an earlier reading of the same packets, which was killed, has saved its state in `out`. The state and its files
/// stay in `out`: see [`crate::saved`].
pub fn decode(
    paths: &[PathBuf],
    out: &Path,
    options: &Options,
    progress: &mut dyn FnMut(u64, u64) -> Result<()>,
) -> Result<Report> {
    let stages = Stages::of(paths, options.threads);
    let begun = Decoder::resume(out, options, stages);
    match begun.and_then(|decoder| decoder.read(paths, options, progress)) {
        Err(Error::Saved(reason)) => {
            Decoder::start_over(out)?;
            if paths.iter().any(|path| path.as_os_str() == "-") {
                return Err(Error::Options(format!(
                    "{reason}; read it again from its start"
                )));
            }
            let mut report = Decoder::new(out, options, stages)?.read(paths, options, progress)?;
            report.started_over = Some(reason);
            Ok(report)
        }
        other => other,
    }
}

/// Failed attempts are judged, visits get their callers, and tables take them.
type Linking = Strangers<CallGraph<Beside<TablesSink>>>;

/// Packets in, tables out.
pub(super) struct Decoder<'o> {
    out: &'o Path,
    flow: Flow,
    visits: Beside<Linking>,
    events: EventWriter,
    keys: Keys,
    place: Place,
    /// Where an earlier reading has saved its state.
    saved: Place,
    stages: Stages,
}

impl<'o> Decoder<'o> {
    pub(super) fn new(out: &'o Path, options: &Options, stages: Stages) -> Result<Self> {
        let namer = Namer::new(&options.interactions, options.keep_queries)?;
        let keys = match &options.keys {
            Some(path) => Keys::of_file(path)?,
            None => Keys::default(),
        };
        let mut flow = Flow::new(Ledger::new(servers(options)?, namer));
        flow.ledger.keys = keys.clone();
        let tables = Beside::new(TablesSink::create(out)?, stages.tables);
        let graph = CallGraph::new(tables).with_ports(options.together.clone());
        Ok(Decoder {
            out,
            flow,
            visits: Beside::new(Strangers::new(graph), stages.graph),
            events: EventWriter::create(out)?,
            keys,
            place: Place::default(),
            saved: Place::default(),
            stages,
        })
    }

    /// With the state that an earlier reading has saved, if there is one.
    pub(super) fn resume(out: &'o Path, options: &Options, stages: Stages) -> Result<Self> {
        if options.segment == 0 {
            return Decoder::new(out, options, stages);
        }
        let Some(earlier) = saved::earlier(out)? else {
            Decoder::start_over(out)?;
            return Decoder::new(out, options, stages);
        };
        let (place, flow, strangers, graph, tables, events): State = saved::value(&earlier)?;
        let tables = TablesSink::resume(out, tables)?;
        let tables = Beside::new(tables, stages.tables);
        let graph = CallGraph::resume(tables, &graph)?;
        let mut decoder = Decoder {
            out,
            flow,
            visits: Beside::new(Strangers::resume(graph, &strangers)?, stages.graph),
            events: EventWriter::resume(out, events)?,
            keys: Keys::default(),
            place: Place::default(),
            saved: place,
            stages,
        };
        let namer = Namer::new(&options.interactions, options.keep_queries)?;
        decoder.flow.revive(namer, &decoder.keys);
        Ok(decoder)
    }

    /// Nothing of an earlier reading remains.
    fn start_over(out: &Path) -> Result<()> {
        saved::forget(
            out,
            &["visits.parquet", "requests.parquet", "events.parquet"],
        )
    }

    /// A segment ends here: its state is saved.
    fn save(&mut self) -> Result<()> {
        let linking = self.visits.here()?;
        linking.next_mut().next_mut().here()?.pause()?;
        self.events.pause()?;
        if !self.keys.is_empty() {
            return Ok(());
        }
        let (strangers, graph) = (linking.saved()?, linking.next().saved()?);
        let tables = linking.next_mut().next_mut().here()?.paused()?;
        let events = self.events.paused()?;
        let state = (self.place, &self.flow, strangers, graph, tables, events);
        saved::save(self.out, &state)
    }

    pub(super) fn take(
        &mut self,
        segment: &Segment<'_>,
        wanted: &Wanted<'_>,
        every: u64,
    ) -> Result<()> {
        if every > 0 {
            self.place.pass(segment);
            if self.place.packets <= self.saved.packets {
                return self.compare();
            }
        }
        if wanted.all || wanted.holds(segment) {
            self.flow.segment(segment);
            hand_on(&mut self.flow.ledger, &mut self.visits, &mut self.events)?;
        }
        if every > 0 && self.place.packets % every == 0 {
            self.save()?;
        }
        Ok(())
    }

    fn compare(&self) -> Result<()> {
        if self.place.packets == self.saved.packets && self.place != self.saved {
            return Err(Error::Saved(OTHER_PACKETS.to_owned()));
        }
        Ok(())
    }

    /// Reads every segment and writes the results.
    pub(super) fn read(
        mut self,
        paths: &[PathBuf],
        options: &Options,
        progress: &mut dyn FnMut(u64, u64) -> Result<()>,
    ) -> Result<Report> {
        let source = SourceOptions {
            offsets: options.clock_offsets.clone(),
            keys: self.keys.clone(),
            beside: self.stages.reading,
        };
        let (wanted, every) = (Wanted::new(options), options.segment);
        let sources = segments(paths, &source, progress, |segment| {
            self.take(segment, &wanted, every)
        })?;
        if self.place.packets < self.saved.packets {
            return Err(Error::Saved(OTHER_PACKETS.to_owned()));
        }
        self.flow.finish();
        self.flow.ledger.settle();
        hand_on(&mut self.flow.ledger, &mut self.visits, &mut self.events)?;
        self.finish(sources)
    }

    fn finish(mut self, sources: SourceReport) -> Result<Report> {
        let names = &self.flow.ledger.names;
        let written = self.events.seal(names)?;
        self.visits.finish(names)?;
        self.events.publish()?;
        let mut report = tell(&self.flow.ledger, sources);
        report.resumed = self.saved.packets;
        let linking = self.visits.here()?;
        report.strangers = linking.report(names);
        let graph = linking.next_mut();
        report.graph = graph.report(names);
        let tables = graph.next_mut().here()?;
        (report.visits, report.requests, report.events) =
            (tables.visits(), tables.requests(), written);
        report.incomplete = tables.incomplete();
        Ok(report)
    }
}

/// What is saved: the place, connections, failed attempts, the call graph, tables of visits, and events.
type State = (
    Place,
    Flow,
    Vec<u8>,
    Vec<u8>,
    Paused<Visit, Request>,
    writer::Paused<NumberedEvent>,
);

const OTHER_PACKETS: &str = "these are other packets than before";

#[inline]
fn hand_on(
    ledger: &mut Ledger,
    visits: &mut impl VisitSink,
    events: &mut EventWriter,
) -> Result<()> {
    for event in ledger.events() {
        events.push(event, &ledger.names)?;
    }
    for visit in ledger.visits.drain(..) {
        visits.push(visit, &ledger.names)?;
    }
    Ok(())
}

/// The connections that the user wants.
pub(super) struct Wanted<'a> {
    options: &'a Options,
    all: bool,
}

impl Wanted<'_> {
    pub(super) fn new(options: &Options) -> Wanted<'_> {
        Wanted {
            options,
            all: options.hosts.is_empty()
                && options.ports.is_empty()
                && options.leave_out.is_empty(),
        }
    }

    fn holds(&self, segment: &Segment<'_>) -> bool {
        let ends = [segment.from, segment.to];
        let Options { hosts, ports, .. } = self.options;
        (hosts.is_empty() || ends.iter().any(|end| hosts.contains(&end.ip)))
            && (ports.is_empty() || ends.iter().any(|end| ports.contains(&end.port)))
            && !is_left_out(&self.options.leave_out, segment)
    }
}

/// Whether one end of the connection is among these.
#[inline]
pub(super) fn is_left_out(left_out: &[SocketAddr], segment: &Segment<'_>) -> bool {
    left_out.iter().any(|address| {
        [segment.from, segment.to]
            .iter()
            .any(|end| (end.ip, end.port) == (address.ip(), address.port()))
    })
}

pub(super) fn servers(options: &Options) -> Result<Servers> {
    let mut named: FxHashMap<Endpoint, String> = FxHashMap::default();
    for (name, addresses) in &options.servers {
        for address in addresses.all() {
            let parsed: SocketAddr = address.parse().map_err(|_| {
                Error::Options(format!(
                    "server {name}={address}: the address must be ip:port"
                ))
            })?;
            let endpoint = Endpoint {
                ip: parsed.ip(),
                port: parsed.port(),
            };
            if let Some(other) = named
                .insert(endpoint, name.clone())
                .filter(|other| other != name)
            {
                return Err(Error::Options(format!(
                    "{address} is called both {other} and {name}; give it one name"
                )));
            }
        }
    }
    let mut hints = FxHashMap::default();
    for (&port, protocol) in &options.protocols {
        hints.insert(port, kind(protocol)?);
    }
    Ok(Servers::new(named, hints, &options.same_host))
}

const KINDS: [(Kind, &str); 15] = [
    (Kind::Http, "http"),
    (Kind::Http2, "http2"),
    (Kind::Ajp, "ajp"),
    (Kind::FastCgi, "fastcgi"),
    (Kind::MySql, "mysql"),
    (Kind::Postgres, "postgres"),
    (Kind::Redis, "redis"),
    (Kind::Memcached, "memcached"),
    (Kind::MongoDb, "mongodb"),
    (Kind::Kafka, "kafka"),
    (Kind::Cassandra, "cassandra"),
    (Kind::Amqp, "amqp"),
    (Kind::Ldap, "ldap"),
    (Kind::Dns, "dns"),
    (Kind::Opaque, "opaque"),
];

fn kind(name: &str) -> Result<Kind> {
    let known = KINDS.iter().find(|(_, known)| *known == name);
    known.map(|(kind, _)| *kind).ok_or_else(|| {
        let all = KINDS.map(|(_, name)| name).join(", ");
        Error::Options(format!("protocol {name} is none of {all}"))
    })
}

pub(super) fn tell(ledger: &Ledger, sources: SourceReport) -> Report {
    let names = &ledger.names;
    let host = |index: u32| names.hosts.get(index as usize).cloned().unwrap_or_default();
    let used = |server: &Server| {
        let tally = &server.tally;
        server.evidence != Evidence::Asked && tally.attempts + tally.connections + tally.visits > 0
    };
    let servers = ledger
        .servers
        .all()
        .iter()
        .zip(&names.servers)
        .filter(|(server, _)| used(server));
    let servers: Vec<ServerReport> = servers
        .map(|(server, name)| ServerReport {
            name: name.clone(),
            address: server.endpoint.to_string(),
            host: host(server.host),
            protocol: KINDS
                .iter()
                .find(|(kind, _)| Some(*kind) == server.kind)
                .map(|(_, name)| *name)
                .or((server.tally.quic > 0).then_some("http3")),
            evidence: match server.evidence {
                Evidence::Named => "named",
                Evidence::Syn => "syn",
                Evidence::Content => "content",
                Evidence::Guess => "guess",
                Evidence::Asked => "asked",
            },
            tally: said_alone(name, &server.tally),
        })
        .collect();
    Report {
        begin: sources.files.iter().filter_map(|file| file.begin).min(),
        end: sources.files.iter().filter_map(|file| file.end).max(),
        notes: notes(ledger, &servers),
        files: sources.files,
        servers,
        counts: ledger.counts.clone(),
        lookups: ledger.lookups,
        quic: ledger.quic.clone(),
        apart: ledger.apart(),
        ..Report::default()
    }
}

/// Servers that are combined into one do not run one software.
fn said_alone(name: &str, tally: &Tally) -> Tally {
    let mut tally = tally.clone();
    if name == OTHER_SERVERS {
        tally.software = Software::default();
    }
    tally
}

fn notes(ledger: &Ledger, servers: &[ServerReport]) -> Vec<String> {
    let counts = &ledger.counts;
    let mut notes = Vec::new();
    if ledger.names.interactions.iter().any(|name| name == OTHER) {
        notes.push(format!(
            "requests have more than {NAMES_MAX} names: those of the names that came last are called {OTHER}"
        ));
    }
    if counts.copies > 0 {
        let copies = counts.copies;
        notes.push(format!(
            "{copies} packets are in the captures more than once; the earliest of each was used"
        ));
    }
    if counts.roles_corrected > 0 {
        let n = counts.roles_corrected;
        notes.push(format!(
            "{n} connections that were open before the recording were first read with client and server exchanged; \
             visits before the correction are under the wrong server"
        ));
    }
    for server in servers
        .iter()
        .filter(|server| server.evidence == "guess" && server.tally.connections > 0)
    {
        let name = &server.name;
        notes.push(format!(
            "that {name} is a server is a guess from ports and peers: its connections were open before the recording"
        ));
    }
    notes
}
