//! The recorder's side of the process that decodes packets: starts it, sends it the right sockets,
//! receives its messages, ends it, and starts it again if a packet has killed it.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use super::channel::{Channel, Frame};
use super::decoder::{Begin, Made, Order, Said};
use super::entrance::{Entrance, Sockets};
use super::{lives, refused, source, To, WAIT_MS};
use crate::error::{Error, Result};
use crate::host::clock::Clock;
use crate::host::options::Packets as Options;
use crate::host::segments::Segment;
use crate::host::sys;
use crate::whole;

/// It starts an interpreter, which takes some 50 ms, and seconds on a busy host.
const STARTING_MS: i32 = 60_000;
/// It decodes the packets in the ring: some 20 ms of packets.
const ENDING_MS: i32 = 10_000;
/// Time between a process that died and the next.
const PAUSE_NS: i64 = 1_000_000_000;
const DIED: &str = "times that decoding died of a packet: what was open then is missing";

pub struct Decoding {
    entrance: Entrance,
    /// For a decoder that follows one that died; None: the namespace is gone.
    sockets: Option<Sockets>,
    begin: Begin,
    running: Option<Running>,
    /// The report and the CPU time of those that died.
    before: (Option<serde_json::Value>, i64),
    /// When the next may be started.
    next: i64,
    to: To,
}

struct Running {
    channel: Channel,
    process: Child,
}

impl Decoding {
    pub fn open(options: &Options, clock: Clock, to: To) -> Result<Decoding> {
        let opened = Entrance::open(options.netns());
        let (entrance, sockets) = opened.map_err(|error| refused(options, &error))?;
        let begin = Begin {
            wanted: options.clone(),
            clock,
            source: source(options),
            made: Made::default(),
        };
        let running = start(&begin, &sockets)?;
        Ok(Decoding {
            entrance,
            sockets: Some(sockets),
            begin,
            running: Some(running),
            before: (None, 0),
            next: 0,
            to,
        })
    }

    pub fn run(mut self, stop: &AtomicBool) {
        sys::stand_back();
        while !stop.load(Ordering::Relaxed) {
            self.look_at_entrance();
            match &self.running {
                Some(running) if running.channel.wait(WAIT_MS) => self.hear(),
                Some(_) => {}
                None => self.start_again(),
            }
        }
        self.end();
    }

    fn look_at_entrance(&mut self) {
        for change in self.entrance.look() {
            self.to.warn(change.said);
            self.sockets = change.sockets;
            if let Some(running) = &self.running {
                // A dead process is noticed when its messages are read.
                let _ = running
                    .channel
                    .send(&Order::Lead, &[], self.sockets.as_ref());
            }
        }
    }

    fn hear(&mut self) {
        let Some(running) = &self.running else {
            return;
        };
        match running.channel.receive() {
            Ok(Some(frame)) => self.heard(frame),
            _ => self.died(),
        }
    }

    fn heard(&mut self, frame: Frame<Said>) {
        let bytes = frame.bytes;
        match frame.head {
            Said::Segment { table, rows, end } => self.to.outbox.put(Segment {
                table: table.name(),
                rows,
                bytes: bytes.len(),
                end,
                write: Box::new(move |path| whole::write(path, &[], &bytes)),
            }),
            Said::Report(report, cpu_ns) => {
                let report = match self.before.0.clone() {
                    Some(before) => lives::together(before, report),
                    None => report,
                };
                self.to.shared.lock().packets = Some(report);
                self.to.shared.decoding_used(self.before.1 + cpu_ns);
            }
            Said::Note(sentence) => self.to.warn(sentence),
            Said::Lost(what, count) => self.to.shared.lose(&what, count),
            Said::Made(made) => self.begin.made = made,
            Said::Ready | Said::Refused(_) => {}
        }
    }

    fn died(&mut self) {
        let how = self.running.take().map(ended).unwrap_or_default();
        self.to.shared.lose(DIED, 1);
        self.before.0.clone_from(&self.to.shared.lock().packets);
        self.before.1 = self.to.shared.decoding_ns();
        let what = format!(
            "{}: what decodes packets has died ({how}): a fault of Tailrace; it is started again",
            self.begin.source
        );
        self.to.warn(what);
        self.next = sys::steady_ns() + PAUSE_NS;
    }

    fn start_again(&mut self) {
        let longest = sys::steady_ns() + i64::from(WAIT_MS) * 1_000_000;
        sys::sleep_until(self.next.min(longest));
        let Some(sockets) = &self.sockets else {
            return;
        };
        if sys::steady_ns() < self.next {
            return;
        }
        match start(&self.begin, sockets) {
            Ok(running) => self.running = Some(running),
            Err(error) => {
                let said = error.to_string();
                if !self.to.shared.lock().notes.contains(&said) {
                    self.to.warn(said);
                }
                self.next = sys::steady_ns() + PAUSE_NS;
            }
        }
    }

    fn end(mut self) {
        if let Some(running) = &self.running {
            let _ = running.channel.send(&Order::Stop, &[], None);
        }
        while let Some(running) = &self.running {
            if !running.channel.wait(ENDING_MS) {
                self.to.warn(format!(
                    "{}: what decodes packets did not end: its last second is missing",
                    self.begin.source
                ));
                break;
            }
            match running.channel.receive() {
                Ok(Some(frame)) => self.heard(frame),
                Ok(None) => break,
                Err(_) => {
                    self.to.shared.lose(DIED, 1);
                    break;
                }
            }
        }
        self.running.take().map(ended);
    }
}

/// How the process ended; it is ended if it has not.
fn ended(mut running: Running) -> String {
    drop(running.channel);
    if let Ok(None) = running.process.try_wait() {
        let _ = running.process.kill();
    }
    let status = running.process.wait();
    status.map_or_else(|error| error.to_string(), |status| status.to_string())
}

fn start(begin: &Begin, sockets: &Sockets) -> Result<Running> {
    let wrong = |error: &io::Error| Error::Options(format!("what decodes packets: {error}"));
    let running = spawn(&begin.wanted.decoder).map_err(|error| wrong(&error))?;
    let order = Order::Begin(Box::new(begin.clone()));
    let said = running
        .channel
        .send(&order, &[], Some(sockets))
        .and_then(|()| match running.channel.wait(STARTING_MS) {
            true => running.channel.receive(),
            false => Err(io::ErrorKind::TimedOut.into()),
        });
    let first = said.map(|frame| frame.map(|frame| frame.head));
    if let Ok(Some(Said::Ready)) = first {
        return Ok(running);
    }
    let how = ended(running);
    Err(match first {
        Ok(Some(Said::Refused(sentence))) => Error::Options(sentence),
        Err(error) => wrong(&error),
        Ok(_) => wrong(&io::Error::other(format!("it ended at once ({how})"))),
    })
}

fn spawn(command: &[String]) -> io::Result<Running> {
    let Some((program, words)) = command.split_first() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no command"));
    };
    let (channel, other) = Channel::pair()?;
    let process = Command::new(program)
        .args(words)
        .stdin(Stdio::from(other))
        .stdout(Stdio::null())
        // Ctrl-C must reach only the recorder, which ends this process.
        .process_group(0)
        .spawn()?;
    Ok(Running { channel, process })
}
