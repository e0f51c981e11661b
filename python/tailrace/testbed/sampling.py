"""What monitors see of the nodes, every 50 ms: CPU and throttling of each group, pressure, lost SYNs, dirty pages.

A thread of this process; each sample carries the interval that it truly covers. Counters are read from files alone.
"""

from __future__ import annotations

import csv
import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tailrace.experiment import places
from tailrace.testbed.system import System
from tailrace.units import MICROSECOND, SECOND

Row = tuple[str, str, str, str, str]
"""time and interval in s, place, metric, value."""


@dataclass(frozen=True)
class Counter:
    """Something that only grows; a sample is its growth, over the interval where it is a share of time."""

    place: str
    metric: str
    read: Callable[[], float]
    of_time: float = 0.0
    """How much it grows in a nanosecond at most; 0: a number of events."""


@dataclass(frozen=True)
class Level:
    place: str
    metric: str
    read: Callable[[], float]


@contextmanager
def sampling(system: System, interval_ns: int, file: Path) -> Iterator[None]:
    """Samples into a CSV file while the block lasts; without an interval none."""
    if not interval_ns:
        yield
        return
    stop = threading.Event()
    rows: list[Row] = []
    thread = threading.Thread(
        target=_sample, args=(counters(system), levels(system), interval_ns, stop, rows), daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        with file.open("w", newline="", encoding="utf-8") as lines:
            csv.writer(lines).writerows([("time", "interval", "place", "metric", "value"), *rows])


def counters(system: System) -> list[Counter]:
    found: list[Counter] = []
    for place, (group, cpus) in system.nodes.groups().items():
        clock = system.clocks.get(group.path.split("/")[1])
        if clock:
            found.append(Counter(place, "cpu_busy", partial(clock.busy_ns, group), cpus))
        else:
            found.append(Counter(place, "cpu_busy", group.used_ns, cpus))
            found.append(Counter(place, "cpu_throttled", group.throttled_ns, cpus))
        for of in ("cpu", "io"):
            if file := group.pressure(of):
                found.append(Counter(place, f"psi_{of}", partial(_pressure, file), 1))
    seen: set[str] = set()
    for server in places.servers(system.experiment):
        if server.node not in seen:
            seen.add(server.node)
            netstat = Path(f"/proc/{system.programs[server.name].process.pid}/net/netstat")
            found.append(Counter(server.node, "listen_drops", partial(_netstat, netstat, "ListenDrops")))
            found.append(Counter(server.node, "syn_retransmits", partial(_netstat, netstat, "TCPSynRetrans")))
    return found


def levels(system: System) -> list[Level]:
    rates = [Level(node, "cpu_hz", partial(getattr, clock, "hz")) for node, clock in system.clocks.items()]
    pages = {"dirty_bytes": "nr_dirty", "writeback_bytes": "nr_writeback"}
    return rates + [Level("host", metric, partial(_vmstat, counter)) for metric, counter in pages.items()]


def _sample(
    counted: list[Counter], level: list[Level], interval_ns: int, stop: threading.Event, rows: list[Row]
) -> None:
    unix = time.time_ns() - time.monotonic_ns()

    def add(place: str, metric: str, begin: int, end: int, value: str) -> None:
        rows.append((f"{(unix + end) / SECOND:.6f}", f"{(end - begin) / SECOND:.6f}", place, metric, value))

    before = [_read(one.read) for one in counted]
    last = due = time.monotonic_ns()
    while True:
        due = max(due + interval_ns, time.monotonic_ns())
        if stop.wait((due - time.monotonic_ns()) / SECOND):
            return
        after = [_read(one.read) for one in counted]
        for one, (begin, old), (end, new) in zip(counted, before, after, strict=True):
            if old is None or new is None:
                continue
            grown = new - old
            if one.of_time:
                add(one.place, f"{one.metric}_ratio", begin, end, f"{grown / (one.of_time * (end - begin)):.4f}")
            else:
                add(one.place, one.metric, begin, end, f"{grown:.0f}")
        now = time.monotonic_ns()
        for what in level:
            if (value := _read(what.read)[1]) is not None:
                add(what.place, what.metric, last, now, f"{value:.0f}")
        before, last = after, now


def _read(read: Callable[[], float]) -> tuple[int, float | None]:
    """When it was read (monotonic ns; a thread may lose the CPU between two files), and None where a server has gone
    and its files with it."""
    at = time.monotonic_ns()
    try:
        return at, read()
    except (OSError, ValueError, KeyError):
        return at, None


def _pressure(file: Path) -> float:
    """Time in ns for which some process waited (the first line's total, in µs)."""
    return int(file.read_text().split("\n")[0].rpartition("=")[2]) * MICROSECOND


def _netstat(file: Path, counter: str) -> float:
    lines = file.read_text().splitlines()
    names = next(line.split() for line in lines if line.startswith("TcpExt:"))
    values = [line.split() for line in lines if line.startswith("TcpExt:")][1]
    return int(values[names.index(counter)])


def _vmstat(counter: str) -> float:
    text = Path("/proc/vmstat").read_text()
    return int(text[text.index(f"{counter} ") :].split(maxsplit=2)[1]) * resource.getpagesize()
