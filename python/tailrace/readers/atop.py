"""What `atop -r FILE -P CPU,cpu,CPL,DSK` prints: a line for each label, moment and device.

```text
CPU app1 1795193341 2026/11/20 16:49:01 1 100 2 14 24 1 150 8 0 1 2 0 5192 100 0 0      system user nice idle wait …
cpu app1 1795193341 2026/11/20 16:49:01 1 100 0 7 12 …                                  the same of core 0
CPL app1 1795193341 2026/11/20 16:49:01 1 2 0.35 0.61 0.41 1118 1341                    loads, context switches
DSK app1 1795193341 2026/11/20 16:49:01 1 vda 625 …                                     ms of input and output
SEP
```
The moment is a Unix time, and the next number is the interval in seconds. The sample after RESET covers the time since
the machine started, and is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tailrace.readers.elements import number
from tailrace.readers.sampled import Sampled
from tailrace.readers.source import Found, Source, text_head
from tailrace.units import SECOND

_LINE = re.compile(r"^(?:CPU|cpu|CPL|DSK|LVM|MDD) \S{1,99} \d{9,11} \d{4}/\d\d/\d\d \d\d:\d\d:\d\d \d", re.MULTILINE)
_SAMPLES_PER_DISK = 4
"""The busiest disk of a moment takes as much memory as so many samples."""
_BEFORE, _DISKS = 6, ("DSK", "LVM", "MDD")
"""Words before the values of a label; labels of disks."""


def sniff(name: str, head: bytes) -> bool:
    return bool(_LINE.search((text_head(head) or "")[:4096]))


def read(source: Source) -> Found:
    found, samples, boot = Found(), Sampled(), False
    disks: dict[tuple[str, int, int], float] = {}
    for line_number, line in source.lines(found):
        words = line.split()
        if words[:1] in (["RESET"], ["SEP"]):
            boot = words[0] == "RESET"
            continue
        values = [number(word) for word in words]
        stamp, seconds = (values[2], values[5]) if len(words) > _BEFORE + 1 else (None, None)
        if stamp is None or not seconds or not 0 < stamp < 10**11 or not 0 < seconds < 10**8:
            found.damaged(source.path.name, line_number)
            continue
        if boot:
            continue
        moment, interval, place = round(stamp * SECOND), round(seconds * SECOND), source.place or words[1]
        if words[0] in _DISKS:
            busy, key = values[_BEFORE + 1], (place, moment, interval)
            if busy is not None:
                disks[key] = max(disks.get(key, 0.0), min(busy / seconds / 1000, 1.0))
        for suffix, metric, value in _metrics(words[0], values[_BEFORE:], seconds):
            samples.add(moment, interval, place + suffix, metric, value)
        if samples.full:
            break
        if len(disks) * _SAMPLES_PER_DISK >= samples.most:
            found.filled(source.path.name, len(disks), "moments")
            break
    for (place, moment, interval), busy in disks.items():
        samples.add(moment, interval, place, "disk_busy", round(busy, 9))
    samples.into(found, source, "there is no sample of CPU, context switches or disks in it", whole_seconds=True)
    return found


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
        yield suffix, "cpu_busy", round(min((system + user + nice + irq + soft) / whole, 1.0), 9)
        yield suffix, "cpu_iowait", round(wait / whole, 9)
        yield suffix, "cpu_steal", round(steal / whole, 9)
