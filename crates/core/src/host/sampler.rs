//! The sampling thread: all probes, every interval, on a steady beat.
//!
//! A round is read in parts with pauses between them, each probe always in the same part: whoever wants this CPU meanwhile
//! waits for one part, not for all of them.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::Arc;

use super::clock::Clock;
use super::listeners::Asker;
use super::options::{Options, HOST};
use super::places::Places;
use super::probes::cgroup::Cgroup;
use super::probes::network::{QueueProbe, TcpProbe};
use super::probes::process::ProcessProbe;
use super::probes::processes::ProcessesProbe;
use super::probes::{host, Probe, Source, Tick};
use super::processes::Found;
use super::segments::{Outbox, Segment, Tell, Write, SEGMENT_NS};
use super::state::{NodeState, Sampling, Shared};
use super::sys;
use crate::error::{Error, Result};
use crate::record::rows::{NumberedSample, Sample};
use crate::record::writer::TableWriter;
use crate::record::Names;

/// Probes of a part of a round, which so takes 20 to 80 µs, and rarely more than 130.
const TOGETHER: usize = 3;
/// From the begin of a part to the begin of the next.
const APART_NS: i64 = 2_000_000;

/// A probe, the node whose namespace it holds open, and the control group whose file it reads, for a person.
struct Sampled {
    probe: Box<dyn Probe>,
    node: Option<usize>,
    group: Option<String>,
    /// Which part of each round it is read in.
    part: i64,
}

impl Sampled {
    fn alone(probe: Box<dyn Probe>) -> Sampled {
        Sampled {
            probe,
            node: None,
            group: None,
            part: 0,
        }
    }

    fn ended(&self, error: &std::io::Error) -> String {
        // What a file of a control group says when the group was removed.
        let gone = error.raw_os_error() == Some(libc::ENODEV);
        match self.group.as_ref().filter(|_| gone) {
            Some(group) => format!("{group} is gone; it is not sampled from here on"),
            None => {
                let about = self.probe.about();
                format!("{about}: {error}; it is not sampled from here on")
            }
        }
    }
}

/// A network namespace that probes look into: they keep it alive, so its removal must be noticed.
struct Namespace {
    node: String,
    path: PathBuf,
    inode: u64,
    gone: bool,
}

pub struct Sampler {
    interval: i64,
    probes: Vec<Sampled>,
    namespaces: Vec<Namespace>,
    places: Places,
    shared: Arc<Shared>,
    outbox: Outbox,
    tell: Tell,
    tick: Tick,
    clock: Clock,
    lateness: Lateness,
}

