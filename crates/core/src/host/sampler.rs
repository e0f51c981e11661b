//! The sampling thread: all probes, at a fixed interval.
//!
//! A round is read in parts with pauses between them, each probe always in the same part. Another
//! thread that needs this CPU therefore waits for one part, not for all of them.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::Arc;

use super::clock::Clock;
use super::listeners::Picked;
use super::mounts;
use super::nodes::{Group, Namespace, Network, Probes, Turn};
use super::options::{Node, Options, HOST};
use super::places::Places;
use super::probes::process::ProcessProbe;
use super::probes::processes::ProcessesProbe;
use super::probes::{host, Probe, Tick};
use super::processes::Found;
use super::segments::{Outbox, Segment, Tell, Write, SEGMENT_NS};
use super::state::{NodeState, Sampling, Shared};
use super::sys;
use crate::error::{Error, Result};
use crate::record::rows::{NumberedSample, Sample};
use crate::record::writer::TableWriter;
use crate::record::Names;

/// Probes in a part of a round, which then takes 20 to 80 µs, and rarely more than 130.
const TOGETHER: usize = 3;
/// Time from the begin of a part to the begin of the next.
const APART_NS: i64 = 2_000_000;

/// The owner of a probe: its probes are removed and added together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Host,
    Namespace(usize),
    Group(usize),
}

struct Sampled {
    probe: Box<dyn Probe>,
    owner: Owner,
    /// The part of each round in which it is read.
    part: i64,
}

pub struct Sampler {
    interval: i64,
    probes: Vec<Sampled>,
    /// Of a round.
    parts: i64,
    namespaces: Vec<Namespace>,
    groups: Vec<Group>,
    places: Places,
    shared: Arc<Shared>,
    outbox: Outbox,
    tell: Tell,
    tick: Tick,
    clock: Clock,
    lateness: Lateness,
}

impl Sampler {
    /// Opens all sources; a missing source that the user named is an error, and one that was found
    /// is left out.
    pub fn open(
        options: &Options,
        clock: Clock,
        shared: Arc<Shared>,
        outbox: Outbox,
        tell: Tell,
    ) -> Result<Sampler> {
        let mut sampler = Sampler {
            interval: options.interval_ns,
            probes: Vec::new(),
            parts: 1,
            namespaces: Vec::new(),
            groups: Vec::new(),
            places: Places::default(),
            shared,
            outbox,
            tell,
            tick: Tick::new(clock.time(0)),
            clock,
            lateness: Lateness::default(),
        };
        let mountinfo = mounts::mountinfo();
        let place = sampler.places.index(HOST);
        sampler.add(Owner::Host, host::probes(place, &mountinfo));
        let picked = options.picked();
        sampler.add_network(HOST, None, &picked)?;
        for node in &options.nodes {
            match sampler.add_node(node, &picked, &mountinfo) {
                Err(error) if node.found => sampler.warn(format!("it is not sampled: {error}")),
                done => done?,
            }
        }
        for process in &options.processes {
            let place = sampler.places.index(&process.name);
            let probe = ProcessProbe::new(place, process.pid).map_err(|error| {
                Error::Options(format!("process {}={}: {error}", process.name, process.pid))
            })?;
            sampler.add(Owner::Host, vec![Box::new(probe)]);
            let cpus = sys::allowed_cpus(process.pid);
            sampler.shared.may_use(&process.name, cpus);
        }
        Ok(sampler)
    }

    /// Samples the CPU time of all processes that are found.
    pub fn sample_processes(&mut self, found: Receiver<Found>) {
        let probe = Box::new(ProcessesProbe::new(
            found,
            self.places.clone(),
            self.shared.clone(),
        ));
        self.add(Owner::Host, vec![probe]);
    }

    fn add_node(&mut self, node: &Node, picked: &Picked, mountinfo: &str) -> Result<()> {
        if let Some(path) = &node.cgroup {
            self.add_group(&node.name, path, mountinfo)?;
        }
        match &node.netns {
            Some(path) => self.add_network(&node.name, Some(path), picked),
            None => Ok(()),
        }
    }

    /// Adjacent probes go into different parts of the round, because slow ones are adjacent.
    fn add(&mut self, owner: Owner, probes: Probes) {
        for probe in probes {
            let part = i64::try_from(self.probes.len()).unwrap_or(0) % self.parts;
            self.probes.push(Sampled { probe, owner, part });
        }
    }

    fn add_group(&mut self, node: &str, path: &Path, mountinfo: &str) -> Result<()> {
        let place = self.places.index(node);
        let opened = Group::open(node, place, path, mountinfo);
        let (group, probes) = opened.map_err(|error| wrong(node, "cgroup", path, &error))?;
        self.shared.may_use(node, group.cpus());
        self.add(Owner::Group(self.groups.len()), probes);
        self.groups.push(group);
        Ok(())
    }

