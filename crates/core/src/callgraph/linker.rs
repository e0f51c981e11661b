//! Gives each visit its calls when it departs, and each tree its request when its root departs.

use super::chain::likeliest;
use super::edges::{reaches, Nesting, ENOUGH};
use super::fates::{count_fate, Fates};
use super::jobs;
use super::lane::{Lane, Place, Tree};
use super::machines::Hosts;
use super::model::{Call, Frame, Model, CALLS_MAX, NO_CONNECTION};
use super::outlived::Outlived;
use super::report::{EdgeReport, Report, Unlinked};
use super::stays::{union, Stays};
use super::transactions::{Part, Transactions};
use crate::error::Result;
use crate::record::{Names, Visit, VisitSink, CALLER_IS_SERVER, NO_ID};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// How long a finished call waits for its parent: twice the longest visit of a caller so far, and
/// at least 1 + 2 + 4 s (three lost SYNs of the next call) and a second; at most a minute.
const WAIT_NS: (i64, i64) = (8_000_000_000, 60_000_000_000);
/// Visits that wait for a parent at once, about 15 MB.
const WAITING: usize = 1 << 16;
/// The number of visits between two checks for calls that waited too long.
const EXPIRE_EVERY: u64 = 64;
/// Connections are looked through once in so many visits, because there may be as many as visits.
const FORGET_EVERY: u64 = 1 << 14;
/// The weight of a choice among several visits, relative to one without a rival.
const UNSURE: f64 = 0.1;

#[derive(Deserialize, Serialize)]
struct Edge {
    caller: u32,
    callee: u32,
    host: u32,
    observed: bool,
    model: Model,
    /// A visit that was alone so far, with all calls inside it; invalid if a later visit overlaps
    /// it.
    lesson: Option<(Frame, Vec<Call>)>,
    linked: u64,
    parents: u64,
}

/// What is known about calls from a host to a server.
#[derive(Clone, Copy, PartialEq, Deserialize, Serialize)]
enum Origin {
    /// A server of that host calls it.
    Server,
    Client,
    /// Unknown so far; checked again when there are more servers than this.
    Unknown(usize),
}

#[derive(Clone, Copy)]
enum Reason {
    Unclaimed,
    Crowded,
    Ended,
}

type Pair = (u32, u32);

#[derive(Default, Deserialize, Serialize)]
pub struct Linker {
    /// Lists of names that one server has at its ports.
    pub(super) together: Vec<Vec<String>>,
    edges: Vec<Edge>,
    /// Edges by their caller.
    out: FxHashMap<u32, Vec<usize>>,
    origins: FxHashMap<Pair, Origin>,
    lanes: FxHashMap<Pair, Lane>,
    fates: Fates,
    /// For each server that calls.
    stays: FxHashMap<u32, Stays>,
    /// The server to which each connection belongs, and when that was last seen: one of its calls has a parent.
    owners: FxHashMap<u32, (u32, i64)>,
    outlived: Outlived,
    entries: Vec<u32>,
    waiting: usize,
    longest: i64,
    clock: i64,
    visits: u64,
    requests: u64,
    unlinked: Unlinked,
    /// The candidates of a choice; kept, so that no choice asks for memory.
    #[serde(skip)]
    candidates: (Vec<(Place, Call)>, Vec<Call>),
}

impl Linker {
    /// Finds the edges in the sample, and goes through it once to learn the model of each.
    pub fn learn(&mut self, sample: &[Visit], edges: &[Nesting], hosts: &Hosts<'_>) -> Result<()> {
        for nesting in edges {
            self.add_edge(nesting.caller, nesting.callee, hosts, true);
        }
        let mut sampled: FxHashMap<Pair, usize> = FxHashMap::default();
        let mut calls: FxHashMap<Pair, usize> = FxHashMap::default();
        let mut transactions = Transactions::default();
        for (number, visit) in (0..).zip(sample.iter().filter(|visit| visit.served)) {
            let pair = (visit.caller, visit.server);
            *sampled.entry(pair).or_default() += 1;
            let (place, part) = ((visit.sent, number), Part::of(visit, hosts.names));
            let ended = transactions.add(visit.connection, place, part);
            let calls = calls.entry(pair).or_default();
            *calls = (*calls + 1).saturating_sub(ended.map_or(0, |all| all.len() - 1));
        }
        self.guess_calls(sample, &calls);
        for (pair, visits) in sampled {
            if visits >= ENOUGH {
                self.origins.entry(pair).or_insert(Origin::Client);
            }
        }
        for visit in sample {
            self.link(visit.clone(), hosts, &mut Nowhere)?;
        }
        self.forget_sample();
        Ok(())
    }

