//! Causes of stalls: arising in the system (collections, clock rates, disks, quotas, further
//! processes), or injected.
//!
//! A cause acts on the CPUs, and one that stops a server's threads keeps it from accepting. The
//! resulting queues are not part of it.

mod collection;
mod disk;
mod frequency;
mod injected;
mod process;
mod restart;

use super::plan::{Effect, Plan};
use super::queue::Kind;
use super::tables::Sink;
use super::Sim;

/// Jobs from this number on belong to the system, not to a request.
pub const SYSTEM_JOBS: u32 = 1 << 30;
/// Among them: a server's collection, the start of its next process, a neighbour's threads, the
/// sampler.
const COLLECTION: u32 = SYSTEM_JOBS;
const PROCESS: u32 = SYSTEM_JOBS + (1 << 20);
const BURN: u32 = SYSTEM_JOBS + (2 << 20);
const SAMPLER: u32 = SYSTEM_JOBS + (3 << 20);

/// The purpose of a timer.
#[derive(Clone, Copy, Debug)]
enum Timer {
    Sample,
    Quota(u32),
    Governor(u32),
    Writeback(u32),
    Flush(u32),
    DiskIdle(u32),
    StallBegins(u32),
    StallEnds(u32),
    Capacity(u32),
    MaySpawn(u32),
    MayRetire(u32),
}

pub struct Causes {
    timers: Vec<Timer>,
    heaps: Vec<Option<collection::Heap>>,
    governors: Vec<Option<frequency::State>>,
    disks: Vec<disk::State>,
    first_spawn: u32,
    first_retire: u32,
    first_idle: u32,
    /// Of each recorded capacity, its next time.
    capacities: Vec<usize>,
    /// The stalls that act on visits or packets now: locks, and paths that lose packets.
    active: Vec<u32>,
    paging: Vec<Option<injected::Paging>>,
    restarts: Vec<Option<restart::Restarts>>,
}

/// For each of so many, whether a stall of the plan concerns it, and then what is known of it at first.
fn of_stalls<T: Clone + Default>(
    plan: &Plan,
    count: usize,
    concerns: impl Fn(&Effect) -> Option<u32>,
) -> Vec<Option<T>> {
    let mut found = vec![None; count];
    for number in plan
        .stalls
        .iter()
        .filter_map(|stall| concerns(&stall.effect))
    {
        found[number as usize] = Some(T::default());
    }
    found
}

impl Causes {
    pub fn new(plan: &Plan) -> Self {
        let mut timers = vec![Timer::Sample];
        let number = |n: usize| n as u32;
        let first_spawn = number(timers.len());
        timers.extend((0..plan.servers.len()).map(|i| Timer::MaySpawn(number(i))));
        let first_retire = number(timers.len());
        timers.extend((0..plan.servers.len()).map(|i| Timer::MayRetire(number(i))));
        let first_idle = number(timers.len());
        timers.extend((0..plan.nodes.len()).map(|i| Timer::DiskIdle(number(i))));
        Causes {
            timers,
            heaps: plan.servers.iter().map(collection::Heap::new).collect(),
            governors: plan.nodes.iter().map(frequency::State::new).collect(),
            disks: (0..number(plan.nodes.len()))
                .map(|node| disk::State::new(plan, node))
                .collect(),
            first_spawn,
            first_retire,
            first_idle,
            capacities: vec![0; plan.capacities.len()],
            active: Vec::new(),
            paging: injected::Paging::of(plan),
            restarts: restart::Restarts::of(plan),
        }
    }
}

