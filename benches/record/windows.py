"""What recorded servers feel of the recorder: one long load, and the recorder beside it in some windows of it.

```text
one load     ════════════════════════════════════════════════════════════════
recorder          ████████████                 ████████████
windows      │····├────────┤··├────────┤··├────────┤··├────────┤  …
             └ threes: one with, two without, in random order; the second after a switch is counted separately
```
The two without differ by what the machine makes of nothing at all; the one with, by the recorder besides. Requests that
were under way while something else had a CPU are left out of both (`others`).
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import TypeVar

import hosts
import numpy as np
import others
import polars as pl

from tailrace.recorder import Interface, Node, Packets, Plan
from tailrace.testbed import recording

WARM_S, SWITCH_S, WINDOW_S = 4.0, 1.0, 4.0
"""After the load began; after a switch, before the window; the window."""
QUEUED_NS = 1_000_000
"""Within which a server that answers 20,000 requests a second is through with what came in some milliseconds."""
TAIL = 0.02
"""Of the slowest of a window each is kept, so that percentiles of many windows together can be told."""
OTHER_CORES = 0.5
"""Two fifths of it is usual, with the recorder or without. What is called like the load's own processes is not known as
somebody else's otherwise."""
DRAWN = 4000
"""Samples of the bootstrap."""


_CABLE = (Interface("eth0", f"/run/netns/{hosts.HOSTS.server}"),)


@dataclass(frozen=True)
class Window:
    turn: int
    """Which load it was part of, and which three of that load."""
    three: int
    recorded: bool
    requests: int
    """Without those that others disturbed."""
    slowest_us: list[int]
    machine_cores: float
    """CPUs that were busy, of the whole machine, for whatever."""
    stolen: float
    """CPUs that were asked for, and that the host of this virtual machine gave to others."""
    switched: bool
    switch_slowest_us: list[int]
    """Of the second before the window, in which the recorder began, ended, or did neither."""

    def p999_ms(self) -> float:
        return quantile([self], 0.999)


def quantile(windows: Sequence[Window], share: float) -> float:
    """In ms, of all requests of these windows together."""
    slowest = np.sort(np.concatenate([window.slowest_us for window in windows]))
    return float(slowest[-max(1, round((1 - share) * sum(w.requests for w in windows)))]) / 1e3


def decoding(nodes: list[Node]) -> Plan:
    """As `tailrace record` has it."""
    decode = {"servers": {"web": f"{hosts.HOSTS.address}:80"}}
    return Plan(nodes=nodes, ports=(80,), every_process=True, packets=Packets(_CABLE, decode=decode))


def keeping(nodes: list[Node]) -> Plan:
    """As the testbed has it, which keeps the packets, and whose processes are in control groups that it knows."""
    packets = Packets(_CABLE, promiscuous=True, snap=recording.SNAP, ring_bytes=recording.RING_BYTES, raw=True)
    return Plan(nodes=nodes, ports=(80,), packets=packets)


def turn(folder: Path, number: int, plan: Plan, threes: int) -> list[Window]:
    """One load, and so many threes of windows while it lasts."""
    order = [recorded for _ in range(threes) for recorded in random.sample([True, False, False], 3)]
    lasts = round(WARM_S + len(order) * (SWITCH_S + WINDOW_S) + 5)
    folder.mkdir()
    asking = hosts.load(folder / "load", lasts, "--rate", str(hosts.RATE), "--ramp", "1s", "--epoch", "0")
    with others.watched() as seen, _switch(folder / "recorded", plan) as switch:
        time.sleep(WARM_S)
        spans = [_window(switch, before, now) for before, now in zip([False, *order], order, strict=False)]
        disturbed = seen()
    hosts.answer(asking)
    requests = pl.read_parquet(folder / "load" / "requests.parquet", columns=["sent", "end"]).sort("sent")
    alone = ~_during(disturbed, requests["sent"].to_numpy(), requests["end"].to_numpy())
    print(f"{1 - alone.mean():.1%} of requests are left out: {len(disturbed):,} times others had a CPU")
    requests = requests.filter(alone)
    sent, took = requests["sent"].to_numpy(), (requests["end"] - requests["sent"]).to_numpy()

    def slowest(begin: int, end: int) -> tuple[int, list[int]]:
        there = np.sort(took[slice(*np.searchsorted(sent, [begin, end]))])
        kept = there[len(there) - round(TAIL * len(there)) :]
        return len(there), [round(each / 1e3) for each in kept.tolist()]

    return [
        Window(
            number,
            at // 3,
            order[at],
            *slowest(span.begin, span.end),
            span.cores,
            span.stolen,
            span.switched,
            slowest(span.asked, span.begin)[1],
        )
        for at, span in enumerate(spans)
    ]


