"""A server that must give up memory: the kernel swaps out a part, and its threads wait until pages are read back.

The limit is lifted after the stall's length. The server then reads back what it needs, which takes longer than that.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial

from tailrace.experiment.model import MemoryWait
from tailrace.testbed import swap
from tailrace.testbed.cgroup import Group
from tailrace.testbed.stalls.injection import Injection
from tailrace.testbed.system import System
from tailrace.units import SECOND

LOOK_S = 0.2
"""The kernel lets the reads of 100 ms pass at once."""
BUSY = 0.5
"""Threads wait while the disk serves at least this share of what it can. When the server has its pages back, the rate
falls from all to nearly nothing."""


def injections(system: System, stall: MemoryWait) -> Iterator[Injection]:
    for server in system.servers(stall.place):
        group = system.nodes.rooms[server].group
        yield Injection("memory", server, partial(_take, group, stall.keeps), partial(group.keep, None), _read_back)


def _take(group: Group, keeps: float) -> None:
    group.keep(int(keeps * group.memory()))


def _read_back(over: threading.Event) -> int:
    """Return when the disk of the swap space was last busy. It is over after a second without that."""
    before, last = swap.pages_read(), time.monotonic_ns()
    while time.monotonic_ns() - last < SECOND and not over.wait(LOOK_S):
        now = swap.pages_read()
        if now - before >= BUSY * LOOK_S * swap.READS:
            last = time.monotonic_ns()
        before = now
    return last
