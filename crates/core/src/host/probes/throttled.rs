//! The share of time in which a group's quota withheld the CPU.
//!
//! The kernel counts a wait when it ends, some periods after it began: a thread that ran on for a
//! tick after the quota was used up first pays that back. An increase is therefore assigned to the
//! time before it, back to the previous increase.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use super::{Before, Probe, Source, Span, Tick};
use crate::host::formats::cgroup::{period_ns, throttled, Throttled};

const METRIC: &str = "cpu_throttled";
/// The kernel's default.
const PERIOD_NS: u64 = 100_000_000;
/// The longest delay of a report: a wait that has not ended by then counts from then on.
const HELD_NS: i64 = 1_000_000_000;

pub struct ThrottledProbe {
    place: u32,
    source: Source,
    /// `cpu.stat`.
    path: PathBuf,
    before: Before<()>,
    /// When the last increase was.
    added: Option<Throttled>,
    /// What its period was then.
    period_ns: u64,
    /// Intervals since then that are not reported yet, the oldest first.
    held: VecDeque<Span>,
}

impl ThrottledProbe {
    pub fn open(place: u32, path: &Path) -> io::Result<Self> {
        Ok(ThrottledProbe {
            place,
            source: Source::open(path)?,
            period_ns: period_of(path),
            path: path.to_owned(),
            before: Before::default(),
            added: None,
            held: VecDeque::new(),
        })
    }

    fn add(&mut self, span: Span, now: Throttled, into: &mut Tick) {
        self.held.push_back(span);
        let then = *self.added.get_or_insert(now);
        if now.ns > then.ns {
            self.added = Some(now);
            // The kernel counts it on each CPU, but over all of them it is no longer than the
            // periods with a wait.
            let periods = now.periods.saturating_sub(then.periods).max(1);
            let before = std::mem::replace(&mut self.period_ns, period_of(&self.path));
            let longest = periods.saturating_mul(before.max(self.period_ns));
            self.tell((now.ns - then.ns).min(longest), into);
        }
        while let Some(old) = self.held.front().copied() {
            if span.end - old.end < HELD_NS {
                break;
            }
            self.held.pop_front();
            into.say(self.place, METRIC, old, 0.0);
        }
    }

    /// Reports all held intervals; the last `waited` nanoseconds of them were a wait.
    fn tell(&mut self, mut waited: u64, into: &mut Tick) {
        while let Some(span) = self.held.pop_back() {
            let part = waited.min(u64::try_from(span.ns).unwrap_or(0));
            into.say(self.place, METRIC, span, span.share(part));
            waited -= part;
        }
    }
}

/// The current quota, beside `cpu.stat`, because it may be set or removed at any time.
fn period_of(cpu_stat: &Path) -> u64 {
    let files = ["cpu.cfs_period_us", "cpu.max"].map(|name| cpu_stat.with_file_name(name));
    let mut texts = files.iter().filter_map(|file| std::fs::read(file).ok());
    texts.find_map(|text| period_ns(&text)).unwrap_or(PERIOD_NS)
}

impl Probe for ThrottledProbe {
    fn sample(&mut self, into: &mut Tick) -> io::Result<()> {
        let text = into.read(&self.source)?;
        if let Some(now) = throttled(text.bytes()) {
            match self.before.replace(text.at, ()) {
                Some(((), span)) => self.add(span, now, into),
                None => self.added = Some(now),
            }
        }
        into.done(text);
        Ok(())
    }

    fn end(&mut self, into: &mut Tick) {
        self.tell(0, into);
    }

    fn about(&self) -> String {
        self.path.display().to_string()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::testing::{said, Fake};
    use super::*;

    const MS: i64 = 1_000_000;

    /// The reports of rounds of 50 ms after which so many milliseconds, and periods, have been
    /// waited for: the round's number and the share, in the order of time.
    fn told(waited_ms: &[u64], periods: &[u64]) -> Vec<(i64, f64)> {
        let fake = Fake::new("waits", "throttled_time 0\n");
        let mut probe = ThrottledProbe::open(0, &fake.0).unwrap();
        let mut tick = Tick::default();
        probe.added = Some(Throttled::default());
        for (round, (ms, periods)) in (1..).zip(waited_ms.iter().zip(periods)) {
            let span = Span {
                end: round * 50 * MS,
                ns: 50 * MS,
            };
            let now = Throttled {
                ns: ms * 1_000_000,
                periods: *periods,
            };
            probe.add(span, now, &mut tick);
        }
        probe.end(&mut tick);
        let mut told: Vec<_> = tick
            .samples
            .iter()
            .map(|sample| (sample.time / (50 * MS), sample.value))
            .collect();
        told.sort_by_key(|(round, _)| *round);
        told
    }

    #[test]
    fn a_wait_is_attributed_to_the_time_in_which_it_happened() {
        let shares: Vec<f64> = told(&[0, 0, 0, 120, 120, 145], &[0, 1, 2, 2, 2, 3])
            .iter()
            .map(|(_, share)| *share)
            .collect();
        assert_eq!(shares, [0.0, 0.4, 1.0, 1.0, 0.0, 0.5]);
    }

    #[test]
    fn no_wait_is_longer_than_the_periods_that_it_lasted_however_many_cpus_waited() {
        let shares = told(&[0, 0, 0, 800], &[0, 0, 0, 1]);
        assert_eq!(shares, [(1, 0.0), (2, 0.0), (3, 1.0), (4, 1.0)]);
    }

    #[test]
    fn every_round_is_reported_once_and_soon() {
        let waited: Vec<u64> = (0..100)
            .map(|round| if round < 60 { 0 } else { 2500 })
            .collect();
        let rounds = told(&waited, &[0; 100]);
        let numbers: Vec<i64> = rounds.iter().map(|(round, _)| *round).collect();
        assert_eq!(numbers, (1..=100).collect::<Vec<_>>());
        assert!(rounds.iter().all(|(_, share)| (0.0..=1.0).contains(share)));
    }

    #[test]
    fn an_unreadable_file_gives_no_values() {
        let fake = Fake::new("cpu.stat", "throttled_time 0\n");
        let mut probe = ThrottledProbe::open(0, &fake.0).unwrap();
        assert_eq!(said(&mut probe), []);
        crate::host::sys::sleep_until(crate::host::sys::steady_ns() + 1_000_000);
        fake.say("throttled_time 99999999999\n");
        assert_eq!(said(&mut probe), [("cpu_throttled", 1.0)]);
        fake.say("no such line\n");
        assert_eq!(said(&mut probe), []);
    }
}
