//! CPUs: nodes share their cores among groups, groups share what they get among their jobs, O(log n) an event.
//!
//! All jobs of a group progress at one rate, so a group keeps the service that each of its jobs has attained since it was
//! last idle, and a job leaves when that reaches what it was at arrival plus its work. A stall, a quota or another group
//! changes the rate, and nothing is scheduled anew but the group's next departure.
//!
//! Among groups the cores are divided by water-filling: each gets its share by weight, at most what it wants (runnable
//! threads, virtual CPUs), and what is left goes to those that want more (generalised processor sharing).

use super::plan;
use super::queue::Heap;

pub const NEVER: i64 = i64::MAX;
/// Attained service is a sum of floating-point products; a job is done when it lacks less than this, ns.
const DONE: f64 = 1e-3;
/// Shorter than this, threads of several groups just take turns: a millibottleneck lasts tens to hundreds of ms.
const STARVED: i64 = 50_000_000;
/// A job that is never done: a neighbour's thread.
pub const ENDLESS: f64 = 1e18;

/// What a group used and missed, in core-nanoseconds; cumulative.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    pub busy: f64,
    /// Wanted, and got by other groups.
    pub stolen: f64,
    /// Time (not core time) in which a quota was used up and there was work.
    pub throttled: f64,
}

/// Up to so many jobs a group that is alone on its node knows what it gets.
const KNOWN: usize = 32;

/// What a group gets: cores, cores it wanted and did not get, and service to each job, ns a ns.
#[derive(Clone, Copy, Default)]
struct Share {
    allocated: f64,
    stolen: f64,
    rate: f64,
}

struct Quota {
    full: f64,
    left: f64,
    /// Since when nothing is left.
    used_up: Option<i64>,
}

struct Group {
    node: u32,
    weight: f64,
    cores: f64,
    quota: Option<Quota>,
    inflation: Option<plan::Inflation>,
    /// Keys: service at which the job is done, then order, then the job.
    jobs: Heap,
    order: u32,
    attained: f64,
    share: Share,
    /// By the number of jobs: what it gets, until anything else changes.
    known: [Option<Share>; KNOWN],
    /// Since when others have had some of what it wants.
    starving: Option<i64>,
    last: i64,
    frozen: u32,
    speed: f64,
    used: Used,
}

struct Node {
    cores: f64,
    /// Clock rate as a share of the full one.
    speed: f64,
    /// Share of the CPUs that waits for the disk.
    blocked: f64,
    wanted_block: f64,
    groups: Vec<u32>,
    dirty: bool,
    last: i64,
    /// Core-nanoseconds that waited for the disk.
    waited: f64,
}

pub struct Cpus {
    /// Groups that others kept from the CPU, from when to when.
    starved: Vec<(u32, i64, i64)>,
    nodes: Vec<Node>,
    groups: Vec<Group>,
    /// When each group does something by itself.
    next: Vec<i64>,
    dirty: Vec<u32>,
}

impl Cpus {
    pub fn new(nodes: &[plan::Node], groups: &[plan::Group]) -> Self {
        let mut cpus = Cpus {
            starved: Vec::new(),
            nodes: Vec::new(),
            groups: Vec::new(),
            next: Vec::new(),
            dirty: Vec::new(),
        };
        for node in nodes {
            cpus.nodes.push(Node {
                cores: node.cores,
                speed: 1.0,
                blocked: 0.0,
                wanted_block: 0.0,
                groups: Vec::new(),
                dirty: false,
                last: 0,
                waited: 0.0,
            });
        }
        for group in groups {
            let quota = group.quota.as_ref().map(|q| q.quota as f64);
            cpus.add_group(
                group.node,
                group.weight,
                group.cores,
                quota,
                group.inflation.clone(),
            );
        }
        cpus
    }

    /// A further group; returns its number.
    pub fn add_group(
        &mut self,
        node: u32,
        weight: f64,
        cores: f64,
        quota: Option<f64>,
        inflation: Option<plan::Inflation>,
    ) -> u32 {
        let number = self.groups.len() as u32;
        self.nodes[node as usize].groups.push(number);
        self.next.push(NEVER);
        self.groups.push(Group {
            node,
            weight,
            cores,
            quota: quota.map(|full| Quota {
                full,
                left: full,
                used_up: None,
            }),
            inflation,
            jobs: Heap::default(),
            order: 0,
            attained: 0.0,
            share: Share::default(),
            known: [None; KNOWN],
            starving: None,
            last: 0,
            frozen: 0,
            speed: 1.0,
            used: Used::default(),
        });
        number
    }

