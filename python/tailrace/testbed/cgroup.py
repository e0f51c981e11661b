"""A control group for each node and, inside it, for each server. It pins, weights, limits, freezes and measures them.

The machine may have version 1 (a hierarchy for each controller), version 2 (one for all), or both: each controller is
used where it is mounted. A process is put into the same path of every hierarchy.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.errors import TailraceError
from tailrace.units import MICROSECOND, MILLISECOND, SECOND

if TYPE_CHECKING:
    from tailrace.experiment.tiers import Quota

V1 = ("cpu", "cpuacct", "cpuset", "freezer", "blkio", "memory")
V2 = ("cpu", "cpuset", "io", "memory")
NEEDED = ("cpu", "cpuset", "cpuacct", "freezer")
_SHARES, _WEIGHT = 1024, 100
"""The value for weight 1: `cpu.shares` of version 1, `cpu.weight` of version 2."""
SHORTEST_NS, LONGEST_NS = MILLISECOND, SECOND
"""A CFS quota is at least 1 ms, and a period at most 1 s (kernel/sched/core.c)."""
SMOOTH_NS = 4 * MILLISECOND
"""With a period this short, less CPU time makes a server slow instead of stopping and starting it. The period is longer
only if the quota would be below its 1 ms."""
_REAL_TIME = "cpu.rt_runtime_us"
_ENDING_S = 30.0
"""A killed process that waits for a busy disk ends when the disk has answered."""


@dataclass(frozen=True)
class Hierarchies:
    v1: Mapping[str, Path]
    v2: Path | None

    def has(self, controller: str) -> bool:
        if controller in self.v1:
            return True
        builtin = controller in ("cpuacct", "freezer")  # from the core of version 2
        return self.v2 is not None and (builtin or controller in _words(self.v2 / "cgroup.controllers"))

    @property
    def roots(self) -> list[Path]:
        """Where the testbed creates groups: in all controllers but blkio, whose root group `disk` slows down."""
        v1 = [root for name, root in self.v1.items() if name != "blkio"]
        return list(dict.fromkeys([*v1, *([self.v2] if self.v2 else [])]))

    def where(self, path: str, known_by: Mapping[str, int]) -> Hierarchies:
        """The hierarchies in which the group of this path still has its identifying number."""
        same = {root for root in self.roots if _number(root / path) == known_by.get(str(root), 0)}
        v1 = {name: root for name, root in self.v1.items() if root in same}
        return Hierarchies(v1, self.v2 if self.v2 in same else None)


def mounted(mounts: str | None = None) -> Hierarchies:
    """The mounted hierarchies, from the text of /proc/mounts."""
    v1: dict[str, Path] = {}
    v2 = None
    for line in (Path("/proc/mounts").read_text() if mounts is None else mounts).splitlines():
        _, at, kind, options, *_ = line.split()
        if kind == "cgroup":
            v1 |= {name: Path(at) for name in options.split(",") if name in V1 and name not in v1}
        elif kind == "cgroup2" and v2 is None:
            v2 = Path(at)
    return Hierarchies(v1, v2)


class Group:
    def __init__(self, hierarchies: Hierarchies, path: str) -> None:
        self.hierarchies = hierarchies
        self.path = path

    def make(self, cpus: str, weight: float = 1.0) -> Group:
        """`cpus` as the kernel lists them ("0", "1-3,5"); the parent groups must have them, too."""
        self.place()
        if "cpuset" in self.hierarchies.v1:
            self._write("cpuset", "cpuset.mems", (self._at("cpuset").parent / "cpuset.mems").read_text())
        self._write("cpuset", "cpuset.cpus", cpus)
        self.weigh(weight)
        return self

    def place(self) -> None:
        """Create it in every hierarchy in which it does not exist."""
        for root in self.hierarchies.roots:
            if root == self.hierarchies.v2:
                _enable(root, Path(self.path))
            (root / self.path).mkdir(parents=True, exist_ok=True)

    def known_by(self) -> dict[str, int]:
        """Its number in each hierarchy that has it; the kernel gives this number to no other group."""
        roots = self.hierarchies.roots
        return {str(root): number for root in roots if (number := _number(root / self.path))}

    def weigh(self, weight: float) -> None:
        """Its CPU weight relative to its sibling groups."""
        if "cpu" in self.hierarchies.v1:
            self._write("cpu", "cpu.shares", str(min(max(round(weight * _SHARES), 2), 262_144)))
        else:
            self._write("cpu", "cpu.weight", str(min(max(round(weight * _WEIGHT), 1), 10_000)))

    def limit(self, time_ns: int | None, period_ns: int = 100 * MILLISECOND) -> None:
        """CPU time in each period; None: no limit (CFS bandwidth control)."""
        period = period_ns // MICROSECOND
        quota = None if time_ns is None else max(time_ns, SHORTEST_NS) // MICROSECOND
        if "cpu" in self.hierarchies.v1:
            self._write("cpu", "cpu.cfs_quota_us", "-1")  # a shorter period with the old quota may be refused
            self._write("cpu", "cpu.cfs_period_us", str(period))
            if quota is not None:
                self._write("cpu", "cpu.cfs_quota_us", str(quota))
        else:
            self._write("cpu", "cpu.max", f"{'max' if quota is None else quota} {period}")

    def memory(self) -> int:
        """Bytes that its processes use, with the cached pages of their files."""
        file = "memory.usage_in_bytes" if "memory" in self.hierarchies.v1 else "memory.current"
        return int((self._at("memory") / file).read_text())

    def keep(self, memory: int | None) -> None:
        """Let its processes keep so many bytes of memory, now and later; None: all. The kernel reclaims the rest before
        this returns, and it swaps out what is no page of a file."""
        if "memory" in self.hierarchies.v1:
            self._write("memory", "memory.limit_in_bytes", str(-1 if memory is None else memory))
        else:
            self._write("memory", "memory.high", "max" if memory is None else str(memory))

    def restore(self, quota: Quota | None) -> None:
        """Set the limit that its server has at all times."""
        if quota:
            self.limit(quota.time, quota.period)
        else:
            self.limit(None)

    def share(self, cpus: float | None) -> None:
        """CPU time of this many CPUs, which may be a fraction; None: of all."""
        if cpus is None:
            self.limit(None)
        else:
            period = min(max(SMOOTH_NS, round(SHORTEST_NS / cpus)), LONGEST_NS)
            self.limit(round(cpus * period), period)

    def be_prompt(self) -> None:
        """Let its threads request real-time priority for a twentieth of the time. Only version 1 forbids it
        (CONFIG_RT_GROUP_SCHED), and a group cannot have more than its parent. If other groups have all of it, the
        threads run without it."""
        if "cpu" in self.hierarchies.v1:
            path = Path(self.path)
            with suppress(OSError):
                for each in reversed([path, *path.parents][:-1]):
                    file = self.hierarchies.v1["cpu"] / each / _REAL_TIME
                    if file.exists():
                        file.write_text(str(SECOND // 20 // MICROSECOND))

    def freeze(self) -> None:
        self._freezer("FROZEN", "1")

    def thaw(self) -> None:
        self._freezer("THAWED", "0")

    def used_ns(self) -> int:
        """CPU time that its processes have used since it was created."""
        if "cpuacct" in self.hierarchies.v1:
            return int((self._at("cpuacct") / "cpuacct.usage").read_text())
        return int(_table(self._at("cpuacct") / "cpu.stat")["usage_usec"]) * MICROSECOND

    def pids(self) -> list[int]:
        """Processes in it and in its subgroups."""
        found: set[int] = set()
        for root in self.hierarchies.roots:
            for file in (root / self.path).rglob("cgroup.procs"):
                found.update(int(word) for word in _words(file))
        return sorted(found)

    def entries(self) -> list[Path]:
        """The files to which a process writes its id in order to join."""
        return [root / self.path / "cgroup.procs" for root in self.hierarchies.roots]

    def remove_empty(self) -> bool:
        """Remove it if it has no subgroup and no process; returns whether it existed and was empty."""
        removed = False
        for root in self.hierarchies.roots:
            with suppress(OSError):
                (root / self.path).rmdir()
                removed = True
        return removed

    def remove(self) -> None:
        """Remove it with its subgroups. This ends their processes, except the current one, which leaves the group."""
        if self.hierarchies.has("freezer"):
            for freezer in self._inside("freezer"):
                Group(self.hierarchies, freezer).thaw()
        self._end()
        for root in self.hierarchies.roots:
            for folder in sorted((root / self.path).rglob("*/"), reverse=True):
                folder.rmdir()
            with suppress(FileNotFoundError):
                (root / self.path).rmdir()

    def _end(self) -> None:
        deadline = time.monotonic() + _ENDING_S
        while pids := self.pids():
            if os.getpid() in pids:
                for root in self.hierarchies.roots:
                    (root / "cgroup.procs").write_text(str(os.getpid()))
            for pid in pids:
                if pid != os.getpid():
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                raise TailraceError(f"processes {pids} of the group {self.path} do not end")
            time.sleep(0.01)

    def _inside(self, controller: str) -> list[str]:
        top = self._at(controller)
        root = Path(str(top).removesuffix(self.path))
        return [str(folder.relative_to(root)) for folder in [top, *top.rglob("*/")] if folder.is_dir()]

    def _freezer(self, v1: str, v2: str) -> None:
        if "freezer" in self.hierarchies.v1:
            self._write("freezer", "freezer.state", v1)
        else:
            self._write("freezer", "cgroup.freeze", v2)

    def _at(self, controller: str) -> Path:
        root = self.hierarchies.v1.get(controller) or self.hierarchies.v2
        if root is None:
            raise TailraceError(f"no cgroup controller {controller}", advice="see `tailrace testbed doctor`")
        return root / self.path

    def _write(self, controller: str, file: str, text: str) -> None:
        try:
            (self._at(controller) / file).write_text(text)
        except OSError as error:
            raise TailraceError(
                f"cannot write {text.strip()} to {file} of the group {self.path}: {error.strerror}"
            ) from error


@contextmanager
def entered(group: Group) -> Iterator[None]:
    """Moves this process into the group, and back afterwards."""
    before = [root / own.lstrip("/") / "cgroup.procs" for root, own in _own(group.hierarchies)]
    for entry in group.entries():
        entry.write_text(str(os.getpid()))
    try:
        yield
    finally:
        for entry in before:
            entry.write_text(str(os.getpid()))


def _own(hierarchies: Hierarchies) -> Iterator[tuple[Path, str]]:
    """Each hierarchy's root and this process' group in it, from /proc/self/cgroup."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        root = next((hierarchies.v1[name] for name in controllers.split(",") if name in hierarchies.v1), None)
        root = hierarchies.v2 if not controllers else root
        if root is not None:
            yield root, path


def _enable(root: Path, path: Path) -> None:
    """Delegate the controllers of version 2 down to the group."""
    for above in reversed(path.parents):
        wanted = [f"+{name}" for name in V2 if name in _words(root / above / "cgroup.controllers")]
        if wanted:
            (root / above / "cgroup.subtree_control").write_text(" ".join(wanted))


def _number(folder: Path) -> int:
    """The number of a group's folder; 0 if it does not exist."""
    try:
        return folder.stat().st_ino
    except FileNotFoundError:
        return 0


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except FileNotFoundError:
        return []


def _table(file: Path) -> dict[str, str]:
    return dict(line.split() for line in file.read_text().splitlines())
