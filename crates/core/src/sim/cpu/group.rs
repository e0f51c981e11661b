//! A group: its jobs progress at one rate, and its used and missed CPU time adds up. While a
//! collector works, it has the group's CPUs, and all other jobs are suspended.

use super::super::heap::Heap;
use super::super::plan;
use super::NEVER;

/// Attained service is a sum of floating-point products; a job is done when it lacks less than
/// this, ns.
const DONE: f64 = 1e-3;
/// For a shorter time, threads of several groups just take turns: a millibottleneck lasts tens to
/// hundreds of ms.
const STARVED: i64 = 50_000_000;
/// With fewer jobs than this, a group that is alone on its node caches its share.
const KNOWN: usize = 32;

/// Used and missed CPU time of a group, in core-nanoseconds; cumulative.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    pub busy: f64,
    /// Wanted, but other groups got it.
    pub stolen: f64,
    /// Time (not core time) in which a quota was used up and there was work.
    pub throttled: f64,
}

/// What a group gets: cores, cores it wanted and did not get, and service to each job, ns a ns.
#[derive(Clone, Copy, Default)]
pub struct Share {
    pub allocated: f64,
    pub stolen: f64,
    rate: f64,
}

/// In the cached shares: not computed yet.
const UNKNOWN: Share = Share {
    allocated: 0.0,
    stolen: 0.0,
    rate: -1.0,
};

struct Quota {
    full: f64,
    /// What may be left over from earlier periods.
    burst: f64,
    left: f64,
    /// Since when nothing is left.
    used_up: Option<i64>,
    /// An event for this has already been sent, because a job wanted more.
    told: bool,
}

/// Jobs that are suspended while a collector works.
struct World {
    jobs: Heap,
    attained: f64,
    /// Jobs of the collectors.
    threads: f64,
}

/// Non-negative floating-point numbers sort like their bits.
#[inline(always)]
fn key(done: f64, order: u32, job: u32) -> u128 {
    u128::from(done.to_bits()) << 64 | u128::from(order) << 32 | u128::from(job)
}

/// The service at which the job of a key is done.
#[inline(always)]
fn done_at(key: u128) -> f64 {
    f64::from_bits((key >> 64) as u64)
}

pub struct Group {
    pub node: u32,
    /// The first group of its node.
    pub first: u32,
    pub weight: f64,
    cores: f64,
    quota: Option<Quota>,
    inflation: Option<plan::Inflation>,
    /// Keys: service at which the job is done, then order, then the job.
    jobs: Heap,
    order: u32,
    attained: f64,
    stopped: Option<Box<World>>,
    pub share: Share,
    /// Its share by the number of jobs, until anything else changes.
    known: [Share; KNOWN],
    /// Since when other groups have had some of what it wants.
    starving: Option<i64>,
    last: i64,
    pub frozen: u32,
    pub speed: f64,
    used: Used,
}

impl Group {
    pub fn new(group: &plan::Group, first: u32) -> Self {
        let quota = group.quota.as_ref();
        Group {
            node: group.node,
            first,
            weight: group.weight,
            cores: group.cores,
            quota: quota.map(|q| Quota {
                full: q.quota as f64,
                burst: q.burst as f64,
                left: q.quota as f64,
                used_up: None,
                told: false,
            }),
            inflation: group.inflation.clone(),
            jobs: Heap::default(),
            order: 0,
            attained: 0.0,
            stopped: None,
            share: Share::default(),
            known: [UNKNOWN; KNOWN],
            starving: None,
            last: 0,
            frozen: 0,
            speed: 1.0,
            used: Used::default(),
        }
    }

    /// Updates the sums to `now` at the rate since the last change.
    #[inline(always)]
    pub fn advance(&mut self, now: i64) {
        if now == self.last {
            return;
        }
        let dt = (now - self.last) as f64;
        self.last = now;
        self.attained += dt * self.share.rate;
        self.used.busy += dt * self.share.allocated;
        self.used.stolen += dt * self.share.stolen;
        if self.quota.is_some() {
            self.advance_quota(now, dt);
        }
    }

