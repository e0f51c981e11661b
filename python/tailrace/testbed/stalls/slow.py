"""A server at a share of its speed: a quota withholds CPU time, as the kernel throttles containers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tailrace.experiment.model import Slow
from tailrace.testbed.stalls.injection import Injection
from tailrace.testbed.system import System


def injections(system: System, stall: Slow) -> Iterator[Injection]:
    for server in system.servers(stall.place):
        group, cpus = system.nodes.groups()[server]
        quota = system.settings[server].tier.quota
        slower = partial(group.share, stall.left * cpus)
        yield Injection("cpu-quota", server, slower, partial(group.restore, quota))
