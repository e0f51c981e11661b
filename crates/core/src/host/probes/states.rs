//! What the threads of a process do at a moment: `/proc/PID/stat`, and that of each thread.
//!
//! A server that answers nothing and uses no CPU is stopped, waits for a CPU, waits for a disk or
//! for memory, or sleeps until somebody else lets it go on. Only the states of its threads tell
//! these apart, and the function of the kernel in which a thread waits (`/proc/PID/wchan`).

use std::io::Read;
use std::path::Path;

use crate::host::formats::process;
use crate::host::mounts;
use crate::host::sys;

/// The most threads of a process that are read: reading one takes about five microseconds, and a
/// round must take less than one millisecond.
const THREADS: usize = 32;
/// A thread of a frozen control group (`docker pause`) of version 2 waits in one of these.
const FROZEN: [&str; 2] = ["do_freezer_trap", "get_signal"];
/// Where version 1 has the state of such groups. A thread that slept there keeps its place in the kernel.
const FREEZER: &str = "/sys/fs/cgroup/freezer";
/// A thread waits for a lock on a file in a function with one of these in its name (flock(2), fcntl(2)).
const FILE_LOCK: [&str; 3] = ["lock_inode_wait", "lock_file_wait", "fcntl_setlk"];
/// A thread writes to a pipe that is full, because nobody reads it.
const PIPE: [&str; 2] = ["pipe_write", "pipe_wait_writable"];

/// So many threads are in each state that is no sleep, and what they have waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct States {
    /// They run, or wait for a CPU.
    pub runnable: u32,
    /// They wait in the kernel and cannot be interrupted: for a disk or for memory.
    pub blocked: u32,
    /// By a signal, by a debugger or with a frozen control group, which stop all threads of a process.
    pub stopped: u32,
    /// Processes of which a thread waits for a lock on a file, or writes to a full pipe, while none runs.
    pub file_locked: u32,
    pub pipe_full: u32,
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
        self.file_locked += other.file_locked;
        self.pipe_full += other.pipe_full;
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

    /// A thread of this process waits in a function of the kernel.
    fn waits_in(&mut self, function: &str) {
        let is_one = |names: &[&str]| u32::from(names.iter().any(|name| function.contains(name)));
        self.file_locked = self.file_locked.max(is_one(&FILE_LOCK));
        self.pipe_full = self.pipe_full.max(is_one(&PIPE));
    }
}

/// The states of the threads of a process now; None: it is gone, or cannot be read.
pub fn of(proc: &Path, pid: i32) -> Option<States> {
    let folder = proc.join(pid.to_string());
    let told = stat(&folder)?;
    let waits = waits_at(&folder, told.state);
    let mut found = States {
        major_faults: told.major_faults,
        children_ns: sys::ticks_ns(told.children_ticks),
        ..States::default()
    };
    if !waits.is_empty() {
        let freezer = || mounts::below(mounts::root(), Path::new(FREEZER));
        let frozen = FROZEN.contains(&waits.as_str());
        if frozen || told.state == b'D' && is_frozen(&folder, &freezer()) {
            found.stopped = u32::try_from(told.threads.max(1)).unwrap_or(u32::MAX);
            return Some(found);
        }
        found.waits_in(&waits);
    }
    if told.threads <= 1 || told.threads > THREADS {
        found.count(told.state);
        found.unread = u32::try_from(told.threads.saturating_sub(1)).unwrap_or(u32::MAX);
        return Some(found);
    }
    let tasks = std::fs::read_dir(folder.join("task")).ok()?.flatten();
    let tasks: Vec<_> = tasks
        .filter_map(|task| Some((stat(&task.path())?.state, task.path())))
        .collect();
    for (state, _) in &tasks {
        found.count(*state);
    }
    // While a thread runs, the process does not wait.
    if found.runnable == 0 {
        for (state, task) in &tasks {
            found.waits_in(&waits_at(task, *state));
        }
    }
    Some(found)
}

/// The function of the kernel in which a thread waits; empty if it does not, or if that cannot be read.
fn waits_at(folder: &Path, state: u8) -> String {
    match state {
        b'S' | b'D' => std::fs::read_to_string(folder.join("wchan")).unwrap_or_default(),
        _ => String::new(),
    }
}

/// Whether the freezer of version 1 holds a process.
fn is_frozen(folder: &Path, freezer: &Path) -> bool {
    let text = std::fs::read_to_string(folder.join("cgroup")).unwrap_or_default();
    let mut groups = text.lines().filter_map(|line| {
        let (list, name) = line.split_once(':')?.1.split_once(':')?;
        (list == "freezer").then(|| name.trim_start_matches('/'))
    });
    let state = groups
        .next()
        .map(|name| freezer.join(name).join("freezer.state"));
    state.is_some_and(|file| std::fs::read(file).is_ok_and(|text| text.starts_with(b"FR")))
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
    fn a_frozen_process_is_stopped_and_others_wait_for_a_file_or_a_pipe() {
        let root = std::env::temp_dir().join(format!("tailrace-waits-{}", std::process::id()));
        let (own, freezer) = (root.join("7"), root.join("freezer/pod"));
        std::fs::create_dir_all(&own).unwrap();
        std::fs::create_dir_all(&freezer).unwrap();
        let fields = "1 7 7 0 -1 4194304 9 0 3 0 5 5 0 0 20 0 1 0 1";
        let found = |state: char, waits: &str| {
            std::fs::write(own.join("stat"), format!("7 (a) {state} {fields}")).unwrap();
            std::fs::write(own.join("wchan"), waits).unwrap();
            let found = of(&root, 7).unwrap();
            (found.stopped, found.file_locked, found.pipe_full)
        };
        assert_eq!(found('S', "ep_poll"), (0, 0, 0));
        assert_eq!(found('S', "locks_lock_inode_wait"), (0, 1, 0));
        assert_eq!(found('S', "anon_pipe_write"), (0, 0, 1));
        assert_eq!(found('S', "do_freezer_trap"), (1, 0, 0));
        // Of two threads, the first waits for the other one, which waits for a reader.
        let two = fields.replace(" 20 0 1 0 1", " 20 0 2 0 1");
        let thread = |name: &str, state: char, waits: &str| {
            let folder = own.join("task").join(name);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("stat"), format!("{name} (a) {state} {two}")).unwrap();
            std::fs::write(folder.join("wchan"), waits).unwrap();
        };
        thread("7", 'S', "futex_wait_queue");
        thread("8", 'S', "anon_pipe_write");
        std::fs::write(own.join("stat"), format!("7 (a) S {two}")).unwrap();
        std::fs::write(own.join("wchan"), "futex_wait_queue").unwrap();
        assert_eq!(of(&root, 7).unwrap().pipe_full, 1);
        thread("9", 'R', "0");
        assert_eq!(of(&root, 7).unwrap().pipe_full, 0);
        std::fs::write(own.join("cgroup"), "4:freezer:/pod\n0::/\n").unwrap();
        for (state, frozen) in [("FROZEN\n", true), ("THAWED\n", false)] {
            std::fs::write(freezer.join("freezer.state"), state).unwrap();
            assert_eq!(is_frozen(&own, &root.join("freezer")), frozen);
        }
        std::fs::remove_dir_all(root).unwrap();
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
