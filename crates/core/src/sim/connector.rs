//! Calls: which candidate, on which pooled connection, and who waits for one.

use super::balancer::Balancer;
use super::plan::{self, Endpoint, Plan};
use super::program::{Call, Step};
use super::queue::Kind;
use super::server::GoesOn;
use super::stay::{Line, Status, Stay, NONE};
use super::tables::Sink;
use super::Sim;

/// The way from one server to the candidates of one kind of call.
pub struct Connector<'a> {
    pub settings: &'a plan::Connector,
    /// One candidate and any number of connections to it: nothing to choose or to wait for.
    direct: bool,
    first_pool: u32,
    pools: u32,
    classes: &'a [plan::Class],
    pub balancer: Balancer,
    /// Light ones that hold or want a connection (cross-tier priority).
    light: u32,
}

/// Connections that are limited together.
#[derive(Default)]
pub struct Pool {
    size: u32,
    pub in_use: u32,
    light: Line,
    heavy: Line,
    /// Not in line: they look again now and then.
    polling: u32,
    connector: u32,
}

impl Pool {
    /// In line.
    fn queued(&self) -> u32 {
        self.light.len() + self.heavy.len()
    }

    pub fn waiting(&self) -> u32 {
        self.queued() + self.polling
    }
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
    for _ in 0..count {
        pools.push(Pool {
            size: c.pool.as_ref().map_or(u32::MAX, |pool| pool.size),
            connector,
            ..Pool::default()
        });
    }
    Connector {
        settings: c,
        direct: c.candidates.len() == 1 && c.pool.is_none(),
        first_pool,
        pools: count,
        classes: &plan.classes,
        balancer: Balancer::new(&c.policy, c.candidates.len()),
        light: 0,
    }
}

impl Connector<'_> {
    fn pool_of(&self, caller: &Stay, candidate: u32) -> u32 {
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

    /// Whether there is more than one candidate, and so anything to know of them.
    fn chooses(&self) -> bool {
        self.settings.candidates.len() > 1
    }

    pub fn pools(&self) -> std::ops::Range<usize> {
        self.first_pool as usize..(self.first_pool + self.pools) as usize
    }
}

