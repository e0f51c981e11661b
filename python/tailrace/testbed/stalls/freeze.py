"""A server that does not run at all: SIGSTOP to each of its processes, or its control group frozen."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress

from tailrace.experiment.model import Freeze
from tailrace.testbed.cgroup import Group
from tailrace.testbed.stalls.injection import Injection
from tailrace.testbed.system import System


def injections(system: System, stall: Freeze) -> Iterator[Injection]:
    for server in system.servers(stall.place):
        yield of_server(system, server, by_signal=stall.by == "signal")


def of_server(system: System, server: str, by_signal: bool = True) -> Injection:
    group = system.nodes.rooms[server].group
    if not by_signal:
        return Injection("freeze", server, group.freeze, group.thaw)
    return Injection("freeze", server, lambda: _send(group, signal.SIGSTOP), lambda: _send(group, signal.SIGCONT))


def _send(group: Group, which: signal.Signals) -> None:
    for pid in group.pids():
        with suppress(ProcessLookupError):
            os.kill(pid, which)
