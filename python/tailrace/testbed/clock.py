"""A node's clock rate: the machine's own cannot be set for one node, so a quota of its CPUs makes the node slower.

```text
use of the last period, every 500 ms      ≥ up: a step up     < down: a step down
half the clock rate                       a quota of 2 ms in every 4 ms: as much work gets done
```
What a monitor would see of such a CPU is what is sampled: it is busy for the CPU time used, divided by its speed; that
the quota holds it back is how it is made slow, and is not sampled.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tailrace.experiment.machines import Governor
from tailrace.testbed.cgroup import Group
from tailrace.units import SECOND

SLICES = 10
"""Looks in a governor's period: the truth is as fine as samples of 50 ms."""
SATURATED = 0.9
"""Of what its clock rate allows in a slice: a quota that is counted in ticks of 4 ms may be missed by 8 % in 50 ms."""


class Clock:
    """Begins at the slowest rate, as a machine that has been idle."""

    def __init__(self, group: Group, cores: float, governor: Governor) -> None:
        self.group, self.cores, self.governor = group, cores, governor
        self.saturated: list[tuple[int, int]] = []
        """Slices in which it was, below full speed; ns since the Unix epoch."""
        self._at = 0
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[Group, int, float]] = {}
        """By path: group, CPU time used at the last look, and how long that kept the CPU busy."""
        self._set(0)

    @property
    def hz(self) -> float:
        return self.governor.frequencies[self._at]

    @property
    def speed(self) -> float:
        return self.hz / self.governor.frequencies[-1]

    def busy_ns(self, group: Group) -> float:
        """For how long CPUs at this clock rate were busy with what a group of the node did."""
        with self._lock:
            return self._look(group)

    def govern(self, over: threading.Event) -> None:
        period = self.governor.period
        begun = before = self._now()
        while not over.wait(max(0, before[0] + period // SLICES - time.monotonic_ns()) / SECOND):
            now = self._now()
            if self.speed < 1 and self._use(before, now) >= SATURATED:
                unix = time.time_ns() - time.monotonic_ns()
                self.saturated.append((unix + before[0], unix + now[0]))
            if now[0] - begun[0] >= period:
                self.step(self._use(begun, now))
                begun = now
            before = now

    def _now(self) -> tuple[int, float]:
        return time.monotonic_ns(), self.busy_ns(self.group)

    def _use(self, first: tuple[int, float], last: tuple[int, float]) -> float:
        return (last[1] - first[1]) / ((last[0] - first[0]) * self.cores)

    def step(self, use: float) -> None:
        """After a period in which the CPU was busy for this share of it."""
        last = len(self.governor.frequencies) - 1
        if use >= self.governor.up:
            self._set(last if self.governor.up_at_once else min(self._at + 1, last))
        elif use < self.governor.down:
            self._set(max(self._at - 1, 0))

    def _set(self, at: int) -> None:
        with self._lock:
            for group, _, _ in list(self._seen.values()):
                self._look(group)
            self._at = at
            whole = self.speed == 1 and self.cores.is_integer()
            self.group.share(None if whole else self.speed * self.cores)

    def _look(self, group: Group) -> float:
        used = group.used_ns()
        _, before, busy = self._seen.get(group.path, (group, used, 0.0))
        busy += (used - before) / self.speed
        self._seen[group.path] = (group, used, busy)
        return busy


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
