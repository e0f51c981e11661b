//! CPU time of all processes. Those that listen count for their listeners (`NODE:PORT`), together
//! with what their threads do, and what their cgroup withheld (its quota, and its pressure if it
//! contains only them). The others are sampled by name, once they have used so much that another
//! process could lack it.

use std::io;
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::cgroup::Cgroup;
use super::states::{self, States};
use super::{Probe, Span, Tick};
use crate::host::places::Places;
use crate::host::processes::Found;
use crate::host::state::Shared;
use crate::host::sys;

/// In cores: less does not starve a server at moderate utilisation.
const LEAST: f64 = 0.1;
/// The most names, because a host that always starts new ones must not fill the memory.
const NAMES: usize = 64;
/// The most sampled processes: reading a CPU clock takes half a microsecond and more, and a round
/// must take less than one millisecond.
pub const PROCESSES: usize = 1000;

/// The number of rounds with almost no CPU time, in cores, after which a process rests: it is then
/// read only now and then, and equally many resting ones in each round. A process that listens
/// rests only after rounds without any CPU time.
const LITTLE: f64 = 0.01;
const REST: u8 = 20;
const NOW_AND_THEN: u64 = 4;

struct Member {
    used: i64,
    listens: bool,
    /// Rounds since it used more than a little, at most [`REST`].
    idle: u8,
    /// At the last reading, if it listens; None before the first.
    states: Option<States>,
    groups: Vec<usize>,
}

/// Processes that share a place.
struct Group {
    place: String,
    listens: bool,
    /// The number of its place, once it is reported.
    number: Option<u32>,
    /// CPU time since its last report, and the time of that; since the begin if it was never
    /// reported.
    used: i64,
    told: i64,
    /// The part of `used` from before this round.
    seen: i64,
    /// A check at this time did not find processes that have used CPU time since, and the part of
    /// `used` from before it.
    until: Option<(i64, i64)>,
    states: States,
    /// Its processes at the last reading, and how many ended since the one before.
    processes: u32,
    ended: u32,
    /// Readings of its control group.
    held_back: Vec<Box<dyn Probe>>,
}

/// What processes used before a check found them, where their places were sampled already.
#[derive(Default)]
struct Late {
    number: Option<u32>,
    /// The time of the check before that did not find them, and what they used since.
    since: Option<i64>,
    used: i64,
    told: i64,
}

/// The place of what processes used before a check found them.
const LATE: &str = "processes found late";

pub struct ProcessesProbe {
    found: Receiver<Found>,
    members: FxHashMap<i32, Member>,
    groups: Vec<Group>,
    by_place: FxHashMap<String, usize>,
    places: Places,
    shared: Arc<Shared>,
    mountinfo: String,
    named: usize,
    late: Late,
    round: u64,
    begun: i64,
    before: Option<i64>,
}

impl ProcessesProbe {
    pub fn new(found: Receiver<Found>, places: Places, shared: Arc<Shared>) -> Self {
        ProcessesProbe {
            found,
            members: FxHashMap::default(),
            groups: Vec::new(),
            by_place: FxHashMap::default(),
            places,
            shared,
            mountinfo: std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default(),
            named: 0,
            late: Late::default(),
            round: 0,
            begun: 0,
            before: None,
        }
    }

    fn add(&mut self, found: Found) {
        let known = self.members.get(&found.pid).map(|member| member.used);
        if known.is_none() && self.members.len() >= PROCESSES && !found.owner.listens {
            return;
        }
        let used = known
            .or_else(|| sys::process_cpu_ns(found.pid))
            .unwrap_or(0);
        let listens = found.owner.listens;
        let places = found.owner.places.into_iter();
        let groups: Vec<usize> = places.map(|place| self.group(place, listens)).collect();
        if let (None, Some(since)) = (known, found.since) {
            // A new process has used its CPU time since the last check.
            let mut is_late = false;
            for &group in &groups {
                match self.groups.get_mut(group) {
                    // Its samples end later than the check before.
                    Some(group) if group.number.is_some() && !group.listens => is_late = true,
                    Some(group) => {
                        group.until = group.until.or(Some((since, group.used)));
                        group.used += used;
                        group.seen += used;
                    }
                    None => {}
                }
            }
            if is_late {
                self.late.since = self.late.since.or(Some(since));
                self.late.used += used;
            }
        }
        for group in groups.iter().filter_map(|&group| self.groups.get(group)) {
            if group.number.is_some() {
                let cpus = sys::allowed_cpus(found.pid);
                self.shared.may_use(&group.place, cpus);
            }
        }
        if listens {
            self.find_cgroup(found.pid, &groups);
        }
        let member = Member {
            used,
            listens,
            idle: 0,
            states: None,
            groups,
        };
        self.members.insert(found.pid, member);
    }

