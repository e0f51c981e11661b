//! Disks: what is written in the background holds up those in the foreground (`rpc-vs-async` IV-B: a log flushed every
//! 30 s; `balancers` III-B: dirty pages written back).

use super::super::tables::Sink;
use super::super::Sim;
use crate::sim::queue::Kind;

#[derive(Default)]
pub struct State {
    /// Bytes in the page cache that are not on the disk, and since when the oldest is there.
    pub dirty: f64,
    oldest: i64,
    /// What is being written, since when and until when.
    writing: Option<(What, i64)>,
    until: i64,
    share: f64,
    /// Time spent in writes that are over.
    wrote: i64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Log,
    Pages,
}

impl<S: Sink> Sim<'_, S> {
    /// A request leaves lines in the log.
    #[inline]
    pub(in super::super) fn writes_log(&mut self, server: u32) {
        let bytes = self.servers[server as usize].settings.log_bytes;
        if bytes <= 0.0 {
            return;
        }
        let node = self.plan.groups[self.servers[server as usize].group as usize].node;
        let Some(disk) = &self.plan.nodes[node as usize].disk else {
            return;
        };
        let state = &mut self.causes.disks[node as usize];
        if state.dirty == 0.0 {
            state.oldest = self.now;
        }
        state.dirty += bytes;
        if disk
            .writeback
            .as_ref()
            .is_some_and(|w| state.dirty >= w.limit)
        {
            self.write_back(node);
        }
    }

    /// The flusher wakes (`dirty_writeback_centisecs`), and says when it does again.
    pub(super) fn wakes_writeback(&mut self, node: u32) -> i64 {
        let disk = self.plan.nodes[node as usize].disk.as_ref();
        let Some(settings) = disk.and_then(|d| d.writeback.as_ref()) else {
            return 0;
        };
        let state = &self.causes.disks[node as usize];
        let expired = state.dirty > 0.0 && self.now - state.oldest >= settings.expire;
        if expired || state.dirty >= settings.background {
            self.write_back(node);
        }
        settings.period
    }

    fn write_back(&mut self, node: u32) {
        let disk = self.plan.nodes[node as usize].disk.as_ref();
        let Some(settings) = disk.and_then(|d| d.writeback.as_ref()) else {
            return;
        };
        let bytes = std::mem::take(&mut self.causes.disks[node as usize].dirty);
        self.write(node, What::Pages, bytes, settings.blocks);
    }

    pub(super) fn flushes_log(&mut self, node: u32) -> i64 {
        let disk = self.plan.nodes[node as usize].disk.as_ref();
        let Some(settings) = disk.and_then(|d| d.flush.as_ref()) else {
            return 0;
        };
        let bytes = settings.bytes_per_second * settings.period as f64 / 1e9;
        self.write(node, What::Log, bytes, settings.blocks);
        settings.period
    }

    /// The disk writes; who comes while it does so waits longer.
    fn write(&mut self, node: u32, what: What, bytes: f64, blocks: f64) {
        let speed = self.plan.nodes[node as usize]
            .disk
            .as_ref()
            .map_or(0.0, |d| d.bytes_per_second);
        let takes = (bytes / speed * 1e9) as i64;
        if takes <= 0 {
            return;
        }
        let state = &mut self.causes.disks[node as usize];
        if state.writing.is_none() {
            state.writing = Some((what, self.now));
            state.until = self.now;
            state.share = blocks;
            self.cpus.block(self.now, node, blocks);
        }
        state.until += takes;
        self.queue
            .push(state.until, Kind::Timer, self.causes.first_idle + node);
    }

    pub(super) fn disk_idle(&mut self, node: u32) {
        let state = &mut self.causes.disks[node as usize];
        if self.now >= state.until {
            self.closes_disk(node);
        }
    }

    pub(super) fn closes_disk(&mut self, node: u32) {
        let state = &mut self.causes.disks[node as usize];
        let Some((what, begin)) = state.writing.take() else {
            return;
        };
        state.wrote += self.now - begin;
        let share = state.share;
        self.cpus.block(self.now, node, -share);
        let (event, cause) = match what {
            What::Log => ("log_flush", "log-flush"),
            What::Pages => ("writeback", "writeback"),
        };
        let place = self.monitor.place_of_node(node);
        self.happened(place as usize, event, cause, begin, None);
    }

    /// Bytes that wait for the disk, and ns for which it has written.
    pub(in super::super) fn disk(&mut self, node: usize) -> (f64, i64) {
        let now = self.now;
        let state = &mut self.causes.disks[node];
        let under_way = state.writing.map_or(0, |(_, since)| now - since);
        (state.dirty, state.wrote + under_way)
    }
}
