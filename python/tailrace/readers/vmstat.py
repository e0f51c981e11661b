"""What `vmstat -t` prints: a line each interval, with its time at the end.

```text
procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- -----timestamp-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st                 UTC
 3  0      0 13501924  53108 10194900    0    0  1085  4864  493 2139 13 7 75  4  1 2026-11-20 16:49:01
```
The first line covers the time since the machine started, and is left out. The column of times has the name of the
machine's time zone.
"""

from __future__ import annotations

import re

from tailrace.readers.elements import moment, number
from tailrace.readers.sampled import Sampled
from tailrace.readers.source import Found, Source, text_head

_SEEN = re.compile(r"\A(?:procs -|--procs-- -)[^\n]{1,200}timestamp-+\s*\n *r +b ")
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?: ([A-Z]{2,5}|[+-]\d\d))?\s*$")
"""Old versions print the time zone in each line, and new ones as the name of the column."""


def sniff(name: str, head: bytes) -> bool:
    return bool(_SEEN.match(text_head(head) or ""))


def read(source: Source) -> Found:
    found, samples, zone, first = Found(), Sampled(), "UTC", True
    columns: list[str] = []
    place = source.place or "host"
    for line_number, line in source.lines(found):
        words = line.split()
        if line.startswith(("procs ", "--procs--")):
            continue
        if words[:2] == ["r", "b"]:
            columns = [word for word in words if word.islower()]
            zone = "UTC" if len(columns) == len(words) else words[-1]
            continue
        stamp = _STAMP.search(line)
        if stamp is None or len(words) != len(columns) + len(stamp[0].split()):
            found.damaged(source.path.name, line_number)
            continue
        if first:
            first = False
            continue
        values = {name: number(word) for name, word in zip(columns, words, strict=False)}
        now, zone = moment(stamp[1]) or 0, stamp[2] or zone
        user, system = values.get("us"), values.get("sy")
        if user is not None and system is not None:
            samples.add(now, None, place, "cpu_busy", (user + system) / 100)
        for column, metric, factor in (("wa", "cpu_iowait", 0.01), ("st", "cpu_steal", 0.01), ("r", "run_queue", 1.0)):
            value = values.get(column)
            if value is not None:
                samples.add(now, None, place, metric, round(value * factor, 9))
    samples.into(
        found,
        source,
        "it has no report after the first, which covers the time since the machine started",
        whole_seconds=True,
        local=zone != "UTC",
    )
    name = source.path.name
    if source.place is None:
        found.notes.append(f"{name}: vmstat prints no host, so its place is called host; pass NAME=FILE")
    if zone != "UTC":
        found.notes.append(f"{name}: its times are in {zone[:20]} and are taken as UTC")
    return found