    fn find_cgroup(&mut self, pid: i32, groups: &[usize]) {
        let Some(cgroup) = Cgroup::of_process(pid, &self.mountinfo) else {
            return;
        };
        for &group in groups {
            let Some(group) = self.groups.get_mut(group) else {
                continue;
            };
            if let (Some(place), true) = (group.number, group.held_back.is_empty()) {
                group.held_back = cgroup.held_back(place, pid);
            }
        }
    }

    fn group(&mut self, place: String, listens: bool) -> usize {
        let next = self.groups.len();
        let at = *self.by_place.entry(place.clone()).or_insert(next);
        if at == next {
            let number = listens.then(|| self.places.index(&place));
            self.groups.push(Group {
                place,
                listens,
                number,
                used: 0,
                told: self.begun,
                seen: 0,
                until: None,
                states: States::default(),
                processes: 0,
                ended: 0,
                held_back: Vec::new(),
            });
        }
        at
    }

    /// Adds up what the groups have used since the last reading; the CPU time of a resting process
    /// counts for this round.
    fn count(&mut self, round_ns: i64) {
        self.round += 1;
        let little = (LITTLE * round_ns as f64) as i64;
        let round = self.round;
        let groups = &mut self.groups;
        for group in groups.iter_mut() {
            group.states = States::default();
            (group.processes, group.ended) = (0, 0);
        }
        self.members.retain(|pid, member| {
            let turn = (round + u64::from(pid.unsigned_abs())) % NOW_AND_THEN == 0;
            let rests = member.idle == REST && !turn;
            let before = member.states;
            if member.listens && !rests {
                member.states = states::of(Path::new("/proc"), *pid);
            }
            let mut states = member.states.unwrap_or_default();
            let earlier = before.map_or(states.major_faults, |states| states.major_faults);
            states.major_faults = states.major_faults.saturating_sub(earlier);
            each(groups, member, |group| {
                group.states.add(states);
                group.processes += 1;
            });
            if rests {
                return true;
            }
            let Some(now) = sys::process_cpu_ns(*pid) else {
                each(groups, member, |group| {
                    group.processes -= 1;
                    group.ended += 1;
                });
                return false;
            };
            let used = (now - std::mem::replace(&mut member.used, now)).max(0);
            let little = match member.idle {
                _ if member.listens => 0,
                REST => little * NOW_AND_THEN as i64,
                _ => little,
            };
            let idle = used <= little;
            member.idle = if idle { (member.idle + 1).min(REST) } else { 0 };
            each(groups, member, |group| group.used += used);
            true
        });
    }

    /// Reports what processes used before they were found, over the time since the check before.
    fn say_late(&mut self, at: i64, into: &mut Tick) {
        let Some(since) = self.late.since.take() else {
            return;
        };
        let used = std::mem::take(&mut self.late.used);
        let ns = at - since.max(self.late.told);
        if ns <= 0 || (used as f64) < LEAST * ns as f64 {
            return;
        }
        let places = &self.places;
        let place = *self.late.number.get_or_insert_with(|| places.index(LATE));
        into.say(
            place,
            "cpu_busy",
            Span { end: at, ns },
            used as f64 / ns as f64,
        );
        self.late.told = at;
    }

