//! A further process of a server whose workers have all been busy for a while (Apache's worker MPM;
//! `rpc-vs-async` IV-A: the accept queue overflows at 278, then at 428).

use super::super::queue::Kind;
use super::super::tables::Sink;
use super::super::Sim;
use super::PROCESS;

impl<S: Sink> Sim<'_, S> {
    pub(in super::super) fn becomes_full(&mut self, server: u32) {
        let state = &mut self.servers[server as usize];
        state.full_since = self.now;
        if let Some(spawn) = &self.plan.servers[server as usize].spawn {
            let timer = self.causes.first_spawn + server;
            self.queue.push(self.now + spawn.after, Kind::Timer, timer);
        }
    }

    pub(super) fn may_spawn(&mut self, server: u32) {
        let Some(spawn) = &self.plan.servers[server as usize].spawn else {
            return;
        };
        let state = &mut self.servers[server as usize];
        let full = state.full_since >= 0 && self.now - state.full_since >= spawn.after;
        if full && !state.spawning && state.alive < spawn.processes_max as usize {
            state.spawning = true;
            self.cpus
                .add(self.now, state.group, spawn.work as f64, PROCESS + server);
        }
    }

    pub(super) fn process_started(&mut self, server: u32) {
        let state = &mut self.servers[server as usize];
        state.spawning = false;
        state.add_process();
        let number = state.alive;
        self.event(
            server,
            "process_spawn",
            self.now,
            Some(format!("process {number}")),
        );
        let plan = &self.plan.servers[server as usize];
        let retire_after = plan.spawn.as_ref().map_or(0, |s| s.retire_after);
        if retire_after > 0 {
            let timer = self.causes.first_retire + server;
            self.queue.push(self.now + retire_after, Kind::Timer, timer);
        }
        self.hand_out(server);
        // If it is full again at once, the next one is due after the same time.
        if self.servers[server as usize].full_since >= 0 {
            self.becomes_full(server);
        }
    }

    /// Checks whether a process can end, and returns the next check (0: all further ones have
    /// ended).
    pub(super) fn may_retire(&mut self, server: u32) -> i64 {
        let plan = &self.plan.servers[server as usize];
        let state = &mut self.servers[server as usize];
        if state.alive > plan.processes as usize {
            state.retire_process();
        }
        let more = state.alive > plan.processes as usize;
        plan.spawn
            .as_ref()
            .filter(|_| more)
            .map_or(0, |s| s.retire_after)
    }
}
