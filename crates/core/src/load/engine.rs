//! The loop of one worker: timers and socket events, one after another, in one thread.
//! ```text
//!            ┌──────────────── thinks ◄───────────────┐
//! timer ─► start ─► connect ─► send ─► receive ─► finish ─► row
//!            │        └ kept: at once    ▲  └ more      └► left for the server to close, used again, kept, or closed
//! source ─► comes                      epoll
//! ```

use super::arriving::SOURCE;
use super::client::{Client, Source};
use super::clock::{timespec, Clock};
use super::connections::Connections;
use super::lateness::Lateness;
use super::log::{Row, Writer};
use super::plan::Plan;
use super::report::{Progress, Report};
use super::status::Status;
use super::timers::{Deadlines, Timers};
use crate::error::{Error, Result};
use crate::workload::plan::Arrivals;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::collections::VecDeque;

/// The loop wakes at least this often: shorter than what counts as late, so that no gap is missed.
const BEAT: i64 = 10_000_000;
const BEATS_TO_TELL: u32 = 10;
const BEATS_TO_FLUSH: u32 = 25;
/// Timers and clients without a pause that are served before sockets are checked again.
const TURN: usize = 256;

pub struct Load<'a> {
    pub(super) plan: &'a Plan,
    pub(super) clock: Clock,
    pub(super) epoll: OwnedFd,
    pub(super) clients: Vec<Client>,
    pub(super) gone: Vec<u32>,
    pub(super) sources: Vec<Source>,
    pub(super) connections: Connections,
    pub(super) timers: Timers,
    /// Clients that act at once.
    pub(super) ready: VecDeque<(i64, u32)>,
    /// For each workload: clients that wait for an answer.
    pub(super) deadlines: Vec<Deadlines>,
    /// Connections that the server is to close.
    pub(super) leaving: Deadlines,
    pub(super) left: usize,
    /// Outstanding requests, and all requests so far.
    pub(super) open: usize,
    pub(super) asked: u64,
    /// No request starts after this moment, or because enough were sent; from then on only answers
    /// are awaited.
    pub(super) until: i64,
    pub(super) ended: i64,
    pub(super) lateness: Lateness,
    pub(super) log: Writer,
    pub(super) report: Report,
    pub(super) buffer: Vec<u8>,
}

fn system(error: Errno) -> Error {
    Error::Io {
        path: "epoll".into(),
        source: error.into(),
    }
}

/// Runs a plan to its end. `tell` is called ten times a second and returns whether to continue.
pub fn run(
    plan: &Plan,
    log: Writer,
    tell: &mut dyn FnMut(Progress) -> Result<bool>,
) -> Result<Report> {
    plan.check()?;
    // Without it the kernel may wake this thread 50 µs late; if it is refused, that stays so.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system)?;
    let sources = plan.workloads.iter().enumerate();
    let mut load = Load {
        plan,
        clock: Clock::new(plan.begin, plan.unix),
        epoll,
        clients: Vec::new(),
        gone: Vec::new(),
        sources: sources.map(|(i, w)| Source::new(plan, i, w)).collect(),
        connections: Connections::default(),
        timers: Timers::default(),
        ready: VecDeque::new(),
        deadlines: plan
            .workloads
            .iter()
            .map(|_| Deadlines::default())
            .collect(),
        leaving: Deadlines::default(),
        left: 0,
        open: 0,
        asked: 0,
        until: plan.duration,
        ended: plan.duration,
        lateness: Lateness::new(plan.late_after),
        log,
        report: Report::default(),
        buffer: vec![0; 64 << 10],
    };
    load.begin();
    load.work(tell)?;
    load.end()
}

