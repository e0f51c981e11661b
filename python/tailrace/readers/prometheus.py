"""An answer of Prometheus (or VictoriaMetrics) to `query_range`, as JSON.

```text
{"status": "success", "data": {"resultType": "matrix", "result": [
    {"metric": {"__name__": "node_procs_running", "instance": "10.0.0.3:9100"}, "values": [[1795193340, "3"], …]}, …]}}
{"metric": {"__name__": "node_procs_running", …}, "values": [3, …], "timestamps": [1795193340000, …]}
```
The last form is a line of VictoriaMetrics' `/api/v1/export`, with times in ms.
The metric is `__name__`; those of node_exporter, cAdvisor, the JVM and others are computed (`counters`). An expression
has no name: the metric is then the name of the file, if that is a metric of the record (`cpu_busy.json`). A value of an
expression is taken as that of the time since the one before, which is the step of the query.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tailrace import units
from tailrace.dataset.metrics import METRICS
from tailrace.errors import InputError
from tailrace.readers import conversions, counters, metrics, netdata_charts
from tailrace.readers.counters import Counters
from tailrace.readers.elements import elements, number, table, text
from tailrace.readers.netdata_series import Charted
from tailrace.readers.sampled import Sampled
from tailrace.readers.source import Found, Source, text_head

_SEEN = re.compile(r'\A[\s\ufeff]*\{\s*"status"\s*:\s*"success"[\s\S]{0,400}?"resultType"\s*:\s*"matrix"')
_EXPORTED = re.compile(r'\A[\s\ufeff]*\{\s*"metric"\s*:\s*\{[^{}]{0,8000}\}\s*,\s*"values"\s*:\s*\[[^"\[\]{}]{0,50}')
_OF_ONE_MOMENT = re.compile(
    r'\A[\s\ufeff]*\{\s*"status"\s*:\s*"success"[\s\S]{0,400}?"resultType"\s*:\s*"(?:vector|scalar)"'
)
_OPENING = re.compile(r'"result"\s*:\s*\[')
_RESUME = re.compile(r'\{\s*"metric"\s*:')


def sniff(name: str, head: bytes) -> bool:
    beginning = text_head(head)
    return beginning is not None and any(
        form.match(beginning) is not None for form in (_SEEN, _OF_ONE_MOMENT, _EXPORTED)
    )


def read(source: Source) -> Found:
    if _OF_ONE_MOMENT.match(text_head(source.head()) or ""):
        raise InputError(
            source.path,
            "it has the values of one moment, the answer of Prometheus to `query`, which show no course of time",
            "ask query_range for the time of the recording, or all that Tailrace uses with tailrace fetch",
            commands=(conversions.PROMETHEUS_QUERY, "tailrace fetch http://localhost:9090 --during RUN -o node.json"),
        )
    found, samples, points = Found(), Sampled(standard=True), Counters()
    charted = Charted(samples.most)
    stem = source.path.name.split(".")[0]
    named = stem if metrics.standard_name(stem)[0] in METRICS else None
    exported = _EXPORTED.match(text_head(source.head()) or "")
    for _, element in elements(source, found, _RESUME, None if exported else _OPENING):
        series = table(element)
        labels = table(series.get("metric"))
        metric = text(labels.get("__name__")) or named
        if metric is None:
            raise InputError(
                source.path,
                f"its series have no name, as those of an expression, and {stem} is no metric",
                "call the file by what it holds, such as cpu_busy.json",
            )
        known = {name: found_text for name, value in labels.items() if (found_text := text(value))}
        place = source.place or counters.place_of(metric, known, "prometheus")
        chart = netdata_charts.exported(metric, known)
        counted, of = counters.known(metric), counters.series_of(known)
        for seconds, value in _values(series):
            if samples.full or points.full or charted.full:
                break
            stamp = round(seconds * 1000) * units.MILLISECOND
            if chart:
                charted.add_cell(place, known["chart"], chart, stamp, known["dimension"], number(value))
            elif counted:
                points.add(place, metric, of, stamp, number(value))
            else:
                samples.add(stamp, None, place, metric, number(value))
        if samples.full or points.full or charted.full:
            break
    points.into(samples, found, source)
    charted.into(samples, found)
    samples.into(found, source, "there is no sample in it")
    return found


def _values(series: dict[str, Any]) -> Iterator[tuple[float, Any]]:
    """Unix time in s, and value."""
    values, stamps = series.get("values"), series.get("timestamps")
    if not isinstance(values, list):
        return
    if isinstance(stamps, list):
        yield from (((number(stamp) or 0) / 1000, value) for stamp, value in zip(stamps, values, strict=False))
        return
    yield from ((number(pair[0]) or 0, pair[1]) for pair in values if isinstance(pair, list) and len(pair) == 2)
