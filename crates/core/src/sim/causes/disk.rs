//! Disks: background writes delay writes in the foreground (`rpc-vs-async` IV-B: a log flushed
//! every 30 s; `balancers` III-B: dirty pages written back).

use super::super::plan::Plan;
use super::super::tables::Sink;
use super::super::Sim;
use crate::rng::{Purpose, Stream};
use crate::sim::queue::Kind;

#[derive(Default)]
pub struct State {
    /// Bytes in the page cache that are not on the disk, in the files of the node's servers.
    pub dirty: f64,
    files: Vec<File>,
    /// Bytes that were logged since the last flush, without a page cache.
    gathered: f64,
    first: i64,
    writing: Option<Writing>,
    /// Total time of past writes.
    wrote: i64,
}

/// A log file: Linux writes back inode by inode, each by its own age.
struct File {
    server: u32,
    dirty: f64,
    /// When the oldest of its dirty pages became dirty.
    since: Option<i64>,
}

/// The current write: begin, end, and the share of the node's CPUs that waits for it.
struct Writing {
    what: What,
    since: i64,
    until: i64,
    blocks: f64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Log,
    Pages,
}

impl State {
    /// The files of the node's servers. They expire in turn, or at drawn times, as if they had
    /// always been written to.
    pub fn new(plan: &Plan, node: u32) -> Self {
        let mut state = State::default();
        let disk = plan.nodes[node as usize].disk.as_ref();
        let Some(writeback) = disk.and_then(|d| d.writeback.as_ref()) else {
            return state;
        };
        let mut stream = Stream::of(plan.seed, plan.replication, node.into(), Purpose::Phase);
        let mut drawn = |most: i64| (stream.uniform() * most as f64) as i64;
        let cycle = writeback.expire.saturating_add(writeback.period);
        state.first = match writeback.first {
            Some(first) => first,
            None if writeback.drawn => drawn(writeback.period),
            None => writeback.period,
        };
        for (number, server) in plan.servers.iter().enumerate() {
            if server.log_bytes > 0.0 && plan.groups[server.group as usize].node == node {
                let logs = i64::from(server.logs);
                state.files.extend((0..logs).map(|k| File {
                    server: number as u32,
                    dirty: 0.0,
                    since: if writeback.drawn {
                        Some(-drawn(cycle))
                    } else {
                        (k > 0).then(|| -(cycle / logs * k))
                    },
                }));
            }
        }
        state
    }

    /// When the flusher wakes for the first time.
    pub(super) fn first(&self) -> i64 {
        self.first
    }

    /// Takes the dirty pages of files that have been dirty since `before` or longer.
    fn take(&mut self, before: i64) -> f64 {
        let mut bytes = 0.0;
        for file in &mut self.files {
            if file.dirty > 0.0 && file.since.is_some_and(|since| since <= before) {
                bytes += std::mem::take(&mut file.dirty);
                file.since = None;
            }
        }
        self.dirty -= bytes;
        bytes
    }
}

impl<S: Sink> Sim<'_, S> {
    /// A request writes lines to the logs. Returns how long it must then wait: from `limit` on,
    /// writers are held until the excess is on the disk (`balance_dirty_pages`; Linux slows them
    /// down from halfway between `background` and `limit`, here they are stopped at `limit`).
    #[inline(always)]
    pub(in super::super) fn writes_log(&mut self, server: u32) -> i64 {
        if self.servers[server as usize].settings.log_bytes <= 0.0 {
            return 0;
        }
        self.dirties_pages(server)
    }

    fn dirties_pages(&mut self, server: u32) -> i64 {
        let settings = self.servers[server as usize].settings;
        let node = self.plan.groups[settings.group as usize].node;
        let disk = self.plan.nodes[node as usize].disk.as_ref();
        let Some(disk) = disk else {
            return 0;
        };
        let state = &mut self.causes.disks[node as usize];
        let Some(writeback) = &disk.writeback else {
            state.gathered += settings.log_bytes;
            return 0;
        };
        state.dirty += settings.log_bytes;
        for file in state.files.iter_mut().filter(|f| f.server == server) {
            file.dirty += settings.log_bytes / f64::from(settings.logs);
            file.since.get_or_insert(self.now);
        }
        // As in `domain_dirty_limits`.
        let background = if writeback.background < writeback.limit {
            writeback.background
        } else {
            writeback.limit / 2.0
        };
        if state.dirty >= background {
            self.write_back(node, i64::MAX);
        }
        let state = &self.causes.disks[node as usize];
        let writing = state.writing.as_ref();
        let under_way = writing.map_or(0, |w| w.until - self.now) as f64 / 1e9;
        let over = state.dirty + under_way * disk.bytes_per_second - writeback.limit;
        (over / disk.bytes_per_second * 1e9) as i64
    }

    /// The flusher wakes (`dirty_writeback_centisecs`), and returns its next wake-up.
    pub(super) fn wakes_writeback(&mut self, node: u32) -> i64 {
        let disk = self.plan.nodes[node as usize].disk.as_ref();
        let Some(settings) = disk.and_then(|d| d.writeback.as_ref()) else {
            return 0;
        };
        self.write_back(node, self.now - settings.expire);
        settings.period
    }

    /// Writes what has been dirty since `before`.
    fn write_back(&mut self, node: u32, before: i64) {
        let disk = self.plan.nodes[node as usize].disk.as_ref();
        let Some(settings) = disk.and_then(|d| d.writeback.as_ref()) else {
            return;
        };
        let bytes = self.causes.disks[node as usize].take(before);
        self.write(node, What::Pages, bytes, settings.blocks);
    }

    pub(super) fn flushes_log(&mut self, node: u32) -> i64 {
        let disk = self.plan.nodes[node as usize].disk.as_ref();
        let Some(settings) = disk.and_then(|d| d.flush.as_ref()) else {
            return 0;
        };
        let logged = std::mem::take(&mut self.causes.disks[node as usize].gathered);
        let bytes = logged + settings.bytes_per_second * settings.period as f64 / 1e9;
        self.write(node, What::Log, bytes, settings.blocks);
        settings.period
    }

    /// The disk writes; requests that come meanwhile wait longer.
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
            self.cpus.block(self.now, node, blocks);
        }
        let writing = state.writing.get_or_insert(Writing {
            what,
            since: self.now,
            until: self.now,
            blocks,
        });
        writing.until += takes;
        self.queue
            .push(writing.until, Kind::Timer, self.causes.first_idle + node);
    }

    pub(super) fn disk_idle(&mut self, node: u32) {
        let writing = &self.causes.disks[node as usize].writing;
        if writing.as_ref().is_some_and(|w| self.now >= w.until) {
            self.closes_disk(node);
        }
    }

    pub(super) fn closes_disk(&mut self, node: u32) {
        let state = &mut self.causes.disks[node as usize];
        let Some(writing) = state.writing.take() else {
            return;
        };
        state.wrote += self.now - writing.since;
        self.cpus.block(self.now, node, -writing.blocks);
        let (event, cause) = match writing.what {
            What::Log => ("log_flush", "log-flush"),
            What::Pages => ("writeback", "writeback"),
        };
        let place = self.monitor.place_of_node(node);
        self.happened(place as usize, event, cause, writing.since, None);
    }

    /// Bytes that wait for the disk, and ns for which it has written.
    pub(in super::super) fn disk(&mut self, node: usize) -> (f64, i64) {
        let now = self.now;
        let state = &mut self.causes.disks[node];
        let under_way = state.writing.as_ref().map_or(0, |w| now - w.since);
        (state.dirty, state.wrote + under_way)
    }
}