impl Load<'_> {
    fn begin(&mut self) {
        let plan = self.plan;
        for (number, workload) in plan.workloads.iter().enumerate() {
            let Arrivals::Closed { clients, .. } = workload.arrivals else {
                self.next_arrival(number, workload.begin, true);
                continue;
            };
            for client in (0..u64::from(clients)).filter(|&c| plan.is_mine(workload, c)) {
                let source = &mut self.sources[number];
                let mut client = Client::new(plan, number, client, source);
                let first = workload.begin + client.first_pause(plan, source);
                self.timers.add(first, self.clients.len() as u32);
                self.clients.push(client);
            }
        }
    }

    fn work(&mut self, tell: &mut dyn FnMut(Progress) -> Result<bool>) -> Result<()> {
        let mut events = Vec::with_capacity(1024);
        let (mut beat, mut beats) = (self.clock.now() + BEAT, 0u32);
        loop {
            let now = self.clock.now();
            self.fire(now)?;
            if now >= beat {
                self.late(beat, now)?;
                beat = now + BEAT;
                beats = beats.wrapping_add(1);
                if !self.beat(now, beats, tell)? {
                    return Ok(());
                }
            }
            let wait = match self.ready.is_empty() {
                true => self.timers.next().min(beat) - self.clock.now(),
                false => 0,
            };
            events.clear();
            match epoll::wait(
                &self.epoll,
                spare_capacity(&mut events),
                Some(&timespec(wait)),
            ) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(system(error)),
            }
            for event in &events {
                let (token, flags) = (event.data.u64(), event.flags);
                self.hear(token, flags)?;
            }
        }
    }

    /// Handles everything that is due.
    fn fire(&mut self, now: i64) -> Result<()> {
        for _ in 0..TURN {
            let Some((due, what)) = self.timers.pop(now) else {
                break;
            };
            // Before the begin nothing is measured, so nothing can be late.
            self.late(due.max(0), now)?;
            if what & SOURCE == 0 {
                self.start(what, due)?;
            } else {
                self.arrive((what & !SOURCE) as usize, due)?;
            }
        }
        for _ in 0..TURN.min(self.ready.len()) {
            if let Some((due, client)) = self.ready.pop_front() {
                self.start(client, due)?;
            }
        }
        Ok(())
    }

    fn late(&mut self, due: i64, now: i64) -> Result<()> {
        match self.lateness.fired(due, now) {
            Some(stretch) => self.write_late(stretch),
            None => Ok(()),
        }
    }

    fn write_late(&mut self, (begin, end, worst): (i64, i64, i64)) -> Result<()> {
        self.report.late += 1;
        self.report.late_ns += end - begin;
        self.log.push(&Row::Late {
            begin: self.clock.unix(begin),
            end: self.clock.unix(end),
            worst,
        })
    }

    /// Surges that have ended, at the first server of their workload.
    fn write_surges(&mut self) -> Result<()> {
        for (source, workload) in self.sources.iter_mut().zip(&self.plan.workloads) {
            let server = workload.targets.first().map_or(0, |&target| target as u16);
            for (begin, end) in source.surges.drain(..) {
                self.log.push(&Row::Surge {
                    server,
                    begin: self.clock.unix(begin),
                    end: self.clock.unix(end),
                })?;
            }
        }
        Ok(())
    }

    /// Periodic work; false: the load is over.
    fn beat(
        &mut self,
        now: i64,
        beats: u32,
        tell: &mut dyn FnMut(Progress) -> Result<bool>,
    ) -> Result<bool> {
        self.time_out(now)?;
        while self.close_left(now) {}
        if beats % BEATS_TO_FLUSH == 0 {
            self.write_surges()?;
            self.log.flush()?;
        }
        if beats % BEATS_TO_TELL == 0 {
            let progress = Progress {
                done_ns: now.clamp(0, self.plan.duration),
                total_ns: self.plan.duration,
                requests: self.report.requests,
                failed: self.report.failed(),
                open: self.open,
            };
            if !tell(progress)? {
                self.report.stopped = true;
                return Ok(false);
            }
        }
        Ok(now < self.ended || (self.open > 0 && now < self.ended + self.plan.drain))
    }

    fn time_out(&mut self, now: i64) -> Result<()> {
        for workload in 0..self.deadlines.len() {
            loop {
                let clients = &self.clients;
                let waits = |token: u64| {
                    let client = &clients[token as u32 as usize];
                    client.open && u64::from(client.asked) == token >> 32
                };
                let Some(token) = self.deadlines[workload].pop(now, waits) else {
                    break;
                };
                self.finish(token as u32, Status::ABANDONED, now)?;
            }
        }
        Ok(())
    }

    fn end(mut self) -> Result<Report> {
        let now = self.clock.now();
        for client in 0..self.clients.len() as u32 {
            if self.clients[client as usize].open {
                self.finish(client, Status::ABANDONED, now)?;
            }
        }
        if let Some(stretch) = self.lateness.finish() {
            self.write_late(stretch)?;
        }
        let until = now.min(self.ended);
        for (source, workload) in self.sources.iter_mut().zip(&self.plan.workloads) {
            let ends = workload.end.unwrap_or(until).min(until);
            source.close(self.plan, workload, ends);
        }
        self.write_surges()?;
        self.log.finish()?;
        self.report.rows_lost = self.log.lost;
        self.report.late_worst_ns = self.lateness.worst;
        self.report.lasted_ns = now.min(self.ended);
        Ok(self.report)
    }
}