    fn advance_quota(&mut self, now: i64, dt: f64) {
        let Some(quota) = &mut self.quota else {
            return;
        };
        quota.left -= dt * self.share.allocated;
        if quota.used_up.is_some() && self.jobs.len() > 0 {
            self.used.throttled += dt;
        }
        if quota.left <= DONE {
            quota.used_up.get_or_insert(now);
        }
    }

    #[inline(always)]
    pub fn add(&mut self, now: i64, work: f64, job: u32) {
        self.advance(now);
        self.order = self.order.wrapping_add(1);
        let (jobs, attained) = match &mut self.stopped {
            None => (&mut self.jobs, &mut self.attained),
            Some(world) => (&mut world.jobs, &mut world.attained),
        };
        if jobs.len() == 0 {
            *attained = 0.0;
        }
        jobs.push(key(*attained + work.max(0.0), self.order, job));
    }

    /// A collector with this many threads stops the others.
    pub fn stop_the_world(&mut self, now: i64, work: f64, threads: f64, job: u32) {
        self.advance(now);
        self.order = self.order.wrapping_add(1);
        let mut world = self.stopped.take().unwrap_or_else(|| {
            Box::new(World {
                jobs: std::mem::take(&mut self.jobs),
                attained: std::mem::take(&mut self.attained),
                threads: 0.0,
            })
        });
        world.threads += threads;
        self.jobs
            .push(key(self.attained + work.max(0.0), self.order, job));
        self.stopped = Some(world);
    }

    /// A collector is done. After the last one, the other jobs continue.
    pub fn let_the_world_go_on(&mut self, threads: f64) {
        let Some(mut world) = self.stopped.take() else {
            return;
        };
        if self.jobs.len() == 0 {
            (self.jobs, self.attained) = (world.jobs, world.attained);
        } else {
            world.threads -= threads;
            self.stopped = Some(world);
        }
    }

    /// Removes all jobs but collectors that satisfy `which`.
    pub fn remove(&mut self, now: i64, which: impl Fn(u32) -> bool) {
        self.advance(now);
        let jobs = match &mut self.stopped {
            None => &mut self.jobs,
            Some(world) => &mut world.jobs,
        };
        let mut kept = Heap::default();
        while let Some(key) = jobs.pop() {
            if !which(key as u32) {
                kept.push(key);
            }
        }
        *jobs = kept;
    }

    /// Jobs without collectors.
    pub fn runnable(&self) -> usize {
        match &self.stopped {
            None => self.jobs.len(),
            Some(world) => world.jobs.len(),
        }
    }

    /// Jobs that run or would run: during a collection, only those of the collector.
    pub fn working(&self) -> usize {
        self.jobs.len()
    }

    /// Whether a collector works, or would work if the group were not stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// The job that is done now, if one is.
    #[inline(always)]
    pub fn take(&mut self, now: i64) -> Option<u32> {
        self.advance(now);
        let first = self.jobs.first().map(done_at);
        if let Some(done) = first.filter(|&done| done <= self.attained + DONE) {
            if self.quota.is_some() {
                self.refund(now, self.attained - done);
            }
            return self.jobs.pop().map(|key| key as u32);
        }
        if let Some(quota) = &mut self.quota {
            quota.told = quota.used_up.is_some();
        }
        None
    }

    /// A job ended up to a nanosecond ago, by `beyond` too late: its CPUs have not used the quota
    /// since.
    fn refund(&mut self, now: i64, beyond: f64) {
        let Some(quota) = &mut self.quota else {
            return;
        };
        if beyond > 0.0 && self.share.rate > 0.0 {
            quota.left += beyond / self.share.rate * self.share.allocated / self.jobs.len() as f64;
            if quota.left > DONE && quota.used_up == Some(now) {
                quota.used_up = None;
            }
        }
    }

