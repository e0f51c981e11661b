//! A call on its way out: which candidate receives it, and the wait for a connection.
use std::collections::VecDeque;

use super::choice::{again, Chooser};
use super::network::{Event, State};
use crate::sim::balancer::Balancer;

impl State<'_> {
    fn chooses(&mut self, call: u32, now: i64) {
        let i = call as usize;
        let choice = self.net.choice[i] as usize;
        let (Some(candidates), Some(chooser)) =
            (self.net.choices.get(choice), self.choosers.get_mut(choice))
        else {
            return;
        };
        let chosen = match chooser {
            Chooser::AsRecorded => return,
            Chooser::InTurn(turn) => {
                let n = candidates.len();
                let in_turn = |k: usize| (*turn as usize + k) % n;
                let has_room = |k: usize| {
                    let pool = self.pools.get(candidates[in_turn(k)].1 as usize);
                    pool.is_none_or(|(free, _)| *free > 0)
                };
                let chosen = in_turn((0..n).find(|&k| has_room(k)).unwrap_or(0));
                *turn = ((chosen + 1) % n) as u32;
                chosen
            }
            Chooser::ByPolicy(balancer) => {
                let Some(recorded) = candidate(candidates, self.place[i]) else {
                    return;
                };
                let servers = &self.servers;
                let inside = |k: usize| {
                    let server = &servers[candidates[k].0 as usize];
                    server.in_service + server.accept_queue.len() as u32
                };
                let key = self.net.visits.sent[i] as u64;
                again(balancer, now, recorded, key, inside)
            }
        };
        (self.place[i], self.pool[i]) = candidates[chosen];
    }

    pub(super) fn sends(&mut self, call: u32, now: i64) {
        if self.skips(call, now) {
            return;
        }
        let (i, net) = (call as usize, self.net);
        let chooser = self.choosers.get(net.choice[i] as usize);
        let is_held = self
            .pools
            .get(net.held[i] as usize)
            .is_some_and(|(free, _)| *free == 0);
        if is_held && !matches!(chooser, Some(Chooser::InTurn(_))) {
            let waited = (net.visits.sent[i] - net.visits.ready[i]).max(0);
            return self.at(now.saturating_add(waited), Event::Sends(call));
        }
        self.chooses(call, now);
        self.takes_connection(call, now);
    }

    pub(super) fn takes_connection(&mut self, call: u32, now: i64) {
        match self.connections(call) {
            Some((0, waiting)) => return waiting.push_back(call),
            Some((free, _)) => *free -= 1,
            None => {}
        }
        self.goes_out(call, now);
    }

    /// The pool from which a call takes a connection: how many are free, and which calls wait.
    pub(super) fn connections(&mut self, call: u32) -> Option<&mut (u32, VecDeque<u32>)> {
        let needed = self.held.needs_place(call);
        let pool = self.pools.get_mut(self.pool[call as usize] as usize);
        pool.filter(|_| needed)
    }

    pub(super) fn goes_out(&mut self, call: u32, now: i64) {
        if let Some((balancer, candidate)) = self.balancer(call) {
            balancer.sent(candidate);
        }
        self.attempts(call, now);
    }

    /// The balancer that chose the server of a call by its policy, and which candidate that is.
    pub(super) fn balancer(&mut self, call: u32) -> Option<(&mut Balancer, usize)> {
        let choice = self.net.choice[call as usize] as usize;
        match self.choosers.get_mut(choice)? {
            Chooser::ByPolicy(balancer) => {
                let chosen = candidate(&self.net.choices[choice], self.place[call as usize])?;
                Some((balancer, chosen))
            }
            _ => None,
        }
    }
}

/// Which of these candidates a server is.
fn candidate(candidates: &[(u32, u32)], server: u32) -> Option<usize> {
    candidates.iter().position(|one| one.0 == server)
}
