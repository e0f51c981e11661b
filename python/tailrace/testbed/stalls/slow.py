"""A server at a share of its speed: CPU time withheld by a quota, as the kernel throttles containers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tailrace.experiment.model import Slow
from tailrace.testbed.cgroup import LONGEST_NS, SHORTEST_NS
from tailrace.testbed.stalls.injection import Injection
from tailrace.testbed.system import System
from tailrace.units import MILLISECOND

PERIOD_NS = 4 * MILLISECOND
"""So short that a slow server is slow, not stopped and started; longer only where the quota would be below 1 ms."""


def injections(system: System, stall: Slow) -> Iterator[Injection]:
    for server in system.servers(stall.place):
        group, cpus = system.nodes.groups()[server]
        share = stall.left * cpus
        period = min(max(PERIOD_NS, round(SHORTEST_NS / share)), LONGEST_NS)
        quota = system.settings[server].tier.quota
        usual = (quota.time, quota.period) if quota else (None,)
        slower = partial(group.limit, round(share * period), period)
        yield Injection("cpu-quota", server, slower, partial(group.limit, *usual))