def _during(spans: others.Spans, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Whether what lasted from begin to end met one of these spans, or what had queued up when it ended."""
    begins = np.array([a for a, _ in spans])
    latest = np.maximum.accumulate([0, *(b + QUEUED_NS for _, b in spans)])
    return latest[np.searchsorted(begins, end)] >= begin


@dataclass(frozen=True)
class _Span:
    asked: int
    begin: int
    end: int
    """On the steady clock, in ns."""
    cores: float
    stolen: float
    switched: bool


def _window(switch: Callable[[bool], None], before: bool, now: bool) -> _Span:
    asked = time.monotonic_ns()
    if before != now:
        switch(now)
    time.sleep(max(0.0, SWITCH_S - (time.monotonic_ns() - asked) / 1e9))
    begin, busy, stolen = time.monotonic_ns(), hosts.machine_s(), hosts.stolen_s()
    time.sleep(WINDOW_S)
    end = time.monotonic_ns()
    took = (end - begin) / 1e9
    return _Span(
        asked, begin, end, (hosts.machine_s() - busy) / took, (hosts.stolen_s() - stolen) / took, before != now
    )


@contextmanager
def _switch(folder: Path, plan: Plan) -> Iterator[Callable[[bool], None]]:
    command = (sys.executable, str(hosts.HERE / "switched.py"), str(folder), plan.to_json())
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        asked, answered = process.stdin, process.stdout
        assert asked
        assert answered

        def switch(on: bool) -> None:
            wanted = "on\n" if on else "off\n"
            asked.write(wanted)
            asked.flush()
            if answered.readline() != wanted:
                sys.exit("the recorder ended")

        yield switch
        process.communicate()


def tell(windows: list[Window]) -> None:
    threes = _threes(windows)
    with_, without = _with(threes), _without(threes)
    most = max(window.slowest_us[0] for window in windows if window.slowest_us) / 1e3
    print(
        f"{len(threes)} threes; p99.9 of all requests without {quantile(without, 0.999):.3f} ms, "
        f"with {quantile(with_, 0.999):.3f} ms (told from the slowest {TAIL:.0%} of each window, at least {most:.3f})"
    )
    for name, share in (("p99", 0.99), ("p99.9", 0.999)):
        more, nothing_more = partial(_more, share), partial(_nothing_more, share)
        _tell(f"{name} of all requests together, with less without", threes, more)
        _tell("  nothing: the two without", threes, nothing_more)
    each = [three[0].p999_ms() - fmean(window.p999_ms() for window in three[1:]) for three in threes]
    nothing = [three[1].p999_ms() - three[2].p999_ms() for three in threes]
    for name, middle in (("mean", fmean), ("median", median)):
        _tell(f"p99.9, {name} of threes, with less without", each, middle)
        _tell("  nothing: the two without", nothing, middle)
    for what, of in (("busy", lambda w: w.machine_cores), ("stolen", lambda w: w.stolen)):
        print(f"CPUs {what}: with {fmean(map(of, with_)):.3f}, without {fmean(map(of, without)):.3f}")
    for what, some in (
        ("begins", [w for w in windows if w.switched and w.recorded]),
        ("ends", [w for w in windows if w.switched and not w.recorded]),
        ("does neither", [w for w in windows if not w.switched]),
    ):
        worst = [window.switch_slowest_us[-1] / 1e3 for window in some]
        late = [window.switch_slowest_us[-len(window.switch_slowest_us) // 20] / 1e3 for window in some]
        print(f"the second in which it {what}: p99.9 {median(late):.2f}, slowest {median(worst):.2f} ms (medians)")


T = TypeVar("T")
Three = tuple[Window, Window, Window]
"""With; the two without, by time."""


def _threes(windows: list[Window]) -> list[Three]:
    found: dict[tuple[int, int], list[Window]] = {}
    for window in windows:
        found.setdefault((window.turn, window.three), []).append(window)
    alone = [three for three in found.values() if all(window.machine_cores < OTHER_CORES for window in three)]
    print(f"{len(found) - len(alone)} of {len(found)} threes are left out, for the machine did other work, too")
    return [tuple(sorted(three, key=lambda window: not window.recorded)) for three in alone]  # type: ignore[misc]


def _with(threes: Sequence[Three]) -> list[Window]:
    return [three[0] for three in threes]


def _without(threes: Sequence[Three]) -> list[Window]:
    return [window for three in threes for window in three[1:]]


def _more(share: float, threes: Sequence[Three]) -> float:
    return quantile(_with(threes), share) - quantile(_without(threes), share)


def _nothing_more(share: float, threes: Sequence[Three]) -> float:
    return quantile([three[1] for three in threes], share) - quantile([three[2] for three in threes], share)


def _tell(what: str, sample: Sequence[T], statistic: Callable[[Sequence[T]], float]) -> None:
    """With its 95 % interval: of samples drawn anew from the threes, which stay whole."""
    chance = random.Random(0)
    drawn = sorted(statistic(chance.choices(sample, k=len(sample))) for _ in range(DRAWN))
    least, most = drawn[round(0.025 * DRAWN)], drawn[round(0.975 * DRAWN)]
    print(f"{what}: {statistic(sample):+.3f} ms (95 % {least:+.3f} to {most:+.3f})")
