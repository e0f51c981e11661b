//! Processes that share a place: what they used, and what their threads do.

use super::states::States;
use super::{Probe, Span, Tick};

/// Processes that share a place.
pub(super) struct Group {
    pub place: String,
    pub listens: bool,
    /// The number of its place, once it is reported.
    pub number: Option<u32>,
    /// CPU time since its last report, and the time of that; since the begin if it was never
    /// reported.
    pub used: i64,
    pub told: i64,
    /// The part of `used` from before this round.
    pub seen: i64,
    /// A check at this time did not find processes that have used CPU time since, and the part of
    /// `used` from before it.
    pub until: Option<(i64, i64)>,
    pub states: States,
    /// Its processes at the last reading, and how many ended since the one before.
    pub processes: u32,
    pub ended: u32,
    /// Readings of its control group.
    pub held_back: Vec<Box<dyn Probe>>,
}

impl Group {
    /// None: it has no place yet.
    pub fn new(place: String, listens: bool, number: Option<u32>, begun: i64) -> Group {
        Group {
            place,
            listens,
            number,
            used: 0,
            told: begun,
            seen: 0,
            until: None,
            states: States::default(),
            processes: 0,
            ended: 0,
            held_back: Vec::new(),
        }
    }

    /// One of its processes used this since that time, and no sample has it. False: its samples end later than that,
    /// and they are none of a server.
    pub fn found_late(&mut self, used: i64, since: i64, into: &mut Tick) -> bool {
        match self.number {
            Some(_) if !self.listens => return false,
            Some(place) => self.used += into.spread(place, "cpu_busy", since, used),
            None => {
                self.until = self.until.or(Some((since, self.used)));
                self.used += used;
                self.seen += used;
            }
        }
        true
    }

    /// Reports its use until `end`; nothing while it has no place, or for an empty interval.
    pub fn tell(&mut self, used: i64, end: i64, into: &mut Tick) {
        let ns = end - self.told;
        if let (Some(place), 1..) = (self.number, ns) {
            into.say(place, "cpu_busy", Span { end, ns }, used as f64 / ns as f64);
            self.used -= used;
            self.seen -= used.min(self.seen);
            self.told = end;
        }
    }

    /// Reports what the threads of a listening server do now, how often they have waited for a page since
    /// the last round, how many processes it has, and how many have ended since. How many threads are
    /// runnable or blocked is not known of a process with too many threads.
    pub fn tell_states(&self, end: i64, ns: i64, into: &mut Tick) {
        let Some(place) = self.number.filter(|_| self.listens && ns > 0) else {
            return;
        };
        let span = Span { end, ns };
        let states = self.states;
        into.say(place, "tasks_stopped", span, f64::from(states.stopped));
        into.say(
            place,
            "tasks_file_locked",
            span,
            f64::from(states.file_locked),
        );
        into.say(place, "tasks_pipe_full", span, f64::from(states.pipe_full));
        into.say(place, "major_faults", span, states.major_faults as f64);
        into.say(place, "processes", span, f64::from(self.processes));
        into.say(place, "processes_ended", span, f64::from(self.ended));
        if states.unread == 0 {
            into.say(place, "tasks_runnable", span, f64::from(states.runnable));
            into.say(place, "tasks_blocked", span, f64::from(states.blocked));
        }
    }
}
