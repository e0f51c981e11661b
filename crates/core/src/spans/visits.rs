//! The visits that linked spans show: a server span becomes a visit, and the client span of its caller shows when it was
//! sent.
//!
//! ```text
//! client span   ├──────────────────────────────┤        sent ── its begin
//! server span               ├────────────────┤          arrival, departure
//!               └─ the gap: connecting, the accept queue, waiting for a thread; 1, 3, 7 s of it are lost attempts
//! `in queue`                ├───┤                       start ── its end
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, UInt32Array};
use arrow_schema::ArrowError;

use super::linked::Linked;
use super::links::ROOT;
use super::sheet::{CLIENT, QUEUED, SERVER};
use super::store::Span;

const NONE: i64 = -1;
/// Values of `entry`: an outermost visit whose caller is missing, and one whose trace has its root.
pub const ORPHAN: u8 = 1;
pub const WITH_ROOT: u8 = 2;

/// A visit. `number` is that of its span, `parent` that of the visit above it, `top` that of the topmost one, whose
/// `entry` says whether a client sent it. What is unknown is negative; texts are numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Visit {
    pub departure: i64,
    pub number: i64,
    pub parent: i64,
    pub top: i64,
    pub sent: i64,
    pub arrival: i64,
    pub start: i64,
    pub server: u32,
    pub interaction: u32,
    pub caller: u32,
    pub status: u32,
    pub entry: u8,
}

/// What is possible: the texts that may name a server, and times (ns).
pub struct Possible<'a> {
    pub servers: &'a [u8],
    pub earliest: i64,
    pub latest: i64,
    pub longest: i64,
    /// A server may end its span so much after its client.
    pub slack: i64,
}

impl Possible<'_> {
    fn allows(&self, visit: &Visit) -> bool {
        let names = |text: u32| {
            self.servers
                .get(text as usize)
                .is_some_and(|&able| able != 0)
        };
        visit.server != 0
            && self.earliest <= visit.sent
            && visit.sent <= visit.arrival
            && visit.arrival <= visit.departure
            && visit.departure <= self.latest
            && visit.departure - visit.sent <= self.longest
            && names(visit.server)
            && names(visit.caller)
    }
}

pub type Pairs = BTreeMap<(u32, u32), u64>;

/// The visits of a part, and what is counted besides.
#[derive(Default)]
pub struct Found {
    pub visits: Vec<Visit>,
    /// For each of them the place of the visit above it.
    parents: Vec<Option<u32>>,
    /// The first of those of servers without spans of their own, as their clients saw them.
    first_remote: usize,
    pub damaged: usize,
    /// Calls that lie outside of their client's span.
    pub skewed: usize,
    /// Visits that lack the span of their caller.
    pub orphans: usize,
    /// Whether a trace has its root.
    pub rooted: bool,
}

impl Found {
    /// The visits of linked spans; those with impossible times or names are left out.
    pub fn of(linked: &Linked, possible: &Possible<'_>) -> Self {
        let mut found = Found::default();
        let spans = linked.spans.iter().zip(&linked.container);
        found.rooted = spans
            .clone()
            .any(|(span, &container)| span.kind == SERVER && container == ROOT);
        let places = found.add_servers(linked, possible);
        found.first_remote = found.visits.len();
        found.add_remote(linked, possible, &places);
        for place in 0..found.visits.len() {
            let above = found.parents[place].and_then(|above| found.visits.get(above as usize));
            let above = above.map(|above| (above.number, above.top, above.entry));
            let visit = &mut found.visits[place];
            visit.top = visit.number;
            if let Some((number, top, entry)) = above {
                (visit.parent, visit.top, visit.entry) = (number, top, entry);
            }
        }
        found
    }

