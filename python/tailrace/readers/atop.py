"""What atop prints for programs: `atop -r FILE -P CPU,cpu,CPL,DSK` and `atop -r FILE -J CPU,cpu,CPL,DSK`.

```text
CPU app1 1795193341 2026/11/20 16:49:01 1 100 2 14 24 1 150 8 0 1 2 0 5192 100 0 0      system user nice idle wait …
cpu app1 1795193341 2026/11/20 16:49:01 1 100 0 7 12 …                                  the same of core 0
CPL app1 1795193341 2026/11/20 16:49:01 1 2 0.35 0.61 0.41 1118 1341                    loads, context switches
DSK app1 1795193341 2026/11/20 16:49:01 1 vda 625 …                                     ms of input and output
SEP
{"host": "app1", "timestamp": 1795193341, "elapsed": 1, "CPU": {"hertz": 100, "nrcpu": 2, "stime": 14, "utime": 24, …
```
The moment is a Unix time, and the next number is the interval in seconds. The first sample covers the time since the
machine started, and is left out: it follows RESET, and in JSON its interval is longer than the next one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from tailrace.readers.elements import elements, number, rows, table, text
from tailrace.readers.sampled import Sampled
from tailrace.readers.source import Found, Source, text_head
from tailrace.units import SECOND

_LINE = re.compile(r"^(?:CPU|cpu|CPL|DSK|LVM|MDD) \S{1,99} \d{9,11} \d{4}/\d\d/\d\d \d\d:\d\d:\d\d \d", re.MULTILINE)
_RESUME = re.compile(r'\{\s*"host"\s*:')
_OBJECT = re.compile(r'\A[\s\ufeff]*\{\s*"host"\s*:\s*"[^"]{0,255}"\s*,\s*"timestamp"\s*:\s*\d+\s*,\s*"elapsed"\s*:')
_SAMPLES_PER_DISK = 4
"""The busiest disk of a moment takes as much memory as so many samples."""
_BEFORE, _DISKS = 6, ("DSK", "LVM", "MDD")
"""Words before the values of a label; labels of disks."""
_TICKS = ("stime", "utime", "ntime", "itime", "wtime", "Itime", "Stime", "steal")
"""The values of a CPU in JSON, in the order of a line."""


class _Row(NamedTuple):
    """A label of a moment, with the values of its line."""

    place: str
    stamp: float
    seconds: float
    label: str
    values: list[float | None]


def sniff(name: str, head: bytes) -> bool:
    beginning = text_head(head) or ""
    return bool(_LINE.search(beginning[:4096]) or _OBJECT.search(beginning))


def read(source: Source) -> Found:
    found, samples = Found(), Sampled()
    disks: dict[tuple[str, int, int], float] = {}
    in_json = _OBJECT.search(text_head(source.head()) or "")
    for row in _of_json(source, found) if in_json else _of_lines(source, found):
        moment, interval, place = round(row.stamp * SECOND), round(row.seconds * SECOND), source.place or row.place
        if row.label in _DISKS:
            busy, key = row.values[1], (place, moment, interval)
            if busy is not None:
                disks[key] = max(disks.get(key, 0.0), busy / row.seconds / 1000)
        for suffix, metric, value in _metrics(row.label, row.values, row.seconds):
            samples.add(moment, interval, place + suffix, metric, value)
        if samples.full:
            break
        if len(disks) * _SAMPLES_PER_DISK >= samples.most:
            found.filled(source.path.name, len(disks), "moments")
            break
    for (place, moment, interval), busy in disks.items():
        samples.add(moment, interval, place, "disk_busy", busy)
    samples.into(found, source, "there is no sample of CPU, context switches or disks in it", whole_seconds=True)
    return found


def _is_time(stamp: float | None, seconds: float | None) -> bool:
    return stamp is not None and seconds is not None and 0 < stamp < 10**11 and 0 < seconds < 10**8


def _of_lines(source: Source, found: Found) -> Iterator[_Row]:
    boot = False
    for line_number, line in source.lines(found):
        words = line.split()
        if words[:1] in (["RESET"], ["SEP"]):
            boot = words[0] == "RESET"
            continue
        values = [number(word) for word in words]
        stamp, seconds = (values[2], values[5]) if len(words) > _BEFORE + 1 else (None, None)
        if stamp is None or seconds is None or not _is_time(stamp, seconds):
            found.damaged(source.path.name, line_number)
        elif not boot:
            yield _Row(words[1], stamp, seconds, words[0], values[_BEFORE:])


def _of_json(source: Source, found: Found) -> Iterator[_Row]:
    first: list[_Row] | None = None
    for _, element in elements(source, found, _RESUME):
        moment = table(element)
        stamp, seconds = number(moment.get("timestamp")), number(moment.get("elapsed"))
        if stamp is None or seconds is None or not _is_time(stamp, seconds):
            found.lose("moments without a time", 1)
            continue
        labelled = list(_labels(moment))
        of_moment = [_Row(text(moment.get("host")) or "host", stamp, seconds, *label) for label in labelled]
        if first is None:
            first = of_moment
            continue
        if first and first[0].seconds <= seconds:
            yield from first
        first = []
        yield from of_moment
    yield from first or []


def _labels(moment: dict[str, Any]) -> Iterator[tuple[str, list[float | None]]]:
    whole = table(moment.get("CPU"))
    hertz = number(whole.get("hertz"))
    for label, cpus, of in (("CPU", [whole], "nrcpu"), ("cpu", rows(moment.get("cpu")), "cpuid")):
        for cpu in cpus:
            yield label, [hertz, number(cpu.get(of)), *(number(cpu.get(tick)) for tick in _TICKS)]
    yield "CPL", [*[None] * 4, number(table(moment.get("CPL")).get("csw"))]
    for label in _DISKS:
        for disk in rows(moment.get(label)):
            yield label, [None, number(disk.get("io_ms"))]


def _metrics(label: str, values: list[float | None], seconds: float) -> Iterator[tuple[str, str, float | None]]:
    if label == "CPL" and len(values) > 4:
        yield "", "context_switches", values[4]
    if label not in ("CPU", "cpu") or len(values) < 10:
        return
    hertz, second = values[0], values[1]
    ticks = [value for value in values[2:10] if value is not None]
    if not hertz or second is None or len(ticks) < 8:
        return
    cores, suffix = (1.0, f"/cpu{second:.0f}") if label == "cpu" else (second, "")
    system, user, nice, _, wait, irq, soft, steal = ticks
    whole = hertz * cores * seconds
    if whole > 0:
        yield suffix, "cpu_busy", (system + user + nice + irq + soft) / whole
        yield suffix, "cpu_iowait", wait / whole
        yield suffix, "cpu_steal", steal / whole
