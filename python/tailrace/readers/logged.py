"""How many of a server's requests its log has: all, or only slow ones, or some of them.

```text
[pid: 22|app: 0|req: 4/17] … [pid: 23|app: 0|req: 2/31] …       uWSGI counts all requests: 2 of 15 were logged
"connection": 12, "connection_requests": 7 … 12, 9 …            nginx counts those of a connection: 2 of 3
lines │      ┃█▆▅▄▃▂▁                                            a sharp edge that all interactions share: faster ones
      └──────┸─────────▶ duration                                were left out (nginx's `if=$slow`, log_min_duration_…)
```
Counters prove that requests are missing. An edge proves it where no part of the requests explains it, as in traces
(`spans_chosen`). Where a log has no calls, something may hold up each request for that time; then the log does not show
which it is. In each case the requests are known, and how many a server held is not.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tailrace import units
from tailrace.readers import spans_chosen
from tailrace.readers.accesslog_lines import json_table
from tailrace.readers.source import Frames
from tailrace.readers.spans_columns import Numbers
from tailrace.readers.stays import EXAMINED
from tailrace.topology import Server, Topology

if TYPE_CHECKING:
    from tailrace.readers.assembly import Text

_UWSGI = re.compile(r"\[pid: \d{1,9}\|app: \S{1,20}\|req: \d{1,12}/(\d{1,15})\] ")
_FEWEST = 20
"""Lines without which counters show nothing."""
_WHOLE = 0.99
"""Lines may be out of order at the begin and end of what was looked at."""
_ROUND = (1, 2, 2.5, 3, 5)
_LEAST_NS = units.MILLISECOND
_REMEDY = "If the log has all requests, say so with `chosen = false` of the server in the topology"


def by_counters(head: str) -> str:
    """Why counters in the first lines of a log show that requests are missing; empty where they show no gaps, or there
    are none."""
    lines = head.split("\n")
    seen = [int(match[1]) for line in lines if (match := _UWSGI.search(line))]
    logged, made = len(seen), max(seen) - min(seen) + 1 if seen else 0
    of_connections = defaultdict[str, list[int]](list)
    for line in lines if not seen else ():
        values = json_table(line) if '"connection_requests"' in line else None
        if values and str(values["connection_requests"]).isdecimal():
            of_connections[str(values.get("connection"))].append(int(values["connection_requests"]))
    if of_connections:
        logged = sum(map(len, of_connections.values()))
        made = sum(max(numbers) - min(numbers) + 1 for numbers in of_connections.values())
    if logged < _FEWEST or logged >= _WHOLE * made:
        return ""
    return (
        f"its counters show that {logged:,} of {made:,} requests were logged ({logged / made:.1%}) in the lines at its "
        "beginning"
    )


def by_durations(took: Numbers, longest: Numbers, kinds: Numbers) -> str:
    """Why the durations show it; empty where they do not. Of very many requests, these are the first. `longest` is the
    longest call of each request, 0 without any, in ns; `kinds` are numbers of their interactions."""
    numbers, first = kinds.astype(np.uint64), "first " if len(took) == EXAMINED else ""
    if (cut := spans_chosen.edge(took, longest, numbers)) is not None:
        return (
            f"{cut.requests - cut.below:,} of its {first}{cut.requests:,} requests took "
            f"{units.format_duration(cut.at)} or longer, with a sharp edge there that no part of them explains: faster "
            "requests were left out"
        )
    if longest.any() or (cut := spans_chosen.edge_alone(took, numbers)) is None or not _is_round(cut.at):
        return ""
    return (
        f"{cut.requests - cut.below:,} of its {first}{cut.requests:,} requests took {units.format_duration(cut.at)} or "
        "longer, with a sharp edge there: either faster requests were left out, or something holds up each request "
        "for that time"
    )


def _is_round(at: int) -> bool:
    """Whether a duration lies at a number that people choose, up to a hundredth above it."""
    numbers = (factor * 10**power for power in range(5) for factor in _ROUND)
    return any(number * _LEAST_NS <= at <= 1.01 * number * _LEAST_NS for number in numbers)


def settle(topology: Topology, texts: Sequence[Text]) -> Topology:
    """Leave out the visits of logs that lack requests, unless the topology says that none are missing. Returns the
    topology, in which the servers of such a log are chosen."""
    for source, _, found in texts:
        if not found.missing:
            continue
        servers = {server.name for server in found.topology.servers} if found.topology else set()
        if any(known.name in servers and (known.kept or known.chosen is False) for known in topology.servers):
            continue
        found.visits = Frames()
        found.notes.append(
            f"{source.path.name}: {found.missing}. How many requests a server held is unknown: there are requests "
            f"and no visits. {_REMEDY}"
        )
        topology = topology.model_copy(update={"servers": tuple(_chosen(topology, servers))})
    return topology


def _chosen(topology: Topology, servers: Collection[str]) -> Iterator[Server]:
    for server in topology.servers:
        yield server.model_copy(update={"chosen": True}) if server.name in servers else server
