//! Who is a server, and what does it speak.
//!
//! A connection that was opened during the recording says so itself: its SYN goes to the server. One that was open
//! before (pools usually are) does not. For those the evidence is weighed, strongest first:
//!
//! ```text
//! named      the user said so
//! SYN        the endpoint answered a SYN of another connection
//! content    its bytes read as a protocol in one orientation only
//! guess      hinted or well-known port, then the end with more peers, then the lower port
//! ```
//! A guess is taken back when a later SYN contradicts it (`flow.rs`).

use std::collections::BTreeMap;
use std::net::IpAddr;

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::wire::detect::{detect, usual};
use super::wire::Kind;
use super::Endpoint;
use crate::record::Names;

/// More servers than this are told as one: a port scan must not fill the memory.
const SERVERS: usize = 1 << 14;
/// Endpoints of connections that were open before the recording, counted to see who has many peers.
const PEERS: usize = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Evidence {
    Guess,
    Content,
    Syn,
    Named,
}

/// What is counted per server, for the report.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Tally {
    pub connections: u64,
    pub attempts: u64,
    pub syn_repeats: u64,
    pub synack_repeats: u64,
    pub data_drops: u64,
    pub refused: u64,
    /// Attempts that failed without an answer, and those that were still waiting when the recording ended.
    pub unanswered: u64,
    pub attempts_unfinished: u64,
    pub visits: u64,
    pub visits_max: u64,
    pub established_max: u64,
    /// Exchanges still open when the recording ended.
    pub visits_unfinished: u64,
    /// Bytes that could not be read as the protocol, by reason.
    pub unreadable: BTreeMap<&'static str, u64>,
    /// Connections read by change of direction only, by reason.
    pub opaque: BTreeMap<&'static str, u64>,
    #[serde(skip)]
    pub visits_now: u64,
    #[serde(skip)]
    pub established_now: u64,
}

impl Tally {
    pub fn enter(&mut self) {
        self.visits_now += 1;
        self.visits_max = self.visits_max.max(self.visits_now);
    }
    pub fn leave(&mut self) {
        self.visits_now = self.visits_now.saturating_sub(1);
    }
    pub fn establish(&mut self) {
        self.established_now += 1;
        self.established_max = self.established_max.max(self.established_now);
    }
    pub fn part(&mut self) {
        self.established_now = self.established_now.saturating_sub(1);
    }
}

#[derive(Clone, Debug)]
pub struct Server {
    pub endpoint: Endpoint,
    pub host: u32,
    pub evidence: Evidence,
    /// What it speaks, once that is known; `told`: because the user says so.
    pub kind: Option<Kind>,
    pub told: bool,
    pub tally: Tally,
}

#[derive(Debug, Default)]
pub struct Servers {
    all: Vec<Server>,
    by_endpoint: FxHashMap<Endpoint, u32>,
    given_names: FxHashMap<Endpoint, String>,
    hints: FxHashMap<u16, Kind>,
    peers: FxHashMap<Endpoint, u32>,
    hosts: FxHashMap<IpAddr, u32>,
    /// Address → what its host is called by.
    aliases: FxHashMap<IpAddr, IpAddr>,
    /// Set when a SYN proves an endpoint to be a server that was not known as one.
    pub proved: Option<Endpoint>,
}

impl Servers {
    /// `same_host`: addresses that are all of one host, called by the first that others can reach.
    pub fn new(
        given_names: FxHashMap<Endpoint, String>,
        hints: FxHashMap<u16, Kind>,
        same_host: &[IpAddr],
    ) -> Servers {
        let reachable = same_host.iter().find(|ip| !ip.is_loopback());
        let called = reachable.or(same_host.first());
        let aliases = called.map(|called| same_host.iter().map(|ip| (*ip, *called)));
        Servers {
            given_names,
            hints,
            aliases: aliases.into_iter().flatten().collect(),
            ..Servers::default()
        }
    }

    pub fn all(&self) -> &[Server] {
        &self.all
    }

    #[inline]
    pub fn get(&mut self, server: u32) -> Option<&mut Server> {
        self.all.get_mut(server as usize)
    }

    pub fn tally(&mut self, server: u32, count: impl FnOnce(&mut Tally)) {
        if let Some(server) = self.get(server) {
            count(&mut server.tally);
        }
    }