    pub fn runnable(&self, group: u32) -> usize {
        self.groups[group as usize].jobs.len()
    }

    /// The group that does something next, and when.
    #[inline]
    pub fn next(&self) -> (i64, u32) {
        let (mut time, mut group) = (NEVER, 0);
        for (i, &t) in self.next.iter().enumerate() {
            if t < time {
                (time, group) = (t, i as u32);
            }
        }
        (time, group)
    }

    /// `job` gets `work` ns of a core at full speed.
    #[inline(always)]
    pub fn add(&mut self, now: i64, group: u32, work: f64, job: u32) {
        let g = &mut self.groups[group as usize];
        g.advance(now);
        if g.jobs.len() == 0 {
            g.attained = 0.0;
        }
        g.order = g.order.wrapping_add(1);
        // Non-negative floating-point numbers order as their bits do.
        let done = (g.attained + work.max(0.0)).to_bits();
        g.jobs
            .push(u128::from(done) << 64 | u128::from(g.order) << 32 | u128::from(job));
        let node = g.node;
        self.touch(node);
    }

    /// What the group's event was: a job that is done, or nothing (a quota ran out).
    #[inline(always)]
    pub fn take(&mut self, now: i64, group: u32) -> Option<u32> {
        let g = &mut self.groups[group as usize];
        g.advance(now);
        let job = match g.jobs.first() {
            Some(key) if f64::from_bits((key >> 64) as u64) <= g.attained + DONE => {
                g.jobs.pop();
                Some(key as u32)
            }
            _ => None,
        };
        let node = g.node;
        self.touch(node);
        job
    }

    /// Removes all jobs that satisfy `which` (a neighbour's threads at the end of its burst).
    pub fn remove(&mut self, now: i64, group: u32, which: impl Fn(u32) -> bool) {
        let g = &mut self.groups[group as usize];
        g.advance(now);
        let mut kept = Heap::default();
        while let Some(key) = g.jobs.pop() {
            if !which(key as u32) {
                kept.push(key);
            }
        }
        g.jobs = kept;
        let node = g.node;
        self.touch(node);
    }

    #[inline]
    fn touch(&mut self, node: u32) {
        let n = &mut self.nodes[node as usize];
        if !n.dirty {
            n.dirty = true;
            self.dirty.push(node);
        }
    }

