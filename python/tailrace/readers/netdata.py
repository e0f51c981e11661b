"""Data of Netdata: `/api/v1/data?chart=system.cpu&format=json`, also as `csv`, and with `options=jsonwrap`.

```text
{"labels": ["time", "guest_nice", "guest", "steal", "softirq", "irq", "user", "system", "nice", "iowait"],
 "data": [[1795193341, 0, 0, 1, 0.5, 0, 12, 7, 0.5, 4], …]}
time,guest_nice,guest,steal,softirq,irq,user,system,nice,iowait
```
The name of the chart is in the data only with `jsonwrap`; else the file has it (`disk_util.sda.json`). That of CPUs
is known by its dimensions as well. Values are averages, or rates per second, of the step that ends at their time.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from tailrace.errors import InputError
from tailrace.foreign import listed
from tailrace.readers.elements import elements, moment, number
from tailrace.readers.layout import MISSING, fields
from tailrace.readers.netdata_charts import CPU, NAMES, Chart, Value, chart_of
from tailrace.readers.sampled import Sampled
from tailrace.readers.source import Found, Source, text_head
from tailrace.units import SECOND

_LABELS = re.compile(r'"labels"\s*:\s*(\[[^\]]{1,60000}\])')
_ID = re.compile(r'"id"\s*:\s*"([^"\\]{1,200})"')
_OPENING = re.compile(r'"data"\s*:\s*\[')
_RESUME = re.compile(r'[\[{]\s*(?:"time"\s*:\s*)?\d{9,13}\s*,')
_CPUS = {"time", "user", "system", "iowait"}
_BUSY = ("user", "system", "nice", "irq", "softirq")
_DATE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")

Series = dict[tuple[str, str], dict[int, tuple[float, int | None, str]]]
"""By place and metric, and by moment: the value, the step that ends then, and its kind."""


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
    return bool(_labels(text)) and (text.lstrip().startswith("{") or _chart(name, text) is not None)


def together(source: Source) -> str:
    return "netdata"


def read(sources: Sequence[Source]) -> Found:
    found, samples, series = Found(), Sampled(), Series()
    unknown, local = list[str](), False
    for source in sources:
        name = source.path.name
        chart = _chart(name, text_head(source.head()) or "")
        if chart is None:
            unknown.append(name)
            continue
        taken: dict[int, list[Mapping[str, float]]] = defaultdict(list)
        held = sum(map(len, series.values()))
        for time, row in _rows(source, found):
            local = local or _DATE.fullmatch(time) is not None
            stamp = moment(time)
            if stamp is None:
                samples.unusable += 1
                continue
            taken[stamp].append({key.lower(): v for key, cell in row if (v := number(cell)) is not None})
            if (len(taken) * _SAMPLES_PER_ROW + held) >= samples.most:
                found.filled(name, len(taken), "moments")
                break
        _take(series, found, chart, source.place or chart.place or "netdata", taken)
    if unknown and len(unknown) == len(sources):
        why = "these are data of Netdata, but not of a chart that Tailrace reads, or nothing says of which"
        how = f"ask with options=jsonwrap, or name the file after its chart. Tailrace reads {NAMES}"
        raise InputError(sources[0].path, why, how)
    if unknown:
        found.notes.append(f"Netdata's data of charts that Tailrace does not read were left out: {listed(unknown)}")
    if local:
        found.notes.append("Netdata's dates have no time zone and are taken as UTC; options=seconds gives Unix times")
    for (place, metric), values in series.items():
        for stamp, (value, step, kind) in values.items():
            if kind == "level":
                samples.add(stamp, step, place, metric, value)
            elif step is None:
                found.lose("values whose interval is unknown", 1)
            else:
                samples.add(stamp, step, place, metric, round(value * step / SECOND, 6))
    samples.into(found, sources[0], "there is no sample in it")
    return found


_SAMPLES_PER_ROW = 16
"""A row takes as much memory as so many samples."""


def _take(
    series: Series, found: Found, chart: Chart, place: str, taken: Mapping[int, Sequence[Mapping[str, float]]]
) -> None:
    """The values of a chart; of several disks, the busiest. The step is the usual time between rows."""
    gaps = Counter(after - before for before, after in pairwise(sorted(taken)))
    step = min((gap for gap, often in gaps.items() if often == max(gaps.values())), default=None)
    for stamp, rows in taken.items():
        for row in rows:
            levels = list(_levels(chart, row))
            if not levels:
                found.lose("samples without a value", 1)
            for value, level in levels:
                values = series.setdefault((place + chart.suffix, value.metric), {})
                old = values.get(stamp)
                if old is None or level > old[0]:
                    values[stamp] = (level, step, value.kind)


def _levels(chart: Chart, row: Mapping[str, float]) -> Iterator[tuple[Value, float]]:
    for value in chart.values:
        if value.dimensions:
            cells = [row[key] for key in row.keys() & value.dimensions]
            if cells:
                yield value, max(cells) * value.scale
        elif row.keys() >= {"user", "system"}:
            yield Value("cpu_busy"), sum(row.get(mode, 0.0) for mode in _BUSY) / 100
            for mode in ("iowait", "steal"):
                if mode in row:
                    yield Value(f"cpu_{mode}"), row[mode] / 100


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
