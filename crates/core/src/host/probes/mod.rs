//! Sampling: a probe reads one source of the kernel and reports the changes since its last reading.
//!
//! Files stay open and are read in place, because opening costs more than reading. Each probe takes
//! its own times, so the interval of a sample is the actual time between two readings of that
//! source.

pub mod cgroup;
mod forks;
mod groups;
pub mod host;
mod members;
pub mod network;
pub mod pressure;
pub mod process;
pub mod processes;
mod reaped;
mod states;
pub mod throttled;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::host::sys;
use crate::record::rows::Sample;

/// Reads one source. An error ends this probe, because its source is gone.
pub trait Probe: Send {
    fn sample(&mut self, into: &mut Tick) -> io::Result<()>;
    /// Reports what is still pending: this was the last round.
    fn end(&mut self, _into: &mut Tick) {}
    /// The subject of an error, for a message.
    fn about(&self) -> String;
}

/// The samples of one round.
#[derive(Default)]
pub struct Tick {
    pub samples: Vec<Sample>,
    /// Connections that the kernel refused in this round.
    pub alarms: Alarms,
    /// The Unix time at zero of the steady clock.
    epoch: i64,
    buffer: Vec<u8>,
}

/// Possible first signs of a VLRT cluster, over all namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alarms {
    pub listen_drops: u64,
    pub syn_retransmits: u64,
    /// Listeners whose accept queue is at its limit.
    pub queues_full: u64,
}

/// The interval of a sample: it ends at `end`, by the steady clock.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub end: i64,
    pub ns: i64,
}

impl Span {
    /// `part` nanoseconds of this time as a share.
    pub fn share(self, part: u64) -> f64 {
        part as f64 / self.ns.max(1) as f64
    }
}

impl Tick {
    pub fn new(epoch: i64) -> Tick {
        Tick {
            epoch,
            ..Tick::default()
        }
    }

    pub fn say(&mut self, place: u32, metric: &'static str, span: Span, value: f64) {
        self.samples.push(Sample {
            time: self.epoch + span.end,
            interval: span.ns,
            place,
            metric,
            value,
        });
    }

    /// Adds CPU time that a place used since a time until now to the samples of it in this time, evenly. Returns the
    /// part that belongs to the time after its last sample, or all of it if none of them is left here.
    pub fn spread(&mut self, place: u32, metric: &'static str, since: i64, used: i64) -> i64 {
        let (begin, now) = (self.epoch + since, self.epoch + sys::steady_ns());
        let within = |sample: &Sample| {
            let overlap = sample.time - begin.max(sample.time - sample.interval);
            let its = sample.place == place && sample.metric == metric && sample.interval > 0;
            (its && overlap > 0).then_some(overlap)
        };
        let last = self.samples.iter().rev().find(|one| within(one).is_some());
        let last = last.map_or(begin, |last| last.time);
        let covered: i64 = self.samples.iter().filter_map(within).sum();
        let rate = used as f64 / (covered + now - last).max(1) as f64;
        let mut rest = used as f64;
        for sample in &mut self.samples {
            if let Some(overlap) = within(sample) {
                sample.value += rate * overlap as f64 / sample.interval as f64;
                rest -= rate * overlap as f64;
            }
        }
        rest as i64
    }

    /// The current text of `source`.
    pub fn read(&mut self, source: &Source) -> io::Result<Text> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let at = sys::steady_ns();
        let length = source.read(&mut buffer)?;
        Ok(Text { buffer, length, at })
    }

    /// Returns the memory of a text for reuse.
    pub fn done(&mut self, text: Text) {
        self.buffer = text.buffer;
    }
}

pub struct Text {
    buffer: Vec<u8>,
    length: usize,
    /// When it was read, by the steady clock.
    pub at: i64,
}

impl Text {
    pub fn bytes(&self) -> &[u8] {
        self.buffer.get(..self.length).unwrap_or_default()
    }
}

/// A file of the kernel, kept open.
pub struct Source {
    file: File,
    of_lines: bool,
}

