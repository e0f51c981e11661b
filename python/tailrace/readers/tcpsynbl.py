"""How long accept queues were when connections came: the histograms of `tcpsynbl -T 1` of bcc's libbpf-tools, or of
bpftrace's with a time before each.

```text
16:49:01                                                          16:49:01
backlog_max = 128                                                 @backlog[128]:
     backlog             : count    distribution                  [0]              2266 |@@@@@@@@|
         0 -> 1          : 961      |******************|          [64, 128)           3 |        |
        64 -> 127        : 3        |                  |
```
The limit is `accept_queue_limit`. The diagnosis does not interpret two further metrics: how many connections came
(`accept_queue_arrivals`), and the lower end of the highest group (`accept_queue_reached`): some queue was at least so
long. If several listening sockets have different limits, the one that was the fullest counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tailrace.errors import InputError
from tailrace.readers.daytimes import Daytimes
from tailrace.readers.sampled import Sampled
from tailrace.readers.source import Found, Source, text_head

_SEEN = re.compile(r"Tracing SYN backlog size")
_TIME = re.compile(r"\s*(\d\d):(\d\d):(\d\d)\s*")
_LIMIT = re.compile(r"\s*(?:backlog_max = b?'?|@\w{0,30}\[)(\d{1,10})(?:L?'?|\]:)\s*")
_GROUP = re.compile(r"\s*(?P<least>\d{1,10}) -> \d{1,10}\s*: (?P<count>\d{1,15})\s*\|.*")
_POWER = re.compile(r"\s*\[(?P<least>\d{1,10})(?P<unit>[KMG]?)(?:, \d{1,10}[KMGT]?)?[\])]\s+(?P<count>\d{1,15})\s+\|.*")
_SCALE = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


def sniff(name: str, head: bytes) -> bool:
    text = (text_head(head) or "")[:65536]
    return bool(_SEEN.search(text[:4096])) and any(map(_TIME.fullmatch, text.split("\n")))


@dataclass
class _Queues:
    """Of one moment."""

    moment: int
    arrivals: int = 0
    reached: int = 0
    limit: int | None = None

    def add(self, limit: int, least: int, count: int) -> None:
        """Add a group of the histogram of sockets with this limit."""
        self.arrivals += count
        fuller = self.limit is None or least * max(self.limit, 1) > self.reached * max(limit, 1)
        if count and fuller:
            self.reached, self.limit = least, limit


def read(source: Source) -> Found:
    found, samples, days = Found(), Sampled(), Daytimes(source)
    place, limit, seen = source.place or "host", None, list[_Queues]()
    for line_number, line in source.lines(found):
        if time := _TIME.fullmatch(line):
            seen.append(_Queues(days.moment(*time.groups())))
            limit = None
        elif said := _LIMIT.fullmatch(line):
            limit = int(said[1])
        elif group := _GROUP.fullmatch(line) or _POWER.fullmatch(line):
            least = int(group["least"]) * _SCALE[group.groupdict().get("unit", "")]
            if seen and limit is not None:
                seen[-1].add(limit, least, int(group["count"]))
        elif "|" in line:
            found.damaged(source.path.name, line_number)
        if len(seen) * 3 >= samples.most:
            break
    if not seen:
        raise InputError(source.path, "its histograms have no times", "print them with their times: tcpsynbl -T 1")
    for queues in seen:
        samples.add(queues.moment, None, place, "accept_queue_arrivals", float(queues.arrivals))
        if queues.limit is not None:
            samples.add(queues.moment, None, place, "accept_queue_reached", float(queues.reached))
            samples.add(queues.moment, None, place, "accept_queue_limit", float(queues.limit))
    samples.into(found, source, "there is no histogram in it", whole_seconds=True)
    days.date(found)
    return found
