//! The recorder: starts its threads, tells them to stop, and waits for them.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::CapabilitySet;

use super::clock::Clock;
use super::options::{Options, HOST};
use super::packets::Packets;
use super::processes::{Found, Namespace, Processes};
use super::sampler::Sampler;
use super::segments::{Outbox, Shelf, Tell};
use super::state::{Shared, State};
use super::sys;
use crate::confine::capabilities;
use crate::error::{Error, Result};

/// How often the caller is asked whether to go on; each call wakes an interpreter.
const ASKED_EVERY: Duration = Duration::from_millis(200);

/// Messages of a running recorder.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// Everything is open and runs.
    Recording,
    /// Something went wrong that does not end the recording.
    Warning(String),
    /// No message; only asks whether to go on.
    Nothing,
}

/// Records into `folder`, an empty directory, until `go_on` returns false or the duration is over;
/// returns the state of the recording, which is also in the folder.
pub fn record(
    options: &Options,
    folder: &Path,
    go_on: &mut dyn FnMut(Said) -> Result<bool>,
) -> Result<State> {
    options.check()?;
    let clock = Clock::begin(options.epoch_ns);
    let begin = clock.time(sys::steady_ns());
    let shared = Arc::new(Shared::new(State {
        format: 1,
        begin,
        end: begin,
        interval_ns: options.interval_ns,
        ..State::default()
    }));
    let (warnings, warned) = channel();
    let (shelf, outbox, inbox) =
        Shelf::new(folder, options.keep_ns, shared.clone(), teller(&warnings));
    let (tell, found) = channel();
    let opening = || open(options, &clock, &shared, outbox, &warnings, (&tell, found));
    let (processes, packets, sampler) = stood_back(opening)?;
    shared.write(folder)?;
    // Each thread begins with what this one has then: less and less.
    let rights = Rights::of(options);
    let stop = Arc::new(AtomicBool::new(false));
    rights.keep(rights.sampling | CapabilitySet::SYS_NICE)?;
    let stopping = stop.clone();
    let sampling = spawn("tailrace-sample", move || {
        sampler.run(&stopping, || rights.keep(rights.sampling));
    })?;
    rights.keep(rights.sampling)?;
    let stopping = stop.clone();
    let following = match processes {
        Some(processes) => {
            let (shared, teller) = (shared.clone(), teller(&warnings));
            Some(spawn("tailrace-processes", move || {
                processes.follow(&tell, &stopping, &|sentence| {
                    shared.note(sentence.clone());
                    teller(sentence);
                });
            })?)
        }
        None => None,
    };
    rights.keep(CapabilitySet::empty())?;
    let stopping = stop.clone();
    let reading = match packets {
        Some(packets) => Some(spawn("tailrace-packets", move || packets.run(&stopping))?),
        None => None,
    };
    rights.keep_last()?;
    let writing = spawn("tailrace-write", move || shelf.run(&inbox))?;
    let asked = wait(options, &warned, go_on);
    stop.store(true, Ordering::Relaxed);
    // A thread that died has reported so on standard error; what the others recorded is kept.
    let _ = sampling.join();
    if let Some(following) = following {
        following.thread().unpark();
        let _ = following.join();
    }
    let _ = reading.map(thread::JoinHandle::join);
    let _ = writing.join();
    shared.lock().closed = true;
    let state = shared.lock().clone();
    let written = shared.write(folder);
    asked.and(written).map(|()| state)
}

/// What is needed when everything is open; docs/security.md says what for.
#[derive(Clone, Copy)]
struct Rights {
    sampling: CapabilitySet,
    /// To enter a namespace that is made again.
    at_times: CapabilitySet,
    /// For the caller's thread, which writes into folders of other users.
    last: CapabilitySet,
}

impl Rights {
    fn of(options: &Options) -> Rights {
        let when = |holds: bool, set| match holds {
            true => set,
            false => CapabilitySet::empty(),
        };
        let packets = options.packets.as_ref();
        let entered = packets.is_some_and(|packets| packets.netns().is_some());
        let sampled = options.nodes.iter().any(|node| node.netns.is_some());
        Rights {
            sampling: when(
                options.every_process,
                CapabilitySet::SYS_PTRACE | CapabilitySet::DAC_READ_SEARCH,
            ),
            at_times: when(entered, CapabilitySet::NET_RAW)
                | when(entered || sampled, CapabilitySet::SYS_ADMIN),
            last: when(options.keep_dac_override, CapabilitySet::DAC_OVERRIDE),
        }
    }

    /// Of this thread, and of those that it makes from now on.
    fn keep(self, effective: CapabilitySet) -> Result<()> {
        keep(effective, self.at_times | self.last)
    }

    fn keep_last(self) -> Result<()> {
        keep(self.last, CapabilitySet::empty())
    }
}

fn keep(effective: CapabilitySet, at_times: CapabilitySet) -> Result<()> {
    capabilities::keep(effective, at_times).map_err(|source| Error::Io {
        path: "capabilities".into(),
        source,
    })
}

