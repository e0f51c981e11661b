//! Restarts: the processes of a server end with their last visits, and new ones begin. A supervisor
//! keeps the socket meanwhile, so new connections wait in the accept queue.

use super::super::plan::{Effect, Plan};
use super::super::tables::Sink;
use super::super::Sim;

/// Of a server that is restarted at times.
#[derive(Clone, Copy, Default)]
pub struct Restarts {
    /// The old processes still have visits.
    ending: bool,
    /// Processes that have ended since the last sample.
    ended: u32,
}

impl Restarts {
    /// For each server, if the plan restarts it.
    pub fn of(plan: &Plan) -> Vec<Option<Restarts>> {
        super::of_stalls(plan, plan.servers.len(), |effect| match *effect {
            Effect::Restart { server } => Some(server),
            _ => None,
        })
    }
}

impl<S: Sink> Sim<'_, S> {
    /// From now on, the server takes up no visit.
    pub(super) fn restart_begins(&mut self, server: u32) {
        let s = &mut self.servers[server as usize];
        s.restarting += 1;
        let group = s.group;
        if let Some(restarts) = &mut self.causes.restarts[server as usize] {
            restarts.ending = true;
        }
        self.accepts_or_not(group);
    }

    /// The new processes answer.
    pub(super) fn restart_ends(&mut self, server: u32) {
        self.old_processes_end(server, true);
        let s = &mut self.servers[server as usize];
        s.restarting -= 1;
        let group = s.group;
        self.accepts_or_not(group);
        self.hand_out(server);
    }

    fn old_processes_end(&mut self, server: u32, at_any_rate: bool) {
        let s = &self.servers[server as usize];
        let alive = s.alive as u32;
        let idle = s.works_at_nothing();
        if let Some(restarts) = &mut self.causes.restarts[server as usize] {
            if restarts.ending && (idle || at_any_rate) {
                restarts.ending = false;
                restarts.ended += alive;
            }
        }
    }

    /// How many processes a server that is restarted at times has now, and how many ended since the
    /// last call.
    pub(in super::super) fn processes_of(&mut self, server: u32) -> Option<(u32, u32)> {
        self.old_processes_end(server, false);
        let restarts = self.causes.restarts[server as usize].as_mut()?;
        let ended = std::mem::take(&mut restarts.ended);
        Some((self.servers[server as usize].alive as u32, ended))
    }
}
