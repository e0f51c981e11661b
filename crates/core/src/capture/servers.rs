//! Which end is the server, and its protocol.
//!
//! The SYN of a connection that was opened during the recording shows the server. A connection that
//! was open before (as pools usually are) has no such evidence. Then the evidence is weighed,
//! strongest first:
//! ```text
//! named      the user named it
//! SYN        the endpoint answered a SYN of another connection
//! content    its bytes parse as a protocol in one orientation only
//! guess      hinted or well-known port, then the end with more peers, then the lower port
//! asked      a SYN was sent to it, and not accepted
//! ```
//!
//! A later SYN that contradicts a guess corrects it (`flow.rs`).

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::saved::Fixed;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use super::wire::detect::{detect, usual};
use super::wire::software::Software;
use super::wire::Kind;
use super::Endpoint;
use crate::record::Names;

/// More servers than this are combined into one, and so are more endpoints than this of failed
/// attempts: a port scan must not fill the memory, nor take the places of servers.
const SERVERS: usize = 1 << 14;
const ASKED: usize = 1 << 14;
pub const OTHER_SERVERS: &str = "(other servers)";
/// The same for calling hosts.
const HOSTS: usize = 1 << 16;
pub const OTHER_HOSTS: &str = "(other hosts)";
/// Endpoints of connections that were open before the recording, counted to see who has many peers.
const PEERS: usize = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub enum Evidence {
    Asked,
    Guess,
    Content,
    Syn,
    Named,
}

/// Counts of each server, for the report.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Tally {
    pub connections: u64,
    pub attempts: u64,
    pub syn_repeats: u64,
    pub synack_repeats: u64,
    pub data_drops: u64,
    /// Connections on which the server spoke first.
    pub greeted: u64,
    /// Connections on which it should have spoken first and said nothing, and the longest of these.
    pub unheard: u64,
    pub unheard_longest_ns: i64,
    pub refused: u64,
    /// Attempts that failed without an answer, those that the sender never completed, and those
    /// that were still waiting when the recording ended.
    pub unanswered: u64,
    pub half_open: u64,
    pub attempts_unfinished: u64,
    pub visits: u64,
    pub visits_max: u64,
    pub established_max: u64,
    /// Exchanges still open when the recording ended, and when the oldest of them was sent.
    #[serde(rename = "visits_unfinished")]
    pub visits_now: u64,
    pub unfinished_since: Option<i64>,
    /// Bytes that could not be read as the protocol, by reason.
    #[serde(with = "crate::saved::fixed_counts")]
    pub unreadable: BTreeMap<Fixed, u64>,
    /// Connections read by change of direction only, by reason.
    #[serde(with = "crate::saved::fixed_counts")]
    pub opaque: BTreeMap<Fixed, u64>,
    /// TLS connections by what their clients asked for: the server's name and the protocols that they offered.
    pub tls: BTreeMap<String, u64>,
    /// Connections of QUIC, which are among the others.
    pub quic: u64,
    /// What it said that it runs.
    pub software: Software,
    #[serde(skip)]
    pub established_now: u64,
}

impl Tally {
    /// Whether the server speaks first on its connections.
    pub fn greets(&self) -> bool {
        2 * self.greeted > self.connections
    }
    pub fn enter(&mut self) {
        self.visits_now += 1;
        self.visits_max = self.visits_max.max(self.visits_now);
    }
    pub fn leave(&mut self) {
        self.visits_now = self.visits_now.saturating_sub(1);
    }
    /// Nothing of a connection was read by change of direction, although it was counted so.
    pub fn is_read(&mut self, why: &'static str) {
        if let Some(count) = self.opaque.get_mut(why) {
            *count = count.saturating_sub(1);
        }
        self.opaque.retain(|_, count| *count > 0);
    }
    pub fn establish(&mut self) {
        self.established_now += 1;
        self.established_max = self.established_max.max(self.established_now);
    }
    pub fn part(&mut self) {
        self.established_now = self.established_now.saturating_sub(1);
    }
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Server {
    pub endpoint: Endpoint,
    pub host: u32,
    pub evidence: Evidence,
    /// Its protocol, once known; `told`: from the user.
    pub kind: Option<Kind>,
    pub told: bool,
    /// It answered a SYN.
    pub accepts: bool,
    #[serde(with = "whole_tally")]
    pub tally: Tally,
}

impl Server {
    pub fn is_told_opaque(&self) -> bool {
        self.told && self.kind == Some(Kind::Opaque)
    }
}

/// With what the report does not show.
mod whole_tally {
    use super::Tally;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(tally: &Tally, to: S) -> Result<S::Ok, S::Error> {
        (tally, tally.established_now).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Tally, D::Error> {
        let (tally, established_now) = <(Tally, u64)>::deserialize(from)?;
        Ok(Tally {
            established_now,
            ..tally
        })
    }
}

/// A host that took part in a connection.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct Host {
    name: u32,
    /// It completed a connection that it opened, or used one that was open before.
    calls: bool,
}

#[derive(Debug, Default, Deserialize, Serialize)]
pub struct Servers {
    all: Vec<Server>,
    /// Addresses at which a server accepts connections.
    serving: FxHashSet<IpAddr>,
    by_endpoint: FxHashMap<Endpoint, u32>,
    given_names: FxHashMap<Endpoint, String>,
    hints: FxHashMap<u16, Kind>,
    by_name: FxHashMap<String, u32>,
    /// Of those whose only evidence is a SYN.
    asked: usize,
    peers: FxHashMap<Endpoint, u32>,
    hosts: FxHashMap<IpAddr, Host>,
    /// Address → the name of its host.
    aliases: FxHashMap<IpAddr, IpAddr>,
    /// Set when a SYN shows that an endpoint is a server that was not known as one.
    pub proved: Option<Endpoint>,
}

impl Servers {
    /// `same_host`: addresses of one host, named by the first that other hosts can reach.
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

