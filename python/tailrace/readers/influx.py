"""InfluxDB's line protocol, as Telegraf writes it, Telegraf's JSON, and InfluxDB's annotated CSV (influx_csv.py).

```text
cpu,cpu=cpu-total,host=app1 usage_user=12.5,usage_idle=75,usage_iowait=4,usage_steal=1 1795193341000000000
kernel,host=app1 context_switches=4711i 1795193341000000000
{"fields": {"usage_idle": 75, …}, "name": "cpu", "tags": {"cpu": "cpu-total", "host": "app1"}, "timestamp": 1795193341}
```
A metric is measurement and field (`kernel_context_switches`). The percentages of `cpu` are of the interval before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tailrace.readers import counters, influx_csv
from tailrace.readers.counters import Counters
from tailrace.readers.elements import elements, moment, number, rows, table, text
from tailrace.readers.sampled import Sampled
from tailrace.readers.source import Found, Source, text_head

_KEY = r"(?:[^\s,=\\]|\\.){1,500}"
_LINE = re.compile(
    rf"({_KEY})((?:,{_KEY}=(?:[^\s,\\]|\\.)+)*) ({_KEY}=(?:\"(?:[^\"\\]|\\.)*\"|[^\s,\"]+)"
    rf"(?:,{_KEY}=(?:\"(?:[^\"\\]|\\.)*\"|[^\s,\"]+))*) (\d{{9,19}})\s*"
)
_TAG = re.compile(rf"({_KEY})=((?:[^\s,\\]|\\.)+)")
_FIELD = re.compile(rf"({_KEY})=(\"(?:[^\"\\]|\\.)*\"|[^\s,\"]+)")
_JSON = re.compile(r'\A\s*\{\s*(?:"metrics"\s*:\s*\[\s*\{\s*)?"fields"\s*:\s*\{')
_RESUME = re.compile(r'\{\s*"fields"\s*:')


_ROUNDED = 1.0
"""Telegraf's counters do not change at the same time, so its percentages can be so much below 0 or above 100."""


def sniff(name: str, head: bytes) -> bool:
    beginning = text_head(head) or ""
    if _JSON.match(beginning) or influx_csv.HEAD.match(beginning):
        return True
    first = next((line for line in beginning.split("\n")[:200] if line and not line.startswith("#")), "")
    return _LINE.fullmatch(first.rstrip("\r")) is not None


def read(source: Source) -> Found:
    found, samples, points = Found(), Sampled(), Counters()
    beginning = text_head(source.head()) or ""
    annotated = influx_csv.HEAD.match(beginning)
    read_points = influx_csv.points if annotated else _json if _JSON.match(beginning) else _lines
    for measurement, tags, fields, time in read_points(source, found):
        stamp = moment(time)
        if stamp is None:
            samples.unusable += 1
            continue
        place = source.place or counters.place_of(measurement, tags, "telegraf")
        if measurement == "cpu":
            _cpu(samples, stamp, place, tags, fields)
        else:
            _count(points, stamp, place, measurement, tags, fields)
        if points.full or samples.full:
            break
    points.into(samples, found, source)
    refused = next((note for note in found.notes if influx_csv.REFUSED in note), None)
    samples.into(found, source, refused or "it has no metric that Tailrace knows, or a single moment of each")
    return found


def _count(
    points: Counters, stamp: int, place: str, measurement: str, tags: Mapping[str, str], fields: Mapping[str, float]
) -> None:
    series = counters.series_of({key: value for key, value in tags.items() if key != "host"})
    for field, value in fields.items():
        name = field if measurement in ("prometheus", field) else f"{measurement}_{field}"
        if counters.known(name):
            points.add(place, name, series, stamp, value)


def _cpu(samples: Sampled, stamp: int, place: str, tags: Mapping[str, str], fields: Mapping[str, float]) -> None:
    core = tags.get("cpu", "cpu-total")
    suffix = "" if core == "cpu-total" else f"/{core}"
    idle, waits = fields.get("usage_idle"), fields.get("usage_iowait", 0.0)
    stolen = fields.get("usage_steal", 0.0)
    if idle is None:
        return
    if not all(-_ROUNDED <= share <= 100 + _ROUNDED for share in (idle, waits, stolen)):
        samples.unusable += 1
        return
    busy = max(0.0, (100 - idle - waits - stolen) / 100)
    for metric, value in (("cpu_busy", busy), ("cpu_iowait", waits / 100), ("cpu_steal", stolen / 100)):
        samples.add(stamp, None, place + suffix, metric, value)


def _lines(source: Source, found: Found) -> Iterator[influx_csv.Point]:
    for line_number, line in source.lines(found):
        if line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            found.damaged(source.path.name, line_number)
            continue
        tags = {_bare(key): _bare(value) for key, value in _TAG.findall(match[2])}
        values = ((key, number(value.rstrip("iu"))) for key, value in _FIELD.findall(match[3]) if value[0] != '"')
        yield _bare(match[1]), tags, {_bare(key): value for key, value in values if value is not None}, match[4]


def _bare(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _json(source: Source, found: Found) -> Iterator[influx_csv.Point]:
    for _, element in elements(source, found, _RESUME):
        whole = table(element)
        for point in rows(whole.get("metrics")) or [whole]:
            tags = {key: text(value) or "" for key, value in table(point.get("tags")).items()}
            values = ((key, number(value)) for key, value in table(point.get("fields")).items())
            known = {key: value for key, value in values if value is not None}
            yield str(point.get("name")), tags, known, str(point.get("timestamp"))