    /// Something changes by which the node is divided, other than jobs.
    fn changes(&mut self, node: u32) {
        for &group in &self.nodes[node as usize].groups {
            self.groups[group as usize].known = [None; KNOWN];
        }
        self.touch(node);
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

    /// So much more (or less) of the node's CPUs waits for the disk from now on.
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

    /// A new quota period; returns since when the old quota was used up and somebody waited.
    pub fn refill(&mut self, now: i64, group: u32) -> Option<i64> {
        let g = &mut self.groups[group as usize];
        g.advance(now);
        let (node, waits) = (g.node, g.jobs.len() > 0);
        let quota = g.quota.as_mut()?;
        quota.left = quota.full;
        let since = quota.used_up.take();
        self.touch(node);
        since.filter(|&since| waits && since < now)
    }

    /// Looking changes nothing: sums brought up to date in other steps would round otherwise, and samples would be felt.
    pub fn used(&self, now: i64, group: u32) -> Used {
        let g = &self.groups[group as usize];
        let dt = (now - g.last) as f64;
        let waits = g.is_used_up() && g.jobs.len() > 0;
        Used {
            busy: g.used.busy + dt * g.share.allocated,
            stolen: g.used.stolen + dt * g.share.stolen,
            throttled: g.used.throttled + if waits { dt } else { 0.0 },
        }
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

    /// Groups that were kept from the CPU by others since the last call: which, from when, to when.
    pub fn take_starved(&mut self) -> Vec<(u32, i64, i64)> {
        std::mem::take(&mut self.starved)
    }

    /// Works out the rates of the nodes on which something changed.
    #[inline(always)]
    pub fn refresh(&mut self, now: i64) {
        while let Some(node) = self.dirty.pop() {
            let n = &mut self.nodes[node as usize];
            n.dirty = false;
            if n.blocked > 0.0 {
                n.advance(now);
            }
            let (speed, capacity) = (n.speed, n.cores * (1.0 - n.blocked));
            if let [only] = n.groups[..] {
                let g = &mut self.groups[only as usize];
                g.advance(now);
                g.share = g.alone(capacity, speed);
                self.next[only as usize] = g.next(now);
            } else {
                self.divide(now, node, speed, capacity);
            }
        }
    }

    /// Water-filling: those that want less than their share get it all, and the rest is divided again.
    fn divide(&mut self, now: i64, node: u32, speed: f64, capacity: f64) {
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
            self.next[i as usize] = g.next(now);
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

impl Group {
    /// Brings the sums up to `now` at the rate that held since the last change.
    #[inline]
    fn advance(&mut self, now: i64) {
        if now == self.last {
            return;
        }
        let dt = (now - self.last) as f64;
        self.last = now;
        self.attained += dt * self.share.rate;
        self.used.busy += dt * self.share.allocated;
        self.used.stolen += dt * self.share.stolen;
        if let Some(quota) = &mut self.quota {
            quota.left -= dt * self.share.allocated;
            if quota.used_up.is_some() && self.jobs.len() > 0 {
                self.used.throttled += dt;
            }
            if quota.left <= DONE {
                quota.used_up.get_or_insert(now);
            }
        }
    }

    fn is_used_up(&self) -> bool {
        self.quota.as_ref().is_some_and(|q| q.used_up.is_some())
    }

    /// If others have just left it what it wants, after a while that counts: since when they had not.
    fn starves(&mut self, now: i64) -> Option<i64> {
        if self.share.stolen > DONE {
            self.starving.get_or_insert(now);
            return None;
        }
        self.starving.take().filter(|since| now - since >= STARVED)
    }

    /// Cores it could use now.
    #[inline]
    fn wants(&self) -> f64 {
        if self.frozen > 0 || self.is_used_up() {
            return 0.0;
        }
        (self.jobs.len() as f64).min(self.cores)
    }

    /// What it gets as the only group of a node.
    #[inline]
    fn alone(&mut self, capacity: f64, speed: f64) -> Share {
        let known = self.known.get(self.jobs.len()).copied().flatten();
        known.unwrap_or_else(|| self.learn(capacity, speed))
    }

    fn learn(&mut self, capacity: f64, speed: f64) -> Share {
        let share = self.share_of(self.wants().min(capacity), 0.0, speed);
        // What is left of a quota changes all the time.
        if self.quota.is_none() {
            if let Some(known) = self.known.get_mut(self.jobs.len()) {
                *known = Some(share);
            }
        }
        share
    }

    fn share_of(&self, cores: f64, stolen: f64, speed: f64) -> Share {
        let n = self.jobs.len() as f64;
        let mut rate = if n > 0.0 {
            cores * speed * self.speed / n
        } else {
            0.0
        };
        if let Some(i) = &self.inflation {
            if n > i.free {
                rate /= 1.0 + i.slope * libm::pow(n - i.free, i.power);
            }
        }
        Share {
            allocated: cores,
            stolen,
            rate,
        }
    }

    /// When something happens by itself.
    #[inline]
    fn next(&self, now: i64) -> i64 {
        let Some(first) = self.jobs.first() else {
            return NEVER;
        };
        if self.share.rate <= 0.0 {
            return NEVER;
        }
        let lacks = f64::from_bits((first >> 64) as u64) - self.attained;
        let mut wait = lacks.max(0.0) / self.share.rate;
        if let Some(quota) = &self.quota {
            wait = wait.min(quota.left.max(0.0) / self.share.allocated);
        }
        // Beyond any run: an endless job.
        if wait > 1e17 {
            return NEVER;
        }
        // Up to whole nanoseconds; `ceil` is a call on processors without SSE 4.1.
        let whole = wait as i64;
        now + whole + i64::from((whole as f64) < wait)
    }
}
