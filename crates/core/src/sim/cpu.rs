//! CPUs: nodes share their cores among groups, groups share what they get among their jobs, O(log
//! n) an event in the number of jobs; [`next`] finds the group of the next event.
//!
//! All jobs of a group progress at one rate. A group therefore keeps the service that each of its
//! jobs has attained since it was last idle, and a job leaves when that reaches its value at
//! arrival plus the job's work. A stall, a quota or another group changes the rate, and only the
//! group's next departure must be rescheduled.
//!
//! Among groups the cores are divided by water-filling: each gets its share by weight, at most what
//! it wants (runnable threads, virtual CPUs), and the rest goes to those that want more
//! (generalised processor sharing).

mod group;
mod next;

use super::plan;
use group::Group;
pub use group::Used;
use next::Next;

pub const NEVER: i64 = i64::MAX;
/// A job that is never done: a neighbour's thread.
pub const ENDLESS: f64 = 1e18;
/// In [`Cpus::next`], for the first group of a node: the division of the node has changed.
const STALE: i64 = i64::MIN;

struct Node {
    cores: f64,
    /// Clock rate as a share of the full one.
    speed: f64,
    /// Share of the CPUs that waits for the disk.
    blocked: f64,
    wanted_block: f64,
    groups: Vec<u32>,
    last: i64,
    /// Core-nanoseconds that waited for the disk.
    waited: f64,
}

pub struct Cpus {
    /// Groups that others kept from the CPU, with begin and end.
    starved: Vec<(u32, i64, i64)>,
    nodes: Vec<Node>,
    groups: Vec<Group>,
    /// The next event of each group by itself.
    next: Next,
}

/// How many threads are in each state. One that accepts connections sleeps while it has nothing to do.
#[derive(Default)]
pub struct Threads {
    pub stopped: usize,
    pub runnable: usize,
    pub blocked: usize,
}

impl Cpus {
    pub fn new(nodes: &[plan::Node], groups: &[plan::Group]) -> Self {
        let nodes = nodes.iter().map(|node| Node {
            cores: node.cores,
            speed: 1.0,
            blocked: 0.0,
            wanted_block: 0.0,
            groups: Vec::new(),
            last: 0,
            waited: 0.0,
        });
        let mut cpus = Cpus {
            starved: Vec::new(),
            nodes: nodes.collect(),
            groups: Vec::new(),
            next: Next::default(),
        };
        for group in groups {
            let on = &mut cpus.nodes[group.node as usize].groups;
            on.push(cpus.groups.len() as u32);
            cpus.groups.push(Group::new(group, on[0]));
            cpus.next.push();
        }
        cpus
    }

    pub fn runnable(&self, group: u32) -> usize {
        self.groups[group as usize].runnable()
    }

    /// The threads of a group that do not sleep. A group that stands still for `memory` waits in the kernel.
    pub fn threads(&self, group: u32, memory: bool) -> Threads {
        let g = &self.groups[group as usize];
        let working = g.working();
        if g.frozen > 0 && memory {
            return Threads {
                blocked: working.max(1),
                ..Threads::default()
            };
        }
        if g.frozen > 0 {
            return Threads {
                stopped: working + 1,
                ..Threads::default()
            };
        }
        let blocked = (working as f64 * self.nodes[g.node as usize].blocked).ceil() as usize;
        Threads {
            runnable: working - blocked,
            blocked,
            stopped: 0,
        }
    }

    /// The group with the next event, and its time; recomputes rates that have changed.
    #[inline(always)]
    pub fn next(&mut self, now: i64) -> (i64, u32) {
        loop {
            let (time, group) = self.next.first();
            if time != STALE {
                return (time, group);
            }
            self.work_out(now, group);
        }
    }

    /// `job` gets `work` ns of a core at full speed.
    #[inline(always)]
    pub fn add(&mut self, now: i64, group: u32, work: f64, job: u32) {
        let g = &mut self.groups[group as usize];
        g.add(now, work, job);
        self.next.set(g.first, g.known_next(now).unwrap_or(STALE));
    }

    /// The group's event: a job that is done, or nothing (a quota ran out).
    #[inline(always)]
    pub fn take(&mut self, now: i64, group: u32) -> Option<u32> {
        let g = &mut self.groups[group as usize];
        let job = g.take(now);
        self.next.set(g.first, g.known_next(now).unwrap_or(STALE));
        job
    }

    /// Removes all jobs that satisfy `which` (a neighbour's threads at the end of its burst).
    pub fn remove(&mut self, now: i64, group: u32, which: impl Fn(u32) -> bool) {
        let g = &mut self.groups[group as usize];
        g.remove(now, which);
        self.next.set(g.first, STALE);
    }

    /// The division of the node changes, for another reason than jobs.
    fn changes(&mut self, node: u32) {
        let on = &self.nodes[node as usize].groups;
        for &group in on {
            self.groups[group as usize].forget();
        }
        if let Some(&first) = on.first() {
            self.next.set(first, STALE);
        }
    }

    /// Stops the group's threads (`true`) or lets them run again; stops add up.
    pub fn freeze(&mut self, group: u32, stop: bool) {
        let g = &mut self.groups[group as usize];
        g.frozen = if stop {
            g.frozen + 1
        } else {
            g.frozen.saturating_sub(1)
        };
        let node = g.node;
        self.changes(node);
    }

    /// A collector with this many threads has the group's CPUs for `work` ns of a core at full
    /// speed: all other jobs stand still until [`Cpus::let_the_world_go_on`].
    pub fn stop_the_world(&mut self, now: i64, group: u32, work: f64, threads: f64, job: u32) {
        let g = &mut self.groups[group as usize];
        g.stop_the_world(now, work, threads, job);
        let node = g.node;
        self.changes(node);
    }

