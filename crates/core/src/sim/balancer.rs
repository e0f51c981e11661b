//! Load balancing: the candidate of the next call.
//!
//! mod_jk has two levels (`balancers` II-A; tomcat-connectors 1.2.32, `jk_lb_worker.c`): a policy
//! keeps an `lb_value` for each candidate and takes the lowest, ties by turns; the [state](States)
//! of a candidate decides whether it may receive calls at all. A call uses the states as they were
//! when it began. A busy candidate never becomes an erroneous one, whatever `balancers` IV-A says:
//! only a failed connection does that.

use super::plan::Policy;
use super::prequal::{Prequal, NEWEST};
use super::states::States;
use crate::rng::Stream;

/// mod_jk's `worker.maintain`: values that only grow are halved every 60 s.
const MAINTAIN: i64 = 60_000_000_000;

pub struct Balancer {
    policy: Policy,
    candidates: Vec<Candidate>,
    pub states: States,
    turn: usize,
    maintained: i64,
    looked: i64,
    prequal: Prequal,
}

#[derive(Clone, Default)]
struct Candidate {
    /// mod_jk's `lb_value`.
    value: f64,
    out: u32,
    /// Mean of the response time as the policy forms it, ns, and when it was last updated.
    response: f64,
    since: i64,
    /// Requests inside the server at the last reading.
    seen: u32,
}

impl Balancer {
    /// `recover`: how long a candidate stays in the error state.
    pub fn new(policy: &Policy, candidates: usize, recover: i64) -> Self {
        Balancer {
            policy: policy.clone(),
            candidates: vec![Candidate::default(); candidates],
            states: States::new(candidates, recover),
            turn: 0,
            maintained: 0,
            looked: i64::MIN,
            prequal: Prequal::default(),
        }
    }

    /// The policy's data about a candidate.
    pub fn value(&self, candidate: usize) -> f64 {
        match self.policy {
            Policy::TotalRequest
            | Policy::TotalTraffic
            | Policy::CurrentLoad
            | Policy::Sessions => self.candidates[candidate].value,
            Policy::PeakEwma { .. } | Policy::Prequal => self.candidates[candidate].response,
            Policy::ShortestQueue { .. } => f64::from(self.candidates[candidate].seen),
            _ => f64::from(self.candidates[candidate].out),
        }
    }

    /// Whether the policy draws the candidates that it compares.
    pub fn draws(&self) -> bool {
        matches!(self.policy, Policy::PowerOfTwo | Policy::Prequal)
    }

    /// A candidate that is not in `tried`. `inside`: requests in a candidate now.
    pub fn choose(
        &mut self,
        now: i64,
        tried: u32,
        stream: &mut Stream,
        inside: impl Fn(usize) -> u32,
    ) -> Option<u32> {
        self.prepare(now, &inside);
        let n = self.candidates.len();
        let may = |i: &usize| tried & 1 << i == 0;
        let eligible = (0..n).filter(may).count();
        if eligible == 0 {
            return None;
        }
        let nth = |k: usize| (0..n).filter(may).nth(k);
        let chosen = match self.policy {
            Policy::Random => nth(stream.below(eligible as u32) as usize),
            Policy::Prequal => {
                let candidates = &self.candidates;
                let response = |i: usize| candidates[i].response;
                let all = (0..n).filter(may).collect();
                self.prequal.choose(all, stream, inside, response)
            }
            Policy::PowerOfTwo => {
                let a = stream.below(eligible as u32) as usize;
                let b = if eligible > 1 {
                    (a + 1 + stream.below(eligible as u32 - 1) as usize) % eligible
                } else {
                    a
                };
                let (a, b) = (nth(a), nth(b));
                let out = |i: &Option<usize>| i.map_or(u32::MAX, |i| self.candidates[i].out);
                if out(&b) < out(&a) {
                    b
                } else {
                    a
                }
            }
            _ => self.lowest(now, may),
        }?;
        // A call with a single possible candidate, as each of a write to all, takes no turn.
        if eligible > 1 {
            self.turn = (chosen + 1) % n;
        }
        Some(chosen as u32)
    }