    fn add_network(&mut self, node: &str, netns: Option<&Path>, picked: &Picked) -> Result<()> {
        let network = Network {
            name: node.to_owned(),
            place: self.places.index(node),
            picked: picked.clone(),
            places: self.places.clone(),
        };
        let addresses = match netns {
            None => {
                let own = Path::new("/proc/self/ns/net");
                let opened = network.open(None);
                let (_, probes, addresses) =
                    opened.map_err(|error| wrong(node, "netns", own, &error))?;
                self.add(Owner::Host, probes);
                addresses
            }
            Some(path) => {
                let opened = Namespace::open(network, path);
                let (namespace, probes, addresses) =
                    opened.map_err(|error| wrong(node, "netns", path, &error))?;
                self.add(Owner::Namespace(self.namespaces.len()), probes);
                self.namespaces.push(namespace);
                addresses
            }
        };
        self.shared.lock().nodes.push(NodeState {
            name: node.to_owned(),
            addresses: addresses.iter().map(ToString::to_string).collect(),
            cores: sys::cpus(),
        });
        Ok(())
    }

    /// Samples until `stop` is set; `prompt` is called when this thread runs before others. A round that
    /// is late is not made up for: the next begins at its own time.
    pub fn run(mut self, stop: &AtomicBool, prompt: impl FnOnce() -> Result<()>) {
        self.divide();
        let mut due = sys::steady_ns();
        // The first round reports nothing yet and is the longest, because all processes are new. It
        // need not be on time.
        self.round(due);
        if !sys::be_prompt() {
            let said = "sampling runs at ordinary priority (CAP_SYS_NICE is missing, or real-time threads are not for \
                        its control group): on a busy host samples come late";
            self.shared.note(said.to_owned());
        }
        if let Err(error) = prompt() {
            self.warn(error.to_string());
        }
        let mut segment_ends = due + SEGMENT_NS;
        let mut last = false;
        while !last {
            let next = due + self.interval;
            let now = sys::steady_ns();
            let skipped = (now - next).max(0) / self.interval;
            self.lateness.missed += u64::try_from(skipped).unwrap_or(0);
            due = next + skipped * self.interval;
            sys::sleep_until(due);
            last = stop.load(Ordering::Relaxed);
            let begun = self.round(due);
            if begun >= segment_ends {
                segment_ends = begun + SEGMENT_NS;
                self.look_around();
                self.close_segment();
            }
        }
        for sampled in &mut self.probes {
            sampled.probe.end(&mut self.tick);
        }
        self.close_segment();
    }

    fn divide(&mut self) {
        self.parts = parts(self.probes.len(), self.interval);
        for (part, sampled) in (0..self.parts).cycle().zip(&mut self.probes) {
            sampled.part = part;
        }
    }

    /// Waits for each part's time; returns when the last of them began.
    fn round(&mut self, due: i64) -> i64 {
        let mut begun = due;
        for part in 0..self.parts {
            let due = due + part * APART_NS;
            sys::sleep_until(due);
            begun = sys::steady_ns();
            self.lateness.count(begun - due);
            self.sample(part);
        }
        self.lateness.rounds += 1;
        begun
    }

    fn sample(&mut self, part: i64) {
        if let Some(step) = self.clock.look() {
            let how = if step > 0 { "forward" } else { "back" };
            let seconds = step.abs() as f64 / 1e9;
            let said = format!(
                "the clock was set {how} by {seconds:.3} s at {} ns since the epoch; the record's times go on as if it was not",
                self.clock.time(sys::steady_ns())
            );
            (self.tell)(said.clone());
            self.shared.note(said);
        }
        let mut failed = Vec::new();
        let probes = self.probes.iter_mut().enumerate();
        for (at, sampled) in probes.filter(|(_, sampled)| sampled.part == part) {
            if let Err(error) = sampled.probe.sample(&mut self.tick) {
                failed.push((at, error));
            }
        }
        for (at, error) in failed.into_iter().rev() {
            let mut ended = self.probes.swap_remove(at);
            ended.probe.end(&mut self.tick);
            self.ended(&ended, &error);
        }
    }

    fn ended(&mut self, ended: &Sampled, error: &std::io::Error) {
        // The error of a control group's file after the group was removed.
        let gone = error.raw_os_error() == Some(libc::ENODEV);
        if let (Owner::Group(number), true) = (ended.owner, gone) {
            let group = &mut self.groups[number];
            if group.is_gone() {
                let what = group.what();
                self.warn(format!(
                    "{what} is gone; it is not sampled until it is there again"
                ));
            }
            return;
        }
        let about = ended.probe.about();
        self.warn(format!("{about}: {error}; it is not sampled from here on"));
    }

    /// Once a segment: is every namespace and group still the same?
    fn look_around(&mut self) {
        for number in 0..self.namespaces.len() {
            let turn = self.namespaces[number].look();
            let what = self.namespaces[number].what();
            self.turned(Owner::Namespace(number), turn, &what);
            let namespace = &self.namespaces[number];
            self.shared
                .has(namespace.node(), &namespace.new_addresses());
        }
        for number in 0..self.groups.len() {
            let turn = self.groups[number].look();
            let what = self.groups[number].what();
            let back = matches!(turn, Turn::Back(_));
            self.turned(Owner::Group(number), turn, &what);
            if back {
                let group = &self.groups[number];
                self.shared.may_use(group.node(), group.cpus());
            }
        }
    }

