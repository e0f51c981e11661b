//! Which failed connection attempts are requests of a client, and which are a scan or a flood.
//!
//! The tables treat an attempt as a request of its sender. That is wrong for port scans and floods,
//! because no client waits for them. They can be distinguished only when everything is read:
//! ```text
//! later answered             the connection continues: its requests are there
//! refused  served port       a request: the server refused a port that it serves to others
//!          other port        a request, unless it is part of a scan
//! no       of a client       a request, unless it is part of a scan
//! answer   served port       a request, unless the sender is passed over: it completed none of many attempts, while
//!                            others were accepted, so that it is kept out or wants no connection
//!          other port        a request, unless it is part of a scan
//! ```
//!
//! A client is a sender with a served visit; a served port is one that has served a client. An
//! attempt is part of a scan if it goes to a port that serves nothing, from a sender that tried
//! [`MANY`] such ports, or to an address at which so many were tried. (Attempts without any sign of
//! a client do not reach this module: [`super::connection`] counts them.)

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use super::crowd::{self, Crowd};
use super::servers::{OTHER_HOSTS, OTHER_SERVERS};
use crate::error::Result;
use crate::record::{Names, Visit, VisitSink, NO_TIME};
use crate::saved;

/// A client of servers that are down knows some of them; no client knows or calls more than this at
/// one host.
const MANY: usize = 32;
/// Failed attempts that wait for the end: 22 MB. Beyond that the older half is classified from what
/// is known by then.
const HELD: usize = 1 << 17;
const SECOND: i64 = 1_000_000_000;

/// Holds failed attempts back from `next` until they are classified.
pub struct Strangers<S: VisitSink> {
    next: S,
    held: VecDeque<(u64, Visit)>,
    /// For each connection, the newest of its held attempts.
    newest: FxHashMap<u32, u64>,
    numbers: u64,
    clients: Marks,
    servers: Marks,
    /// Per server the seconds in which it accepted a connection.
    accepted: FxHashMap<u32, Vec<i64>>,
    apart: [Crowd<u32, u32>; 2],
    kept: FxHashMap<u32, Kept>,
}

/// Failed attempts at a server that are requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Kept {
    pub refused: u64,
    pub unanswered: u64,
    pub reset: u64,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    pub apart: Vec<crowd::Report>,
    pub kept: BTreeMap<String, Kept>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Refused,
    Unanswered,
    Reset,
}

/// Indices that were marked.
#[derive(Debug, Default, Deserialize, Serialize)]
struct Marks(Vec<bool>);

impl Marks {
    #[inline]
    fn set(&mut self, index: u32) {
        let at = index as usize;
        if at >= self.0.len() {
            // An unknown name (the largest number) is none.
            if index >= crate::record::CALLER_IS_SERVER {
                return;
            }
            self.0.resize(at + 1, false);
        }
        if let Some(mark) = self.0.get_mut(at) {
            *mark = true;
        }
    }

    fn has(&self, index: u32) -> bool {
        self.0.get(index as usize).copied().unwrap_or(false)
    }
}

impl<S: VisitSink> Strangers<S> {
    pub fn new(next: S) -> Self {
        Strangers {
            next,
            held: VecDeque::new(),
            newest: FxHashMap::default(),
            numbers: 0,
            clients: Marks::default(),
            servers: Marks::default(),
            accepted: FxHashMap::default(),
            apart: [Crowd::default(), Crowd::default()],
            kept: FxHashMap::default(),
        }
    }

    pub fn next_mut(&mut self) -> &mut S {
        &mut self.next
    }

    /// What it knows, for [`Self::resume`].
    pub fn saved(&self) -> Result<Vec<u8>> {
        let Strangers {
            held,
            newest,
            numbers,
            clients,
            servers,
            accepted,
            apart,
            kept,
            next: _,
        } = self;
        let attempts = (held, newest, numbers);
        saved::bytes(&(attempts, clients, servers, accepted, apart, kept))
    }

    pub fn resume(next: S, state: &[u8]) -> Result<Self> {
        let (attempts, clients, servers, accepted, apart, kept) = saved::value(state)?;
        let (held, newest, numbers) = attempts;
        Ok(Strangers {
            next,
            held,
            newest,
            numbers,
            clients,
            servers,
            accepted,
            apart,
            kept,
        })
    }

    pub fn next(&self) -> &S {
        &self.next
    }

    pub fn report(&self, names: &Names) -> Report {
        let name = |server: u32| {
            let name = names.servers.get(server as usize);
            name.cloned().unwrap_or_default()
        };
        let mut apart = Vec::new();
        for (state, crowd) in ["unanswered", "refused"].into_iter().zip(&self.apart) {
            apart.extend(crowd.report(state, name).map(|report| crowd::Report {
                exact: report.exact && !is_summed_up(crowd, names),
                ..report
            }));
        }
        Report {
            apart,
            kept: self
                .kept
                .iter()
                .map(|(&server, &kept)| (name(server), kept))
                .collect(),
        }
    }

    fn serve(&mut self, visit: &Visit) {
        self.clients.set(visit.caller);
        self.servers.set(visit.server);
        if visit.connected != NO_TIME {
            let second = visit.connected / SECOND;
            let seconds = self.accepted.entry(visit.server).or_default();
            if seconds.last() != Some(&second) {
                seconds.push(second);
            }
        }
        if !self.newest.is_empty() {
            self.newest.remove(&visit.connection);
        }
    }