    /// Where only one server of a host calls another: the number of calls for each visit.
    fn guess_calls(&mut self, sample: &[Visit], calls: &FxHashMap<Pair, usize>) {
        let mut visits: FxHashMap<u32, usize> = FxHashMap::default();
        for visit in sample.iter().filter(|visit| visit.served) {
            *visits.entry(visit.server).or_default() += 1;
        }
        let pairs: Vec<Pair> = self.edges.iter().map(|e| (e.host, e.callee)).collect();
        for edge in &mut self.edges {
            let pair = (edge.host, edge.callee);
            let alone = pairs.iter().filter(|&&other| other == pair).count() == 1;
            if let (true, Some(&calls), Some(&visits)) =
                (alone, calls.get(&pair), visits.get(&edge.caller))
            {
                edge.model.guess_mean(calls as f64 / visits as f64);
            }
        }
    }

    /// Keeps the learnt models; the visits come again.
    fn forget_sample(&mut self) {
        let settled = self.clock.saturating_sub(self.longest);
        for (&(host, server), lane) in &mut self.lanes {
            while lane.oldest().is_some_and(|oldest| oldest < settled) {
                for Tree { visit, .. } in lane.take_oldest() {
                    let inside = is_inside(&self.edges, &self.stays, (host, server), &visit);
                    count_fate(&mut self.fates, (host, server), &visit, inside);
                }
            }
        }
        self.fates
            .values_mut()
            .for_each(|fate| fate.moment_end = None);
        let came = self.lanes.iter().map(|(&pair, lane)| (pair, lane.seen()));
        let came: FxHashMap<Pair, u64> = came.collect();
        self.lanes.clear();
        self.stays.clear();
        self.entries.clear();
        for edge in &mut self.edges {
            let came = came.get(&(edge.host, edge.callee)).copied();
            edge.model.seldom = edge.linked * 2 < came.unwrap_or(0);
            (edge.lesson, edge.linked, edge.parents) = (None, 0, 0);
        }
        self.outlived = Outlived::default();
        (self.waiting, self.clock, self.visits, self.requests) = (0, i64::MIN, 0, 0);
        self.unlinked = Unlinked::default();
    }

    fn add_edge(&mut self, caller: u32, callee: u32, hosts: &Hosts<'_>, observed: bool) {
        let host = hosts.of(caller);
        self.origins.insert((host, callee), Origin::Server);
        self.out.entry(caller).or_default().push(self.edges.len());
        let model = Model::default();
        self.edges.push(Edge {
            caller,
            callee,
            host,
            observed,
            model,
            lesson: None,
            linked: 0,
            parents: 0,
        });
    }

    pub fn link<S: VisitSink>(
        &mut self,
        visit: Visit,
        hosts: &Hosts<'_>,
        next: &mut S,
    ) -> Result<()> {
        let names = hosts.names;
        self.clock = self.clock.max(visit.departure);
        self.visits += 1;
        if self.visits % EXPIRE_EVERY == 0 {
            self.expire(names, next)?;
        }
        let pair = (visit.caller, visit.server);
        let from_server = self.is_from_server(pair, hosts);
        if !visit.served {
            if from_server {
                self.unlinked.attempts += 1;
                return next.push(visit, names);
            }
            return self.pass_request(
                Tree {
                    visit,
                    calls: Vec::new(),
                    size: 1,
                },
                names,
                next,
            );
        }
        let tree = self.with_calls(visit);
        if !from_server {
            return self.pass_request(tree, names, next);
        }
        self.waiting += tree.size;
        let status = names.statuses.get(tree.visit.status as usize);
        let failed = status.is_some_and(|status| may_be_repeated(status));
        let part = Part::of(&tree.visit, names);
        let lane = self.lanes.entry(pair).or_default();
        lane.push(tree, self.visits, failed, part);
        while self.waiting > WAITING {
            self.give_up_oldest(names, next)?;
        }
        Ok(())
    }

