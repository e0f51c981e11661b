//! Garbage collection: a heap that fills by what requests allocate, and stops the server while it is collected
//! (`lightning` 3.1), the thread that accepts connections, too: it is one of the JVM's. The longer the requests inside,
//! the more lives: the cost grows with them (`average` 4.1.2).

use super::super::cpu::Cpus;
use super::super::plan::{Plan, Server};
use super::super::tables::Sink;
use super::super::Sim;
use super::COLLECTION;

/// The collector's threads go before the others.
const PRIORITY: f64 = 1e6;

pub struct Heap {
    /// Bytes allocated since the last collection.
    filled: f64,
    collections: u32,
    group: u32,
    since: Option<i64>,
}

impl Heap {
    pub fn new(plan: &Plan, server: &Server, cpus: &mut Cpus) -> Option<Self> {
        let heap = server.heap.as_ref()?;
        let node = plan.groups[server.group as usize].node;
        Some(Heap {
            filled: heap.filled * heap.young_bytes,
            collections: 0,
            group: cpus.add_group(node, PRIORITY, heap.threads, None, None),
            since: None,
        })
    }
}

impl<S: Sink> Sim<'_, S> {
    /// A request begins in a server and allocates.
    #[inline]
    pub(in super::super) fn allocate(&mut self, server: u32) {
        let Some(heap) = &mut self.causes.heaps[server as usize] else {
            return;
        };
        let Some(settings) = &self.servers[server as usize].settings.heap else {
            return;
        };
        heap.filled += settings.bytes_per_visit;
        if heap.filled < settings.young_bytes || heap.since.is_some() {
            return;
        }
        heap.filled = 0.0;
        heap.collections += 1;
        heap.since = Some(self.now);
        let state = &self.servers[server as usize];
        let live = state.inside - state.accepting.len();
        let old = settings.old_every > 0 && heap.collections % settings.old_every == 0
            || settings.old_above > 0 && live > settings.old_above;
        let kind = settings
            .old
            .as_ref()
            .filter(|_| old)
            .unwrap_or(&settings.young);
        let work = kind.base as f64 + kind.per_live as f64 * f64::from(live);
        let group = heap.group;
        let stops = state.group;
        self.stop(stops, true);
        self.cpus.add(self.now, group, work, COLLECTION + server);
    }

    pub(super) fn collected(&mut self, server: u32) {
        self.collection_is_over(server);
        self.stop(self.servers[server as usize].group, false);
    }

    /// It goes into the truth, if one was under way.
    pub(super) fn collection_is_over(&mut self, server: u32) {
        let heap = self.causes.heaps[server as usize].as_mut();
        if let Some(begin) = heap.and_then(|heap| heap.since.take()) {
            self.happened(server as usize, "gc", "garbage-collection", begin, None);
        }
    }

    /// The group in which a server's collector works, where it has one.
    pub(in super::super) fn collector(&self, server: usize) -> Option<u32> {
        self.causes.heaps[server].as_ref().map(|heap| heap.group)
    }
}
