//! Packets that were lost on their way. The path loses them at the recorded times: where visits come at other times
//! than in the recording, other visits lose theirs.
use std::collections::{HashMap, VecDeque};

use super::network::{Held, NEVER};
use super::program::Visits;

/// A loss that no visit meets for a second meets none. Losses that make requests very slow last for longer than the
/// sender of a SYN waits before it sends again (RFC 6298: 1 s).
const LASTS: i64 = 1_000_000_000;

/// The losses on the way from each server (-1: clients) to each other: when, and how late the packet arrives.
#[derive(Default)]
pub(super) struct Paths {
    losses: HashMap<(i64, u32), VecDeque<(i64, i64)>>,
}

impl Paths {
    /// Those of all visits whose roots are sent, except of roots that are sent when they were recorded: these lose
    /// their own packets.
    pub fn of(visits: &Visits, held: &Held, sent: &[i64], waits: impl Fn(usize) -> bool) -> Paths {
        let mut found: Vec<(i64, usize)> = (held.late.iter().enumerate())
            .filter(|&(_, &late)| late > 0)
            .map(|(visit, _)| (visits.sent[visit], visit))
            .filter(|&(_, visit)| {
                let root = visits.root(visit);
                let is_sent = root.is_some_and(|root| sent[root] < NEVER);
                is_sent && (root != Some(visit) || waits(visit))
            })
            .collect();
        found.sort_unstable();
        let mut losses: HashMap<_, VecDeque<_>> = HashMap::new();
        for (time, visit) in found {
            let way = (caller(visits, &visits.server, visit), visits.server[visit]);
            losses
                .entry(way)
                .or_default()
                .push_back((time, held.late[visit]));
        }
        Paths { losses }
    }

    pub fn is_empty(&self) -> bool {
        self.losses.is_empty()
    }

    /// How late a visit arrives that is sent `now`, if its packet is lost.
    pub fn loses(&mut self, way: (i64, u32), now: i64) -> Option<i64> {
        let losses = self.losses.get_mut(&way)?;
        while losses.front()?.0 < now.saturating_sub(LASTS) {
            losses.pop_front();
        }
        let &(_, late) = losses.front().filter(|loss| loss.0 <= now)?;
        losses.pop_front();
        Some(late)
    }
}

/// The server that sends a visit, or -1 for a client.
pub(super) fn caller(visits: &Visits, place: &[u32], visit: usize) -> i64 {
    usize::try_from(visits.parent[visit]).map_or(-1, |parent| i64::from(place[parent]))
}
