"""Data of Netdata: `/api/v1/data?chart=system.cpu&format=json`, also as `csv`, and with `options=jsonwrap`; and
`/api/v2/data?contexts=system.cpu`, also of `v3`.

```text
{"labels": ["time", "guest_nice", "guest", "steal", "softirq", "irq", "user", "system", "nice", "iowait"],
 "data": [[1795193341, 0, 0, 1, 0.5, 0, 12, 7, 0.5, 4], …]}
time,guest_nice,guest,steal,softirq,irq,user,system,nice,iowait
{"api": 2, "summary": {"contexts": [{"id": "system.cpu", …}], …}, "totals": {"instances": {"sl": 1, "qr": 1}, …},
 "result": {"labels": ["time", "user", …], "point": {"value": 0, "arp": 1, "pa": 2},
            "data": [[1795193341, [12, 0, 0], …], …]}}
```
The name of the chart is in the data only with `jsonwrap`; else the file has it (`disk_util.sda.json`). That of CPUs
is known by its dimensions as well. Values are averages, or rates per second, of the step that ends at their time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any

import numpy as np

from tailrace.errors import InputError
from tailrace.foreign import listed
from tailrace.readers import localclock
from tailrace.readers.elements import elements, moment, number
from tailrace.readers.layout import MISSING, fields
from tailrace.readers.netdata_charts import CPU, NAMES, Chart, chart_of
from tailrace.readers.netdata_series import Charted
from tailrace.readers.sampled import Sampled
from tailrace.readers.source import Found, Source, text_head

_LABELS = re.compile(r'"labels"\s*:\s*(\[[^\]]{1,60000}\])')
_ID = re.compile(r'"id"\s*:\s*"([^"\\]{1,200})"')
_OPENING = re.compile(r'"data"\s*:\s*\[')
_RESUME = re.compile(r'[\[{]\s*(?:"time"\s*:\s*)?\d{9,13}\s*,')
_SECOND = re.compile(r'[\s\ufeff]*\{\s*"api"\s*:\s*[23]\b')
_NAMED = re.compile(r'"(?:contexts|instances)"\s*:\s*\[\s*(?:\{\s*"id"\s*:\s*)?"([^"\\*]{1,200})"')
_LABELS_OF_SECOND = re.compile(r'"labels"\s*:\s*(\[\s*"time"[^\]]*\])')
_OPENING_OF_SECOND = re.compile(r'(?:\}|\])\s*,\s*"data"\s*:\s*\[')
_QUERIED = re.compile(r'"(?:nodes|instances)"\s*:\s*\{[^{}]{0,200}?"(?:qr|queried)"\s*:\s*(\d{1,9})')
_MIXED = (
    "values of Netdata are those of several nodes, disks or control groups together, and were left out; ask for each "
    "alone, like &instances=disk_util.sda"
)
_CPUS = {"time", "user", "system", "iowait"}
_DATE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")


def _labels(text: str) -> list[str]:
    """The columns of the data; empty for any other file."""
    if text.lstrip().startswith("{"):
        match = _LABELS.search(text)
        try:
            names = json.loads(match[1]) if match else []
        except ValueError:
            return []
    else:
        names = fields(text.lstrip("\ufeff").split("\n", 1)[0].strip(), ",")
    known = [name if isinstance(name, str) else "" for name in names]
    return known if known[:1] == ["time"] and len(known) > 1 else []


def _chart(name: str, text: str) -> Chart | None:
    """The chart of the data; None if neither they nor the name of the file tell of one that is read."""
    labels = _LABELS.search(text)
    said = _ID.search(text[: labels.start()]) if labels else None
    chart = (chart_of(said[1]) if said else None) or chart_of(name)
    return chart or (chart_of(CPU) if set(_labels(text)) >= _CPUS else None)


def sniff(name: str, head: bytes) -> bool:
    text = text_head(head) or ""
    if _is_second(text):
        return _NAMED.search(text) is not None
    return bool(_labels(text)) and (text.lstrip().startswith("{") or _chart(name, text) is not None)


def together(source: Source) -> str:
    return "netdata"


def read(sources: Sequence[Source]) -> Found:
    found, samples = Found(), Sampled()
    charted, local = Charted(samples.most), False
    unknown, mixed = list[str](), list[str]()
    for source in sources:
        name, text = source.path.name, text_head(source.head()) or ""
        chart = _chart_of_second(name, text) if _is_second(text) else _chart(name, text)
        if chart is None:
            unknown.append(name)
            continue
        delays, said = _delays(source) if _DATE.search(text) else (repeat(0), ())
        local = local or isinstance(delays, list)
        found.notes += [f"{name}: {note}" for note in said]
        for (time, row), delay in zip(_any_rows(source, found, mixed), delays, strict=False):
            stamp = moment(time)
            if stamp is None:
                samples.unusable += 1
                continue
            cells = {key.lower(): v for key, cell in row if (v := number(cell)) is not None}
            charted.add(source.place or "netdata", str(source.path), chart, stamp + delay, cells)
            if charted.full:
                found.filled(name, charted.count, "moments")
                break
    if unknown and len(unknown) == len(sources):
        why = "these are data of Netdata, but not of a chart that Tailrace reads, or nothing says of which"
        how = f"ask with options=jsonwrap, or name the file after its chart. Tailrace reads {NAMES}"
        raise InputError(sources[0].path, why, how)
    if unknown:
        found.notes.append(f"Netdata's data of charts that Tailrace does not read were left out: {listed(unknown)}")
    if mixed:
        found.notes.append(f"{_MIXED}: {listed(mixed)}")
    if local:
        found.notes.append("Netdata's dates have no time zone and are taken as UTC; options=seconds gives Unix times")
    charted.into(samples, found)
    samples.into(found, sources[0], _MIXED if mixed else "there is no sample in it")
    return found


def _any_rows(source: Source, found: Found, mixed: list[str]) -> Iterator[tuple[str, Iterable[tuple[str, Any]]]]:
    second = _is_second(text_head(source.head()) or "")
    return _rows_of_second(source, found, mixed) if second else _rows(source, found)


def _delays(source: Source) -> tuple[list[int], tuple[str, ...]]:
    """By how much each row is later, because the clock of its date was set back."""
    known = list[int]()
    for time, _ in _any_rows(source, Found(), []):
        stamp = moment(time)
        known.append((known[-1] if known else 0) if stamp is None else stamp)
    later, said = localclock.delays(np.array(known, np.int64))
    return later.tolist(), said


def _is_second(text: str) -> bool:
    """Whether the text is an answer of `/api/v2/data` or `/api/v3/data`."""
    return _SECOND.match(text) is not None


def _chart_of_second(name: str, text: str) -> Chart | None:
    """The chart: that of its only instance, which has the name of a control group, else of its context."""
    said = [match[1].partition("@")[0] for match in _NAMED.finditer(text)]
    known = [chart for one in said if (chart := chart_of(one))]
    return next((chart for chart in known if chart.place), known[0] if known else chart_of(name))


def _rows_of_second(source: Source, found: Found, mixed: list[str]) -> Iterator[tuple[str, Iterable[tuple[str, Any]]]]:
    """The same of the second form, whose cells have a value, a rate of anomalies, and signs."""
    names: list[str] | None = None
    for before, row in elements(source, found, _RESUME, _OPENING_OF_SECOND):
        if names is None:
            known = list(_LABELS_OF_SECOND.finditer(before))
            names = _labels('{"labels":' + known[-1][1] + "}")[1:] if known else []
            if any(int(match[1]) > 1 for match in _QUERIED.finditer(before)):
                mixed.append(source.path.name)
                return
        if isinstance(row, list) and len(row) == len(names) + 1:
            cells = [cell[0] if isinstance(cell, list) and cell else cell for cell in row[1:]]
            yield str(row[0]), zip(names, cells, strict=True)
        else:
            found.lose("damaged elements", 1)


def _rows(source: Source, found: Found) -> Iterator[tuple[str, Iterable[tuple[str, Any]]]]:
    """The time of each row, and its cells by their dimension, which may be called `time`, too."""
    head = text_head(source.head()) or ""
    names = _labels(head)[1:]
    if head.lstrip().startswith("{"):
        for _, row in elements(source, found, _RESUME, _OPENING):
            if isinstance(row, dict):
                yield str(row.get("time")), row.items()
            elif isinstance(row, list) and len(row) == len(names) + 1:
                yield str(row[0]), zip(names, row[1:], strict=True)
            else:
                found.lose("damaged elements", 1)
        return
    for line_number, line in source.lines(found):
        row = fields(line, ",")
        if line_number == 1:
            continue
        if len(row) == len(names) + 1 and all(cell.lower() in MISSING or number(cell) is not None for cell in row[1:]):
            yield row[0], zip(names, row[1:], strict=True)
        else:
            found.damaged(source.path.name, line_number)
