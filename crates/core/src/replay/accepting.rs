//! When a server takes visits out of its accept queue.
use super::network::{Event, State};

/// No server accepts anything with less than this share of its speed; the last step of a stop may
/// have such a share.
const STANDS_STILL: f64 = 0.02;

impl State<'_> {
    /// Whether the thread that accepts connections waits for its turn among the jobs.
    pub(super) fn has_no_turn(&mut self, place: usize, now: i64) -> bool {
        let limits = self.net.limits[place];
        if limits.slice <= 0.0 {
            return false;
        }
        self.advance(place, now);
        let server = &self.servers[place];
        server.jobs.len() as f64 >= limits.cores && server.attained < server.turn
    }

    /// The thread that accepts has had its turn. The next one comes when each job that runs now has had
    /// its slice, or has ended.
    pub(super) fn ends_turn(&mut self, place: usize) {
        let (slice, server) = (self.net.limits[place].slice, &mut self.servers[place]);
        if slice > 0.0 {
            let ends = server.jobs.iter().map(|job| job.end);
            server.turn = ends
                .fold(server.attained, f64::max)
                .min(server.attained + slice);
            self.look_ahead(place);
        }
    }

    /// When a stopped server continues; None if it works.
    pub(super) fn stops(&self, place: usize, now: i64) -> Option<i64> {
        let (grid, capacity) = (self.net.grid, &self.capacity[place]);
        let least = self.net.limits[place].still.max(STANDS_STILL);
        let still = |step: usize| capacity.get(step).is_some_and(|&share| share < least);
        let mut step = grid.at(now);
        if !still(step) {
            return None;
        }
        while still(step) {
            step += 1;
        }
        Some(grid.end_of(step - 1))
    }

    pub(super) fn will_resume(&mut self, place: usize, now: i64) {
        if let Some(until) = self
            .stops(place, now)
            .filter(|&until| self.servers[place].resumes < until && until > now)
        {
            self.servers[place].resumes = until;
            self.at(until, Event::Resumes(place as u32));
        }
    }

    pub(super) fn takes_next(&mut self, place: usize, now: i64) {
        if self.stops(place, now).is_some() {
            return self.will_resume(place, now);
        }
        if self.servers[place].accept_queue.is_empty() || self.has_no_turn(place, now) {
            return;
        }
        let workers = self.net.limits[place].workers;
        let mut has_accepted = false;
        while workers == 0 || self.servers[place].in_service < workers {
            let Some(visit) = self.servers[place].accept_queue.pop_front() else {
                break;
            };
            self.starts(visit, now);
            has_accepted = true;
        }
        if has_accepted {
            self.ends_turn(place);
        }
    }
}