    /// A group that does not listen is reported from the first round in which it is busy. What it
    /// had used until then is one sample, over all the time since the begin.
    fn say(&mut self, at: i64, round_ns: i64, into: &mut Tick) {
        for (number, group) in self.groups.iter_mut().enumerate() {
            let busy = (group.used - group.seen) as f64 >= LEAST * round_ns as f64;
            let was_busy = group.until.is_some_and(|(since, used)| {
                (group.seen - used) as f64 >= LEAST * (at - round_ns - since) as f64
            });
            if group.number.is_none() && (busy || was_busy) && self.named < NAMES {
                self.named += 1;
                group.number = Some(self.places.index(&group.place));
                let all = self.members.iter();
                for (pid, _) in all.filter(|(_, member)| member.groups.contains(&number)) {
                    self.shared.may_use(&group.place, sys::allowed_cpus(*pid));
                }
                if let Some((since, used)) = group.until.take() {
                    group.tell(used, since, into);
                }
                group.tell(group.seen, at - round_ns, into);
            }
            group.tell(group.used, at, into);
            group.seen = group.used;
            group.tell_states(at, round_ns, into);
        }
    }
}

/// Does this to each group of a process.
fn each(groups: &mut [Group], member: &Member, mut change: impl FnMut(&mut Group)) {
    for &number in &member.groups {
        if let Some(group) = groups.get_mut(number) {
            change(group);
        }
    }
}

impl Group {
    /// Reports its use until `end`; nothing while it has no place, or for an empty interval.
    fn tell(&mut self, used: i64, end: i64, into: &mut Tick) {
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
    fn tell_states(&self, end: i64, ns: i64, into: &mut Tick) {
        let Some(place) = self.number.filter(|_| self.listens && ns > 0) else {
            return;
        };
        let span = Span { end, ns };
        let states = self.states;
        into.say(place, "tasks_stopped", span, f64::from(states.stopped));
        into.say(place, "major_faults", span, states.major_faults as f64);
        into.say(place, "processes", span, f64::from(self.processes));
        into.say(place, "processes_ended", span, f64::from(self.ended));
        if states.unread == 0 {
            into.say(place, "tasks_runnable", span, f64::from(states.runnable));
            into.say(place, "tasks_blocked", span, f64::from(states.blocked));
        }
    }
}

impl Probe for ProcessesProbe {
    fn sample(&mut self, into: &mut Tick) -> io::Result<()> {
        while let Ok(found) = self.found.try_recv() {
            self.add(found);
        }
        let at = sys::steady_ns();
        let before = self.before.replace(at);
        let round_ns = before.map_or(0, |before| at - before);
        self.count(round_ns);
        for group in &mut self.groups {
            // A failing source can no longer be read: its cgroup is gone.
            group
                .held_back
                .retain_mut(|probe| probe.sample(into).is_ok());
        }
        match before {
            Some(_) => {
                self.say_late(at, into);
                self.say(at, round_ns, into);
            }
            None => {
                self.begun = at;
                for group in &mut self.groups {
                    (group.used, group.told) = (0, at);
                }
            }
        }
        Ok(())
    }