    /// The name of the host with this address.
    pub fn host(&mut self, ip: IpAddr, names: &mut Names) -> u32 {
        let ip = self.aliases.get(&ip).copied().unwrap_or(ip);
        if let Some(host) = self.hosts.get(&ip) {
            return host.name;
        }
        if names.hosts.len() > HOSTS {
            return HOSTS as u32;
        }
        let name = names.hosts.len() as u32;
        if names.hosts.len() == HOSTS {
            names.hosts.push(OTHER_HOSTS.to_owned());
            return name;
        }
        names.hosts.push(ip.to_string());
        self.hosts.insert(ip, Host { name, calls: false });
        name
    }

    /// The host with this address has a connection as its client.
    pub fn call(&mut self, ip: IpAddr, names: &mut Names) -> u32 {
        let name = self.host(ip, names);
        let ip = self.aliases.get(&ip).copied().unwrap_or(ip);
        if let Some(host) = self.hosts.get_mut(&ip) {
            host.calls = true;
        }
        name
    }

    /// Whether the host with this address had a connection as its client.
    pub fn calls(&self, ip: IpAddr) -> bool {
        let ip = self.aliases.get(&ip).copied().unwrap_or(ip);
        self.hosts.get(&ip).is_some_and(|host| host.calls)
    }

    pub fn index(&self, endpoint: Endpoint) -> Option<u32> {
        self.by_endpoint.get(&endpoint).copied()
    }

    /// Whether the endpoint ever accepted a connection.
    pub fn accepts(&self, endpoint: Endpoint) -> bool {
        let server = self.index(endpoint);
        let server = server.and_then(|index| self.all.get(index as usize));
        server.is_some_and(|server| server.accepts || server.tally.connections > 0)
    }

    /// Whether a server accepts connections at this address.
    pub fn serves(&self, ip: IpAddr) -> bool {
        self.serving.contains(self.aliases.get(&ip).unwrap_or(&ip))
    }

    /// The endpoint answered a SYN.
    pub fn accept(&mut self, endpoint: Endpoint, names: &mut Names) -> u32 {
        if self.serving.len() < SERVERS {
            let ip = self.aliases.get(&endpoint.ip).unwrap_or(&endpoint.ip);
            self.serving.insert(*ip);
        }
        let index = self.find(endpoint, Evidence::Syn, names);
        if let Some(server) = self.get(index) {
            server.accepts = true;
        }
        index
    }

    /// The server at `endpoint`, new or known, with this much evidence.
    pub fn find(&mut self, endpoint: Endpoint, evidence: Evidence, names: &mut Names) -> u32 {
        if let Some(&index) = self.by_endpoint.get(&endpoint) {
            if self.strengthen(index, evidence) && evidence == Evidence::Syn {
                self.proved = Some(endpoint);
            }
            return index;
        }
        if evidence == Evidence::Syn {
            self.proved = Some(endpoint);
        }
        let given = self.given_names.get(&endpoint);
        let crowded = match evidence {
            Evidence::Asked => self.asked >= ASKED,
            _ => self.all.len() - self.asked >= SERVERS,
        };
        if crowded && given.is_none() {
            // It is not stored by its address: one that accepts later may still get a place of its
            // own.
            if let Some(&others) = self.by_name.get(OTHER_SERVERS) {
                self.strengthen(others, evidence);
                return others;
            }
            return self.add(endpoint, evidence, OTHER_SERVERS.to_owned(), names);
        }
        let name = given.cloned().unwrap_or_else(|| endpoint.to_string());
        let evidence = given.map_or(evidence, |_| Evidence::Named);
        let index = match self.by_name.get(&name) {
            Some(&index) => index,
            None => self.add(endpoint, evidence, name, names),
        };
        self.by_endpoint.insert(endpoint, index);
        index
    }

    /// Records evidence; true if it is more than before.
    fn strengthen(&mut self, server: u32, evidence: Evidence) -> bool {
        let Some(server) = self.all.get_mut(server as usize) else {
            return false;
        };
        if server.evidence >= evidence {
            return false;
        }
        self.asked -= usize::from(server.evidence == Evidence::Asked);
        server.evidence = evidence;
        true
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
        self.asked += usize::from(evidence == Evidence::Asked);
        self.by_name.insert(name.clone(), self.all.len() as u32);
        names.servers.push(name);
        names.server_hosts.push(host);
        self.all.push(Server {
            endpoint,
            host,
            evidence,
            kind,
            told: kind.is_some(),
            accepts: false,
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

    /// Which of two ends is the server, given the first bytes of each. None: wait for more, unless
    /// `forced`.
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