impl<S: Sink> Sim<'_, S> {
    pub(super) fn start_causes(&mut self) {
        let plan = self.plan;
        if plan.sample > 0 {
            self.queue.push(plan.sample, Kind::Timer, 0);
        }
        for (i, group) in plan.groups.iter().enumerate() {
            if let Some(quota) = &group.quota {
                let first = quota.first.unwrap_or(quota.period);
                self.set_timer(first, Timer::Quota(i as u32));
            }
        }
        for (i, node) in plan.nodes.iter().enumerate() {
            let i = i as u32;
            if let Some(governor) = &node.governor {
                self.cpus.set_speed(
                    i,
                    governor
                        .hz
                        .get(governor.start)
                        .map_or(1.0, |hz| hz / governor.fastest()),
                );
                self.set_timer(governor.first_reading(), Timer::Governor(i));
            }
            let disk = node.disk.as_ref();
            if disk.is_some_and(|d| d.writeback.is_some()) {
                let first = self.causes.disks[i as usize].first();
                self.set_timer(first, Timer::Writeback(i));
            }
            if let Some(flush) = disk.and_then(|d| d.flush.as_ref()) {
                self.set_timer(flush.first, Timer::Flush(i));
            }
        }
        for (i, stall) in plan.stalls.iter().enumerate() {
            self.set_timer(stall.begin, Timer::StallBegins(i as u32));
            self.set_timer(stall.end, Timer::StallEnds(i as u32));
        }
        for (i, capacity) in plan.capacities.iter().enumerate() {
            if let Some(&first) = capacity.times.first() {
                self.set_timer(first, Timer::Capacity(i as u32));
            }
        }
    }

    fn set_timer(&mut self, time: i64, timer: Timer) {
        let number = self.causes.timers.len() as u32;
        self.causes.timers.push(timer);
        self.queue.push(time, Kind::Timer, number);
    }

    pub(super) fn timer(&mut self, number: u32) {
        let plan = self.plan;
        let again = match self.causes.timers[number as usize] {
            Timer::Sample => {
                self.sample();
                self.sampler_works();
                plan.sample
            }
            Timer::Quota(group) => {
                self.quota_is_over(group);
                self.accepts_or_not(group);
                plan.groups[group as usize]
                    .quota
                    .as_ref()
                    .map_or(0, |q| q.period)
            }
            Timer::Governor(node) => self.govern(node),
            Timer::Writeback(node) => self.wakes_writeback(node),
            Timer::Flush(node) => self.flushes_log(node),
            Timer::DiskIdle(node) => {
                self.disk_idle(node);
                0
            }
            Timer::StallBegins(stall) => {
                self.stall_begins(stall);
                0
            }
            Timer::StallEnds(stall) => {
                self.stall_ends(stall);
                0
            }
            Timer::Capacity(number) => self.capacity_changes(number),
            Timer::MayRetire(server) => self.may_retire(server),
            Timer::MaySpawn(server) => {
                self.may_spawn(server);
                0
            }
        };
        if again > 0 && !self.is_over() {
            self.queue.push(self.now + again, Kind::Timer, number);
        }
    }

    /// Stops a group's threads (`true`) or lets them run again; stops add up.
    fn stop(&mut self, group: u32, stop: bool) {
        self.cpus.freeze(group, stop);
        self.accepts_or_not(group);
    }

    /// Threads that accept connections are also held by a stop, a collection, or a used-up quota.
    pub(super) fn accepts_or_not(&mut self, group: u32) {
        let stands_still = self.cpus.is_stopped(group);
        for server in 0..self.servers.len() as u32 {
            if self.servers[server as usize].group != group {
                continue;
            }
            self.may_collect(server);
            let s = &mut self.servers[server as usize];
            let stopped = stands_still || s.restarting > 0;
            if s.stopped != stopped {
                s.stopped = stopped;
                if !stopped {
                    self.hand_out(server);
                }
            }
        }
    }

    /// A stall that lasts beyond the run ends with it.
    pub(super) fn close_causes(&mut self) {
        let plan = self.plan;
        for (i, stall) in plan.stalls.iter().enumerate() {
            if stall.begin < self.now && self.now < stall.end {
                self.stall_is_over(i as u32);
            }
        }
        for i in 0..plan.nodes.len() {
            self.closes_disk(i as u32);
            self.closes_governor(i as u32);
        }
        for i in 0..plan.groups.len() {
            self.quota_is_over(i as u32);
        }
        for i in 0..plan.servers.len() {
            self.collection_is_over(i as u32);
        }
        self.close_bursts();
        self.report_neighbours();
    }

    /// A server's group that others kept from the CPU had a neighbour.
    fn report_neighbours(&mut self) {
        for (group, begin, end) in self.cpus.take_starved() {
            if self.holds_server(group) {
                let place = self.plan.groups[group as usize].name.clone();
                self.report.stall("neighbour", place, begin, end);
            }
        }
    }

    /// A job of the system is done.
    pub(super) fn system_worked(&mut self, job: u32) {
        match job {
            COLLECTION..PROCESS => self.collected(job - COLLECTION),
            PROCESS..BURN => self.process_started(job - PROCESS),
            _ => {}
        }
    }

    /// A neighbour's group has no server: it is not sampled.
    fn holds_server(&self, group: u32) -> bool {
        self.plan.servers.iter().any(|server| server.group == group)
    }

    fn sampler_works(&mut self) {
        let work = self.plan.sample_work;
        if work > 0 {
            for group in 0..self.plan.groups.len() as u32 {
                if self.holds_server(group) {
                    self.cpus.add(self.now, group, work as f64, SAMPLER);
                }
            }
        }
    }

    /// A new period begins. It goes into the truth if the old quota was used up and a job waited.
    fn quota_is_over(&mut self, group: u32) {
        if let Some(since) = self.cpus.refill(self.now, group) {
            self.report.stall(
                "cpu-quota",
                self.plan.groups[group as usize].name.clone(),
                since,
                self.now,
            );
        }
    }
}