    pub fn let_the_world_go_on(&mut self, group: u32, threads: f64) {
        let g = &mut self.groups[group as usize];
        g.let_the_world_go_on(threads);
        let node = g.node;
        self.changes(node);
    }

    /// Whether only a collector runs in the group, if anything runs.
    pub fn is_stopped(&self, group: u32) -> bool {
        let g = &self.groups[group as usize];
        g.is_stopped() || g.stands_still()
    }

    /// Whether the group gets nothing although it wants CPU time: it is stopped, or its quota is
    /// used up.
    pub fn stands_still(&self, group: u32) -> bool {
        self.groups[group as usize].stands_still()
    }

    /// Multiplies the speed of a group; the inverse undoes it.
    pub fn scale_group(&mut self, group: u32, factor: f64) {
        let g = &mut self.groups[group as usize];
        g.speed *= factor;
        let node = g.node;
        self.changes(node);
    }

    pub fn set_speed(&mut self, node: u32, speed: f64) {
        self.nodes[node as usize].speed = speed;
        self.changes(node);
    }

    /// This much more (or less) of the node's CPUs waits for the disk from now on.
    pub fn block(&mut self, now: i64, node: u32, share: f64) {
        let n = &mut self.nodes[node as usize];
        n.advance(now);
        n.wanted_block = (n.wanted_block + share).max(0.0);
        n.blocked = if n.wanted_block < 1e-9 {
            0.0
        } else {
            n.wanted_block.min(1.0)
        };
        self.changes(node);
    }

    /// A new quota period; returns since when the old quota was used up and a job waited.
    pub fn refill(&mut self, now: i64, group: u32) -> Option<i64> {
        let g = &mut self.groups[group as usize];
        self.next.set(g.first, STALE);
        g.refill(now)
    }

    pub fn used(&self, now: i64, group: u32) -> Used {
        self.groups[group as usize].used(now)
    }

    /// Core-nanoseconds that the groups of a node used.
    pub fn busy_of_node(&self, now: i64, node: u32) -> f64 {
        let on = &self.nodes[node as usize].groups;
        on.iter().map(|&group| self.used(now, group).busy).sum()
    }

    /// Core-nanoseconds of the node that waited for the disk.
    pub fn waited(&self, now: i64, node: u32) -> f64 {
        let n = &self.nodes[node as usize];
        n.waited + (now - n.last) as f64 * n.blocked * n.cores
    }

    /// Groups that others kept from the CPU: which, begin, end.
    pub fn take_starved(&mut self) -> Vec<(u32, i64, i64)> {
        std::mem::take(&mut self.starved)
    }

    /// Computes the rates on the node of this first group.
    #[inline(always)]
    fn work_out(&mut self, now: i64, group: u32) {
        let g = &mut self.groups[group as usize];
        g.advance(now);
        match g.known_next(now) {
            Some(next) => self.next.set(group, next),
            None => {
                let node = g.node;
                self.divide(now, node);
            }
        }
    }

    fn divide(&mut self, now: i64, node: u32) {
        let n = &mut self.nodes[node as usize];
        if n.blocked > 0.0 {
            n.advance(now);
        }
        let (speed, capacity) = (n.speed, n.cores * (1.0 - n.blocked));
        if let [only] = n.groups[..] {
            let g = &mut self.groups[only as usize];
            g.share = g.share_of(g.wants().min(capacity), 0.0, speed);
            if n.blocked == 0.0 {
                g.learn();
            }
            self.next.set(only, g.next(now));
        } else {
            self.fill(now, node, speed, capacity);
        }
    }

    /// Water-filling: groups that want less than their share get it all, and the rest is divided
    /// again.
    fn fill(&mut self, now: i64, node: u32, speed: f64, capacity: f64) {
        let n = &self.nodes[node as usize];
        let (mut left, mut weights) = (capacity, 0.0);
        for &i in &n.groups {
            let g = &mut self.groups[i as usize];
            g.advance(now);
            g.share.allocated = -1.0;
            weights += g.weight * f64::from(u8::from(g.wants() > 0.0));
        }
        loop {
            let (share, mut settled) = (left.max(0.0) / weights, false);
            for &i in &n.groups {
                let g = &mut self.groups[i as usize];
                let wants = g.wants();
                if g.share.allocated < 0.0 && (wants <= 0.0 || wants <= share * g.weight) {
                    g.share.allocated = wants;
                    left -= wants;
                    weights -= g.weight * f64::from(u8::from(wants > 0.0));
                    settled = true;
                }
            }
            if !settled {
                for &i in &n.groups {
                    let g = &mut self.groups[i as usize];
                    if g.share.allocated < 0.0 {
                        g.share.allocated = share * g.weight;
                    }
                }
                break;
            }
        }
        let all: f64 = n
            .groups
            .iter()
            .map(|&i| self.groups[i as usize].share.allocated)
            .sum();
        for &i in &n.groups {
            let g = &mut self.groups[i as usize];
            let cores = g.share.allocated;
            g.share = g.share_of(cores, (g.wants() - cores).min(all - cores), speed);
            self.next.set(i, g.next(now));
            if let Some(since) = g.starves(now) {
                self.starved.push((i, since, now));
            }
        }
    }
}

impl Node {
    #[inline(always)]
    fn advance(&mut self, now: i64) {
        self.waited += (now - self.last) as f64 * self.blocked * self.cores;
        self.last = now;
    }
}
