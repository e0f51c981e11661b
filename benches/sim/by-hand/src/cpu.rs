//! One core that all its jobs share: a job leaves when the service attained by each reaches what it was at arrival plus
//! the job's work.

use crate::heap::Heap;

const DONE: f64 = 1e-3;

pub struct Cpu {
    jobs: Heap,
    order: u32,
    attained: f64,
    speed: f64,
    rate: f64,
    last: u64,
    busy: f64,
    next: u64,
}

impl Default for Cpu {
    fn default() -> Self {
        Cpu {
            jobs: Heap::default(),
            order: 0,
            attained: 0.0,
            speed: 1.0,
            rate: 0.0,
            last: 0,
            busy: 0.0,
            next: u64::MAX,
        }
    }
}

/// The next departure, and of which.
#[inline]
pub fn first<const N: usize>(cpus: &[Cpu; N]) -> (u64, usize) {
    let mut first = (cpus[0].next, 0);
    for (i, cpu) in cpus.iter().enumerate().skip(1) {
        if cpu.next < first.0 {
            first = (cpu.next, i);
        }
    }
    first
}

impl Cpu {
    #[inline]
    fn advance(&mut self, now: u64) {
        let dt = (now - self.last) as f64;
        self.last = now;
        self.attained += dt * self.rate;
        if self.rate > 0.0 {
            self.busy += dt;
        }
    }

    #[inline]
    fn schedule(&mut self) {
        let Some(first) = self.jobs.first() else {
            (self.rate, self.attained, self.next) = (0.0, 0.0, u64::MAX);
            return;
        };
        self.rate = self.speed / self.jobs.len() as f64;
        let lacks = (f64::from_bits((first >> 64) as u64) - self.attained).max(0.0);
        self.next = if self.rate > 0.0 {
            self.last + (lacks / self.rate).ceil() as u64
        } else {
            u64::MAX
        };
    }

    #[inline]
    pub fn add(&mut self, now: u64, work: f64, job: u32) {
        self.advance(now);
        self.order = self.order.wrapping_add(1);
        let done = (self.attained + work).to_bits();
        self.jobs
            .push(u128::from(done) << 64 | u128::from(self.order) << 32 | u128::from(job));
        self.schedule();
    }

    /// The job that is done now.
    #[inline]
    pub fn take(&mut self, now: u64) -> u32 {
        self.advance(now);
        debug_assert!(self
            .jobs
            .first()
            .is_some_and(|key| f64::from_bits((key >> 64) as u64) <= self.attained + DONE));
        let job = self.jobs.pop().map_or(u32::MAX, |key| key as u32);
        self.schedule();
        job
    }

    pub fn set_speed(&mut self, now: u64, speed: f64) {
        self.advance(now);
        self.speed = speed;
        self.schedule();
    }

    pub fn busy(&mut self, now: u64) -> f64 {
        self.advance(now);
        self.busy
    }
}
