"""Prometheus' and OpenMetrics' text with a time for each value, as `promtool tsdb dump-openmetrics` writes it.

```text
# TYPE node_cpu_seconds_total counter
node_cpu_seconds_total{cpu="0",mode="idle",instance="10.0.0.3:9100"} 93461.1 1795193340.123
# EOF
```
`/api/v1/allmetrics?format=prometheus` of Netdata, asked again and again, is read as well (`netdata_charts`). Times are
seconds (OpenMetrics) or milliseconds (Prometheus' text). A scrape without times shows one moment, which is unknown; it
is refused.
"""

from __future__ import annotations

import re

from tailrace.readers import counters, netdata_charts
from tailrace.readers.counters import Counters
from tailrace.readers.elements import moment, number
from tailrace.readers.netdata_series import Charted
from tailrace.readers.sampled import Sampled
from tailrace.readers.source import Found, Source, text_head

_LINE = re.compile(
    r"([a-zA-Z_:][a-zA-Z0-9_:]{0,500})(?:\{((?:[^\"}]|\"(?:[^\"\\]|\\.)*\")*)\})?"
    r" +(\S{1,40}) +(\d{1,19}(?:\.\d{1,9})?)(?: #.*)?"
)
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]{0,200})="((?:[^"\\]|\\.)*)"')
_EXAMINED = 200
"""Lines of the beginning that are searched for one with a time."""


def sniff(name: str, head: bytes) -> bool:
    lines = (text_head(head) or "").split("\n")[:_EXAMINED]
    first = next((line for line in lines if line and not line.startswith("#")), "")
    return _LINE.fullmatch(first.rstrip("\r")) is not None


def read(source: Source) -> Found:
    found, samples, points, others = Found(), Sampled(), Counters(), set[str]()
    charted = Charted(samples.most)
    for line_number, line in source.lines(found):
        if line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        stamp = moment(match[4]) if match else None
        if match is None or stamp is None:
            found.damaged(source.path.name, line_number)
            continue
        labels = dict(_LABEL.findall(match[2] or ""))
        place = source.place or counters.place_of(match[1], labels, "prometheus")
        if chart := netdata_charts.exported(match[1], labels):
            host = source.place or labels.get("instance", "netdata")
            charted.add_cell(host, labels["chart"], chart, stamp, labels["dimension"], number(match[3]))
        elif counters.known(match[1]):
            points.add(place, match[1], counters.series_of(labels), stamp, number(match[3]))
        elif len(others) < 1000:
            others.add(match[1])
        if points.full or charted.full:
            break
    points.into(samples, found, source)
    charted.into(samples, found)
    samples.into(found, source, "it has no metric that Tailrace knows, or a single moment of each")
    if others:
        found.notes.append(f"{source.path.name}: the diagnosis does not use {len(others)} other metrics; left out")
    return found
