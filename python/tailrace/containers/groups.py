"""Control groups of containers, of version 1 and 2, by the identifiers in their names.

crates/core/src/host/containers.rs has the table of these names: the recorder finds the container of a process by it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

GROUPS_MAX = 50_000
"""Groups that are visited in one hierarchy; a host with 250 pods has some 2,000."""
DEPTH_MAX = 16
PIDS_MAX = 1_000
"""Processes of one container that are remembered: one is enough to find its network namespace."""
_CONTAINER = re.compile(r"(?:.*[-:])?([0-9a-f]{64})(?:\.scope)?", re.DOTALL)
_POD = re.compile(r"pod[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|pod[0-9a-f]{32}")
"""The identifier of a pod; that of a static pod is a hash without dashes."""
_MONITOR = "conmon"


@dataclass
class Group:
    path: str
    """Below the hierarchies, as `/proc/PID/cgroup` shows it to the host."""
    pod: str | None
    """The group of its pod, in the same form."""
    pids: list[int] = field(default_factory=list)


def of(root: Path) -> dict[str, Group]:
    """Identifier of a container → its group."""
    found: dict[str, Group] = {}
    for mount in _mounts(root):
        for path, inside in _walk(root / mount.lstrip("/")):
            if inside is None:
                continue
            one, depth = inside
            parts = path.parts[: depth + 1]
            group = found.setdefault(one, Group("/".join(parts), _pod(parts[:-1])))
            group.pids += [pid for pid in _pids(root / mount.lstrip("/") / path) if pid not in group.pids]
            del group.pids[PIDS_MAX:]
    return found


def _mounts(root: Path) -> list[str]:
    """Where hierarchies are mounted. Format: proc(5)."""
    try:
        text = (root / "proc" / "self" / "mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    lines = (line.partition(" - ") for line in text.splitlines())
    return [mount.split(" ")[4] for mount, _, kind in lines if re.match(r"cgroup2? ", kind) and mount.count(" ") > 4]


def _walk(mount: Path) -> Iterator[tuple[Path, tuple[str, int] | None]]:
    """Every group below a mount, and the innermost container that it belongs to, with the depth of that group."""
    waiting: list[tuple[Path, tuple[str, int] | None]] = [(Path(), None)]
    visited = 0
    while waiting and visited < GROUPS_MAX:
        path, inside = waiting.pop()
        visited += 1
        yield path, inside
        if len(path.parts) == DEPTH_MAX:
            continue
        try:
            with os.scandir(mount / path) as entries:
                below = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        except OSError:  # it is gone
            continue
        for name in reversed(below):
            one = identifier(name)
            waiting.append((path / name, (one, len(path.parts)) if one else inside))


def identifier(name: str) -> str | None:
    """That of the container whose group has this name."""
    found = _CONTAINER.fullmatch(name)
    return found[1] if found and _MONITOR not in name else None


def _pod(above: tuple[str, ...]) -> str | None:
    """The nearest group with the identifier of a pod; a container's own name may hold it, too (`…-podUID.slice:…`)."""
    for i in range(len(above), 0, -1):
        if _POD.search(above[i - 1]):
            return "/".join(above[:i])
    return None


def _pids(group: Path) -> list[int]:
    """Processes in a group. Number 0 is a process that this process cannot see."""
    try:
        with (group / "cgroup.procs").open(encoding="ascii", errors="replace") as file:
            lines = file.read(PIDS_MAX * 8).split()
    except OSError:
        return []
    return [int(line) for line in lines if line.isdecimal() and int(line)]
