"""Metrics in OTLP: JSON lines and protobuf of the Collector's file exporter, and what `tailrace receive` keeps.

```text
{"resourceMetrics": [{"resource": {"attributes": […]}, "scopeMetrics": [{"metrics": [{"name": "system.cpu.time",
    "sum": {"dataPoints": [{"attributes": […], "timeUnixNano": "1795193341000000000", "asDouble": 12.5}]}}]}]}]}
```
A histogram counts by its sum (`jvm.gc.duration`). Growth since the point before (delta temporality) is added up first.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from tailrace.bounds import JSON_ELEMENT
from tailrace.errors import UsageError
from tailrace.readers import counters, frames
from tailrace.readers.counters import Counters
from tailrace.readers.elements import elements, moment, number, rows, table, text
from tailrace.readers.sampled import Sampled
from tailrace.readers.source import Found, Source, text_head

_SEEN = re.compile(r'\A[\s\ufeff]*\{\s*"resourceMetrics"\s*:')
_JSON = re.compile(rb'\s*\{\s*"resourceMetrics"\s*:')
_RESUME = re.compile(r'\{\s*"resourceMetrics"\s*:')
_FORMS = ("sum", "gauge", "histogram")
_VALUES = {"as_double": "asDouble", "as_int": "asInt"}
_DELTA = (1, "AGGREGATION_TEMPORALITY_DELTA")
_UTILISATION = "system_cpu_utilization"


def sniff(name: str, head: bytes) -> bool:
    return bool(_SEEN.match(text_head(head) or "")) or _are_messages(head)


def _are_messages(head: bytes) -> bool:
    first, _ = frames.beginning(head)
    return _JSON.match(first) is not None or any(
        name.isascii() and name.decode(errors="replace").isprintable() and {5, 7, 9, 10, 11} & fields.keys()
        for resource in _fields(first).get(1, ())
        for scope in _fields(resource).get(2, ())
        for metric in _fields(scope).get(2, ())
        for fields in [_fields(metric)]
        for name in fields.get(1, ())
    )


def _fields(message: bytes) -> dict[int, list[bytes]]:
    """The fields of a message of protobuf that have a length; what is cut or none of these ends them."""
    found: dict[int, list[bytes]] = defaultdict(list)
    at = 0
    while at < len(message):
        tag, length, at = message[at], 0, at + 1
        for shift in range(0, 35, 7):
            byte = message[at] if at < len(message) else 0
            length, at = length | (byte & 0x7F) << shift, at + 1
            if byte < 0x80:
                break
        if tag & 7 != 2 or tag >= 0x80:
            break
        found[tag >> 3].append(message[at : at + length])
        at += length
    return found


def read(source: Source) -> Found:
    found, samples, points = Found(), Sampled(), Counters()
    sums: dict[tuple[str, str, str], float] = defaultdict(float)
    shares: dict[tuple[str, int], dict[tuple[str, str], float]] = defaultdict(dict)
    for place, metric, point, labels, delta in _points(source, found):
        stamp = moment(str(point.get("timeUnixNano")))
        value = number(point.get("asDouble", point.get("asInt", point.get("sum"))))
        name = counters.plain(metric)
        if "sum" in point:
            name += "_sum"
        if stamp is None or value is None:
            samples.unusable += 1
            continue
        where = source.place or place
        if name == _UTILISATION:
            core, _, mode = counters.series_of(labels).partition(" ")
            shares[where, stamp][core, mode] = value
            points.count += 1
        elif counters.known(name):
            series = counters.series_of(labels)
            if delta:
                sums[where, name, series] += value
                value = sums[where, name, series]
            points.add(where, name, series, stamp, value)
        if points.full:
            break
    for (where, stamp), modes in shares.items():
        _utilisation(samples, stamp, where, modes)
    points.into(samples, found, source)
    samples.into(found, source, "it has no metric that Tailrace knows, or a single moment of each")
    return found


Point = tuple[str, str, dict[str, Any], dict[str, str], bool]
"""Place, metric, data point, labels, and whether it is a growth."""


def _points(source: Source, found: Found) -> Iterator[Point]:
    if _SEEN.match(text_head(source.head()) or ""):
        for _, element in elements(source, found, _RESUME):
            yield from _points_of_json(element)
        return
    parsed, error = _package()
    for message in frames.messages(source, found):
        try:
            if message.lstrip()[:1] != b"{":
                yield from _points_of_message(parsed(message))
            elif len(message) <= JSON_ELEMENT:
                yield from _points_of_json(json.loads(message))
            else:
                found.lose("damaged elements", 1)
        except (ValueError, RecursionError, error):
            found.lose("damaged elements", 1)


def _points_of_json(element: Any) -> Iterator[Point]:
    for resource in rows(table(element).get("resourceMetrics")):
        about = _values(table(resource.get("resource")).get("attributes"))
        for scope in rows(resource.get("scopeMetrics")):
            for metric in rows(scope.get("metrics")):
                name = text(metric.get("name")) or ""
                place = counters.place_of(counters.plain(name), about, "otlp")
                for form in _FORMS:
                    data = table(metric.get(form))
                    delta = data.get("aggregationTemporality") in _DELTA
                    for point in rows(data.get("dataPoints")):
                        yield place, name, point, _values(point.get("attributes")), delta


def _points_of_message(message: Any) -> Iterator[Point]:
    """The same of protobuf, without objects of JSON: for a message of 6 MB they took 160 MiB more."""
    for resource in message.resource_metrics:
        about = _values_of_message(resource.resource.attributes)
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                place, form = counters.place_of(counters.plain(metric.name), about, "otlp"), metric.WhichOneof("data")
                if form not in _FORMS:
                    continue
                data = getattr(metric, form)
                delta = form != "gauge" and data.aggregation_temporality in _DELTA
                for point in data.data_points:
                    yield place, metric.name, _fields_of(point, form), _values_of_message(point.attributes), delta


def _fields_of(point: Any, form: str) -> dict[str, Any]:
    """The time and the value of a data point, by their names in JSON."""
    stamp = {"timeUnixNano": point.time_unix_nano or None}
    if form == "histogram":
        return stamp | ({"sum": point.sum} if point.HasField("sum") else {})
    value = point.WhichOneof("value")
    return stamp | ({_VALUES[value]: getattr(point, value)} if value else {})


def _package() -> tuple[Callable[[bytes], Any], type[Exception]]:
    """What reads a message of protobuf, and its error for a damaged one."""
    try:
        from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
        from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
    except ImportError as error:
        raise UsageError(
            "reading the metrics of OTLP as protobuf needs the package opentelemetry-proto",
            advice="install it with `pip install tailrace[otlp]`, or write JSON",
        ) from error
    return MetricsData.FromString, DecodeError


def _values_of_message(attributes: Any) -> dict[str, str]:
    found = ((item.key, getattr(item.value, item.value.WhichOneof("value") or "", None)) for item in attributes)
    return {counters.plain(key): text(value) or "" for key, value in found}


def _values(attributes: Any) -> dict[str, str]:
    return {
        counters.plain(str(item.get("key"))): text(next(iter(table(item.get("value")).values()), None)) or ""
        for item in rows(attributes)
    }


def _utilisation(samples: Sampled, stamp: int, place: str, modes: dict[tuple[str, str], float]) -> None:
    cores: dict[str, float] = defaultdict(float)
    for (core, mode), share in modes.items():
        if mode not in ("idle", "wait", "iowait", "steal"):
            cores[core] += share
    if cores:
        samples.add(stamp, None, place, "cpu_busy", sum(cores.values()) / len(cores))
