//! Calls: the candidate of each, and what it does if no connection is free.

use super::balancer::Balancer;
use super::plan::{self, Endpoint, Plan};
use super::pool::Pool;
use super::program::{Call, Step};
use super::queue::Kind;
use super::server::GoesOn;
use super::stay::{Status, Stay, NONE};
use super::tables::Sink;
use super::Sim;

/// mod_jk's `retry_interval`: 100 ms (`JK_SLEEP_DEF`); its `retries` are 2, including the first
/// try.
const RETRY_INTERVAL: i64 = 100_000_000;

/// From one server to the candidates of one kind of call.
pub struct Connector<'a> {
    pub settings: &'a plan::Connector,
    /// One candidate and any number of connections: there is no choice and no waiting.
    direct: bool,
    first_pool: u32,
    pools: u32,
    classes: &'a [plan::Class],
    pub balancer: Balancer,
    /// Light calls that hold a connection or wait for one (cross-tier priority).
    pub light: u32,
}

pub fn build<'a>(
    plan: &'a Plan,
    caller: &plan::Server,
    c: &'a plan::Connector,
    pools: &mut Vec<Pool>,
) -> Connector<'a> {
    let connector = pools.last().map_or(0, |pool| pool.connector + 1);
    let first_pool = pools.len() as u32;
    let count = c.pool.as_ref().map_or(1, |pool| {
        let processes = caller
            .spawn
            .as_ref()
            .map_or(0, |s| s.processes_max)
            .max(caller.processes);
        let dimension = |split: bool, n: u32| if split { n } else { 1 };
        dimension(pool.per_process, processes)
            * dimension(pool.per_servlet, plan.classes.len() as u32)
            * dimension(pool.per_candidate, c.candidates.len() as u32)
    });
    let size = c.pool.as_ref().map_or(u32::MAX, |pool| pool.size);
    pools.extend((0..count).map(|_| Pool::new(size, connector)));
    Connector {
        settings: c,
        direct: c.candidates.len() == 1 && c.pool.is_none(),
        first_pool,
        pools: count,
        classes: &plan.classes,
        balancer: Balancer::new(&c.policy, c.candidates.len(), c.recover),
        light: 0,
    }
}

impl Connector<'_> {
    pub fn pool_of(&self, caller: &Stay, candidate: u32) -> u32 {
        let mut at = 0;
        let Some(pool) = &self.settings.pool else {
            return self.first_pool;
        };
        if pool.per_process {
            at = caller.process;
        }
        if pool.per_servlet {
            let class = &self.classes[caller.class as usize];
            at = at * self.classes.len() as u32 + class.servlet.unwrap_or(caller.class);
        }
        if pool.per_candidate {
            at = at * self.settings.candidates.len() as u32 + candidate;
        }
        self.first_pool + at.min(self.pools - 1)
    }

    /// Whether there is more than one candidate, so that data about them are needed.
    pub fn chooses(&self) -> bool {
        self.settings.candidates.len() > 1
    }

    /// Whether a candidate to which a connection failed is in error. An only candidate never is:
    /// nothing would be asked instead.
    pub fn has_errors(&self) -> bool {
        self.settings.recover > 0 && self.chooses()
    }

    pub fn pools(&self) -> std::ops::Range<usize> {
        self.first_pool as usize..(self.first_pool + self.pools) as usize
    }
}