    /// Adds the visits of servers and consumers, each after the one that contains it; returns the place of each span's.
    fn add_servers(&mut self, linked: &Linked, possible: &Possible<'_>) -> Vec<Option<u32>> {
        let starts = starts(linked);
        let mut places = vec![None; linked.spans.len()];
        let mut containers = Vec::with_capacity(linked.order.len());
        for &number in &linked.order {
            let number = number as usize;
            let span = &linked.spans[number];
            let above = linked.above(number).filter(|_| span.kind == SERVER);
            let above = above.map(|above| &linked.spans[above]);
            let mut visit = visit(span, span.service);
            if let Some(above) = above {
                visit.caller = above.service;
                if above.kind == CLIENT {
                    let latest = above.end.wrapping_add(possible.slack);
                    let is_inside = above.begin <= span.begin && span.end <= latest;
                    visit.sent = if is_inside { above.begin } else { span.begin };
                    self.skewed += usize::from(!is_inside);
                }
            }
            visit.start = starts[number];
            let is_possible = possible.allows(&visit);
            if is_possible {
                places[number] = u32::try_from(self.visits.len()).ok();
                self.visits.push(visit);
            } else {
                self.damaged += 1;
            }
            let so_far = self.visits.len();
            containers.push((span.kind, linked.container[number], is_possible, so_far));
        }
        for (kind, container, is_possible, so_far) in containers {
            let above = usize::try_from(container).ok();
            let above = above.and_then(|above| places[above]);
            // A cycle is cut at the visit that comes first.
            let above = above.filter(|&above| kind == SERVER && (above as usize) + 1 < so_far);
            let is_alone = kind == SERVER && above.is_none();
            self.orphans += usize::from(is_alone && container != ROOT);
            if is_possible {
                self.parents.push(above);
                let entry = match (is_alone, container == ROOT) {
                    (false, _) => 0,
                    (true, true) => WITH_ROOT,
                    (true, false) => ORPHAN,
                };
                self.visits[so_far - 1].entry = entry;
            }
        }
        places
    }

    /// Adds the visits of servers without spans of their own, as their clients saw them.
    fn add_remote(&mut self, linked: &Linked, possible: &Possible<'_>, places: &[Option<u32>]) {
        let mut called = vec![false; linked.spans.len()];
        for (number, span) in linked.spans.iter().enumerate() {
            if let Some(above) = linked.above(number).filter(|_| span.kind == SERVER) {
                called[above] = true;
            }
        }
        for (number, span) in linked.spans.iter().enumerate() {
            let is_remote = span.kind == CLIENT && span.peer != 0 && span.peer != span.service;
            if !is_remote || called[number] {
                continue;
            }
            let container = usize::try_from(linked.container[number]).ok();
            let Some(parent) = container.and_then(|container| places[container]) else {
                continue;
            };
            let visit = Visit {
                caller: span.service,
                ..visit(span, span.peer)
            };
            if possible.allows(&visit) {
                self.visits.push(visit);
                self.parents.push(Some(parent));
            } else {
                self.damaged += 1;
            }
        }
    }

    /// Visits of which it is known when a worker took them.
    pub fn taken(&self) -> usize {
        let visits = self.visits.iter();
        visits.filter(|visit| visit.start >= 0).count()
    }

    /// How long each was on its way (ns): in the order of the visits.
    pub fn waits(&self) -> Int64Array {
        let visits = self.visits.iter();
        Int64Array::from_iter_values(visits.map(|visit| visit.arrival.wrapping_sub(visit.sent)))
    }

    /// How often each caller calls each server.
    pub fn calls(&self) -> Pairs {
        let visits = self.visits.iter().zip(&self.parents).enumerate();
        counted(visits.filter_map(|(place, (visit, parent))| {
            let is_call = visit.caller != 0 && visit.caller != visit.server && parent.is_some();
            (is_call || place >= self.first_remote).then_some((visit.caller, visit.server))
        }))
    }

    /// How often each server is asked for each interaction.
    pub fn interactions(&self) -> Pairs {
        let visits = self.visits.iter();
        counted(visits.map(|visit| (visit.server, visit.interaction)))
    }

    /// The servers without spans of their own.
    pub fn remote(&self) -> Vec<u32> {
        let remote = self.visits[self.first_remote..].iter();
        let mut servers: Vec<u32> = remote.map(|visit| visit.server).collect();
        servers.sort_unstable();
        servers.dedup();
        servers
    }

