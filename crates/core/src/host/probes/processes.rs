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
use super::forks::Forks;
use super::groups::Group;
use super::members::{each, Member, NOW_AND_THEN, REST};
use super::reaped::Reaped;
use super::states::{self, States};
use super::{Probe, Span, Tick};
use crate::host::mounts;
use crate::host::places::Places;
use crate::host::processes::{place_of, status, Found, INIT};
use crate::host::state::Shared;
use crate::host::sys;

/// In cores: less does not starve a server at moderate utilisation.
const LEAST: f64 = 0.1;
/// The most names, because a host that always starts new ones must not fill the memory.
const NAMES: usize = 64;
/// The most sampled processes: reading a CPU clock takes half a microsecond and more, and a round
/// must take less than one millisecond.
pub const PROCESSES: usize = 1000;

/// In cores, in a round: a process that does not listen and uses no more rests after some such rounds.
const LITTLE: f64 = 0.01;

/// Rounds after which what ended processes used is known: their parent is read by then.
const KNOWN_AFTER: u8 = NOW_AND_THEN as u8 + 1;
/// At most so many processes that began are looked at in a round: reading one takes about six
/// microseconds. The next check finds the others.
const MET: usize = 100;

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
    /// None: the kernel does not tell which numbers are new, and the checks find all processes.
    forks: Option<Forks>,
    /// Rounds in which a parent may have waited for a process that was never seen.
    unseen: u8,
    /// CPUs of the host.
    cpus: i64,
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
            mountinfo: mounts::mountinfo(),
            named: 0,
            late: Late::default(),
            forks: Forks::open().ok(),
            unseen: 0,
            cpus: i64::try_from(sys::cpus()).unwrap_or(1),
            round: 0,
            begun: 0,
            before: None,
        }
    }

    fn add(&mut self, found: Found, into: &mut Tick) {
        let before = self.members.remove(&found.pid);
        let known = before.as_ref().map(|member| member.used);
        let listens = found.owner.listens;
        if known.is_none() && self.members.len() >= PROCESSES && !listens {
            return;
        }
        let used = known
            .or_else(|| sys::process_cpu_ns(found.pid))
            .unwrap_or(0);
        let places = found.owner.places.into_iter();
        let groups: Vec<usize> = places.map(|place| self.group(place, listens)).collect();
        if let (None, Some(since)) = (known, found.since) {
            self.found_late(used, since, &groups, into);
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
        let parent = self.members.get(&found.parent);
        let member = Member {
            used,
            listens,
            of_server: listens || parent.is_some_and(|parent| parent.of_server),
            reaped: before.map_or_else(Reaped::default, |before| before.reaped),
            ..Member::new(found.name, found.parent, groups)
        };
        self.members.insert(found.pid, member);
    }

    /// A check found a process that has used this since that time.
    fn found_late(&mut self, used: i64, since: i64, groups: &[usize], into: &mut Tick) {
        let mut is_late = false;
        for &group in groups {
            if let Some(group) = self.groups.get_mut(group) {
                is_late |= !group.found_late(used, since, into);
            }
        }
        if is_late {
            self.late.since = self.late.since.or(Some(since));
            self.late.used += used;
        }
    }

    /// Takes the new processes of servers into account at once. A check would find them up to a second later.
    fn meet(&mut self, into: &mut Tick) {
        self.unseen = self.unseen.saturating_sub(1);
        let begun = self.forks.as_mut().map(|forks| forks.begun(into));
        let Some(Ok(begun)) = begun else {
            self.forks = None;
            return;
        };
        if begun.unseen {
            self.unseen = KNOWN_AFTER;
        }
        for pid in begun.new.into_iter().take(MET) {
            self.meet_new(pid);
        }
        for pid in begun.again {
            self.meet_again(pid);
        }
    }

    /// A child of a server's process that has its name belongs to the server, and another one to those of its own
    /// name: as a check decides, which does not know the child yet.
    fn meet_new(&mut self, pid: i32) {
        if self.members.contains_key(&pid) {
            return;
        }
        let Some(new) = status(Path::new("/proc"), pid) else {
            return;
        };
        let Some(parent) = self.members.get_mut(&new.parent) else {
            return;
        };
        if !parent.of_server {
            return;
        }
        parent.idle = 0;
        let is_alike = parent.name == new.name;
        let listens = is_alike && parent.listens;
        let inherited = is_alike.then(|| parent.groups.clone());
        if !listens && self.members.len() >= PROCESSES {
            return;
        }
        let groups = inherited.unwrap_or_else(|| vec![self.group(place_of(&new.name), false)]);
        let member = Member {
            listens,
            of_server: true,
            assumed: true,
            ..Member::new(new.name, new.parent, groups)
        };
        self.members.insert(pid, member);
    }

    /// A fork has its parent's name until it executes another program.
    fn meet_again(&mut self, pid: i32) {
        let assumed = self.members.get(&pid).is_some_and(|member| member.assumed);
        let Some(now) = assumed.then(|| status(Path::new("/proc"), pid)).flatten() else {
            return;
        };
        if self
            .members
            .get(&pid)
            .is_none_or(|member| member.name == now.name)
        {
            return;
        }
        let group = self.group(place_of(&now.name), false);
        if let Some(member) = self.members.get_mut(&pid) {
            member.name = now.name;
            (member.listens, member.states) = (false, None);
            member.groups = vec![group];
        }
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
            self.groups
                .push(Group::new(place, listens, number, self.begun));
        }
        at
    }

    /// Adds up what the groups have used since the last reading; the CPU time of a resting process
    /// counts for this round.
    fn count(&mut self, round_ns: i64) {
        self.round += 1;
        self.read_states();
        let little = (LITTLE * round_ns as f64) as i64;
        let (round, unseen) = (self.round, self.unseen > 0);
        let groups = &mut self.groups;
        let mut ended = Vec::new();
        self.members.retain(|pid, member| {
            if member.rests(*pid, round, unseen) {
                return true;
            }
            let Some(now) = sys::process_cpu_ns(*pid) else {
                ended.push((member.parent, member.used + member.reaped.all()));
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
        self.count_ended(&ended, round_ns);
    }

    /// Reads what the threads of servers do, and what their children used, before it is looked which processes have
    /// ended.
    fn read_states(&mut self) {
        let (round, unseen) = (self.round, self.unseen > 0);
        let groups = &mut self.groups;
        for group in groups.iter_mut() {
            group.states = States::default();
            (group.processes, group.ended) = (0, 0);
        }
        for (pid, member) in &mut self.members {
            let before = member.states;
            if member.listens && !member.rests(*pid, round, unseen) {
                member.states = states::of(Path::new("/proc"), *pid);
                if let Some(states) = member.states {
                    member.reaped.read(states.children_ns);
                }
            }
            let mut states = member.states.unwrap_or_default();
            let earlier = before.map_or(states.major_faults, |states| states.major_faults);
            states.major_faults = states.major_faults.saturating_sub(earlier);
            each(groups, member, |group| {
                group.states.add(states);
                group.processes += 1;
            });
        }
    }

    /// Adds what children of servers used that were never seen, or after they were seen last. `ended`: their parents,
    /// and what was sampled of them.
    fn count_ended(&mut self, ended: &[(i32, i64)], round_ns: i64) {
        for (parent, sampled) in ended {
            if let Some(parent) = self.members.get_mut(parent) {
                parent.reaped.ended(*sampled);
                (parent.idle, parent.bereaved) = (0, KNOWN_AFTER);
            }
        }
        let room = round_ns.saturating_mul(self.cpus);
        let (unseen, groups) = (self.unseen > 0, &mut self.groups);
        for (pid, member) in self.members.iter_mut().filter(|(_, one)| one.listens) {
            let rest = member.reaped.rest();
            // A process that lives on without its parent gets another one, which then waits for it.
            let is_its_own = unseen || member.bereaved > 0;
            member.bereaved = member.bereaved.saturating_sub(1);
            if is_its_own && rest > 0 && *pid != INIT {
                each(groups, member, |group| group.used += rest.min(room));
            }
        }
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

impl Probe for ProcessesProbe {
    fn sample(&mut self, into: &mut Tick) -> io::Result<()> {
        while let Ok(found) = self.found.try_recv() {
            self.add(found, into);
        }
        let at = sys::steady_ns();
        let before = self.before.replace(at);
        self.meet(into);
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
            parent: 0,
            name: "test".to_owned(),
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
                idle: REST,
                ..Member::new("test".to_owned(), 0, Vec::new())
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
        let late = Found {
            since: Some(0),
            ..own("process burst", false)
        };
        probe.add(late, &mut Tick::default());
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
