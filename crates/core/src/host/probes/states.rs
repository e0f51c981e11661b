//! What the threads of a process do at a moment: `/proc/PID/stat`, and that of each thread.
//!
//! A server that answers nothing and uses no CPU is stopped, waits for a CPU, waits for a disk or
//! for memory, or sleeps until somebody else lets it go on. Only the states of its threads tell
//! these apart.

use std::io::Read;
use std::path::Path;

use crate::host::formats::process;
use crate::host::sys;

/// The most threads of a process that are read: reading one takes about five microseconds, and a
/// round must take less than one millisecond.
const THREADS: usize = 32;

/// So many threads are in each state that is no sleep, and what they have waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct States {
    /// They run, or wait for a CPU.
    pub runnable: u32,
    /// They wait in the kernel and cannot be interrupted: for a disk or for memory.
    pub blocked: u32,
    /// By a signal or by a debugger, which stop all threads of a process.
    pub stopped: u32,
    /// Threads that were not read, because their process has too many.
    pub unread: u32,
    /// How often all of its threads have waited for a page that was read from a disk.
    pub major_faults: u64,
    /// CPU time of the children that it has waited for.
    pub children_ns: i64,
}

impl States {
    pub fn add(&mut self, other: States) {
        self.runnable += other.runnable;
        self.blocked += other.blocked;
        self.stopped += other.stopped;
        self.unread += other.unread;
        self.major_faults += other.major_faults;
        self.children_ns += other.children_ns;
    }

    fn count(&mut self, state: u8) {
        match state {
            b'R' => self.runnable += 1,
            b'D' => self.blocked += 1,
            b'T' | b't' => self.stopped += 1,
            _ => {}
        }
    }
}

/// The states of the threads of a process now; None: it is gone, or cannot be read.
pub fn of(proc: &Path, pid: i32) -> Option<States> {
    let folder = proc.join(pid.to_string());
    let told = stat(&folder)?;
    let mut found = States {
        major_faults: told.major_faults,
        children_ns: sys::ticks_ns(told.children_ticks),
        ..States::default()
    };
    if told.threads <= 1 || told.threads > THREADS {
        found.count(told.state);
        found.unread = u32::try_from(told.threads.saturating_sub(1)).unwrap_or(u32::MAX);
        return Some(found);
    }
    let tasks = std::fs::read_dir(folder.join("task")).ok()?.flatten();
    for task in tasks.filter_map(|task| stat(&task.path())) {
        found.count(task.state);
    }
    Some(found)
}

struct Stat {
    state: u8,
    threads: usize,
    major_faults: u64,
    children_ticks: u64,
}

/// They stand in the first part of the text, so one reading is enough.
fn stat(folder: &Path) -> Option<Stat> {
    let mut buffer = [0; 512];
    let mut file = std::fs::File::open(folder.join("stat")).ok()?;
    let length = file.read(&mut buffer).ok()?;
    let found = process::parse(buffer.get(..length)?)?;
    Some(Stat {
        state: found.state,
        threads: found.threads,
        major_faults: found.major_faults,
        children_ticks: found.children_ticks,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::testing::Sleeper;
    use super::*;
    use std::process::Command;

    #[test]
    fn a_stopped_process_is_stopped_and_one_that_sleeps_does_nothing() {
        let child = Sleeper::start();
        let pid = i32::try_from(child.0.id()).unwrap();
        let proc = Path::new("/proc");
        let until = |wanted: States| {
            // How often it waited for its pages depends on the host.
            let found = || States {
                major_faults: 0,
                ..of(proc, pid).unwrap()
            };
            while found() != wanted {
                std::thread::yield_now();
            }
        };
        until(States::default());
        let signal = |name: &str| {
            let pid = pid.to_string();
            assert!(Command::new("kill")
                .args([name, &pid])
                .status()
                .unwrap()
                .success());
        };
        signal("-STOP");
        until(States {
            stopped: 1,
            ..States::default()
        });
        signal("-CONT");
        until(States::default());
        assert_eq!(of(proc, i32::MAX >> 3), None);
    }

    #[test]
    fn the_thread_that_reads_is_runnable() {
        let own = i32::try_from(std::process::id()).unwrap();
        let found = of(Path::new("/proc"), own).unwrap();
        assert!(found.runnable >= 1 || found.unread > 0, "{found:?}");
    }

    #[test]
    fn many_threads_are_not_read() {
        let folder = std::env::temp_dir().join(format!("tailrace-states-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("7")).unwrap();
        let fields = "1 7 7 0 -1 4194304 9 0 3 0 5 5 0 0 20 0 33 0 1";
        std::fs::write(folder.join("7/stat"), format!("7 (a) R (b) T {fields}")).unwrap();
        let found = of(&folder, 7).unwrap();
        assert_eq!(
            (found.stopped, found.unread, found.major_faults),
            (1, 32, 3)
        );
        std::fs::write(folder.join("7/stat"), "7 (cut").unwrap();
        assert_eq!(of(&folder, 7), None);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