impl Source {
    /// A file that the kernel returns as a whole: a reading that leaves room was the last.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Source> {
        Ok(Source {
            file: File::open(path)?,
            of_lines: false,
        })
    }

    /// A file that the kernel returns in as many lines as a page holds: only an empty reading was
    /// the last.
    pub fn open_lines(path: impl AsRef<Path>) -> io::Result<Source> {
        let source = Source::open(path)?;
        Ok(Source {
            of_lines: true,
            ..source
        })
    }

    fn read(&self, into: &mut Vec<u8>) -> io::Result<usize> {
        let mut length = 0;
        loop {
            if into.len() < length + 4096 {
                into.resize(length + 16_384, 0);
            }
            let room = into.get_mut(length..).unwrap_or_default();
            let got = self.file.read_at(room, length as u64)?;
            let last = got == 0 || got < room.len() && !self.of_lines;
            length += got;
            if last {
                return Ok(length);
            }
        }
    }
}

/// The last value of a counter, and when it was read (steady clock).
#[derive(Clone, Copy, Debug)]
pub struct Before<T>(Option<(i64, T)>);

impl<T> Default for Before<T> {
    fn default() -> Self {
        Before(None)
    }
}

impl<T: Copy> Before<T> {
    /// The change, and the time since; None the first time.
    pub fn replace(&mut self, at: i64, now: T) -> Option<(T, Span)> {
        let (then, before) = self.0.replace((at, now))?;
        let ns = at - then;
        (ns > 0).then_some((before, Span { end: at, ns }))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod testing {
    use super::*;
    use std::path::PathBuf;
    use std::process::{Child, Command};

    /// A process that sleeps until its test ends.
    pub struct Sleeper(pub Child);

    impl Sleeper {
        pub fn start() -> Sleeper {
            Sleeper(Command::new("sleep").arg("60").spawn().unwrap())
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// A file of the kernel with content from a test.
    pub struct Fake(pub PathBuf);

    impl Fake {
        pub fn new(name: &str, text: &str) -> Fake {
            let path = std::env::temp_dir().join(format!("tailrace-{}-{name}", std::process::id()));
            std::fs::write(&path, text).unwrap();
            Fake(path)
        }
        pub fn say(&self, text: &str) {
            std::fs::write(&self.0, text).unwrap();
        }
    }

    impl Drop for Fake {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    /// The current output of a probe: (metric, value).
    pub fn said(probe: &mut dyn Probe) -> Vec<(&'static str, f64)> {
        let mut tick = Tick::default();
        probe.sample(&mut tick).unwrap();
        tick.samples
            .iter()
            .map(|sample| (sample.metric, sample.value))
            .collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::testing::Fake;
    use super::*;

    #[test]
    fn a_long_file_is_read_whole_and_again() {
        let fake = Fake::new("long", &"x".repeat(70_000));
        let source = Source::open(&fake.0).unwrap();
        let mut tick = Tick::default();
        for _ in 0..2 {
            let text = tick.read(&source).unwrap();
            assert_eq!(text.bytes().len(), 70_000);
            tick.done(text);
        }
        fake.say("short");
        assert_eq!(tick.read(&source).unwrap().bytes(), b"short");
    }

    #[test]
    fn what_was_used_before_it_was_known_is_spread_over_the_samples_of_that_time() {
        let now = sys::steady_ns();
        let mut tick = Tick::default();
        for (end, place) in [(40, 0), (60, 0), (60, 1), (80, 0)] {
            let span = Span {
                end: now - 100_000_000 + end * 1_000_000,
                ns: 20_000_000,
            };
            tick.say(place, "cpu_busy", span, 0.25);
        }
        // Since the middle of the second sample: 30 ms in samples, and 20 ms and more until now.
        let rest = tick.spread(0, "cpu_busy", now - 50_000_000, 25_000_000);
        let values: Vec<f64> = tick.samples.iter().map(|sample| sample.value).collect();
        assert_eq!((values[0], values[2]), (0.25, 0.25));
        assert!((rest as f64 + (values[1] + values[3] - 0.5) * 20e6 - 25e6).abs() < 2.0);
        assert!((values[3] - 0.25 - 2.0 * (values[1] - 0.25)).abs() < 1e-6 && rest >= 10_000_000);
        assert_eq!(tick.spread(2, "cpu_busy", now, 7), 7);
    }

    #[test]
    fn an_interval_is_what_really_passed() {
        let mut before = Before::default();
        assert!(before.replace(10, 1).is_none());
        let (value, span) = before.replace(25, 2).unwrap();
        assert_eq!((value, span.end, span.ns), (1, 25, 15));
        assert!(before.replace(25, 3).is_none());
    }
}
