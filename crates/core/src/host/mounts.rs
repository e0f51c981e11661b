//! What this process sees mounted.
//!
//! `ip netns exec` mounts a `/sys` of its own, in which the control groups are missing. The process that called it still
//! sees them. So they are reached through the root directory of the nearest such process, which stays open: the process
//! may end.

use std::fs::{read_to_string, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// An open root directory, and the mounts that are seen in it.
struct Other {
    _root: File,
    /// Its path.
    path: PathBuf,
    mountinfo: String,
}

/// The lines of `/proc/self/mountinfo`, or those of the nearest parent if only that one sees control groups: their mount
/// points begin with [`root`].
pub fn mountinfo() -> String {
    match other() {
        Some(other) => other.mountinfo.clone(),
        None => read_to_string("/proc/self/mountinfo").unwrap_or_default(),
    }
}

/// The directory below which the mount points of [`mountinfo`] are.
pub fn root() -> &'static Path {
    other().map_or(Path::new("/"), |other| &other.path)
}

fn other() -> Option<&'static Other> {
    static OTHER: OnceLock<Option<Other>> = OnceLock::new();
    let find = || match read_to_string("/proc/self/mountinfo").ok()? {
        own if own.lines().any(|line| hierarchy(line).is_some()) => None,
        _ => parents().find_map(seen_by),
    };
    OTHER.get_or_init(find).as_ref()
}

fn parents() -> impl Iterator<Item = u32> {
    let parent = |pid: &u32| {
        let status = read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
        line.trim().parse().ok().filter(|&pid| pid > 0)
    };
    std::iter::successors(parent(&std::process::id()), parent)
}

/// What a process sees, if it sees control groups and this process may look through its root directory.
fn seen_by(pid: u32) -> Option<Other> {
    let root = File::open(format!("/proc/{pid}/root")).ok()?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", root.as_raw_fd()));
    let text = read_to_string(format!("/proc/{pid}/mountinfo")).ok()?;
    let mut mounts = text.lines().filter_map(hierarchy);
    mounts.find(|mount| below(&path, mount).is_dir())?;
    let mountinfo = text.lines().map(|line| moved(line, &path)).collect();
    Some(Other {
        _root: root,
        path,
        mountinfo,
    })
}

/// A line of `mountinfo` with the mount point below `root`.
fn moved(line: &str, root: &Path) -> String {
    let mut fields: Vec<String> = line.split(' ').map(str::to_owned).collect();
    if let Some(mount) = fields.get_mut(4) {
        *mount = below(root, Path::new(mount.as_str())).display().to_string();
    }
    fields.join(" ") + "\n"
}

/// Where an absolute path is below a root directory.
pub fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// The path, as users know it, of what is reached through [`root`].
pub fn shown(path: &Path) -> String {
    let inside = path.strip_prefix(root()).unwrap_or(path);
    Path::new("/").join(inside).display().to_string()
}

/// The mount point of a line of `mountinfo` that mounts cgroups. Format: proc(5).
pub fn hierarchy(line: &str) -> Option<&Path> {
    let (mount, kind) = line.split_once(" - ")?;
    let is_cgroup = matches!(kind.split(' ').next(), Some("cgroup" | "cgroup2"));
    is_cgroup.then(|| mount.split(' ').nth(4))?.map(Path::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_point_is_moved_below_the_root_through_which_it_is_seen() {
        let line = "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu";
        let moved = moved(line, Path::new("/proc/self/fd/9"));
        let expected = Path::new("/proc/self/fd/9/sys/fs/cgroup/cpu");
        assert_eq!(hierarchy(moved.trim_end()), Some(expected));
        assert_eq!(below(Path::new("/"), Path::new("/sys")), Path::new("/sys"));
    }

    #[test]
    fn the_parents_of_this_process_are_known() {
        assert!(parents().next().is_some());
        assert!(parents().all(|pid| pid != std::process::id()));
    }

    #[test]
    fn a_process_that_is_gone_shows_nothing() {
        assert!(seen_by(u32::MAX).is_none());
    }
}