    /// Whether a server on the calling host is known, or must be assumed, to call this one.
    fn is_from_server(&mut self, pair: Pair, hosts: &Hosts<'_>) -> bool {
        let known = hosts.names.servers.len();
        let origin = self
            .origins
            .get(&pair)
            .copied()
            .unwrap_or(Origin::Unknown(0));
        match origin {
            Origin::Server => true,
            Origin::Client => false,
            Origin::Unknown(servers) if servers == known => false,
            Origin::Unknown(_) => {
                let (host, callee) = pair;
                let edges = self.edges.iter().map(|edge| (edge.caller, edge.callee));
                let mut callers = hosts
                    .servers_on(host)
                    .filter(|&caller| caller != callee && !reaches(edges.clone(), callee, caller));
                let only = callers.next().filter(|_| callers.next().is_none());
                drop(callers);
                let only = only.filter(|&caller| !self.calls_itself(caller, callee, hosts.names));
                if let Some(caller) = only {
                    self.add_edge(caller, callee, hosts, false);
                } else {
                    self.origins.insert(pair, Origin::Unknown(known));
                }
                only.is_some()
            }
        }
    }

    /// Whether a server with several ports would call itself by this call, directly or through others. This takes
    /// evidence.
    fn calls_itself(&self, caller: u32, callee: u32, names: &Names) -> bool {
        let one = |server| self.one(server, names);
        let edges = self.edges.iter();
        let edges: Vec<Pair> = edges.map(|e| (one(e.caller), one(e.callee))).collect();
        !self.together.is_empty() && reaches(edges.iter().copied(), one(callee), one(caller))
    }

    /// A number that all ports of a server have in common.
    fn one(&self, server: u32, names: &Names) -> u32 {
        let name = names.servers.get(server as usize);
        let list = name.and_then(|name| self.together.iter().position(|list| list.contains(name)));
        list.map_or(server, |list| u32::MAX - list as u32)
    }

    /// Takes the calls of a departing visit out of their lanes.
    fn with_calls(&mut self, mut visit: Visit) -> Tree {
        let Some(edges) = self.out.get(&visit.server) else {
            return Tree {
                visit,
                calls: Vec::new(),
                size: 1,
            };
        };
        let frame = Frame::of(&visit);
        let Frame {
            arrival,
            departure,
            interaction,
            ..
        } = frame;
        self.longest = self.longest.max(departure.saturating_sub(arrival));
        let stays = self.stays.entry(visit.server).or_default();
        let alone = stays.busy_until <= arrival;
        stays.add(arrival, departure);
        let mut calls = Vec::new();
        let (inside, candidates) = &mut self.candidates;
        for &index in edges {
            let edge = &mut self.edges[index];
            let Some(lane) = self.lanes.get_mut(&(edge.host, edge.callee)) else {
                edge.claim(&frame, &[], &[], 0, alone);
                continue;
            };
            if alone {
                lane.learn(&frame);
            }
            lane.inside(&frame, inside);
            candidates.clear();
            candidates.extend(inside.iter().map(|&(_, call)| call));
            let chosen =
                if alone && candidates.len() > CALLS_MAX && edge.model.makes_many(interaction) {
                    (0..candidates.len()).collect()
                } else {
                    likeliest(&frame, candidates, &mut edge.model, lane.rate())
                };
            let before = calls.len();
            for &index in &chosen {
                lane.take(inside[index].0, &mut calls);
            }
            for Tree { visit, size, .. } in &calls[before..] {
                count_fate(&mut self.fates, (edge.host, edge.callee), visit, true);
                self.waiting -= size;
            }
            let chosen: Vec<Call> = chosen.iter().map(|&index| candidates[index]).collect();
            edge.claim(&frame, candidates, &chosen, calls.len() - before, alone);
        }
        calls.sort_by_key(|tree| (tree.visit.departure, tree.visit.sent));
        for tree in &mut calls {
            tree.visit.parent = visit.visit;
            tree.visit.caller = CALLER_IS_SERVER | visit.server;
            if tree.visit.connection != NO_CONNECTION {
                let owner = (visit.server, departure);
                self.owners.insert(tree.visit.connection, owner);
            }
        }
        visit.downstream_ns = union(
            calls
                .iter()
                .map(|tree| (tree.visit.sent, tree.visit.departure))
                .collect(),
        );
        let size = 1 + calls.iter().map(|tree| tree.size).sum::<usize>();
        Tree { visit, calls, size }
    }

