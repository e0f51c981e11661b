//! Which container a process belongs to, by its control group: Docker, containerd, CRI-O, Podman.
//!
//! | control group | made by |
//! |---|---|
//! | `/docker/ID`, `/system.slice/docker-ID.scope` | Docker |
//! | `/kubepods/burstable/podUID/ID` | a container of a pod, without systemd |
//! | `/kubepods.slice/…/cri-containerd-ID.scope`, `…/crio-ID.scope`, `…:cri-containerd:ID` | the same, with systemd |
//! | `/machine.slice/libpod-ID.scope/container`, `/libpod_parent/libpod-ID` | Podman |

use std::path::Path;

/// Hexadecimal digits of an identifier.
const ID: usize = 64;
/// The monitor of a container has its identifier, but is outside.
const MONITOR: &str = "conmon";

/// The identifier in the text of a `/proc/PID/cgroup`; the innermost one, if containers run in
/// each other.
pub fn container(text: &str) -> Option<&str> {
    text.lines()
        .find_map(|line| line.rsplit('/').find_map(identifier))
}

/// That of the container that a process belongs to.
pub fn of_process(proc: &Path, pid: i32) -> Option<String> {
    let text = std::fs::read_to_string(proc.join(pid.to_string()).join("cgroup")).ok()?;
    container(&text).map(str::to_owned)
}

/// The identifier at the end of the name of a control group.
fn identifier(name: &str) -> Option<&str> {
    let name = name.strip_suffix(".scope").unwrap_or(name);
    let before = name.len().checked_sub(ID)?;
    let (before, id) = (name.get(..before)?, name.get(before..)?);
    let is_id = id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let apart = before.is_empty() || before.ends_with(['-', ':']);
    (is_id && apart && !before.contains(MONITOR)).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn each_runtime_has_its_form() {
        for form in [
            "0::/docker/ID",
            "0::/system.slice/docker-ID.scope",
            "9:name=systemd:/kubepods/burstable/pod5d2a/ID",
            "0::/../../kubepods.slice/kubepods-pod5d2a.slice/cri-containerd-ID.scope",
            "0::/kubepods.slice/kubepods-pod5d2a.slice/crio-ID.scope",
            "0::/system.slice/containerd.service/kubepods-burstable-pod5d2a.slice:cri-containerd:ID",
            "12:cpu,cpuacct:/machine.slice/libpod-ID.scope/container",
            "0::/libpod_parent/libpod-ID",
            "0::/docker/ID/system.slice/nginx.service",
        ] {
            let text = format!("4:memory:/\n{}\n", form.replace("ID", ONE));
            assert_eq!(container(&text), Some(ONE), "{form}");
        }
    }

    #[test]
    fn the_innermost_container_counts() {
        let other = ONE.replace('0', "f");
        let text = format!("0::/docker/{ONE}/docker/{other}");
        assert_eq!(container(&text), Some(other.as_str()));
    }

    #[test]
    fn services_and_monitors_are_in_no_container() {
        for text in [
            "0::/system.slice/nginx.service".to_owned(),
            "0::/user.slice/user-1000.slice/session-1.scope".to_owned(),
            format!("0::/machine.slice/libpod-conmon-{ONE}.scope"),
            format!("0::/x{ONE}"),
            format!("0::/é{}", &ONE[1..]),
            String::new(),
        ] {
            assert_eq!(container(&text), None, "{text}");
        }
    }
}
