"""Recorded losses of capacity (`[[losses]]`), repeated on real servers step by step.

```text
nothing is left        the server's control group is frozen
a part is left         a CFS quota of that part of its CPUs
a neighbour took it    processes beside the server compute without end, with the CPU weight that leaves that part
```
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from tailrace.experiment import losses, places, truth
from tailrace.experiment.losses import NEIGHBOUR
from tailrace.experiment.tiers import Quota
from tailrace.testbed.cgroup import Group
from tailrace.testbed.epoch import Epoch
from tailrace.testbed.stalls import burn
from tailrace.testbed.stalls.injection import Mechanism, joined
from tailrace.testbed.system import System
from tailrace.units import SECOND


def mechanisms(system: System) -> Iterator[Mechanism]:
    machines = places.nodes(system.experiment)
    for server in places.servers(system.experiment):
        mine = [loss for loss in system.experiment.losses if loss.place == server.name]
        if not mine:
            continue
        tier, cores = system.experiment.tiers[server.tier], machines[server.node].cores
        causes = tuple(loss.cause for loss in mine)
        beside = burn.neighbour(system, server.node, tier.weight, ceil(cores)) if NEIGHBOUR in causes else None
        steps = [step for step in losses.changes([losses.read(loss.file) for loss in mine]) if step[0] >= 0]
        group = system.nodes.rooms[server.name].group
        yield Losing(server.name, causes, steps, group, cores, tier.quota, beside, tier.weight, system.epoch).run


@dataclass
class Losing:
    """What one server loses, and when."""

    server: str
    causes: tuple[str, ...]
    steps: list[tuple[int, tuple[float, ...]]]
    """Each step has its time after the ramp, and the share that each cause takes from then on."""
    group: Group
    cores: float
    """Its node has so many CPUs."""
    quota: Quota | None
    """The server has this quota at all times."""
    beside: Group | None
    """The neighbour's group, which is frozen at first."""
    weight: float
    """The CPU weight of the server."""
    epoch: Epoch

    @property
    def whole(self) -> float:
        """The CPUs of a server that loses nothing."""
        return min(self.cores, self.quota.time / self.quota.period) if self.quota else self.cores

    def run(self, origin: int, over: threading.Event) -> list[truth.Stall]:
        nothing = (0.0,) * len(self.causes)
        spans: dict[str, list[tuple[int, int]]] = {}
        since, lost = origin, nothing
        try:
            for at, then in self.steps:
                if over.wait(max(0, origin + at - time.monotonic_ns()) / SECOND):
                    break
                now = time.monotonic_ns()
                self._note(spans, lost, since, now)
                self._take(then)
                since, lost = now, then
            else:
                over.wait()  # the last row holds to the end
        finally:
            self._take(nothing)
        self._note(spans, lost, since, time.monotonic_ns())
        return [
            truth.Stall(cause, self.server, self.epoch.unix(begin), self.epoch.unix(end))
            for cause, found in spans.items()
            for begin, end in joined(found, 0)
        ]

    def _note(self, spans: dict[str, list[tuple[int, int]]], lost: tuple[float, ...], begin: int, end: int) -> None:
        for cause, share in zip(self.causes, lost, strict=True):
            if share > 0.0:
                spans.setdefault(cause, []).append((begin, end))

    def _take(self, lost: tuple[float, ...]) -> None:
        by_neighbours = sum(share for cause, share in zip(self.causes, lost, strict=True) if cause == NEIGHBOUR)
        if self.beside:
            self._compete(self.beside, by_neighbours)
        self._leave(1.0 - sum(lost) if sum(lost) > by_neighbours else 1.0)

    def _compete(self, beside: Group, share: float) -> None:
        """Let the neighbour compute. Of a CPU that both want, each gets the part of its weight."""
        if share > 0.0:
            part = min(share, 1.0 - losses.STANDS_STILL)
            beside.weigh(self.weight * part / (1.0 - part))
            beside.thaw()
        else:
            beside.freeze()

    def _leave(self, left: float) -> None:
        if left < losses.STANDS_STILL:
            self.group.freeze()
            return
        if left < 1.0:
            self.group.share(left * self.whole)
        else:
            self.group.restore(self.quota)
        self.group.thaw()
