"""Who waits behind the recorder: how long the server or the load could have run while a thread of the recorder had
their CPU, by the kernel's own trace of switches, and how much of that fell into each request.

Paired windows know a difference of p99.9 no better than the machine's own stalls let it vary. This sees each wait by
itself. It sees neither cold caches nor what the kernel does for each packet in nobody's account: `windows` does.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import hosts
import numpy as np
import polars as pl

_TRACING = Path("/sys/kernel/tracing")
_BUFFER_KB = 65_536
"""Of each CPU: half a minute of what 2000 requests a second make takes half of it."""
_EVENTS = ("sched_switch", "sched_wakeup", "sched_wakeup_new", "sched_migrate_task")
_EVENT = re.compile(
    r"-(?P<now>\d+) +\[(?P<cpu>\d+)\] \S+ +(?P<s>\d+)\.(?P<us>\d{6}): (?:"
    r"sched_switch: prev_comm=.* prev_pid=\d+ prev_prio=\d+ prev_state=(?P<state>\S+) ==> "
    r"next_comm=.* next_pid=(?P<after>\d+) |"
    r"sched_wakeup(?:_new)?: comm=.* pid=(?P<woken>\d+) prio=\d+ target_cpu=(?P<at>\d+)|"
    r"sched_migrate_task: comm=.* pid=(?P<moved>\d+) prio=\d+ orig_cpu=\d+ dest_cpu=(?P<to>\d+))"
)
_KEPT = re.compile(r"entries-in-buffer/entries-written: (\d+)/(\d+)")


class Wait(NamedTuple):
    """A thread could have run on a CPU on which another ran, from `begin` to `end` (steady clock, ns)."""

    thread: int
    behind: int
    begin: int
    end: int


@dataclass(frozen=True)
class Delays:
    """Of the requests that were answered while the recorder ran."""

    what: str
    requests: int
    any: float
    """Share of them that waited behind the recorder at all."""
    over_50_us: float
    over_100_us: float
    wait_p999_ms: float
    most_ms: float
    response_p999_ms: float
    without_p999_ms: float
    """Of the response times, had these waits not been."""
    waited_ms: dict[str, float]
    """Thread of the recorder → how long others waited behind it, together."""

    def tell(self) -> None:
        by = ", ".join(f"{name} {ms:.1f}" for name, ms in sorted(self.waited_ms.items(), key=lambda each: -each[1]))
        print(
            f"{self.what}: of {self.requests:,} requests {self.any:.3%} waited behind the recorder, "
            f"{self.over_50_us:.3%} longer than 0.05 ms, {self.over_100_us:.3%} than 0.1 ms, at most "
            f"{self.most_ms:.2f} ms (p99.9 {self.wait_p999_ms:.3f}); "
            f"p99.9 of response times {self.response_p999_ms:.3f} ms, without these waits "
            f"{self.without_p999_ms:.3f}; waits in ms: {by or 'none'}"
        )


def delays(
    what: str, found: Iterable[Wait], recorder: dict[int, str], measured: set[int], requests: pl.DataFrame
) -> Delays:
    """`recorder`: its threads and their names; `requests` with `sent` and `end` on the steady clock."""
    behind = [wait for wait in found if wait.behind in recorder and wait.thread in measured]
    waited: dict[str, float] = defaultdict(float)
    at, total = [0], [0]
    """How long anybody had waited until then."""
    for wait in sorted(behind, key=lambda wait: wait.begin):
        waited[recorder[wait.behind]] += (wait.end - wait.begin) / 1e6
        begin = max(wait.begin, at[-1])
        if begin < wait.end:
            at += [begin, wait.end]
            total += [total[-1], total[-1] + wait.end - begin]
    sent, end = (requests[name].to_numpy() for name in ("sent", "end"))
    late = np.interp(end, at, total) - np.interp(sent, at, total)
    took = end - sent
    return Delays(
        what,
        len(late),
        any=float(np.mean(late > 0)),
        over_50_us=float(np.mean(late > 50_000)),
        over_100_us=float(np.mean(late > 100_000)),
        wait_p999_ms=float(np.quantile(late, 0.999)) / 1e6,
        most_ms=float(late.max()) / 1e6,
        response_p999_ms=float(np.quantile(took, 0.999)) / 1e6,
        without_p999_ms=float(np.quantile(took - late, 0.999)) / 1e6,
        waited_ms=dict(waited),
    )


@contextmanager
def traced() -> Iterator[Callable[[], list[str]]]:
    """The function returns the lines of what was seen until it is called."""
    if not (_TRACING / "instances").exists():
        hosts.run("mount", "-t", "tracefs", "tracefs", str(_TRACING))
    ours = _TRACING / "instances" / f"{hosts.NAME}-behind"
    ours.mkdir()
    try:
        (ours / "buffer_size_kb").write_text(str(_BUFFER_KB))
        (ours / "trace_clock").write_text("mono")
        for event in _EVENTS:
            (ours / f"events/sched/{event}/enable").write_text("1")

        def seen() -> list[str]:
            (ours / "tracing_on").write_text("0")
            text = (ours / "trace").read_text(errors="replace")
            kept = _KEPT.search(text)
            if not kept or kept[1] != kept[2]:
                sys.exit("the trace is longer than its buffer: record for less --seconds")
            return text.splitlines()

        yield seen
    finally:
        ours.rmdir()


def waits(lines: Iterable[str]) -> Iterator[Wait]:
    """Of a trace's lines: for each thread that waited a piece for each that it waited behind.

    Some kernels do not trace switches from an idle CPU: who wakes up on one runs at once, and who is seen to run does.
    """
    runs: dict[int, int] = defaultdict(int)
    """CPU → the thread that runs there; 0 while it is idle."""
    queues: dict[int, dict[int, int]] = defaultdict(dict)
    """CPU → threads that could run there → since when they wait behind the one that runs."""

    def run(cpu: int, thread: int, now: int) -> Iterator[Wait]:
        if runs[cpu] != thread:
            for waiting, since in queues[cpu].items():
                if runs[cpu] and since < now:
                    yield Wait(waiting, runs[cpu], since, now)
                queues[cpu][waiting] = now
            queues[cpu].pop(thread, None)
            runs[cpu] = thread

    for line in lines:
        if not (seen := _EVENT.search(line)):
            continue
        now = int(seen["s"]) * 1_000_000_000 + int(seen["us"]) * 1000
        cpu = int(seen["cpu"])
        if running := int(seen["now"]):
            yield from run(cpu, running, now)
        if after := seen["after"]:
            yield from run(cpu, int(after), now)
            if running and seen["state"].startswith("R"):
                queues[cpu][running] = now
            continue
        thread, to = int(seen["woken"] or seen["moved"]), int(seen["at"] or seen["to"])
        if thread in runs.values():
            continue
        was = next((cpu for cpu, queue in queues.items() if thread in queue), None)
        if was is not None:
            since = queues[was].pop(thread)
            if runs[was] and since < now:
                yield Wait(thread, runs[was], since, now)
        if was is not None or seen["woken"]:
            queues[to][thread] = now
            if not runs[to]:
                yield from run(to, thread, now)
