//! Links visits to their callers: parent, request, and time downstream.
//!
//! Nothing on the wire names the parent, because pooled connections carry the calls of every
//! request. The times are known: a call lies inside the visit that made it, on the host that made
//! it; calls of a blocking server follow each other; the first call follows the arrival, and the
//! response follows the last call. From these times each departing visit chooses the likeliest
//! chain among the calls without an owner. The method follows the nesting algorithm of Aguilera et
//! al. (SOSP 2003), with learnt delays between the steps as in TraceWeaver (SIGCOMM 2024).
//! ```text
//! visits ─▶ reorder ─▶ the first thousands: edges (who calls whom), model (delays, calls a visit)
//!                 └──▶ linker: departing visit ◀─ chain ─ lane of finished calls without an owner
//!                         └─ root: the tree gets its request id and goes on to the next sink
//! ```
//!
//! Addresses of one machine count as one host: see [`machines`].
//!
//! Which visits are requests of a client:
//! - A visit is a request if no server on the calling host is known to call this one.
//! - If such a server exists and no visit owns the call, `request` stays empty: most likely its
//!   parent is missing from the recording, or another visit took the call by mistake. Only if a
//!   considerable share of an interaction lies outside all visits of the possible callers
//!   ([`fates`] has the numbers), something else on that host calls too (a cron job, a health
//!   check), and each call outside is a request of its own.
//! - A worker that waits for its next job makes no request ([`jobs`]), and its wait is left out.
//!
//! A visit that its client gave up ends then, and its calls may go on: see [`outlived`].
//! The calls of one transaction are of one visit: see [`transactions`].
//! A call without an owner is still of a known server if another call on its connection has an owner.

pub mod chain;
pub mod edges;
mod fates;
pub mod jobs;
pub mod lane;
pub mod linker;
pub mod machines;
pub mod model;
mod outlived;
pub mod rejoin;
mod reorder;
pub mod report;
mod stays;
#[cfg(test)]
mod tests;
mod transactions;

use crate::error::Result;
use crate::record::{Names, Visit, VisitSink};
use crate::saved;
use edges::discover;
use linker::Linker;
use machines::{Hosts, Machines};
use reorder::Reorder;
use report::Report;
use std::borrow::Cow;

/// Visits from which edges and first delays are learnt: some seconds of a busy system, 1.5 MB.
const SAMPLE_VISITS: usize = 8192;
/// The most visits, if a recording begins in an overload that hides the calls: half a minute, 24
/// MB.
const SAMPLE_VISITS_MAX: usize = 16 * SAMPLE_VISITS;

/// Takes visits without parents, and passes them on to `next` with parents.
pub struct CallGraph<S: VisitSink> {
    next: S,
    reorder: Reorder,
    /// Visits held until the edges are known; None afterwards.
    sample: Option<Vec<Visit>>,
    /// The size of the sample.
    sampled: usize,
    machines: Machines,
    linker: Linker,
}

impl<S: VisitSink> CallGraph<S> {
    pub fn new(next: S) -> Self {
        CallGraph {
            next,
            reorder: Reorder::default(),
            sample: Some(Vec::new()),
            sampled: SAMPLE_VISITS,
            machines: Machines::default(),
            linker: Linker::default(),
        }
    }

    /// `together`: lists of names that one server has at its ports. None of a list is assumed to call another of it.
    pub fn with_ports(mut self, together: Vec<Vec<String>>) -> Self {
        self.linker.together = together;
        self
    }

    pub fn next_mut(&mut self) -> &mut S {
        &mut self.next
    }

    /// What it knows, for [`Self::resume`].
    pub fn saved(&self) -> Result<Vec<u8>> {
        let CallGraph {
            reorder,
            sample,
            sampled,
            machines,
            linker,
            next: _,
        } = self;
        saved::bytes(&(reorder, sample, sampled, machines, linker))
    }

    pub fn resume(next: S, state: &[u8]) -> Result<Self> {
        let (reorder, sample, sampled, machines, linker) = saved::value(state)?;
        Ok(CallGraph {
            next,
            reorder,
            sample,
            sampled,
            machines,
            linker,
        })
    }

    pub fn next(&self) -> &S {
        &self.next
    }

    pub fn into_next(self) -> S {
        self.next
    }

    pub fn report(&self, names: &Names) -> Report {
        let machines = &self.machines;
        let hosts = Hosts { names, machines };
        self.linker.report(self.reorder.late(), &hosts)
    }

    fn accept(&mut self, visit: Visit, names: &Names) -> Result<()> {
        match &mut self.sample {
            None => self.link(visit, names),
            Some(sample) => {
                sample.push(visit);
                if sample.len() < self.sampled {
                    return Ok(());
                }
                self.learn(names, self.sampled < SAMPLE_VISITS_MAX)
            }
        }
    }

    fn link(&mut self, mut visit: Visit, names: &Names) -> Result<()> {
        let machines = &self.machines;
        if !machines.know_nothing() {
            machines.settle(&mut visit, names);
        }
        self.linker
            .link(visit, &Hosts { names, machines }, &mut self.next)
    }

    /// Learns from the sample, unless a longer one may show more.
    fn learn(&mut self, names: &Names, may_wait: bool) -> Result<()> {
        let sample = self.sample.take().unwrap_or_default();
        self.machines = Machines::learn(&sample, names);
        let machines = &self.machines;
        let hosts = Hosts { names, machines };
        let mut settled = Cow::Borrowed(&sample[..]);
        if !machines.know_nothing() {
            for visit in settled.to_mut() {
                machines.settle(visit, names);
            }
        }
        let found = discover(&settled, &hosts);
        if found.undecided && may_wait {
            drop(settled);
            self.sample = Some(sample);
            self.sampled *= 4;
            return Ok(());
        }
        self.linker.learn(&settled, &found.edges, &hosts)?;
        sample
            .into_iter()
            .try_for_each(|visit| self.link(visit, names))
    }
}

impl<S: VisitSink> VisitSink for CallGraph<S> {
    fn push(&mut self, visit: Visit, names: &Names) -> Result<()> {
        self.reorder.push(visit);
        while let Some(visit) = self.reorder.pop_settled() {
            self.accept(visit, names)?;
        }
        Ok(())
    }

    fn finish(&mut self, names: &Names) -> Result<()> {
        while let Some(visit) = self.reorder.pop() {
            self.accept(visit, names)?;
        }
        if self.sample.is_some() {
            self.learn(names, false)?;
        }
        self.linker.finish(names, &mut self.next)?;
        self.next.finish(names)
    }
}