    /// Classifies the oldest `count` of the held attempts.
    fn judge(&mut self, count: usize, names: &Names) -> Result<()> {
        // Visits come roughly in order; a search needs exact order.
        for seconds in self.accepted.values_mut() {
            seconds.sort_unstable();
        }
        let scans = self.scans(names);
        let passed = self.passed_over(names);
        for _ in 0..count {
            let Some((number, visit)) = self.held.pop_front() else {
                break;
            };
            if self.newest.get(&visit.connection) != Some(&number) {
                continue;
            }
            self.newest.remove(&visit.connection);
            let how = how(&visit, names);
            let stranger = match how {
                How::Reset => false,
                _ if !self.servers.has(visit.server) => scans.holds(&visit, names),
                How::Refused => false,
                How::Unanswered => passed.contains(&visit.connection),
            };
            if stranger {
                let crowd = &mut self.apart[usize::from(how == How::Refused)];
                crowd.count(visit.caller, visit.server, visit.sent, visit.departure);
                continue;
            }
            let kept = self.kept.entry(visit.server).or_default();
            match how {
                How::Refused => kept.refused += 1,
                How::Unanswered => kept.unanswered += 1,
                How::Reset => kept.reset += 1,
            }
            self.next.push(visit, names)?;
        }
        Ok(())
    }

    fn waiting(&self) -> impl Iterator<Item = &Visit> {
        let valid =
            |(number, visit): &&(u64, Visit)| self.newest.get(&visit.connection) == Some(number);
        self.held.iter().filter(valid).map(|(_, visit)| visit)
    }

    fn scans(&self, names: &Names) -> Scans {
        let mut by_sender: FxHashMap<u32, FxHashSet<u32>> = FxHashMap::default();
        let mut by_address: FxHashMap<u32, FxHashSet<u32>> = FxHashMap::default();
        for visit in self
            .waiting()
            .filter(|visit| !self.servers.has(visit.server))
        {
            by_sender
                .entry(visit.caller)
                .or_default()
                .insert(visit.server);
            if let Some(&host) = names.server_hosts.get(visit.server as usize) {
                by_address.entry(host).or_default().insert(visit.server);
            }
        }
        let many = |tried: FxHashMap<u32, FxHashSet<u32>>| {
            let many = tried.into_iter().filter(|(_, ports)| ports.len() >= MANY);
            many.map(|(key, _)| key).collect()
        };
        Scans {
            senders: many(by_sender),
            addresses: many(by_address),
        }
    }

    /// Connections of senders that completed none of many attempts at served ports, while others
    /// were accepted there.
    fn passed_over(&self, names: &Names) -> FxHashSet<u32> {
        let mut by_sender: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        for visit in self.waiting() {
            let strange = how(visit, names) == How::Unanswered && !self.clients.has(visit.caller);
            if strange && self.accepted_during(visit) {
                by_sender
                    .entry(visit.caller)
                    .or_default()
                    .push(visit.connection);
            }
        }
        let many = by_sender
            .into_values()
            .filter(|attempts| attempts.len() >= MANY);
        many.flatten().collect()
    }

    fn accepted_during(&self, attempt: &Visit) -> bool {
        let Some(seconds) = self.accepted.get(&attempt.server) else {
            return false;
        };
        let first = seconds.partition_point(|&second| second < attempt.sent / SECOND);
        let second = seconds.get(first);
        second.is_some_and(|&second| second <= attempt.departure / SECOND)
    }
}

/// Whether some of its senders or servers are combined ones.
fn is_summed_up(crowd: &Crowd<u32, u32>, names: &Names) -> bool {
    let called = |names: &[String], name: &str| {
        let found = names.iter().position(|known| known == name);
        found.map(|index| index as u32)
    };
    let (senders, servers) = crowd.members();
    called(&names.hosts, OTHER_HOSTS).is_some_and(|other| senders.contains_key(&other))
        || called(&names.servers, OTHER_SERVERS).is_some_and(|other| servers.contains_key(&other))
}

struct Scans {
    senders: FxHashSet<u32>,
    addresses: FxHashSet<u32>,
}

impl Scans {
    fn holds(&self, attempt: &Visit, names: &Names) -> bool {
        let host = names.server_hosts.get(attempt.server as usize);
        self.senders.contains(&attempt.caller)
            || host.is_some_and(|host| self.addresses.contains(host))
    }
}

fn how(attempt: &Visit, names: &Names) -> How {
    match names
        .statuses
        .get(attempt.status as usize)
        .map(String::as_str)
    {
        Some("refused") => How::Refused,
        Some("reset") => How::Reset,
        _ => How::Unanswered,
    }
}

impl<S: VisitSink> VisitSink for Strangers<S> {
    #[inline]
    fn push(&mut self, visit: Visit, names: &Names) -> Result<()> {
        if visit.served {
            self.serve(&visit);
            return self.next.push(visit, names);
        }
        self.numbers += 1;
        self.newest.insert(visit.connection, self.numbers);
        self.held.push_back((self.numbers, visit));
        if self.held.len() > HELD {
            self.judge(HELD / 2, names)?;
        }
        Ok(())
    }

    fn finish(&mut self, names: &Names) -> Result<()> {
        self.judge(self.held.len(), names)?;
        self.next.finish(names)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
