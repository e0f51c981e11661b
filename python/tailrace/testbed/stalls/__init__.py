"""Stalls by their real mechanism, one file and one line each. Their actual times are measured.

Some are injected at the experiment's moments. Others arise by themselves, and the recording shows when.

```text
begin()  0.2 ms         length               end()  0.1 ms
├─ stamp ──────────────────────────────────────────── stamp ─┤   → truth.toml
```
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from tailrace.dataset import REQUESTS, scan
from tailrace.errors import TailraceError
from tailrace.experiment import truth
from tailrace.testbed.epoch import Epoch
from tailrace.testbed.stalls import (
    burn,
    collection,
    contention,
    crowd,
    freeze,
    frequency,
    lock,
    losing,
    memory,
    path,
    slow,
    writing,
)
from tailrace.testbed.stalls.injection import Injection, Mechanism
from tailrace.testbed.system import System
from tailrace.units import SECOND

KINDS: dict[str, Callable[[System, Any], Iterator[Injection]]] = {
    "freeze": freeze.injections,
    "slow": slow.injections,
    "burn": burn.injections,
    "memory": memory.injections,
    "lock": lock.injections,
    "packet-loss": path.injections,
}
"""By an injected stall's `kind`."""
MECHANISMS: tuple[Callable[[System], Iterator[Mechanism]], ...] = (
    contention.mechanisms,
    writing.mechanisms,
    losing.mechanisms,
)
"""What runs during the recording."""
ARISING: tuple[Callable[[System, Path], Iterator[truth.Stall]], ...] = (
    collection.arose,
    crowd.arose,
    frequency.arose,
)
"""Finds stalls that arose, from the tables of a run folder."""


@dataclass(frozen=True)
class Due:
    at: int
    """After the ramp."""
    length: int
    injection: Injection


@dataclass
class Injector:
    due: list[Due]
    mechanisms: list[Mechanism]
    epoch: Epoch
    happened: list[truth.Stall] = field(default_factory=list)
    failed: list[Exception] = field(default_factory=list)
    """A run whose stalls failed shows nothing of what they do."""


def prepare(system: System) -> Injector:
    """Stalls that are ready to begin, sorted by begin, with each repetition."""
    found: list[Due] = []
    for stall in system.experiment.stalls:
        for injection in KINDS[stall.kind](system, stall):
            every = stall.every or system.experiment.duration
            begins = range(stall.at, system.experiment.duration, every)
            found += [Due(begin, stall.length, injection) for begin in begins]
    mechanisms = [mechanism for make in MECHANISMS for mechanism in make(system)]
    return Injector(sorted(found, key=lambda due: due.at), mechanisms, system.epoch)


def arose(system: System, run: Path) -> list[truth.Stall]:
    """From the first recorded request on."""
    first = scan(run / REQUESTS.file).select(pl.col("sent").min()).collect().item()
    return [stall for look in ARISING for stall in look(system, run) if first is not None and stall.end > first]


@contextmanager
def injecting(injector: Injector, origin: int) -> Iterator[None]:
    """Stalls happen while the block lasts; `origin` is the ramp's end on the monotonic clock, in ns. A stall that has
    begun is always ended. Raises what a stall raised, after the block."""
    over = threading.Event()
    threads = [threading.Thread(target=_stall, args=(injector, due, origin, over)) for due in injector.due]
    threads += [threading.Thread(target=_go_on, args=(injector, each, origin, over)) for each in injector.mechanisms]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
    if injector.failed:
        raise injector.failed[0]


def inject(injection: Injection, epoch: Epoch, length: int, over: threading.Event) -> truth.Stall:
    """Run the stall now, for this long; returns when it really happened."""
    begun = time.monotonic_ns()
    injection.begin()
    try:
        over.wait((begun + length - time.monotonic_ns()) / SECOND)
    finally:
        injection.end()
    ended = injection.until_over(over)
    return truth.Stall(injection.kind, injection.place, epoch.unix(begun), epoch.unix(ended))


def _stall(injector: Injector, due: Due, origin: int, over: threading.Event) -> None:
    try:
        if not over.wait(max(0, origin + due.at - time.monotonic_ns()) / SECOND):
            injector.happened.append(inject(due.injection, injector.epoch, due.length, over))
    except (TailraceError, OSError) as error:
        injector.failed.append(error)


def _go_on(injector: Injector, mechanism: Mechanism, origin: int, over: threading.Event) -> None:
    try:
        injector.happened += mechanism(origin, over)
    except (TailraceError, OSError) as error:
        injector.failed.append(error)