    fn about(&self) -> String {
        "processes".to_owned()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::testing;
    use super::*;
    use crate::host::processes::Owner;
    use std::sync::mpsc::channel;

    fn own(place: &str, listens: bool) -> Found {
        let places = vec![place.to_owned()];
        Found {
            pid: i32::try_from(std::process::id()).unwrap(),
            owner: Owner { places, listens },
            since: None,
        }
    }

    /// The tests themselves may run in a cgroup, whose quota is reported as well.
    fn said(probe: &mut ProcessesProbe) -> Vec<(&'static str, f64)> {
        let mut told = testing::said(probe);
        told.retain(|(metric, _)| *metric == "cpu_busy");
        told
    }

    fn busy() {
        let until = sys::own_cpu_ns() + 5_000_000;
        while sys::own_cpu_ns() < until {}
    }

    #[test]
    fn a_listening_process_is_reported_always_and_another_once_it_is_busy() {
        for (listens, at_rest) in [(true, 1), (false, 0)] {
            let (tell, found) = channel();
            let places = Places::default();
            let shared = Arc::new(Shared::default());
            let mut probe = ProcessesProbe::new(found, places.clone(), shared.clone());
            tell.send(own("web:80", listens)).unwrap();
            assert_eq!(said(&mut probe), []);
            sys::sleep_until(sys::steady_ns() + 200_000_000);
            // Other tests run in this process, so it may be busy.
            let quiet = said(&mut probe);
            assert!(quiet.len() >= at_rest);
            // A busy host may give this process less of a core than what is reported.
            let mut told = Vec::new();
            while told.is_empty() {
                busy();
                told = said(&mut probe);
            }
            assert_eq!(told.len(), 1 + usize::from(quiet.is_empty()));
            // For a group that was never reported before, earlier use is reported as well.
            assert!(told[told.len() - 1].1 > 0.0);
            assert_eq!(places.all(), ["web:80"]);
            let own = sys::allowed_cpus(i32::try_from(std::process::id()).unwrap());
            assert_eq!(shared.lock().cpus.get("web:80").cloned(), own);
            busy();
            assert!(said(&mut probe)[0].1 > 0.0);
        }
    }

    #[test]
    fn each_round_reads_equally_many_resting_processes() {
        let (_tell, found) = channel();
        let mut probe = ProcessesProbe::new(found, Places::default(), Arc::default());
        // Every process that is read turns out to be gone.
        for pid in 0..8 {
            let resting = Member {
                used: 0,
                listens: false,
                idle: REST,
                states: None,
                groups: Vec::new(),
            };
            probe.members.insert((i32::MAX >> 3) - pid, resting);
        }
        for left in [6, 4, 2, 0] {
            said(&mut probe);
            assert_eq!(probe.members.len(), left);
        }
    }

    #[test]
    fn what_a_new_process_has_used_counts_and_one_that_is_gone_does_not() {
        let (tell, found) = channel();
        let mut probe = ProcessesProbe::new(found, Places::default(), Arc::default());
        assert_eq!(said(&mut probe), []);
        busy();
        let gone = Found {
            pid: i32::MAX >> 3,
            ..own("gone:1", true)
        };
        let young = Found {
            since: Some(0),
            ..own("web:80", true)
        };
        tell.send(gone).unwrap();
        tell.send(young).unwrap();
        let told = said(&mut probe);
        assert_eq!(told.len(), 2);
        assert!(told[0].1 == 0.0 && told[1].1 > 0.0, "{told:?}");
        assert_eq!(probe.members.len(), 1);
    }

    #[test]
    fn what_a_new_process_used_belongs_to_the_time_since_the_last_check() {
        let (tell, found) = channel();
        let mut probe = ProcessesProbe::new(found, Places::default(), Arc::default());
        assert_eq!(said(&mut probe), []);
        let since = sys::steady_ns();
        busy();
        sys::sleep_until(since + 100_000_000);
        let young = Found {
            since: Some(since),
            ..own("process burst", false)
        };
        said(&mut probe);
        tell.send(young).unwrap();
        let told = said(&mut probe);
        assert_eq!(told[0].1, 0.0, "nothing before the check: {told:?}");
        assert!(told[1].1 > 0.0, "{told:?}");
    }

    #[test]
    fn what_a_new_process_of_a_sampled_name_used_has_a_place_of_its_own() {
        let (_tell, found) = channel();
        let mut probe = ProcessesProbe::new(found, Places::default(), Arc::default());
        let sampled = probe.group("process burst".to_owned(), false);
        probe.groups[sampled].number = Some(0);
        busy();
        probe.add(Found {
            since: Some(0),
            ..own("process burst", false)
        });
        assert_eq!((probe.groups[sampled].used, probe.late.since), (0, Some(0)));
        assert!(probe.late.used >= 5_000_000);
        probe.late.used = 500_000_000;
        let mut tick = Tick::default();
        probe.say_late(1_000_000_000, &mut tick);
        let said: Vec<f64> = tick.samples.iter().map(|sample| sample.value).collect();
        assert_eq!(said, [0.5]);
        probe.say_late(2_000_000_000, &mut tick);
        assert_eq!(tick.samples.len(), 1, "nothing was found late");
    }
}
