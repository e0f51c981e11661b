//! Stalls that the plan injects at given times.

use super::super::cpu::ENDLESS;
use super::super::plan::Effect;
use super::super::tables::Sink;
use super::super::Sim;
use super::BURN;

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
        }
        self.stall_is_over(number);
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
            Effect::Slow { group, .. } | Effect::Freeze { group } | Effect::Burn { group, .. } => {
                plan.groups[group as usize].name.clone()
            }
            Effect::Iowait { node, .. } => plan.nodes[node as usize].name.clone(),
        };
        self.report.stall(&stall.kind, place, stall.begin, self.now);
    }
}