    fn expire<S: VisitSink>(&mut self, names: &Names, next: &mut S) -> Result<()> {
        let wait = self.longest.saturating_mul(2).clamp(WAIT_NS.0, WAIT_NS.1);
        let deadline = self.clock.saturating_sub(wait);
        while let Some((pair, oldest)) = self.oldest_waiting() {
            if oldest >= deadline {
                break;
            }
            self.give_up(pair, Reason::Unclaimed, names, next)?;
        }
        if self.visits % FORGET_EVERY == 0 {
            self.owners.retain(|_, &mut (_, seen)| seen >= deadline);
        }
        Ok(())
    }

    fn oldest_waiting(&self) -> Option<(Pair, i64)> {
        let oldest = self
            .lanes
            .iter()
            .filter_map(|(&pair, lane)| Some((lane.oldest()?, pair)));
        oldest.min().map(|(oldest, pair)| (pair, oldest))
    }

    fn give_up_oldest<S: VisitSink>(&mut self, names: &Names, next: &mut S) -> Result<()> {
        match self.oldest_waiting() {
            Some((pair, _)) => self.give_up(pair, Reason::Crowded, names, next),
            None => {
                self.waiting = 0;
                Ok(())
            }
        }
    }

    /// Passes the oldest call of a lane, or those of its transaction, on without a parent.
    fn give_up<S: VisitSink>(
        &mut self,
        pair: Pair,
        why: Reason,
        names: &Names,
        next: &mut S,
    ) -> Result<()> {
        let oldest = self.lanes.get_mut(&pair).map(Lane::take_oldest);
        for tree in oldest.into_iter().flatten() {
            self.waiting -= tree.size;
            self.pass_without_parent(tree, pair, why, names, next)?;
        }
        Ok(())
    }

    fn pass_without_parent<S: VisitSink>(
        &mut self,
        mut tree: Tree,
        pair: Pair,
        why: Reason,
        names: &Names,
        next: &mut S,
    ) -> Result<()> {
        if jobs::is_wait(&tree.visit, names) {
            return Ok(());
        }
        if let Some(request) = self.outlives(pair, &mut tree.visit) {
            return self.pass(tree, request, names, next);
        }
        let inside = is_inside(&self.edges, &self.stays, pair, &tree.visit);
        let callers = callers_of(&self.edges, &self.stays, pair);
        let (first, last) = callers.fold((i64::MAX, i64::MIN), |(first, last), stays| {
            (first.min(stays.first_arrival), last.max(stays.busy_until))
        });
        let fate = (pair.0, pair.1, tree.visit.interaction);
        let owner = self
            .owners
            .get(&tree.visit.connection)
            .map(|&(server, _)| server);
        if tree.visit.sent < first {
            self.unlinked.before_parents += 1;
        } else if matches!(why, Reason::Ended) && tree.visit.departure > last {
            self.unlinked.after_parents += 1;
        } else {
            match why {
                Reason::Crowded => self.unlinked.crowded += 1,
                Reason::Unclaimed | Reason::Ended => self.unlinked.unclaimed += 1,
            }
            if owner.is_none() {
                count_fate(&mut self.fates, pair, &tree.visit, inside);
            }
        }
        if let Some(server) = owner {
            tree.visit.caller = CALLER_IS_SERVER | server;
        } else if !inside && self.fates.get(&fate).is_some_and(|fate| fate.is_direct()) {
            self.unlinked.own_requests += 1;
            return self.pass_request(tree, names, next);
        }
        self.pass(tree, NO_ID, names, next)
    }

    /// Gives a call that outlived its visit this parent, and returns the request.
    fn outlives(&mut self, (host, callee): Pair, call: &mut Visit) -> Option<u64> {
        let of_pair = |edge: &Edge| (edge.host, edge.callee) == (host, callee);
        let callers = self.edges.iter().filter(|edge| of_pair(edge));
        let callers: Vec<u32> = callers.map(|edge| edge.caller).collect();
        let (server, parent, request) = self.outlived.take(&callers, call)?;
        (call.parent, call.caller) = (parent, CALLER_IS_SERVER | server);
        let mut edges = self.edges.iter_mut();
        if let Some(edge) = edges.find(|edge| of_pair(edge) && edge.caller == server) {
            edge.linked += 1;
        }
        Some(request)
    }

    fn pass_request<S: VisitSink>(
        &mut self,
        tree: Tree,
        names: &Names,
        next: &mut S,
    ) -> Result<()> {
        if jobs::is_wait(&tree.visit, names) {
            return Ok(());
        }
        self.requests += 1;
        if !self.entries.contains(&tree.visit.server) {
            self.entries.push(tree.visit.server);
        }
        self.pass(tree, self.requests, names, next)
    }