    /// The first `most` requests of traces with a root that ended with the status `ok`: how long they and their longest
    /// call took (ns), by their numbers; how many succeeded; and of those that failed the servers and interactions.
    pub fn requests(
        &self,
        ok: u32,
        most: usize,
    ) -> Result<(RecordBatch, usize, Pairs), ArrowError> {
        let is_top = |visit: &Visit| visit.number == visit.top;
        let with_root = |visit: &&Visit| is_top(visit) && visit.entry == WITH_ROOT;
        let failed = self.visits.iter().filter(with_root);
        let failed = failed.filter(|visit| visit.status != ok);
        let failed = counted(failed.map(|visit| (visit.server, visit.interaction)));
        let (mut succeeded, mut chosen) = (0, Vec::new());
        for (place, visit) in self.visits.iter().enumerate() {
            if with_root(&visit) && visit.status == ok {
                succeeded += 1;
                if chosen.len() < most {
                    chosen.push(place);
                }
            }
        }
        let mut longest = vec![
            0;
            if chosen.is_empty() {
                0
            } else {
                self.visits.len()
            }
        ];
        if !chosen.is_empty() {
            for (visit, parent) in self.visits.iter().zip(&self.parents) {
                if let Some(above) = parent.filter(|_| visit.parent == visit.top) {
                    let took = visit.departure - visit.sent;
                    longest[above as usize] = took.max(longest[above as usize]);
                }
            }
        }
        chosen.sort_by_key(|&place| self.visits[place].number);
        let each = chosen.iter().map(|&place| &self.visits[place]);
        let took = each.clone().map(|visit| visit.departure - visit.sent);
        let longest = chosen.iter().map(|&place| longest[place]);
        let codes = |of: fn(&Visit) -> u32| -> ArrayRef {
            Arc::new(UInt32Array::from_iter_values(each.clone().map(of)))
        };
        let columns: [(&str, ArrayRef); 4] = [
            ("took", Arc::new(Int64Array::from_iter_values(took))),
            ("longest", Arc::new(Int64Array::from_iter_values(longest))),
            ("interaction", codes(|visit| visit.interaction)),
            ("server", codes(|visit| visit.server)),
        ];
        Ok((RecordBatch::try_from_iter(columns)?, succeeded, failed))
    }

    /// The calls among the visits: who called whom, and when.
    pub fn of_callers(&self) -> Result<RecordBatch, ArrowError> {
        let calls = || self.visits.iter().filter(|visit| visit.caller != 0);
        let codes = |of: fn(&Visit) -> u32| -> ArrayRef {
            Arc::new(UInt32Array::from_iter_values(calls().map(of)))
        };
        let times = |of: fn(&Visit) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(calls().map(of)))
        };
        let columns: [(&str, ArrayRef); 4] = [
            ("caller", codes(|visit| visit.caller)),
            ("server", codes(|visit| visit.server)),
            ("sent", times(|visit| visit.sent)),
            ("departure", times(|visit| visit.departure)),
        ];
        RecordBatch::try_from_iter(columns)
    }
}

fn visit(span: &Span, server: u32) -> Visit {
    Visit {
        departure: span.end,
        number: span.number,
        parent: NONE,
        top: NONE,
        sent: span.begin,
        arrival: span.begin,
        start: NONE,
        server,
        interaction: span.interaction,
        caller: 0,
        status: span.status,
        entry: 0,
    }
}

/// When a worker took the request of each server's span: at the end of the span `in queue`, which begins together with
/// the server's. If there are two of these, the moment is unknown.
fn starts(linked: &Linked) -> Vec<i64> {
    let mut starts = vec![NONE; linked.spans.len()];
    let mut inner = Vec::new();
    for (number, span) in linked.spans.iter().enumerate() {
        let above = linked.above(number).filter(|_| span.marks & QUEUED != 0);
        inner.extend(above.map(|above| (above, span)));
    }
    if inner.is_empty() {
        return starts;
    }
    let mut counts = vec![0_u32; linked.spans.len()];
    for (above, _) in &inner {
        counts[*above] += 1;
    }
    for (above, span) in inner {
        let server = &linked.spans[above];
        let is_of_it = server.kind == SERVER && server.service == span.service;
        let is_first = server.begin == span.begin && span.end <= server.end;
        if is_of_it && is_first && counts[above] == 1 {
            starts[above] = span.end;
        }
    }
    starts
}

fn counted(pairs: impl Iterator<Item = (u32, u32)>) -> Pairs {
    let mut counts: rustc_hash::FxHashMap<(u32, u32), u64> = Default::default();
    for pair in pairs {
        *counts.entry(pair).or_default() += 1;
    }
    counts.into_iter().collect()
}
