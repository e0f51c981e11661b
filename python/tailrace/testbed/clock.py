"""A node's clock rate. The machine's clock rate cannot be set for one node, so a CPU quota slows the node down.

```text
use of the last period, every 500 ms      ≥ up: a step up     < down: a step down
half the clock rate                       a quota of 2 ms in every 4 ms: as much work gets done
```
Samples show what a monitor of such a CPU would report: its busy time is the CPU time used, divided by its speed. The
throttling is only the means of slowing it down, and is not sampled.
"""

from __future__ import annotations

import csv
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tailrace.experiment.machines import Governor
from tailrace.testbed.cgroup import Group
from tailrace.testbed.epoch import Epoch
from tailrace.units import SECOND

SLICES = 10
"""Samples in a governor's period: truth and samples have a resolution of 50 ms."""
SATURATED = 0.9
"""Share of what the clock rate allows in a slice: a quota that is counted in ticks of 4 ms may be missed by 8 % in 50
ms."""


@dataclass(frozen=True)
class Look:
    at: int
    """Monotonic time, in ns."""
    used: int
    """CPU time of the whole node, in ns."""
    places: Mapping[str, int]
    """CPU time of each place that has samples of its own."""


@dataclass(frozen=True)
class Slice:
    """The time between two samples, at one clock rate."""

    begin: int
    end: int
    """Monotonic time, in ns."""
    hz: float
    use: float
    """Utilisation of the node: a share of what its CPUs can do at this clock rate."""
    busy: Mapping[str, float]
    """By place, in CPUs of this clock rate."""


class Clock:
    """It begins at the slowest rate, like a machine that has been idle."""

    def __init__(
        self, group: Group, places: Callable[[], Mapping[str, Group]], cores: float, governor: Governor
    ) -> None:
        """`places` are read at each sample, because a neighbour may have started."""
        self.group, self.places, self.cores, self.governor = group, places, cores, governor
        self.slices: list[Slice] | None = None
        """None: nothing is recorded."""
        self._set(0)

    @property
    def hz(self) -> float:
        return self.governor.frequencies[self._at]

    @property
    def speed(self) -> float:
        return self.hz / self.governor.frequencies[-1]

    def saturated(self) -> list[tuple[int, int]]:
        """When it was saturated below full speed; monotonic, in ns."""
        slower = (each for each in self.slices or () if each.hz < self.governor.frequencies[-1])
        return [(each.begin, each.end) for each in slower if each.use >= SATURATED]

    def govern(self, over: threading.Event) -> None:
        period = self.governor.period
        begun = before = self._look()
        while not over.wait(max(0, before.at + period // SLICES - time.monotonic_ns()) / SECOND):
            now = self._look()
            if self.slices is not None:
                self.slices.append(self.between(before, now))
            if now.at - begun.at >= period:
                self.step(self.between(begun, now).use)
                begun = now
            before = now

    def between(self, before: Look, now: Look) -> Slice:
        """At the current clock rate, which did not change during the slice."""
        work = (now.at - before.at) * self.speed
        return Slice(
            before.at,
            now.at,
            self.hz,
            (now.used - before.used) / (work * self.cores),
            {place: (now.places[place] - used) / work for place, used in before.places.items()},
        )

    def step(self, use: float) -> None:
        """The rate after a period with this utilisation."""
        last = len(self.governor.frequencies) - 1
        if use >= self.governor.up:
            self._set(last if self.governor.up_at_once else min(self._at + 1, last))
        elif use < self.governor.down:
            self._set(max(self._at - 1, 0))

    def _look(self) -> Look:
        places = {place: group.used_ns() for place, group in self.places().items()}
        return Look(time.monotonic_ns(), self.group.used_ns(), places)

    def _set(self, at: int) -> None:
        self._at = at
        whole = self.speed == 1 and self.cores.is_integer()
        self.group.share(None if whole else self.speed * self.cores)


@contextmanager
def governed(clocks: list[Clock]) -> Iterator[None]:
    over = threading.Event()
    threads = [threading.Thread(target=clock.govern, args=(over,), daemon=True) for clock in clocks]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


@contextmanager
def sampled(clocks: Mapping[str, Clock], epoch: Epoch, file: Path) -> Iterator[None]:
    """Runs the governors, by node. Their samples go to a CSV file; a node without a governor has none."""
    for clock in clocks.values():
        clock.slices = []
    yield
    if clocks:
        with file.open("w", newline="", encoding="utf-8") as lines:
            rows = csv.writer(lines)
            rows.writerow(("time", "interval_ns", "place", "metric", "value"))
            for node, clock in clocks.items():
                rows.writerows(_rows(node, clock.governor.frequencies[-1], clock.slices or [], epoch))


def _rows(node: str, most: float, slices: list[Slice], epoch: Epoch) -> Iterator[tuple[object, ...]]:
    for each in slices:
        when = epoch.unix(each.end), each.end - each.begin
        yield *when, node, "cpu_hz", each.hz
        yield *when, node, "cpu_hz_max", most
        for place, busy in each.busy.items():
            yield *when, place, "cpu_busy_ratio", f"{busy:.4f}"