    /// A new quota period; returns since when the old quota was used up and a job waited.
    pub fn refill(&mut self, now: i64) -> Option<i64> {
        self.advance(now);
        let quota = self.quota.as_mut()?;
        quota.left = quota.left.clamp(0.0, quota.burst) + quota.full;
        quota.told = false;
        let since = quota.used_up.take();
        since.filter(|&since| self.jobs.len() > 0 && since < now)
    }

    /// Reading changes nothing: sums updated in other steps would round differently, and sampling
    /// would change the results.
    pub fn used(&self, now: i64) -> Used {
        let dt = (now - self.last) as f64;
        let waits = self.is_used_up() && self.jobs.len() > 0;
        Used {
            busy: self.used.busy + dt * self.share.allocated,
            stolen: self.used.stolen + dt * self.share.stolen,
            throttled: self.used.throttled + if waits { dt } else { 0.0 },
        }
    }

    /// Whether it gets nothing although it wants CPU time.
    pub fn stands_still(&self) -> bool {
        self.frozen > 0 || self.is_used_up()
    }

    fn is_used_up(&self) -> bool {
        self.quota.as_ref().is_some_and(|q| q.used_up.is_some())
    }

    /// If other groups have just given back what it wants, and had it for long enough, this counts:
    /// returns since when.
    pub fn starves(&mut self, now: i64) -> Option<i64> {
        if self.share.stolen > DONE {
            self.starving.get_or_insert(now);
            return None;
        }
        self.starving.take().filter(|since| now - since >= STARVED)
    }

    /// Cores it could use now.
    pub fn wants(&self) -> f64 {
        if self.stands_still() {
            return 0.0;
        }
        match &self.stopped {
            None => (self.jobs.len() as f64).min(self.cores),
            Some(world) => world.threads.min(self.cores),
        }
    }

    /// Takes its share from the cache, and returns its next event; None: the cache has no share for
    /// this number of jobs.
    #[inline(always)]
    pub fn known_next(&mut self, now: i64) -> Option<i64> {
        let known = self.known.get(self.jobs.len());
        self.share = *known.filter(|share| share.rate >= 0.0)?;
        Some(self.next(now))
    }

    /// The cached share holds for this number of jobs until [`Group::forget`].
    pub fn learn(&mut self) {
        // The rest of a quota changes all the time; and one job means something else when it is a
        // collector.
        if self.quota.is_none() && self.stopped.is_none() {
            if let Some(known) = self.known.get_mut(self.jobs.len()) {
                *known = self.share;
            }
        }
    }

    pub fn forget(&mut self) {
        self.known = [UNKNOWN; KNOWN];
    }

    /// The rate of its jobs for this many cores at this clock rate, and this many that other groups
    /// have.
    pub fn share_of(&self, cores: f64, stolen: f64, speed: f64) -> Share {
        let n = self.jobs.len() as f64;
        let mut rate = if n > 0.0 {
            cores * speed * self.speed / n
        } else {
            0.0
        };
        if let Some(i) = &self.inflation {
            if n > i.free && self.stopped.is_none() {
                rate /= 1.0 + i.slope * libm::pow(n - i.free, i.power);
            }
        }
        Share {
            allocated: cores,
            stolen,
            rate,
        }
    }

    /// Its next event by itself.
    #[inline(always)]
    pub fn next(&self, now: i64) -> i64 {
        let Some(first) = self.jobs.first() else {
            return NEVER;
        };
        if self
            .quota
            .as_ref()
            .is_some_and(|q| q.used_up.is_some() && !q.told)
        {
            return now;
        }
        if self.share.rate <= 0.0 {
            return NEVER;
        }
        let lacks = done_at(first) - self.attained;
        let mut wait = lacks.max(0.0) / self.share.rate;
        if let Some(quota) = &self.quota {
            wait = wait.min(quota.left.max(0.0) / self.share.allocated);
        }
        // Beyond any run: an endless job.
        if wait > 1e17 {
            return NEVER;
        }
        // Rounds up to whole nanoseconds; `ceil` is a call on processors without SSE 4.1.
        let whole = wait as i64;
        now + whole + i64::from((whole as f64) < wait)
    }
}
