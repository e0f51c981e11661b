//! The values of a sampler: levels at the end of an interval, and CPU time and counts within it.

use super::plan::{Connector, Plan, Steal};
use super::tables::{places, Sink};
use super::Sim;
use crate::record::rows::Sample;
use std::collections::{HashMap, HashSet};

/// Reading a page back from a disk takes a tenth of a millisecond, ns: most of a request to an SSD is its own latency.
const FAULT: f64 = 100_000.0;

/// Readings of the previous interval.
pub struct Monitor {
    pub places: Vec<String>,
    groups: Vec<GroupSeen>,
    nodes: Vec<NodeSeen>,
    servers: Vec<ServerSeen>,
    /// By connector, as [`first_to_choose`] finds it.
    chooses_first: Vec<bool>,
    last: i64,
}

#[derive(Clone, Default)]
struct GroupSeen {
    place: u32,
    busy: f64,
    stolen: f64,
    throttled: f64,
    paged: i64,
}

#[derive(Clone, Default)]
struct NodeSeen {
    place: u32,
    /// It has a place of its own, because several groups share it.
    shared: bool,
    busy: f64,
    waited: f64,
    wrote: i64,
}

#[derive(Clone, Default)]
struct ServerSeen {
    lost: u64,
    collected: i64,
}

impl Monitor {
    pub fn new(plan: &Plan) -> Self {
        let places = places(plan);
        let mut numbers = HashMap::new();
        for (number, name) in places.iter().enumerate() {
            numbers.entry(name.as_str()).or_insert(number as u32);
        }
        let place = |name: &str| numbers.get(name).copied().unwrap_or(0);
        let groups = plan.groups.iter().map(|g| GroupSeen {
            place: place(&g.name),
            ..GroupSeen::default()
        });
        let mut on = vec![(0_u32, ""); plan.nodes.len()];
        for group in &plan.groups {
            let (count, last) = &mut on[group.node as usize];
            (*count, *last) = (*count + 1, &group.name);
        }
        let nodes = plan.nodes.iter().zip(on).map(|(node, (count, group))| {
            let alone = count == 1;
            NodeSeen {
                place: place(if alone { group } else { &node.name }),
                shared: !alone,
                ..NodeSeen::default()
            }
        });
        let (groups, nodes) = (groups.collect(), nodes.collect());
        Monitor {
            groups,
            nodes,
            servers: vec![ServerSeen::default(); plan.servers.len()],
            chooses_first: first_to_choose(plan),
            places,
            last: 0,
        }
    }

    pub fn place_of_node(&self, node: u32) -> u32 {
        self.nodes[node as usize].place
    }
}

