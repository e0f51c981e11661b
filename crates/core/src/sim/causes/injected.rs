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