    pub fn host(&mut self, ip: IpAddr, names: &mut Names) -> u32 {
        let ip = self.aliases.get(&ip).copied().unwrap_or(ip);
        *self.hosts.entry(ip).or_insert_with(|| {
            names.hosts.push(ip.to_string());
            names.hosts.len() as u32 - 1
        })
    }

    /// The server at `endpoint`, new or known, for which there is this much evidence.
    pub fn find(&mut self, endpoint: Endpoint, evidence: Evidence, names: &mut Names) -> u32 {
        if let Some(&index) = self.by_endpoint.get(&endpoint) {
            if let Some(server) = self
                .all
                .get_mut(index as usize)
                .filter(|s| s.evidence < evidence)
            {
                server.evidence = evidence;
                if evidence == Evidence::Syn {
                    self.proved = Some(endpoint);
                }
            }
            return index;
        }
        let given = self.given_names.get(&endpoint);
        let known = given.and_then(|given| names.servers.iter().position(|name| name == given));
        let index = match known {
            Some(index) => index as u32,
            None if self.all.len() > SERVERS => SERVERS as u32,
            None => {
                let name = match given {
                    Some(name) => name.clone(),
                    None if self.all.len() == SERVERS => "(other servers)".to_owned(),
                    None => endpoint.to_string(),
                };
                self.add(
                    endpoint,
                    if given.is_some() {
                        Evidence::Named
                    } else {
                        evidence
                    },
                    name,
                    names,
                )
            }
        };
        if self.by_endpoint.len() < 4 * SERVERS {
            self.by_endpoint.insert(endpoint, index);
        }
        if evidence == Evidence::Syn {
            self.proved = Some(endpoint);
        }
        index
    }

    fn add(
        &mut self,
        endpoint: Endpoint,
        evidence: Evidence,
        name: String,
        names: &mut Names,
    ) -> u32 {
        let host = self.host(endpoint.ip, names);
        let kind = self.hints.get(&endpoint.port).copied();
        names.servers.push(name);
        names.server_hosts.push(host);
        self.all.push(Server {
            endpoint,
            host,
            evidence,
            kind,
            told: kind.is_some(),
            tally: Tally::default(),
        });
        self.all.len() as u32 - 1
    }

    fn evidence(&self, endpoint: Endpoint) -> Option<Evidence> {
        let known = self
            .by_endpoint
            .get(&endpoint)
            .and_then(|&i| self.all.get(i as usize));
        match known {
            Some(server) => Some(server.evidence),
            None => self
                .given_names
                .contains_key(&endpoint)
                .then_some(Evidence::Named),
        }
    }

    /// A connection between these was open before the recording began.
    pub fn count_peers(&mut self, ends: [Endpoint; 2]) {
        for end in ends {
            if self.peers.len() < PEERS || self.peers.contains_key(&end) {
                *self.peers.entry(end).or_insert(0) += 1;
            }
        }
    }

    /// Which of two ends is the server, given the first bytes each of them sent. None: wait for more, unless `forced`.
    pub fn orient(
        &self,
        ends: [Endpoint; 2],
        first: [&[u8]; 2],
        forced: bool,
    ) -> Option<(usize, Evidence)> {
        let known = [self.evidence(ends[0]), self.evidence(ends[1])];
        if known[0] != known[1] && known[0].max(known[1]) >= Some(Evidence::Content) {
            return Some((usize::from(known[1] > known[0]), Evidence::Syn));
        }
        let reads = |server: usize| {
            detect(ends[server].port, first[1 - server], first[server])
                .is_some_and(|(kind, _)| kind != Kind::Opaque)
        };
        match (reads(0), reads(1)) {
            (true, false) => return Some((0, Evidence::Content)),
            (false, true) => return Some((1, Evidence::Content)),
            _ if !forced => return None,
            _ => {}
        }
        let rank = |end: Endpoint| {
            let peers = self.peers.get(&end).copied().unwrap_or(0);
            (
                self.hints.contains_key(&end.port),
                usual(end.port).is_some(),
                end.port < 1024,
                peers,
                u16::MAX - end.port,
            )
        };
        Some((usize::from(rank(ends[1]) > rank(ends[0])), Evidence::Guess))
    }
}