/// Opening takes longest: it reads all processes, and the kernel creates a ring. Meanwhile this
/// thread has low priority.
fn stood_back<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let died = |_| {
        Err(Error::Io {
            path: "tailrace-open".into(),
            source: std::io::Error::other("the thread that opens died"),
        })
    };
    thread::scope(|scope| {
        let working = scope.spawn(|| {
            sys::stand_back();
            work()
        });
        working.join().unwrap_or_else(died)
    })
}

fn open(
    options: &Options,
    clock: &Clock,
    shared: &Arc<Shared>,
    outbox: Outbox,
    warnings: &Sender<String>,
    (tell, found): (&Sender<Found>, Receiver<Found>),
) -> Result<(Option<Processes>, Option<Packets>, Sampler)> {
    let mut wanted = options.packets.clone();
    let processes = options
        .every_process
        .then(|| first_look(options, wanted.as_mut(), shared, tell));
    let packets = match &wanted {
        Some(wanted) => Some(Packets::open(
            wanted,
            clock.clone(),
            shared.clone(),
            outbox.clone(),
            teller(warnings),
        )?),
        None => None,
    };
    let (shared, warnings) = (shared.clone(), teller(warnings));
    let mut sampler = Sampler::open(options, clock.clone(), shared, outbox, warnings)?;
    if processes.is_some() {
        sampler.sample_processes(found);
    }
    Ok((processes, packets, sampler))
}

/// The processes at the begin of the recording; servers get their names. The sampler reports a
/// namespace that cannot be opened.
fn first_look(
    options: &Options,
    packets: Option<&mut super::options::Packets>,
    shared: &Shared,
    tell: &Sender<Found>,
) -> Processes {
    let nodes = options.nodes.iter();
    let named = nodes.filter_map(|node| Some((node.name.as_str(), Some(node.netns.as_deref()?))));
    let namespaces = std::iter::once((HOST, None))
        .chain(named)
        .filter_map(|(name, path)| Namespace::open(name, path).ok());
    let mut processes = Processes::new(namespaces.collect(), options.picked())
        .in_containers(options.containers.clone());
    for new in processes.look() {
        // The sampler removes it when it begins.
        let _ = tell.send(new);
    }
    if let Some(packets) = packets {
        packets.decode.same_host = processes.addresses(packets.netns());
        if packets.netns().is_none() {
            packets.decode.leave_out = seen_as(&options.leave_out, &packets.decode.same_host);
        }
        let mut state = shared.lock();
        let servers = processes.servers(packets.netns());
        state.together = packets.unnamed(&servers, processes.together());
        state.servers = packets.name_servers(servers);
        state.same_host.clone_from(&packets.decode.same_host);
    }
    processes
}

/// The addresses at which packets of these listeners arrive: one without an address has all those of its host.
fn seen_as(listening: &[SocketAddr], host: &[IpAddr]) -> Vec<SocketAddr> {
    let all = |at: &SocketAddr| match at.ip().is_unspecified() {
        true => host.to_vec(),
        false => vec![at.ip()],
    };
    listening
        .iter()
        .flat_map(|at| all(at).into_iter().map(|ip| SocketAddr::new(ip, at.port())))
        .collect()
}

fn wait(
    options: &Options,
    warned: &Receiver<String>,
    go_on: &mut dyn FnMut(Said) -> Result<bool>,
) -> Result<()> {
    let begun = Instant::now();
    let mut said = Said::Recording;
    loop {
        let left = options.duration_ns.map_or(ASKED_EVERY, |ns| {
            Duration::from_nanos(ns.unsigned_abs()).saturating_sub(begun.elapsed())
        });
        if left.is_zero() || !go_on(said)? {
            return Ok(());
        }
        said = match warned.recv_timeout(left.min(ASKED_EVERY)) {
            Ok(sentence) => Said::Warning(sentence),
            Err(_) => Said::Nothing,
        };
    }
}

fn teller(to: &Sender<String>) -> Tell {
    let to = to.clone();
    Box::new(move |sentence| {
        // The receiver is gone when the recording ends; the sentence is in its notes as well.
        let _ = to.send(sentence);
    })
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<thread::JoinHandle<()>> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map_err(|source| Error::Io {
            path: name.into(),
            source,
        })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Of this thread, of `/proc/PID/stat`.
    fn nice() -> i32 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_, from_state) = stat.rsplit_once(')').unwrap();
        from_state
            .split_whitespace()
            .nth(16)
            .unwrap()
            .parse()
            .unwrap()
    }

    #[test]
    fn a_listener_without_an_address_is_seen_at_all_of_its_host() {
        let all = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        let host: Vec<IpAddr> = vec!["127.0.0.1".parse().unwrap(), "10.0.0.3".parse().unwrap()];
        let listening = all(&["0.0.0.0:9464", "10.0.0.9:80"]);
        assert_eq!(
            seen_as(&listening, &host),
            all(&["127.0.0.1:9464", "10.0.0.3:9464", "10.0.0.9:80"])
        );
    }

    #[test]
    fn the_opening_thread_has_low_priority_and_its_caller_does_not() {
        let before = nice();
        assert_eq!(stood_back(|| Ok(nice())).unwrap(), 10);
        assert_eq!(nice(), before);
    }
}