    /// Calls go before the visit that made them, in order of departure.
    fn pass<S: VisitSink>(
        &mut self,
        mut tree: Tree,
        request: u64,
        names: &Names,
        next: &mut S,
    ) -> Result<()> {
        tree.visit.request = request;
        self.outlived.note(&tree, request, &names.statuses);
        for call in tree.calls {
            self.pass(call, request, names, next)?;
        }
        next.push(tree.visit, names)
    }

    pub fn finish<S: VisitSink>(&mut self, names: &Names, next: &mut S) -> Result<()> {
        while let Some((pair, _)) = self.oldest_waiting() {
            self.give_up(pair, Reason::Ended, names, next)?;
        }
        Ok(())
    }

    pub fn report(&self, late: u64, hosts: &Hosts<'_>) -> Report {
        let names = hosts.names;
        let text = |list: &[String], index: u32| list.get(index as usize).cloned();
        let name = |server: u32| text(&names.servers, server).unwrap_or_default();
        let mut edges: Vec<EdgeReport> = self
            .edges
            .iter()
            .map(|edge| self.report_edge(edge, name))
            .collect();
        edges.sort_by(|a, b| (&a.caller, &a.callee).cmp(&(&b.caller, &b.callee)));
        let mut entries: Vec<String> = self.entries.iter().map(|&server| name(server)).collect();
        entries.sort();
        let moved = (0u32..)
            .zip(&names.server_hosts)
            .filter_map(|(server, &host)| {
                let machine = hosts.of(server);
                (machine != host).then(|| Some((name(server), text(&names.hosts, machine)?)))?
            });
        Report {
            requests: self.requests,
            machines: moved.collect(),
            edges,
            entries,
            unlinked: self.unlinked,
            late,
        }
    }

    fn report_edge(&self, edge: &Edge, name: impl Fn(u32) -> String) -> EdgeReport {
        let came = self
            .lanes
            .get(&(edge.host, edge.callee))
            .map_or(0, Lane::seen);
        EdgeReport {
            caller: name(edge.caller),
            callee: name(edge.callee),
            linked: edge.linked,
            calls_mean: edge.linked as f64 / edge.parents.max(1) as f64,
            linked_share: edge.linked as f64 / came.max(1) as f64,
            parallel: edge.model.is_parallel(),
            observed: edge.observed,
        }
    }
}

impl Edge {
    /// Assigns the calls to a visit and learns from them. `inside` are all candidates, and `linked` is the number of
    /// visits: a transaction has several.
    fn claim(
        &mut self,
        frame: &Frame,
        inside: &[Call],
        chosen: &[Call],
        linked: usize,
        alone: bool,
    ) {
        self.parents += 1;
        self.linked += linked as u64;
        if let Some((before, calls)) = self.lesson.take() {
            if before.departure <= frame.arrival {
                self.model.learn(&before, &calls, 1.0);
            }
        }
        if alone {
            self.lesson = Some((*frame, inside.to_vec()));
        } else {
            self.model.learn(frame, chosen, UNSURE);
        }
    }
}

/// Whether a caller may repeat a call with this status.
fn may_be_repeated(status: &str) -> bool {
    let is_code = status.len() == 3 && status.starts_with('5');
    is_code || matches!(status, "abandoned" | "timeout" | "refused" | "reset")
}

fn callers_of<'a>(
    edges: &'a [Edge],
    stays: &'a FxHashMap<u32, Stays>,
    pair: Pair,
) -> impl Iterator<Item = &'a Stays> {
    edges
        .iter()
        .filter(move |edge| (edge.host, edge.callee) == pair)
        .filter_map(|edge| stays.get(&edge.caller))
}

fn is_inside(edges: &[Edge], stays: &FxHashMap<u32, Stays>, pair: Pair, call: &Visit) -> bool {
    callers_of(edges, stays, pair).any(|stays| stays.contain(call.sent, call.departure))
}

/// A sink for the sample while the linker only learns from it.
struct Nowhere;

impl VisitSink for Nowhere {
    fn push(&mut self, _: Visit, _: &Names) -> Result<()> {
        Ok(())
    }

    fn finish(&mut self, _: &Names) -> Result<()> {
        Ok(())
    }
}