    /// The candidates that the policy could choose now, one bit each; there are at most 32.
    pub fn possible(&mut self, now: i64, inside: impl Fn(usize) -> u32) -> u32 {
        self.prepare(now, inside);
        let n = self.candidates.len();
        let bits = |may: &dyn Fn(usize) -> bool| {
            let may = (0..n).filter(|&i| may(i));
            may.fold(0, |bits: u32, i| bits | 1 << i)
        };
        match self.policy {
            Policy::Random | Policy::RoundRobin | Policy::Prequal => bits(&|_| true),
            // Each candidate can be drawn with one that is not better, but for the worst of all.
            Policy::PowerOfTwo => {
                let most = self.candidates.iter().map(|c| c.out).max().unwrap_or(0);
                let worst = self.candidates.iter().filter(|c| c.out == most).count();
                bits(&|i| n == 1 || worst > 1 || self.candidates[i].out < most)
            }
            _ => {
                let ranks: Vec<f64> = (0..n).map(|i| self.rank(now, i)).collect();
                let least = ranks.iter().copied().fold(f64::INFINITY, f64::min);
                bits(&|i| ranks[i] <= least)
            }
        }
    }

    /// A candidate was chosen from outside: those of equal rank follow it in turn.
    pub fn took(&mut self, candidate: usize) {
        self.turn = (candidate + 1) % self.candidates.len().max(1);
    }

    /// A candidate had the lowest value, although it was not counted so: where counting began, the
    /// values that only grow were not known. Those of `CurrentLoad` are the calls that are out.
    pub fn was_lowest(&mut self, candidate: usize) {
        if matches!(self.policy, Policy::CurrentLoad) {
            return;
        }
        let values = self.candidates.iter().map(|c| c.value);
        self.candidates[candidate].value = values.fold(f64::INFINITY, f64::min);
    }

    /// The lowest rank, ties by turns.
    fn lowest(&self, now: i64, may: impl Fn(&usize) -> bool) -> Option<usize> {
        let n = self.candidates.len();
        let turns = (0..n).map(|k| (self.turn + k) % n).filter(may);
        let mut best: Option<(f64, usize)> = None;
        for i in turns {
            let rank = self.rank(now, i);
            if best.is_none_or(|(least, _)| rank < least) {
                best = Some((rank, i));
            }
        }
        best.map(|(_, i)| i)
    }

    fn rank(&self, now: i64, i: usize) -> f64 {
        let c = &self.candidates[i];
        match self.policy {
            Policy::TotalRequest
            | Policy::TotalTraffic
            | Policy::CurrentLoad
            | Policy::Sessions => c.value,
            Policy::LeastConnections => f64::from(c.out),
            Policy::PeakEwma { decay } => {
                let age = (now - c.since) as f64 / decay as f64;
                c.response * libm::exp(-age) * f64::from(c.out + 1)
            }
            Policy::ShortestQueue { .. } => f64::from(c.seen),
            Policy::RoundRobin | Policy::Random | Policy::PowerOfTwo | Policy::Prequal => 0.0,
        }
    }

    fn prepare(&mut self, now: i64, inside: impl Fn(usize) -> u32) {
        match self.policy {
            Policy::TotalRequest | Policy::TotalTraffic | Policy::Sessions
                if now - self.maintained >= MAINTAIN =>
            {
                self.maintained = now;
                for c in &mut self.candidates {
                    c.value /= 2.0;
                }
            }
            Policy::ShortestQueue { every }
                if self.looked == i64::MIN || now - self.looked >= every =>
            {
                self.looked = now;
                for (i, c) in self.candidates.iter_mut().enumerate() {
                    c.seen = inside(i);
                }
            }
            _ => {}
        }
    }

    /// Candidates that must not receive a call that begins now, one bit each. A candidate that
    /// recovers has the highest of mod_jk's growing values (`recover_workers`).
    pub fn unavailable(&mut self, now: i64) -> u32 {
        let recovered = self.states.recover(now);
        if recovered != 0 && !matches!(self.policy, Policy::CurrentLoad) {
            let highest = self.candidates.iter().map(|c| c.value).fold(0.0, f64::max);
            let indexed = self.candidates.iter_mut().enumerate();
            for (_, c) in indexed.filter(|(i, _)| recovered & 1 << i != 0) {
                c.value = highest;
            }
        }
        self.states.unavailable()
    }

    /// A call goes out: mod_jk has obtained an endpoint.
    pub fn sent(&mut self, candidate: usize) {
        self.states.asked(candidate);
        let c = &mut self.candidates[candidate];
        c.out += 1;
        if matches!(
            self.policy,
            Policy::TotalRequest | Policy::CurrentLoad | Policy::Sessions
        ) {
            c.value += 1.0;
        }
    }

