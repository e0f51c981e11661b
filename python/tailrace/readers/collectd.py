"""Files that collectd's csv plugin writes: `HOST/cpu-0/cpu-idle-2026-11-20`, one for each value.

```text
epoch,value
1795193341.000,75.000000
```
The folders say what the values are, so all files are read together. With `StoreRates true` a counter is written as its
rate, with a decimal point. By default it is written as it is, a whole number that grows.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tailrace.errors import InputError
from tailrace.foreign import listed
from tailrace.readers.elements import number
from tailrace.readers.layout import MISSING
from tailrace.readers.sampled import Sampled
from tailrace.readers.source import Found, Source, text_head
from tailrace.units import MILLISECOND, SECOND

_HEADER = re.compile(r"\A\ufeff?epoch(?:,\w{1,64}){1,16}\r?\n")
_NAME = re.compile(r"(.{1,200}?)(?:-\d{4}-\d\d-\d\d)?(?:\.csv)?(?:\.gz|\.zst)?")
_CPU = re.compile(r"(?:cpu(?:-(\d{1,4}|all))?|aggregation-cpu-average)/(?:cpu|percent)-(\w{1,40})")
_LARGEST = 2.0**64
_FULL = 150.0
"""A CPU has 100 hundredths in a second; the moments at which collectd reads them vary a little."""


@dataclass(frozen=True)
class _Rule:
    """What a file becomes: a `level`, a `count` within the interval, or the `busiest` share of the disks."""

    kind: str
    metric: str
    column: str = "value"


_RULES = (
    (re.compile(r"disk-.+/disk_io_time"), _Rule("busiest", "disk_busy", "io_time")),
    (re.compile(r"contextswitch/contextswitch"), _Rule("count", "context_switches")),
    (re.compile(r"vmem/vmpage_faults"), _Rule("count", "major_faults", "majflt")),
    (re.compile(r"protocols-TcpExt/protocol_counter-ListenDrops"), _Rule("count", "listen_drops")),
    (re.compile(r"protocols-TcpExt/protocol_counter-TCPSynRetrans"), _Rule("count", "syn_retransmits")),
    (re.compile(r"processes/ps_state-running"), _Rule("level", "run_queue")),
)
_READ = (
    "only those of cpu, contextswitch, disk (disk_io_time), processes (ps_state-running), protocols-TcpExt, vmem count"
)

Points = list[tuple[int, float]]
Modes = dict[tuple[str, int], dict[str, float]]


def sniff(name: str, head: bytes) -> bool:
    return bool(_HEADER.match(text_head(head) or ""))


def together(source: Source) -> str:
    return "collectd"


def read(sources: Sequence[Source]) -> Found:
    found, samples, skipped = Found(), Sampled(), list[str]()
    modes: Modes = defaultdict(dict)
    busiest: dict[tuple[str, int, int], float] = {}
    for source in sources:
        path = source.path.absolute()
        named = _NAME.fullmatch(path.name)
        title = f"{path.parent.name}/{named[1] if named else path.name}"
        place = source.place or path.parent.parent.name or "host"
        cpu, rule = _CPU.fullmatch(title), next((rule for form, rule in _RULES if form.fullmatch(title)), None)
        if len(modes) * 8 + len(busiest) * 4 + len(samples.time) >= samples.most:
            found.filled(source.path.name, samples.most)
            break
        if cpu is not None:
            where = place + ("" if cpu[1] in (None, "all") else f"/cpu{cpu[1]}")
            points, counter = _points(source, found, "value", samples.most - len(modes) * 8)
            for moment, _, value in _levels(points, counter):
                modes[where, moment][cpu[2]] = value
        elif rule is not None:
            points, counter = _points(source, found, rule.column, samples.most - len(samples.time))
            for moment, interval, value in _levels(points, counter and rule.kind != "level"):
                if rule.kind == "level":
                    samples.add(moment, None, place, rule.metric, value)
                elif interval is None:
                    found.lose("first values, whose interval is unknown", 1)
                elif rule.kind == "count":
                    samples.add(moment, interval, place, rule.metric, round(value * interval / SECOND, 6))
                else:
                    key, share = (place, moment, interval), value / 1000
                    busiest[key] = max(busiest.get(key, 0.0), share)
        else:
            skipped.append(title)
    _cpus(samples, found, modes)
    for (place, moment, interval), share in busiest.items():
        samples.add(moment, interval, place, "disk_busy", share)
    if skipped and len(skipped) == len(sources):
        said = f"it is a file of collectd's csv plugin, and {_READ}"
        raise InputError(sources[0].path, said, "pass the files of these folders, like HOST/cpu-0/cpu-idle-DATE")
    if skipped:
        found.notes.append(
            f"collectd's files without a metric of the record were left out: {listed(sorted(set(skipped)))}"
        )
    samples.into(found, sources[0], "there is no usable value in it")
    return found


def _points(source: Source, found: Found, column: str, most: int) -> tuple[Points, bool]:
    """The moments and values of a column, in the order of time, and whether they are a counter as it is."""
    points: Points = []
    at, width, counter = 1, 2, True
    for line_number, line in source.lines(found):
        row = line.lstrip("\ufeff").split(",")
        if row[0] == "epoch":
            if column not in row:
                found.stopped(source.path.name, f"it has no column {column}")
                break
            at, width = row.index(column), len(row)
            continue
        stamp, value = number(row[0]), number(row[at]) if len(row) == width else None
        if stamp is not None and len(row) == width and row[at].strip().lower().lstrip("-") in MISSING:
            found.lose("samples without a value", 1)
        elif stamp is None or value is None or not 0 <= stamp < 10**11 or not 0 <= value < _LARGEST:
            found.damaged(source.path.name, line_number)
        elif len(points) >= most:
            found.filled(source.path.name, most)
            break
        else:
            counter = counter and "." not in row[at]
            points.append((round(stamp * 1000) * MILLISECOND, value))
    return sorted(points), counter


def _levels(points: Points, counter: bool) -> Iterator[tuple[int, int | None, float]]:
    """End, interval, and level or rate per second; a counter that falls was reset, and gives none there."""
    if not counter and points:
        yield points[0][0], None, points[0][1]
    for (before, low), (now, high) in pairwise(points):
        if now > before and (high >= low or not counter):
            yield now, now - before, (high - low) * SECOND / (now - before) if counter else high


def _cpus(samples: Sampled, found: Found, modes: Modes) -> None:
    """A share needs every mode that its CPU has elsewhere: without one, the rest may be work or waiting."""
    needed: dict[str, set[str]] = defaultdict(set)
    for (place, _), shares in modes.items():
        needed[place] |= shares.keys() & {"idle", "wait", "steal"}
    for (place, moment), shares in modes.items():
        waits, stolen = shares.get("wait", 0.0), shares.get("steal", 0.0)
        if any(share > _FULL for share in shares.values()):
            samples.unusable += 1
        elif "idle" in shares and shares.keys() >= needed[place]:
            busy = (100 - shares["idle"] - waits - stolen) / 100
            samples.add(moment, None, place, "cpu_busy", max(0.0, busy))
        elif "idle" in needed[place]:
            found.lose("moments of a CPU without idle, wait or steal", 1)
        for mode_name, metric in (("wait", "cpu_iowait"), ("steal", "cpu_steal")):
            if shares.get(mode_name, _FULL + 1) <= _FULL:
                samples.add(moment, None, place, metric, shares[mode_name] / 100)