impl<S: Sink> Sim<'_, S> {
    /// Makes the calls of a step: the next one, or all of them.
    #[inline(always)]
    pub(super) fn begin_calls(&mut self, stay: u32, call: &Call, count: u32) -> GoesOn {
        if call.abreast() {
            self.begin_together(stay, &[(*call, count)]);
            return None;
        }
        let s = &mut self.stays[stay];
        let server = s.server;
        s.out = 1;
        let releases_worker = self.releases_worker(stay);
        let next = self.begin_one(stay, call, count - 1);
        if releases_worker {
            self.go_on(next);
            self.hand_out(server);
            return None;
        }
        next
    }

    /// A call, which `after` others of its step follow, one after another.
    #[inline(always)]
    fn begin_one(&mut self, stay: u32, call: &Call, after: u32) -> GoesOn {
        let child = self.child(stay, call);
        self.stays[child].after = after;
        self.looks_at_states(child);
        self.seek(child)
    }

    /// Makes the calls of this step and of those that begin with it.
    #[cold]
    pub(super) fn begin_joined(&mut self, stay: u32) -> GoesOn {
        let s = &mut self.stays[stay];
        let mut calls = Vec::new();
        s.step -= 1;
        while let Some(Step::Call(call)) = self.steps.get(s.step as usize) {
            s.step += 1;
            let count = call.draw(&mut s.stream);
            if count > 0 || call.all {
                calls.push((*call, count));
            }
            if !call.with_next {
                break;
            }
        }
        if calls.is_empty() {
            return Some(stay);
        }
        self.begin_together(stay, &calls);
        None
    }

    fn begin_together(&mut self, stay: u32, calls: &[(Call, u32)]) {
        let server = self.stays[stay].server;
        // All count before the first begins: it may end at once.
        self.stays[stay].out = calls.iter().map(|one| self.abreast(one)).sum();
        let releases_worker = self.releases_worker(stay);
        for one in calls {
            let (call, count) = one;
            let after = if call.abreast() { 0 } else { count - 1 };
            for number in 0..self.abreast(one) {
                let next = if call.all {
                    let child = self.child(stay, call);
                    self.stays[child].tried = !(1 << number);
                    self.seek(child)
                } else {
                    self.begin_one(stay, call, after)
                };
                self.go_on(next);
            }
        }
        if releases_worker {
            self.hand_out(server);
        }
    }

    /// How many of so many calls begin at once.
    fn abreast(&self, (call, count): &(Call, u32)) -> u32 {
        if call.all {
            let settings = self.connectors[call.connector as usize].settings;
            settings.candidates.len() as u32
        } else if call.parallel {
            *count
        } else {
            1
        }
    }

    /// A call begins: it will skip candidates that are busy or in error. A candidate to which its
    /// process has a free connection is not busy (`ajp_has_endpoint` at the begin of mod_jk's
    /// `service`).
    #[inline(always)]
    pub(super) fn looks_at_states(&mut self, child: u32) {
        let (parent, number) = (
            self.stays[child].parent,
            self.stays[child].connector as usize,
        );
        if self.connectors[number].balancer.states.all_available() {
            return;
        }
        let settings = self.connectors[number].settings;
        for candidate in 0..settings.candidates.len() {
            let pool = self.connectors[number].pool_of(&self.stays[parent], candidate as u32);
            if self.pools[pool as usize].has_free() {
                let states = &mut self.connectors[number].balancer.states;
                states.set_busy(candidate, false);
            }
        }
        self.stays[child].tried = self.connectors[number].balancer.unavailable(self.now);
    }

    #[inline(always)]
    pub(super) fn child(&mut self, parent: u32, call: &Call) -> u32 {
        let connector = call.connector;
        let kept = self.connectors[connector as usize].settings.kept;
        let p = &mut self.stays[parent];
        let stream = p.stream.fork();
        let (request, client, asker, recorded) = (p.request, p.client, p.asker, p.recorded);
        let (row, asked_for, caller_visit, caller) = (p.row, p.asked_for, p.visit, p.server);
        self.visits += 1;
        let (number, child) = self.stays.add(request, stream, call.class, parent);
        (child.client, child.asker, child.recorded) = (client, asker, recorded);
        (child.caller_visit, child.caller, child.asked_for) = (caller_visit, caller, asked_for);
        (child.row, child.by) = (row, call.at);
        child.visit = self.visits;
        child.connector = connector;
        child.kept = kept;
        number
    }

    /// Looks for a candidate and a free connection to it.
    #[inline(always)]
    fn seek(&mut self, child: u32) -> GoesOn {
        if self.connectors[self.stays[child].connector as usize].direct {
            self.send_out(child)
        } else {
            self.seek_among(child)
        }
    }

    fn seek_among(&mut self, child: u32) -> GoesOn {
        loop {
            let c = &mut self.stays[child];
            let (parent, number) = (c.parent, c.connector as usize);
            let settings = self.connectors[number].settings;
            if self.visit_holds(child) {
                return self.send_out(child);
            }
            let Some(candidate) = self.choose(child) else {
                return self.no_candidate_left(child);
            };
            let c = &mut self.stays[child];
            c.candidate = candidate;
            let Some(pool_settings) = &settings.pool else {
                return self.send_out(child);
            };
            let pool = self.connectors[number].pool_of(&self.stays[parent], candidate);
            let light = self.count_light(child, pool_settings);
            if self.may_take(pool, light) {
                return self.take(child, pool);
            }
            match settings.endpoint {
                Endpoint::Wait => {
                    let line = self.pools[pool as usize].line(light);
                    line.push(&mut self.stays, child);
                    return None;
                }
                Endpoint::Poll { step, .. } => {
                    let c = &mut self.stays[child];
                    c.pool = pool;
                    c.since = self.now;
                    self.pools[pool as usize].polling += 1;
                    self.queue.push(self.now + step, Kind::Poll, child);
                    return None;
                }
                Endpoint::Skip => self.give_up_candidate(child),
            }
        }
    }

    /// A call that waits tries again.
    pub(super) fn poll(&mut self, child: u32) -> GoesOn {
        let c = &self.stays[child];
        let (pool, number, since) = (c.pool, c.connector as usize, c.since);
        let Endpoint::Poll { step, timeout } = self.connectors[number].settings.endpoint else {
            return None;
        };
        // It sleeps, checks whether its time is over, and only then tries to get a connection
        // (`ajp_get_endpoint`).
        let (holds, over) = (self.visit_holds(child), self.now - since >= timeout);
        if !holds && !over && !self.may_take(pool, true) {
            self.queue.push(self.now + step, Kind::Poll, child);
            return None;
        }
        self.pools[pool as usize].polling -= 1;
        self.stays[child].pool = NONE;
        if holds {
            self.send_out(child)
        } else if over {
            self.give_up_candidate(child);
            self.seek(child)
        } else {
            self.take(child, pool)
        }
    }

    #[inline(always)]
    pub(super) fn choose(&mut self, child: u32) -> Option<u32> {
        let c = &mut self.stays[child];
        let connector = &mut self.connectors[c.connector as usize];
        let candidates = &connector.settings.candidates;
        if let [_] = candidates[..] {
            return (c.tried & 1 == 0).then_some(0);
        }
        let servers = &self.servers;
        let inside = |i: usize| servers[candidates[i] as usize].inside;
        connector
            .balancer
            .choose(self.now, c.tried, &mut c.stream, inside)
    }

    fn give_up_candidate(&mut self, child: u32) {
        let c = &mut self.stays[child];
        c.tried |= 1 << c.candidate;
        let connector = &mut self.connectors[c.connector as usize];
        if connector.chooses() {
            connector
                .balancer
                .states
                .set_busy(c.candidate as usize, true);
        }
    }

    /// mod_jk tries candidates in error once, reads the states once more after a while (`retries`,
    /// `retry_interval`), and then gives up.
    fn no_candidate_left(&mut self, child: u32) -> GoesOn {
        if self.may_ask_another(child) && !std::mem::replace(&mut self.stays[child].forced, true) {
            let number = self.stays[child].connector as usize;
            let forced = self.connectors[number].balancer.states.force();
            if forced != 0 {
                self.stays[child].tried &= !forced;
                return self.seek(child);
            }
        }
        let connector = &self.connectors[self.stays[child].connector as usize];
        let c = &mut self.stays[child];
        if !connector.chooses() || std::mem::replace(&mut c.tried_again, true) {
            return self.refuse(child);
        }
        self.queue
            .push(self.now + RETRY_INTERVAL, Kind::TryAgain, child);
        None
    }

    pub(super) fn try_again(&mut self, child: u32) -> GoesOn {
        let connector = self.stays[child].connector as usize;
        self.stays[child].tried = self.connectors[connector].balancer.unavailable(self.now);
        self.seek(child)
    }

    /// No candidate is available: the caller gets an error.
    fn refuse(&mut self, child: u32) -> GoesOn {
        self.stays[child].status = Status::Failed;
        self.returned(child)
    }

    /// The call goes out.
    #[inline(always)]
    pub(super) fn send_out(&mut self, child: u32) -> GoesOn {
        let c = &mut self.stays[child];
        let (parent, number, candidate) = (c.parent, c.connector as usize, c.candidate as usize);
        c.server = self.connectors[number].settings.candidates[candidate];
        c.flew = true;
        let p = &mut self.stays[parent];
        if p.flying == 0 {
            p.calling_since = self.now;
        }
        p.flying += 1;
        let connector = &mut self.connectors[number];
        if connector.chooses() {
            connector.balancer.sent(candidate);
        }
        let hedge = connector.settings.hedge;
        if hedge > 0 && self.stays[child].other == NONE {
            self.stays[child].hedges = self.now + hedge;
            self.queue.push(self.now + hedge, Kind::HedgeCall, child);
        }
        self.connect(child)
    }

    /// The call by which its caller made a stay.
    #[inline(always)]
    pub(super) fn call_of(&self, child: u32) -> Option<Call> {
        match self.steps[self.stays[child].by as usize] {
            Step::Call(call) => Some(call),
            _ => None,
        }
    }

    /// Replaces a call that could not connect: nothing was sent, so another candidate can be tried.
    #[cold]
    fn another(&mut self, child: u32) -> Option<u32> {
        let c = &self.stays[child];
        let (parent, tried) = (c.parent, c.tried | 1 << c.candidate);
        let (tried_again, forced, after) = (c.tried_again, c.forced, c.after);
        if !self.may_ask_another(child) {
            return None;
        }
        let call = self.call_of(child)?;
        let another = self.child(parent, &call);
        let a = &mut self.stays[another];
        (a.tried, a.tried_again, a.forced) = (tried, tried_again, forced);
        a.after = after;
        Some(another)
    }

    /// Whether its balancer has an error state; a call to all goes to one candidate, without a
    /// replacement.
    fn may_ask_another(&self, child: u32) -> bool {
        let c = &self.stays[child];
        let connector = &self.connectors[c.connector as usize];
        let to_all = self.call_of(child).is_some_and(|call| call.all);
        connector.has_errors() && !to_all
    }

    /// The balancer learns that a call has its answer, or that it failed to connect.
    #[inline(always)]
    pub(super) fn leaves_candidate(&mut self, child: u32, failed: bool) {
        let c = &self.stays[child];
        let (candidate, took) = (c.candidate as usize, self.now - c.sent);
        let connector = &mut self.connectors[c.connector as usize];
        if failed {
            connector.balancer.failed(self.now, candidate, took);
        } else if connector.chooses() {
            let class = &self.plan.classes[c.class as usize];
            let bytes = class.bytes_in + class.bytes_out;
            connector.balancer.got(self.now, candidate, bytes, took);
        }
    }

    /// A call that has ended gives back its connection, and no longer counts as a light one.
    #[inline(always)]
    pub(super) fn gives_back(&mut self, connector: usize, pool: u32, counted: bool) {
        if counted {
            self.forget_light(connector);
        }
        if pool != NONE {
            self.release(pool);
        }
    }

    /// A call has its answer, or will get none.
    #[inline(always)]
    pub(super) fn returned(&mut self, child: u32) -> GoesOn {
        let c = &self.stays[child];
        if c.abandoned || c.other != NONE && !self.decides(child) {
            return self.ends_unawaited(child);
        }
        let c = &self.stays[child];
        let (parent, number, pool, status) = (c.parent, c.connector as usize, c.pool, c.status);
        let (flew, counted, after) = (c.flew, c.counted, c.after);
        let next = if after > 0 { self.call_of(child) } else { None };
        let another = if flew && status == Status::TimedOut {
            self.another(child)
        } else {
            None
        };
        if flew {
            self.leaves_candidate(child, another.is_some());
            let p = &mut self.stays[parent];
            p.flying -= 1;
            if p.flying == 0 {
                p.downstream += self.now - p.calling_since;
            }
        }
        self.stays.remove(child);
        if let Some(another) = another {
            self.gives_back(number, pool, counted);
            return self.seek(another);
        }
        let p = &mut self.stays[parent];
        if status != Status::Ok {
            p.status = Status::Failed;
        }
        let follows = after > 0 && p.status == Status::Ok;
        p.out -= u32::from(!follows);
        let out = p.out;
        self.gives_back(number, pool, counted);
        if follows {
            return self.begin_one(parent, &next?, after - 1);
        }
        if out > 0 {
            return None;
        }
        self.has_answers(parent)
    }
}