    fn turned(&mut self, owner: Owner, turn: Turn, what: &str) {
        match turn {
            Turn::Same => {}
            Turn::Gone => {
                self.let_go(owner);
                self.warn(format!("{what} is gone; its TCP counters and accept queues are not sampled until it is there again"));
            }
            Turn::Back(probes) => {
                // Probes of a group that was created again at once may not have been read since.
                self.let_go(owner);
                self.add(owner, probes);
                self.warn(format!(
                    "{what} is there again, and is sampled from here on"
                ));
            }
        }
    }

    fn let_go(&mut self, owner: Owner) {
        let tick = &mut self.tick;
        self.probes.retain_mut(|sampled| {
            let goes = sampled.owner == owner;
            if goes {
                sampled.probe.end(tick);
            }
            !goes
        });
    }

    fn warn(&self, sentence: String) {
        (self.tell)(sentence.clone());
        self.shared.note(sentence);
    }

    fn close_segment(&mut self) {
        let samples = std::mem::take(&mut self.tick.samples);
        self.tick.samples.reserve(samples.len());
        self.shared.lock().sampling = Sampling {
            cpu_ns: self.shared.cpu_ns(),
            ..self.lateness.tell()
        };
        let Some(end) = samples.iter().map(|sample| sample.time).max() else {
            return;
        };
        self.outbox.put(Segment {
            table: "samples.parquet",
            rows: samples.len() as u64,
            bytes: std::mem::size_of_val(samples.as_slice()),
            end,
            write: write(samples, self.places.all()),
        });
    }
}

/// The number of parts of a round: fewer if the next round begins too soon.
fn parts(probes: usize, interval: i64) -> i64 {
    let wanted = i64::try_from(probes.div_ceil(TOGETHER)).unwrap_or(i64::MAX);
    wanted.min(interval / APART_NS).max(1)
}

fn wrong(node: &str, what: &str, path: &Path, error: &std::io::Error) -> Error {
    let said = error.to_string();
    let said = said.split(" (os error").next().unwrap_or(&said);
    let path = path.display();
    Error::Options(format!("node {node}: {what} {path}: {said}"))
}

fn write(samples: Vec<Sample>, places: Vec<String>) -> Write {
    Box::new(move |path| {
        let names = Names {
            servers: places,
            ..Names::default()
        };
        let mut table: TableWriter<NumberedSample> = TableWriter::create(path)?;
        for (number, sample) in (0..).zip(samples) {
            table.push(NumberedSample { sample, number }, &names)?;
        }
        table.finish(&names).map(drop)
    })
}

/// Delays of the parts of rounds, in steps of 0.1 ms up to 0.1 s.
struct Lateness {
    steps: Vec<u64>,
    parts: u64,
    rounds: u64,
    max: i64,
    missed: u64,
}

const STEP_NS: i64 = 100_000;
const STEPS: usize = 1000;

impl Default for Lateness {
    fn default() -> Self {
        Lateness {
            steps: vec![0; STEPS + 1],
            parts: 0,
            rounds: 0,
            max: 0,
            missed: 0,
        }
    }
}

impl Lateness {
    fn count(&mut self, late: i64) {
        self.parts += 1;
        self.max = self.max.max(late);
        let step = usize::try_from(late / STEP_NS).unwrap_or(0).min(STEPS);
        self.steps[step] += 1;
    }

    /// The step's upper end, so that the true value is not above it.
    fn tell(&self) -> Sampling {
        let wanted = self.parts - self.parts / 100;
        let mut seen = 0;
        let step = self.steps.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        let p99 = (step.unwrap_or(0) as i64 + 1) * STEP_NS;
        Sampling {
            rounds: self.rounds,
            missed: self.missed,
            late_ns_p99: p99.min(self.max),
            late_ns_max: self.max,
            cpu_ns: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_told_by_its_99th_percentile() {
        let mut lateness = Lateness::default();
        for _ in 0..98 {
            lateness.count(20_000);
        }
        lateness.count(1_250_000);
        lateness.count(800_000_000);
        let told = lateness.tell();
        assert_eq!(
            (told.late_ns_p99, told.late_ns_max),
            (1_300_000, 800_000_000)
        );
    }

    #[test]
    fn a_round_has_as_many_parts_as_its_probes_need_and_its_interval_has_room_for() {
        assert_eq!(parts(0, 50_000_000), 1);
        assert_eq!(parts(9, 50_000_000), 3);
        assert_eq!(parts(37, 50_000_000), 13);
        assert_eq!(parts(3000, 50_000_000), 25);
        assert_eq!(parts(37, 5_000_000), 2);
    }
}
