//! Pools of connections: who may take one, the waiting lines, and who gets a free one.

use super::plan;
use super::queue::Kind;
use super::server::GoesOn;
use super::stay::{Line, NONE};
use super::tables::Sink;
use super::Sim;

/// Connections with a common limit.
#[derive(Default)]
pub struct Pool {
    size: u32,
    pub in_use: u32,
    light: Line,
    heavy: Line,
    /// Not in line: they try again now and then.
    pub polling: u32,
    pub connector: u32,
}

impl Pool {
    pub fn new(size: u32, connector: u32) -> Self {
        Pool {
            size,
            connector,
            ..Pool::default()
        }
    }

    /// Whether a connection is free.
    #[inline(always)]
    pub fn has_free(&self) -> bool {
        self.in_use < self.size
    }

    pub fn line(&mut self, light: bool) -> &mut Line {
        if light {
            &mut self.light
        } else {
            &mut self.heavy
        }
    }

    /// In line.
    fn queued(&self) -> u32 {
        self.light.len() + self.heavy.len()
    }

    pub fn waiting(&self) -> u32 {
        self.queued() + self.polling
    }
}

impl<S: Sink> Sim<'_, S> {
    /// Whether the call's visit holds a connection, which the call then uses.
    #[inline(always)]
    pub(super) fn visit_holds(&mut self, child: u32) -> bool {
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

    /// Whether the call is a light one; it counts once while it holds a connection or waits for
    /// one.
    pub(super) fn count_light(&mut self, child: u32, pool: &plan::Pool) -> bool {
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
    pub(super) fn may_take(&self, pool: u32, light: bool) -> bool {
        let p = &self.pools[pool as usize];
        let ahead = if light { p.light.len() } else { p.queued() };
        p.has_free() && ahead == 0 && (light || self.heavy_may(p))
    }

    fn heavy_may(&self, pool: &Pool) -> bool {
        let connector = &self.connectors[pool.connector as usize];
        let settings = connector.settings.pool.as_ref();
        settings
            .and_then(|p| p.priority)
            .is_none_or(|most| connector.light <= most)
    }

    #[inline(always)]
    pub(super) fn take(&mut self, child: u32, pool: u32) -> GoesOn {
        self.occupy(child, pool);
        self.send_out(child)
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

    /// The connector of a server whose connections are held to the end of a visit.
    fn connector_to_the_end(&self, server: usize) -> usize {
        let connectors = &self.plan.servers[server].connectors;
        let held = connectors
            .iter()
            .position(|c| c.pool.as_ref().is_some_and(|pool| pool.for_visit));
        self.servers[server].first_connector as usize + held.unwrap_or(0)
    }

    #[inline(always)]
    pub(super) fn release(&mut self, pool: u32) {
        self.pools[pool as usize].in_use -= 1;
        self.grant(pool);
    }

    /// One light call less: heavy ones may have waited for that.
    pub(super) fn forget_light(&mut self, connector: usize) {
        self.connectors[connector].light -= 1;
        for pool in self.connectors[connector].pools() {
            self.grant(pool as u32);
        }
    }

    /// Gives free connections to the calls that have waited longest, light ones first.
    fn grant(&mut self, pool: u32) {
        loop {
            let p = &self.pools[pool as usize];
            if !p.has_free() || p.queued() == 0 {
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
            self.queue.push(self.now, Kind::Granted, child);
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
                self.stays[other].candidate = candidate;
                self.queue.push(self.now, Kind::Granted, other);
            }
        }
    }
}