impl Sampler {
    /// Opens everything there is to sample; what the user named and is not there is an error.
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
            namespaces: Vec::new(),
            places: Places::default(),
            shared,
            outbox,
            tell,
            tick: Tick::new(clock.time(0)),
            clock,
            lateness: Lateness::default(),
        };
        let mountinfo = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let place = sampler.places.index(HOST);
        for probe in host::probes(place, &mountinfo) {
            sampler.probes.push(Sampled::alone(probe));
        }
        sampler.add_network(HOST, None, &options.ports)?;
        for node in &options.nodes {
            if let Some(path) = &node.cgroup {
                let place = sampler.places.index(&node.name);
                let found = Cgroup::find(path, &mountinfo);
                let probes = found.and_then(|found| Ok((found.cpus(), found.probes(place)?)));
                let (cpus, probes) =
                    probes.map_err(|error| wrong(&node.name, "cgroup", path, &error))?;
                sampler.shared.may_use(&node.name, cpus);
                let group = format!("the control group {} of {}", path.display(), node.name);
                sampler
                    .probes
                    .extend(probes.into_iter().map(|probe| Sampled {
                        group: Some(group.clone()),
                        ..Sampled::alone(probe)
                    }));
            }
            if let Some(path) = &node.netns {
                sampler.add_network(&node.name, Some(path), &options.ports)?;
            }
        }
        for process in &options.processes {
            let place = sampler.places.index(&process.name);
            let probe = ProcessProbe::new(place, process.pid).map_err(|error| {
                Error::Options(format!("process {}={}: {error}", process.name, process.pid))
            })?;
            sampler.probes.push(Sampled::alone(Box::new(probe)));
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
        self.probes.push(Sampled::alone(probe));
    }

    fn add_network(&mut self, node: &str, netns: Option<&Path>, ports: &[u16]) -> Result<()> {
        let opened = sys::in_namespace(netns, || {
            let netstat = Source::open("/proc/thread-self/net/netstat")?;
            Ok((netstat, Asker::new()?, sys::addresses()?))
        });
        let path = netns.unwrap_or(Path::new("/proc/self/ns/net"));
        let (netstat, asker, addresses) =
            opened.map_err(|error| wrong(node, "netns", path, &error))?;
        let index = netns.map(|path| {
            let inode = std::fs::metadata(path).map_or(0, |found| found.ino());
            self.namespaces.push(Namespace {
                node: node.to_owned(),
                path: path.to_owned(),
                inode,
                gone: false,
            });
            self.namespaces.len() - 1
        });
        let place = self.places.index(node);
        let queues = QueueProbe::new(asker, node, ports, self.places.clone());
        for probe in [
            Box::new(TcpProbe::new(place, netstat, node)) as Box<dyn Probe>,
            Box::new(queues),
        ] {
            self.probes.push(Sampled {
                node: index,
                ..Sampled::alone(probe)
            });
        }
        self.shared.lock().nodes.push(NodeState {
            name: node.to_owned(),
            addresses: addresses.iter().map(ToString::to_string).collect(),
            cores: sys::cpus(),
        });
        Ok(())
    }

    /// Samples until told to stop. A round that is late is not made up for: the next begins at its own time.
    pub fn run(mut self, stop: &AtomicBool) {
        let parts = self.divide();
        let mut due = sys::steady_ns();
        // The first round tells nothing yet, and is the longest: all processes are new. It need not be prompt.
        self.round(due, parts);
        if !sys::be_prompt() {
            let said = "sampling runs at ordinary priority (CAP_SYS_NICE is missing, or real-time threads are not for \
                        its control group): on a busy host samples come late";
            self.shared.note(said.to_owned());
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
            let begun = self.round(due, parts);
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

    /// Gives each probe its part of a round; how many there are. Neighbours go apart: those that take long are side by side.
    fn divide(&mut self) -> i64 {
        let parts = parts(self.probes.len(), self.interval);
        for (part, sampled) in (0..parts).cycle().zip(&mut self.probes) {
            sampled.part = part;
        }
        parts
    }

    /// Waits for each part's time; when the last of them began.
    fn round(&mut self, due: i64, parts: i64) -> i64 {
        let mut begun = due;
        for part in 0..parts {
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
            let sentence = self.probes.swap_remove(at).ended(&error);
            let told = self.shared.lock().notes.contains(&sentence);
            if !told {
                self.warn(sentence);
            }
        }
    }

    /// Once a segment: is every namespace still the one it was?
    fn look_around(&mut self) {
        let mut gone = Vec::new();
        for (index, namespace) in self.namespaces.iter_mut().enumerate() {
            let now = std::fs::metadata(&namespace.path).map(|found| found.ino());
            if !namespace.gone && now.ok() != Some(namespace.inode) {
                namespace.gone = true;
                gone.push((index, namespace.node.clone(), namespace.path.clone()));
            }
        }
        for (index, node, path) in gone {
            // The open files hold the namespace; it shall go.
            self.probes.retain(|sampled| sampled.node != Some(index));
            let path = path.display();
            self.warn(format!("the network namespace {path} of {node} is gone; its TCP counters and accept queues are not sampled from here on"));
        }
    }

    fn warn(&self, sentence: String) {
        (self.tell)(sentence.clone());
        self.shared.note(sentence);
    }

    fn close_segment(&mut self) {
        let samples = std::mem::take(&mut self.tick.samples);
        self.tick.samples.reserve(samples.len());
        self.shared.lock().sampling = self.lateness.tell();
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

/// Into how many parts a round of so many probes is divided: fewer where the next round begins too soon.
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

/// How late the parts of rounds began, in steps of 0.1 ms up to 0.1 s.
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
            cpu_ns: sys::own_cpu_ns(),
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
