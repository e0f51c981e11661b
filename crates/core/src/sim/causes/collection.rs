//! Garbage collection: requests allocate and fill a heap, and collecting it stops the server
//! (`lightning` 3.1), including the thread that accepts connections, because it belongs to the JVM.
//! The longer requests stay inside, the more objects live, so the cost grows with them (`average`
//! 4.1.2).
//!
//! The collector's threads belong to the server as well: anything that stops or slows the server, a
//! quota, or other groups that share its cores delays a collection.

use super::super::plan::Server;
use super::super::tables::Sink;
use super::super::Sim;
use super::COLLECTION;

pub struct Heap {
    /// Bytes allocated since the last collection.
    filled: f64,
    collections: u32,
    under_way: bool,
    /// Later than the request for it if the server was stopped then.
    since: Option<i64>,
    /// Total time of past collections, ns.
    collected: i64,
}

impl Heap {
    pub fn new(server: &Server) -> Option<Self> {
        let heap = server.heap.as_ref()?;
        Some(Heap {
            filled: heap.filled * heap.young_bytes,
            collections: 0,
            under_way: false,
            since: None,
            collected: 0,
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
        if heap.filled < settings.young_bytes || heap.under_way {
            return;
        }
        heap.filled = 0.0;
        heap.collections += 1;
        heap.under_way = true;
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
        let (group, threads) = (state.group, settings.threads);
        self.cpus
            .stop_the_world(self.now, group, work, threads, COLLECTION + server);
        self.accepts_or_not(group);
    }

    pub(super) fn collected(&mut self, server: u32) {
        self.collection_is_over(server);
        let state = &self.servers[server as usize];
        let threads = state.settings.heap.as_ref().map_or(0.0, |h| h.threads);
        let group = state.group;
        self.cpus.let_the_world_go_on(group, threads);
        self.accepts_or_not(group);
    }

    /// A collection that was requested while the server was stopped begins now, if the server
    /// continues.
    pub(super) fn may_collect(&mut self, server: u32) {
        let group = self.servers[server as usize].group;
        if let Some(heap) = &mut self.causes.heaps[server as usize] {
            if heap.under_way && heap.since.is_none() && !self.cpus.stands_still(group) {
                heap.since = Some(self.now);
            }
        }
    }

    /// Writes a current collection to the truth.
    pub(super) fn collection_is_over(&mut self, server: u32) {
        let Some(heap) = self.causes.heaps[server as usize].as_mut() else {
            return;
        };
        heap.under_way = false;
        if let Some(begin) = heap.since.take() {
            heap.collected += self.now - begin;
            self.happened(server as usize, "gc", "garbage-collection", begin, None);
        }
    }

    /// Time in collections up to now, ns, for a server with a heap.
    pub(in super::super) fn in_collections(&self, server: usize) -> Option<i64> {
        let heap = self.causes.heaps[server].as_ref()?;
        Some(heap.collected + heap.since.map_or(0, |begin| self.now - begin))
    }
}
