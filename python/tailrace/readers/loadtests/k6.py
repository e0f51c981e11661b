"""Results of k6, `--out json=FILE` and `--out csv=FILE`.

```text
{"type":"Point","metric":"http_req_duration","data":{"time":"2026-11-20T16:49:00.12Z","value":3.2,"tags":{…}}}
metric_name,timestamp,metric_value,check,error,error_code,expected_response,group,method,name,…,status,…,url,extra_tags
```
A request is several points in a row, the first of `http_reqs`, with the time of its end. Its duration is
`http_req_blocked`, which contains connecting, and `http_req_duration`; both in ms.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from tailrace import units
from tailrace.readers.elements import elements, moment, number, table, text
from tailrace.readers.layout import named_rows
from tailrace.readers.loadtests.sent import Form, Sent, outcome
from tailrace.readers.source import Found, Source

_JSON = re.compile(r'\A\s*\{\s*(?:"metric"\s*:\s*"[^"]*"\s*,\s*)?"type"\s*:\s*"(?:Metric|Point)"\s*,')
_RESUME = re.compile(r'\{\s*"(?:type|metric)"\s*:')
_CSV = re.compile(r"\A\ufeff?(?:metric_name|metric),timestamp,(?:metric_value|value),")

Point = tuple[int, str, str, float | None, Mapping[str, str]]
"""Line, metric, stamp, value, tags."""


def _json(source: Source, found: Found) -> Iterator[tuple[int, Sent | None]]:
    return _requests(_json_points(source, found))


def _json_points(source: Source, found: Found) -> Iterator[Point]:
    for line, (_, element) in enumerate(elements(source, found, _RESUME), 1):
        point = table(element)
        if point.get("type") == "Point":
            data = table(point.get("data"))
            tags = {key: text(value) or "" for key, value in table(data.get("tags")).items()}
            yield line, str(point.get("metric")), str(data.get("time")), number(data.get("value")), tags


def _csv(source: Source, found: Found) -> Iterator[tuple[int, Sent | None]]:
    return _requests(_csv_points(source, found))


def _csv_points(source: Source, found: Found) -> Iterator[Point]:
    for line, tags in named_rows(source, found):
        metric, when, value = [*tags.values()][:3] if tags else ("", "", "")
        more = dict(pair.split("=", 1) for pair in tags.get("extra_tags", "").split("&") if "=" in pair)
        yield line, metric, when, number(value), {**more, **tags}


def _requests(points: Iterable[Point]) -> Iterator[tuple[int, Sent | None]]:
    at, stamp, values = 0, "", dict[str, float | None]()
    tags: Mapping[str, str] = {}
    for line, metric, when, value, about in points:
        if metric == "http_reqs" or (metric in values and metric.startswith("http_req_")):
            yield from _whole(at, stamp, values, tags)
            values = {}
        if not metric:
            yield line, None
        if metric.startswith("http_req"):
            if not values:
                at, stamp, tags = line, when, about
            values[metric] = value
    yield from _whole(at, stamp, values, tags)


def _whole(
    at: int, stamp: str, values: Mapping[str, float | None], tags: Mapping[str, str]
) -> Iterator[tuple[int, Sent | None]]:
    if not values:
        return
    took, blocked = values.get("http_req_duration"), values.get("http_req_blocked") or 0.0
    end = moment(stamp)
    if took is None or end is None or not 0 <= took + blocked < 10**9:
        yield at, None
        return
    duration = round((took + blocked) * units.MILLISECOND)
    connect = values.get("http_req_connecting")
    url = tags.get("url", "")
    yield (
        at,
        Sent(
            end - duration,
            duration,
            outcome(tags.get("status", ""), tags.get("error", ""), failed=bool(tags.get("error"))),
            round(connect * units.MILLISECOND) if connect is not None and 0 <= connect < 10**9 else None,
            method=tags.get("method", ""),
            url=url,
            label="" if tags.get("name", url) == url else tags["name"],
            client=tags.get("vu", ""),
        ),
    )


FORMS = (
    Form("k6", lambda head: bool(_JSON.match(head)), _json),
    Form("k6", lambda head: bool(_CSV.match(head)), _csv),
)
