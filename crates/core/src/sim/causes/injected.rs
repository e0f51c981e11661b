//! Stalls that the plan injects at given times.

use super::super::cpu::ENDLESS;
use super::super::plan::{Effect, Plan};
use super::super::tables::Sink;
use super::super::Sim;
use super::BURN;
use crate::rng::{Purpose, Stream};

/// Of a group that waits for memory at times: for how long in all, and since when.
#[derive(Clone, Copy, Default)]
pub struct Paging {
    waited: i64,
    since: Option<i64>,
}

impl Paging {
    /// For each group, if the plan has such a stall for it.
    pub fn of(plan: &Plan) -> Vec<Option<Paging>> {
        super::of_stalls(plan, plan.groups.len(), |effect| match *effect {
            Effect::Memory { group } => Some(group),
            _ => None,
        })
    }
}

impl<S: Sink> Sim<'_, S> {
    pub(super) fn stall_begins(&mut self, number: u32) {
        match self.plan.stalls[number as usize].effect {
            Effect::Slow { group, left } => self.cpus.scale_group(group, left),
            Effect::Freeze { group } => self.stop(group, true),
            Effect::Iowait { node, blocks } => self.cpus.block(self.now, node, blocks),
            Effect::Burn { group, threads } => {
                for _ in 0..threads {
                    self.cpus.add(self.now, group, ENDLESS, BURN + number);
                }
            }
            Effect::Memory { group } => {
                if let Some(paging) = &mut self.causes.paging[group as usize] {
                    paging.since.get_or_insert(self.now);
                }
                self.stop(group, true);
            }
            Effect::Lock { .. } | Effect::PacketLoss { .. } => self.causes.active.push(number),
            Effect::Restart { server } => self.restart_begins(server),
        }
    }

    pub(super) fn stall_ends(&mut self, number: u32) {
        match self.plan.stalls[number as usize].effect {
            Effect::Slow { group, left } => self.cpus.scale_group(group, 1.0 / left),
            Effect::Freeze { group } => self.stop(group, false),
            Effect::Iowait { node, blocks } => self.cpus.block(self.now, node, -blocks),
            Effect::Burn { group, .. } => self
                .cpus
                .remove(self.now, group, |job| job == BURN + number),
            Effect::Memory { group } => {
                if let Some(paging) = &mut self.causes.paging[group as usize] {
                    paging.waited += paging.since.take().map_or(0, |since| self.now - since);
                }
                self.stop(group, false);
            }
            Effect::Lock { .. } | Effect::PacketLoss { .. } => {
                self.causes.active.retain(|&one| one != number);
            }
            Effect::Restart { server } => self.restart_ends(server),
        }
        self.stall_is_over(number);
    }

    /// When the lock is free that a visit of this class meets at a server; None: it meets none.
    #[inline(always)]
    pub(in super::super) fn locked_until(&self, server: u32, class: u32) -> Option<i64> {
        if self.causes.active.is_empty() {
            return None;
        }
        let stalls = self.causes.active.iter();
        let stalls = stalls.map(|&number| &self.plan.stalls[number as usize]);
        let met = stalls.filter(|stall| {
            matches!(&stall.effect, Effect::Lock { server: at, classes }
                if *at == server && (classes.is_empty() || classes.contains(&class)))
        });
        met.map(|stall| stall.end).max()
    }

    /// Whether the network loses what the sender of this stay sends now.
    #[inline(always)]
    pub(in super::super) fn goes_astray(&self, stay: u32) -> bool {
        !self.causes.active.is_empty() && self.is_lost_on_its_way(stay)
    }

    fn is_lost_on_its_way(&self, stay: u32) -> bool {
        let s = &self.stays[stay];
        let sender = (!s.is_root()).then_some(s.caller);
        let attempt = s.visit << 16 | u64::from(s.drops) << 8 | u64::from(s.data_drops);
        let (seed, replication) = (self.plan.seed, self.plan.replication);
        self.causes.active.iter().any(|&number| {
            let Effect::PacketLoss {
                server,
                senders,
                share,
            } = &self.plan.stalls[number as usize].effect
            else {
                return false;
            };
            let on_its_way = *server == s.server
                && (senders.is_empty() || sender.is_some_and(|one| senders.contains(&one)));
            on_its_way && Stream::of(seed, replication, attempt, Purpose::Path).uniform() < *share
        })
    }

    /// For how long a group has waited for memory up to now, ns, if it ever does.
    pub(in super::super) fn paged(&self, group: usize) -> Option<i64> {
        let paging = self.causes.paging[group]?;
        Some(paging.waited + paging.since.map_or(0, |since| self.now - since))
    }

    pub(in super::super) fn waits_for_memory(&self, group: usize) -> bool {
        self.causes.paging[group].is_some_and(|paging| paging.since.is_some())
    }

    /// A recorded capacity takes its next value; returns how long it lasts.
    pub(super) fn capacity_changes(&mut self, number: u32) -> i64 {
        let capacity = &self.plan.capacities[number as usize];
        let at = self.causes.capacities[number as usize];
        self.causes.capacities[number as usize] = at + 1;
        let before = at.checked_sub(1).map_or(1.0, |at| capacity.left[at]);
        let left = capacity.left[at];
        match (before > 0.0, left > 0.0) {
            (true, true) => self.cpus.scale_group(capacity.group, left / before),
            (true, false) => {
                self.cpus.scale_group(capacity.group, 1.0 / before);
                self.stop(capacity.group, true);
            }
            (false, true) => {
                self.stop(capacity.group, false);
                self.cpus.scale_group(capacity.group, left);
            }
            (false, false) => {}
        }
        let next = capacity.times.get(at + 1);
        next.map_or(0, |next| next - capacity.times[at])
    }

    /// Writes it to the truth.
    pub(super) fn stall_is_over(&mut self, number: u32) {
        let plan = self.plan;
        let stall = &plan.stalls[number as usize];
        let place = match stall.effect {
            Effect::Slow { group, .. }
            | Effect::Freeze { group }
            | Effect::Burn { group, .. }
            | Effect::Memory { group } => plan.groups[group as usize].name.clone(),
            Effect::Lock { server, .. }
            | Effect::PacketLoss { server, .. }
            | Effect::Restart { server } => plan.servers[server as usize].name.clone(),
            Effect::Iowait { node, .. } => plan.nodes[node as usize].name.clone(),
        };
        self.report.stall(&stall.kind, place, stall.begin, self.now);
    }
}