    /// Its answer came after `took` ns.
    pub fn got(&mut self, now: i64, candidate: usize, bytes: u64, took: i64) {
        self.states.answered(candidate);
        if matches!(self.policy, Policy::TotalTraffic) {
            self.candidates[candidate].value += bytes as f64;
        }
        self.ended(now, candidate, took);
    }

    /// No connection could be made for it in `took` ns.
    pub fn failed(&mut self, now: i64, candidate: usize, took: i64) {
        self.ended(now, candidate, took);
        let alone = self.candidates[candidate].out == 0;
        self.states.failed(now, candidate, alone);
    }

    fn ended(&mut self, now: i64, candidate: usize, took: i64) {
        let c = &mut self.candidates[candidate];
        c.out = c.out.saturating_sub(1);
        match self.policy {
            Policy::CurrentLoad => c.value = (c.value - 1.0).max(0.0),
            Policy::Prequal => c.response += (took as f64 - c.response) * NEWEST,
            Policy::PeakEwma { decay } => {
                let weight = libm::exp(-((now - c.since) as f64) / decay as f64);
                let took = took as f64;
                c.response = took.max(c.response * weight + took * (1.0 - weight));
                c.since = now;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Purpose;

    fn stream() -> Stream {
        Stream::of(1, 0, 0, Purpose::Balance)
    }

    fn choose(b: &mut Balancer, tried: u32) -> Option<u32> {
        b.choose(0, tried, &mut stream(), |_| 0)
    }

    #[test]
    fn total_request_goes_where_fewest_went_even_if_they_never_came_back() {
        let mut b = Balancer::new(&Policy::TotalRequest, 2, 0);
        for _ in 0..10 {
            b.sent(0);
            b.got(0, 0, 1, 1);
        }
        // Candidate 1 is stalled: it has the lowest value and answers nothing.
        for _ in 0..5 {
            assert_eq!(choose(&mut b, 0), Some(1));
            b.sent(1);
        }
    }

    #[test]
    fn current_load_avoids_the_candidate_that_does_not_answer() {
        let mut b = Balancer::new(&Policy::CurrentLoad, 2, 0);
        b.sent(1);
        for _ in 0..5 {
            assert_eq!(choose(&mut b, 0), Some(0));
            b.sent(0);
            b.got(0, 0, 1, 1);
        }
    }

    #[test]
    fn total_traffic_counts_bytes_when_the_answer_comes() {
        let mut b = Balancer::new(&Policy::TotalTraffic, 2, 0);
        b.sent(0);
        b.sent(1);
        b.got(0, 0, 10_000, 1);
        b.got(0, 1, 500, 1);
        assert_eq!(choose(&mut b, 0), Some(1));
    }

    #[test]
    fn unavailable_candidates_get_no_calls() {
        let mut b = Balancer::new(&Policy::TotalRequest, 3, 0);
        assert_eq!(choose(&mut b, 0b011), Some(2));
        assert_eq!(choose(&mut b, 0b111), None);
    }

    #[test]
    fn a_candidate_that_recovers_has_the_highest_value() {
        let mut b = Balancer::new(&Policy::TotalRequest, 2, 10);
        b.sent(0);
        b.failed(0, 0, 0);
        assert_eq!(b.unavailable(10), 0b01);
        for _ in 0..5 {
            b.sent(1);
            b.got(10, 1, 1, 1);
        }
        assert_eq!((b.unavailable(11), b.value(0)), (0, 5.0));
    }

    #[test]
    fn equal_values_take_turns() {
        let mut b = Balancer::new(&Policy::RoundRobin, 3, 0);
        let seen: Vec<_> = (0..6).filter_map(|_| choose(&mut b, 0)).collect();
        assert_eq!(seen, [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn stale_queue_lengths_are_looked_at_again_only_after_a_while() {
        let mut b = Balancer::new(&Policy::ShortestQueue { every: 100 }, 2, 0);
        let mut at = |now, queues: [u32; 2]| b.choose(now, 0, &mut stream(), |i| queues[i]);
        assert_eq!(at(0, [5, 1]), Some(1));
        assert_eq!(at(99, [0, 9]), Some(1));
        assert_eq!(at(100, [0, 9]), Some(0));
    }
}
