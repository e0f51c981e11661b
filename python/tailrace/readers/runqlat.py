"""How long tasks waited for a CPU: the histograms of bcc's `runqlat -T 1`, or bpftrace's with a time before each.

```text
16:49:01                                                          16:49:01
     usecs               : count     distribution                 @usecs:
         0 -> 1          : 233      |***                          [0]                   11 |@@        |
     16384 -> 32767      : 809      |*******************          [16K, 32K)           809 |@@@@@@@@@@|
```
Each becomes `run_queue_waits`, how many tasks waited, and `run_queue_wait_max_ms`, the upper end of the highest group:
none waited longer. The diagnosis does not interpret them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tailrace.errors import InputError
from tailrace.readers.daytimes import Daytimes
from tailrace.readers.sampled import Sampled
from tailrace.readers.source import Found, Source, text_head

_SEEN = re.compile(r"Tracing (?:run queue latency|CPU scheduler)\.\.\.")
_TIME = re.compile(r"\s*(\d\d):(\d\d):(\d\d)\s*")
_UNIT = re.compile(r"\s*@?(?P<unit>[num]secs)(?:\[.{0,40}\])?\s*:\s*(?:count\s.*)?")
_GROUP = re.compile(r"\s*\d{1,18} -> (\d{1,18})\s*: (\d{1,18})\s*\|.*")
_POWER = re.compile(r"\[(?:\d{1,6}[KMGT]?, )?(\d{1,6})([KMGT]?)[\])]\s+(\d{1,18})\s+\|.*")
_MS = {"nsecs": 1e-6, "usecs": 1e-3, "msecs": 1.0}
_SCALE = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def sniff(name: str, head: bytes) -> bool:
    return bool(_SEEN.search((text_head(head) or "")[:4096]))


@dataclass
class _Histogram:
    """Of one moment; that of each process adds to it."""

    moment: int
    count: int = 0
    longest_ms: float = 0.0


def read(source: Source) -> Found:
    found, samples, days = Found(), Sampled(), Daytimes(source)
    place, unit, seen = source.place or "host", 1.0, list[_Histogram]()
    for line_number, line in source.lines(found):
        if time := _TIME.fullmatch(line):
            seen.append(_Histogram(days.moment(*time.groups())))
        elif said := _UNIT.fullmatch(line):
            unit = _MS[said["unit"]]
        elif group := _GROUP.fullmatch(line) or _POWER.fullmatch(line):
            power = len(group.groups()) == 3
            end = int(group[1]) * (_SCALE[group[2]] if power else 1)
            count = int(group[3] if power else group[2])
            if seen and count:
                seen[-1].count += count
                seen[-1].longest_ms = max(seen[-1].longest_ms, end * unit)
        elif "|" in line:
            found.damaged(source.path.name, line_number)
        if len(seen) * 2 >= samples.most:
            break
    if not seen:
        raise InputError(
            source.path, "its histograms have no times", "print them with their times: runqlat -T 1 (-m for ms)"
        )
    for histogram in seen:
        samples.add(histogram.moment, None, place, "run_queue_waits", float(histogram.count))
        samples.add(histogram.moment, None, place, "run_queue_wait_max_ms", histogram.longest_ms)
    samples.into(found, source, "there is no histogram in it", whole_seconds=True)
    days.date(found)
    return found
