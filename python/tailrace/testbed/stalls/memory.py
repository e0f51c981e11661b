"""A server that must give up memory: the kernel swaps out a part, and its threads wait until pages are read back."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tailrace.experiment.model import MemoryWait
from tailrace.testbed.cgroup import Group
from tailrace.testbed.stalls.injection import Injection
from tailrace.testbed.system import System


def injections(system: System, stall: MemoryWait) -> Iterator[Injection]:
    for server in system.servers(stall.place):
        group = system.nodes.rooms[server].group
        yield Injection("memory", server, partial(_take, group, stall.keeps), partial(group.keep, None))


def _take(group: Group, keeps: float) -> None:
    group.keep(int(keeps * group.memory()))