impl<S: Sink> Sim<'_, S> {
    /// Makes the calls of a step: the next one, or all of them.
    #[inline(always)]
    pub(super) fn begin_calls(&mut self, stay: u32, call: &Call) -> GoesOn {
        if call.all || call.parallel {
            self.begin_together(stay, call);
            return None;
        }
        let s = &mut self.stays[stay];
        s.out = 1;
        s.to_call -= 1;
        self.is_calling(stay);
        let child = self.child(stay, call);
        self.looks_at_states(child);
        self.seek(child)
    }

    fn begin_together(&mut self, stay: u32, call: &Call) {
        let s = &mut self.stays[stay];
        let connector = call.connector;
        if call.all {
            let candidates = self.connectors[connector as usize]
                .settings
                .candidates
                .len() as u32;
            (s.out, s.to_call) = (candidates, 0);
            self.is_calling(stay);
            for candidate in 0..candidates {
                let child = self.child(stay, call);
                self.stays[child].tried = !(1 << candidate);
                let next = self.seek(child);
                self.go_on(next);
            }
            return;
        }
        let now = std::mem::take(&mut s.to_call);
        s.out = now;
        self.is_calling(stay);
        for _ in 0..now {
            let child = self.child(stay, call);
            self.looks_at_states(child);
            let next = self.seek(child);
            self.go_on(next);
        }
    }

    /// A call begins: it will not ask those that are busy. One to which its process has a free connection is not
    /// (`ajp_has_endpoint` at the begin of mod_jk's `service`).
    #[inline(always)]
    fn looks_at_states(&mut self, child: u32) {
        let (parent, number) = (
            self.stays[child].parent,
            self.stays[child].connector as usize,
        );
        if self.connectors[number].balancer.busy() == 0 {
            return;
        }
        let settings = self.connectors[number].settings;
        for candidate in 0..settings.candidates.len() {
            let pool = self.connectors[number].pool_of(&self.stays[parent], candidate as u32);
            let pool = &self.pools[pool as usize];
            if pool.in_use < pool.size {
                self.connectors[number].balancer.set_busy(candidate, false);
            }
        }
        self.stays[child].tried = self.connectors[number].balancer.busy();
    }

    #[inline(always)]
    fn child(&mut self, parent: u32, call: &Call) -> u32 {
        let connector = call.connector;
        let kept = self.connectors[connector as usize].settings.kept;
        let p = &mut self.stays[parent];
        let stream = p.stream.fork();
        let (request, client, asker, recorded) = (p.request, p.client, p.asker, p.recorded);
        self.visits += 1;
        let (number, child) = self.stays.add(request, stream, call.class, parent);
        (child.client, child.asker, child.recorded) = (client, asker, recorded);
        child.visit = self.visits;
        child.connector = connector;
        child.kept = kept;
        number
    }

    /// Looks for a candidate and a free connection to it.
    #[inline(always)]
    fn seek(&mut self, child: u32) -> GoesOn {
        if self.connectors[self.stays[child].connector as usize].direct {
            self.fly(child)
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
                return self.fly(child);
            }
            let Some(candidate) = self.choose(child) else {
                return self.finds_all_busy(child);
            };
            let c = &mut self.stays[child];
            c.candidate = candidate;
            let Some(pool_settings) = &settings.pool else {
                return self.fly(child);
            };
            let pool = self.connectors[number].pool_of(&self.stays[parent], candidate);
            let light = self.count_light(child, pool_settings);
            if self.may_take(pool, light) {
                return self.take(child, pool);
            }
            match settings.endpoint {
                Endpoint::Wait => {
                    let p = &mut self.pools[pool as usize];
                    let line = if light { &mut p.light } else { &mut p.heavy };
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

    /// Whether the call's visit holds a connection, which it uses then.
    #[inline(always)]
    fn visit_holds(&mut self, child: u32) -> bool {
        let c = &self.stays[child];
        let (parent, number) = (c.parent, c.connector as usize);
        let settings = self.connectors[number].settings.pool.as_ref();
        let p = &self.stays[parent];
        let holds = p.held != NONE && settings.is_some_and(|pool| pool.for_visit);
        if holds {
            self.stays[child].candidate = p.held_candidate;
        }
        holds
    }

    /// A call that waits looks again, or was given a connection meanwhile.
    pub(super) fn poll(&mut self, child: u32) -> GoesOn {
        let c = &self.stays[child];
        let (pool, number, since) = (c.pool, c.connector as usize, c.since);
        if since == GRANTED {
            return self.fly(child);
        }
        if since == TRIES_AGAIN {
            self.stays[child].tried = self.connectors[number].balancer.busy();
            return self.seek(child);
        }
        let Endpoint::Poll { step, timeout } = self.connectors[number].settings.endpoint else {
            return None;
        };
        // It sleeps, looks whether its time is over, and only then for a connection (`ajp_get_endpoint`).
        let (holds, over) = (self.visit_holds(child), self.now - since >= timeout);
        if !holds && !over && !self.may_take(pool, true) {
            self.queue.push(self.now + step, Kind::Poll, child);
            return None;
        }
        self.pools[pool as usize].polling -= 1;
        self.stays[child].pool = NONE;
        if holds {
            self.fly(child)
        } else if over {
            self.give_up_candidate(child);
            self.seek(child)
        } else {
            self.take(child, pool)
        }
    }

    #[inline(always)]
    fn choose(&mut self, child: u32) -> Option<u32> {
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
            connector.balancer.set_busy(c.candidate as usize, true);
        }
    }

    /// mod_jk looks at the states once more, after a while (`retries`, `retry_interval`); then it gives up.
    fn finds_all_busy(&mut self, child: u32) -> GoesOn {
        let connector = &self.connectors[self.stays[child].connector as usize];
        let c = &mut self.stays[child];
        if !connector.chooses() || std::mem::replace(&mut c.tried_again, true) {
            return self.refuse(child);
        }
        c.since = TRIES_AGAIN;
        self.queue
            .push(self.now + RETRY_INTERVAL, Kind::Poll, child);
        None
    }

    /// No candidate is to be had: the caller gets an error.
    fn refuse(&mut self, child: u32) -> GoesOn {
        self.stays[child].status = Status::Failed;
        self.returned(child)
    }

    /// Whether the call is a light one, counted once while it holds or wants a connection.
    fn count_light(&mut self, child: u32, pool: &plan::Pool) -> bool {
        if pool.priority.is_none() {
            return false;
        }
        let (parent, connector) = (self.stays[child].parent, self.stays[child].connector);
        let light = self.plan.classes[self.stays[parent].class as usize].light;
        let counted = if pool.for_visit {
            &mut self.stays[parent].counted_to_the_end
        } else {
            &mut self.stays[child].counted
        };
        if light && !std::mem::replace(counted, true) {
            self.connectors[connector as usize].light += 1;
        }
        light
    }

    #[inline(always)]
    fn may_take(&self, pool: u32, light: bool) -> bool {
        let p = &self.pools[pool as usize];
        let ahead = if light { p.light.len() } else { p.queued() };
        p.in_use < p.size && ahead == 0 && (light || self.heavy_may(p))
    }

    fn heavy_may(&self, pool: &Pool) -> bool {
        let connector = &self.connectors[pool.connector as usize];
        let settings = connector.settings.pool.as_ref();
        settings
            .and_then(|p| p.priority)
            .is_none_or(|most| connector.light <= most)
    }

    #[inline(always)]
    fn take(&mut self, child: u32, pool: u32) -> GoesOn {
        self.occupy(child, pool);
        self.fly(child)
    }

    #[inline(always)]
    fn occupy(&mut self, child: u32, pool: u32) {
        let c = &self.stays[child];
        let (parent, candidate) = (c.parent, c.candidate);
        let settings = self.connectors[c.connector as usize].settings;
        if settings.pool.as_ref().is_some_and(|p| p.for_visit) {
            let p = &mut self.stays[parent];
            (p.held, p.held_candidate) = (pool, candidate);
        } else {
            self.stays[child].pool = pool;
        }
        self.pools[pool as usize].in_use += 1;
    }

    /// The call goes out.
    #[inline(always)]
    fn fly(&mut self, child: u32) -> GoesOn {
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
        self.connect(child)
    }

    /// A call's answer is there, or none will come.
    #[inline(always)]
    pub(super) fn returned(&mut self, child: u32) -> GoesOn {
        let c = &self.stays[child];
        let (parent, number, pool, status) = (c.parent, c.connector as usize, c.pool, c.status);
        let (candidate, flew, took, counted) =
            (c.candidate as usize, c.flew, self.now - c.sent, c.counted);
        let class = c.class;
        self.stays.remove(child);
        let p = &mut self.stays[parent];
        if flew {
            p.flying -= 1;
            if p.flying == 0 {
                p.downstream += self.now - p.calling_since;
            }
            let connector = &mut self.connectors[number];
            if connector.chooses() {
                let class = &self.plan.classes[class as usize];
                let bytes = class.bytes_in + class.bytes_out;
                connector.balancer.got(self.now, candidate, bytes, took);
            }
        }
        if status != Status::Ok {
            p.status = Status::Failed;
            p.to_call = 0;
        }
        p.out -= 1;
        let (out, more, step) = (p.out, p.to_call, p.step);
        if counted {
            self.forget_light(number);
        }
        if pool != NONE {
            self.release(pool);
        }
        if out > 0 {
            return None;
        }
        if more > 0 {
            if let Step::Call(call) = self.steps[step as usize - 1] {
                return self.begin_calls(parent, &call);
            }
        }
        self.has_answers(parent)
    }

    #[inline(always)]
    pub(super) fn release_held(&mut self, stay: u32) {
        let s = &mut self.stays[stay];
        let pool = std::mem::replace(&mut s.held, NONE);
        let counted = std::mem::replace(&mut s.counted_to_the_end, false);
        let server = s.server as usize;
        if counted {
            self.forget_light(self.connector_to_the_end(server));
        }
        if pool != NONE {
            self.release(pool);
        }
    }

    /// The one of a server's connectors whose connections are held to the end of a visit.
    fn connector_to_the_end(&self, server: usize) -> usize {
        let connectors = &self.plan.servers[server].connectors;
        let held = connectors
            .iter()
            .position(|c| c.pool.as_ref().is_some_and(|pool| pool.for_visit));
        self.servers[server].first_connector as usize + held.unwrap_or(0)
    }

    #[inline(always)]
    fn release(&mut self, pool: u32) {
        self.pools[pool as usize].in_use -= 1;
        self.grant(pool);
    }

    /// One light one less: heavy ones may have waited for that.
    fn forget_light(&mut self, connector: usize) {
        self.connectors[connector].light -= 1;
        for pool in self.connectors[connector].pools() {
            self.grant(pool as u32);
        }
    }

    /// Gives free connections to those that wait longest, light ones first.
    fn grant(&mut self, pool: u32) {
        loop {
            let p = &self.pools[pool as usize];
            if p.in_use >= p.size || p.queued() == 0 {
                return;
            }
            let heavy = self.heavy_may(p);
            let p = &mut self.pools[pool as usize];
            let next = p.light.pop(&self.stays);
            let Some(child) = next.or_else(|| {
                if heavy {
                    p.heavy.pop(&self.stays)
                } else {
                    None
                }
            }) else {
                return;
            };
            // Another call of its visit may have got one to another candidate meanwhile.
            if !self.visit_holds(child) {
                self.occupy(child, pool);
                self.grant_to_visit(child, pool);
            }
            self.stays[child].since = GRANTED;
            self.queue.push(self.now, Kind::Poll, child);
        }
    }

    /// A connection that is held for a visit serves the other calls of the visit that wait in the same line.
    fn grant_to_visit(&mut self, child: u32, pool: u32) {
        let parent = self.stays[child].parent;
        let p = &self.stays[parent];
        if p.held != pool || p.out < 2 {
            return;
        }
        let pool = &mut self.pools[pool as usize];
        for line in [&mut pool.light, &mut pool.heavy] {
            for _ in 0..line.len() {
                let Some(other) = line.pop(&self.stays) else {
                    break;
                };
                if self.stays[other].parent != parent {
                    line.push(&mut self.stays, other);
                    continue;
                }
                let candidate = self.stays[parent].held_candidate;
                let o = &mut self.stays[other];
                (o.since, o.candidate) = (GRANTED, candidate);
                self.queue.push(self.now, Kind::Poll, other);
            }
        }
    }
}

/// In [`Stay::since`]: has been given a connection.
const GRANTED: i64 = -1;
/// In [`Stay::since`]: found all candidates busy.
const TRIES_AGAIN: i64 = -2;
/// mod_jk's `retry_interval`: 100 ms (`JK_SLEEP_DEF`); its `retries` are 2, the first try among them.
const RETRY_INTERVAL: i64 = 100_000_000;
