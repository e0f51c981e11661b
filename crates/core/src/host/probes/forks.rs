//! The processes that began since the last round. The kernel gives numbers to processes and threads in
//! their order, and tells the last one in `/proc/loadavg`: so it is known which numbers are new, without
//! a list of all processes.

use std::io;

use super::{Source, Tick};
use crate::host::formats::words;
use crate::host::sys;

/// After the highest number, the kernel goes on with this one.
const LOWEST: i32 = 300;
/// So many new numbers are looked at: whether a number is that of a process costs less than a
/// microsecond.
const LOOKED_AT: usize = 1000;

pub struct Forks {
    source: Source,
    highest: i32,
    /// The last number that was given; None before the first reading.
    last: Option<i32>,
    /// Numbers of the last round, and whether each was that of a process.
    fresh: Vec<(i32, bool)>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Begun {
    /// Processes that were not there in the last round.
    pub new: Vec<i32>,
    /// Those that were new in the last round: they may run another program by now.
    pub again: Vec<i32>,
    /// Some numbers belong to no process: to threads, or to processes that have ended already.
    pub unseen: bool,
}

impl Forks {
    pub fn open() -> io::Result<Forks> {
        let highest = std::fs::read_to_string("/proc/sys/kernel/pid_max")?;
        Ok(Forks {
            source: Source::open("/proc/loadavg")?,
            highest: highest.trim().parse().unwrap_or(i32::MAX),
            last: None,
            fresh: Vec::new(),
        })
    }

    pub fn begun(&mut self, tick: &mut Tick) -> io::Result<Begun> {
        let text = tick.read(&self.source)?;
        let now = last_number(text.bytes());
        tick.done(text);
        let now = now.ok_or(io::ErrorKind::InvalidData)?;
        let before = self.last.replace(now).unwrap_or(now);
        let mut begun = Begun::default();
        // A process may get its number shortly before it is there.
        for (pid, was_there) in std::mem::take(&mut self.fresh) {
            match (is_process(pid), was_there) {
                (true, true) => begun.again.push(pid),
                (true, false) => begun.new.push(pid),
                (false, _) => begun.unseen = true,
            }
        }
        for pid in between(before, now, self.highest) {
            let is_there = is_process(pid);
            self.fresh.push((pid, is_there));
            if is_there {
                begun.new.push(pid);
            }
        }
        begun.unseen |= self.fresh.iter().any(|(_, is_there)| !is_there);
        Ok(begun)
    }
}

/// The text is `0.20 0.18 0.12 1/80 11206`.
fn last_number(text: &[u8]) -> Option<i32> {
    std::str::from_utf8(words(text).nth(4)?).ok()?.parse().ok()
}

/// The numbers after `before` up to `now`: the last ones, where they are too many.
fn between(before: i32, now: i32, highest: i32) -> Vec<i32> {
    let after = before.saturating_add(1);
    let (newest, older) = match now >= before {
        true => (after..=now, None),
        false => (LOWEST..=now, Some(after..=highest)),
    };
    let newest_first = newest.rev().chain(older.into_iter().flatten().rev());
    let mut numbers: Vec<i32> = newest_first.take(LOOKED_AT).collect();
    numbers.reverse();
    numbers
}

/// Threads have numbers, too, but no CPU clock of a process.
fn is_process(pid: i32) -> bool {
    sys::process_cpu_ns(pid).is_some()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::testing::Sleeper;
    use super::*;

    #[test]
    fn numbers_go_on_after_the_highest() {
        assert!(between(7, 7, 400).is_empty());
        assert_eq!(between(7, 9, 400), [8, 9]);
        assert_eq!(between(398, 301, 400), [399, 400, 300, 301]);
        let many = between(1, 5000, 32768);
        assert_eq!((many.len(), many[LOOKED_AT - 1]), (LOOKED_AT, 5000));
    }

    #[test]
    fn a_process_that_begins_is_seen_in_two_rounds_and_a_thread_is_not() {
        let mut tick = Tick::default();
        let mut forks = Forks::open().unwrap();
        forks.begun(&mut tick).unwrap();
        let child = Sleeper::start();
        let thread = std::thread::spawn(|| std::thread::sleep(std::time::Duration::from_millis(1)));
        let pid = i32::try_from(child.0.id()).unwrap();
        for seen in [(true, false), (false, true), (false, false)] {
            let begun = forks.begun(&mut tick).unwrap();
            let found = (begun.new.contains(&pid), begun.again.contains(&pid));
            assert_eq!(found, seen, "{begun:?}");
        }
        thread.join().unwrap();
    }

    #[test]
    fn a_cut_text_has_no_number() {
        assert_eq!(last_number(b"0.20 0.18 0.12 1/80 11206\n"), Some(11_206));
        assert_eq!(last_number(b"0.20 0.18 0.12"), None);
    }
}