impl<S: Sink> Sim<'_, S> {
    pub(super) fn sample(&mut self) {
        let dt = (self.now - self.monitor.last) as f64;
        self.monitor.last = self.now;
        self.sample_groups(dt);
        self.sample_nodes(dt);
        self.sample_servers(dt);
    }

    fn put(&mut self, place: u32, metric: &'static str, value: f64) {
        if self.now < self.plan.record_from || self.failed.is_some() {
            return;
        }
        let row = self.sink.sample(Sample {
            time: self.plan.epoch + self.now,
            interval: self.plan.sample,
            place,
            metric,
            value,
        });
        self.keep(row);
    }

    fn sample_groups(&mut self, dt: f64) {
        let plan = self.plan;
        for (i, group) in plan.groups.iter().enumerate() {
            let used = self.cpus.used(self.now, i as u32);
            let node = &plan.nodes[group.node as usize];
            let cores = group.cores.min(node.cores);
            let seen = &mut self.monitor.groups[i];
            let place = seen.place;
            let busy = (used.busy - seen.busy) / (dt * cores);
            let stolen = (used.stolen - seen.stolen) / (dt * cores);
            let throttled = (used.throttled - seen.throttled) / dt;
            (seen.busy, seen.stolen, seen.throttled) = (used.busy, used.stolen, used.throttled);
            match node.steal {
                Steal::Hidden => self.put(place, "cpu_busy", busy),
                Steal::Busy => self.put(place, "cpu_busy", busy + stolen),
                Steal::Shown => {
                    self.put(place, "cpu_busy", busy);
                    self.put(place, "cpu_steal", stolen);
                }
            }
            if group.quota.is_some() {
                self.put(place, "cpu_throttled", throttled);
            }
            self.put(place, "run_queue", self.cpus.runnable(i as u32) as f64);
            self.sample_threads(i, place);
            if let Some(paged) = self.paged(i) {
                let before = std::mem::replace(&mut self.monitor.groups[i].paged, paged);
                let waited = (paged - before) as f64;
                self.put(place, "psi_memory", waited / dt);
                self.put(place, "major_faults", waited / FAULT);
            }
        }
    }

    /// The threads of a group by what they do now. Threads without a job sleep, and a stop also stops those.
    fn sample_threads(&mut self, group: usize, place: u32) {
        let threads = self
            .cpus
            .threads(group as u32, self.waits_for_memory(group));
        self.put(place, "tasks_stopped", threads.stopped as f64);
        self.put(place, "tasks_runnable", threads.runnable as f64);
        self.put(place, "tasks_blocked", threads.blocked as f64);
    }

    fn sample_nodes(&mut self, dt: f64) {
        let plan = self.plan;
        for (i, node) in plan.nodes.iter().enumerate() {
            let busy = self.cpus.busy_of_node(self.now, i as u32);
            let waited = self.cpus.waited(self.now, i as u32);
            let seen = &mut self.monitor.nodes[i];
            let (place, shared) = (seen.place, seen.shared);
            let used = (busy - seen.busy) / (dt * node.cores);
            let waiting = (waited - seen.waited) / (dt * node.cores);
            (seen.busy, seen.waited) = (busy, waited);
            if shared {
                self.put(place, "cpu_busy", used);
            }
            self.put(place, "cpu_iowait", waiting.min(1.0 - used.min(1.0)));
            if let Some(hz) = self.hz(i) {
                self.put(place, "cpu_hz", hz);
            }
            if let Some(governor) = &node.governor {
                self.put(place, "cpu_hz_max", governor.fastest());
            }
            if node.disk.is_some() {
                let (dirty, wrote) = self.disk(i);
                let before = std::mem::replace(&mut self.monitor.nodes[i].wrote, wrote);
                self.put(place, "dirty_bytes", dirty);
                self.put(place, "disk_busy", (wrote - before) as f64 / dt);
            }
        }
    }

    fn sample_servers(&mut self, dt: f64) {
        for i in 0..self.servers.len() {
            let collected = self.in_collections(i);
            let s = &self.servers[i];
            let (accepting, busy, lost, first) = (
                s.accepting.len(),
                s.busy,
                s.lost,
                s.first_connector as usize,
            );
            let seen = &mut self.monitor.servers[i];
            let drops = lost - std::mem::replace(&mut seen.lost, lost);
            let share =
                collected.map(|c| (c - std::mem::replace(&mut seen.collected, c)) as f64 / dt);
            let place = i as u32;
            self.put(place, "accept_queue", f64::from(accepting));
            self.put(place, "workers_busy", f64::from(busy));
            self.put(place, "listen_drops", drops as f64);
            if let Some((processes, ended)) = self.processes_of(place) {
                self.put(place, "processes", f64::from(processes));
                self.put(place, "processes_ended", f64::from(ended));
            }
            if let Some(share) = share {
                self.put(place, "gc_share", share);
            }
            self.sample_balancers(i, first);
            let connectors = &self.plan.servers[i].connectors;
            if connectors.iter().any(|c| c.pool.is_some()) {
                let all = &self.connectors[first..first + connectors.len()];
                let pools = || all.iter().flat_map(|c| self.pools[c.pools()].iter());
                let in_use: u32 = pools().map(|p| p.in_use).sum();
                let waiting: u32 = pools().map(|p| p.waiting()).sum();
                self.put(place, "pool_in_use", f64::from(in_use));
                self.put(place, "pool_waiting", f64::from(waiting));
            }
        }
    }

    /// The data of the balancers of a server that are the first among their candidates, for each
    /// candidate.
    fn sample_balancers(&mut self, server: usize, first: usize) {
        let connectors = &self.plan.servers[server].connectors;
        for (i, connector) in connectors.iter().enumerate() {
            if !self.monitor.chooses_first[first + i] {
                continue;
            }
            for (k, &candidate) in connector.candidates.iter().enumerate() {
                let value = self.connectors[first + i].balancer.value(k);
                self.put(candidate, "balancer_value", value);
            }
        }
    }
}

/// For each connector whether it chooses among several candidates and no server before does so
/// among the same.
fn first_to_choose(plan: &Plan) -> Vec<bool> {
    let mut known = HashSet::new();
    let mut found = Vec::new();
    for server in &plan.servers {
        let several = |c: &&Connector| c.candidates.len() > 1;
        let new = |c: &Connector| several(&c) && !known.contains(&c.candidates);
        found.extend(server.connectors.iter().map(new));
        known.extend(
            server
                .connectors
                .iter()
                .filter(several)
                .map(|c| &c.candidates),
        );
    }
    found
}
