"""The CSV that dstat and dool write with `--output`, with `-T`: Unix times.

```text
"Host:","app1",,,,"User:","root"
"epoch","total cpu usage",,,,,"procs",,,"system",
"epoch","usr","sys","idl","wai","stl","run","blk","new","int","csw"
1795193341.120,50.000,25.000,20.000,5.000,0.000,3.000,0,0,846.0,471.0
```
The percentages of a row are those of the interval that its time ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tailrace.readers.elements import number
from tailrace.readers.layout import fields
from tailrace.readers.sampled import Sampled
from tailrace.readers.source import Found, Source, text_head
from tailrace.units import MILLISECOND

_SEEN = re.compile(r'\A\ufeff?"(?:Dstat|Dool|pcp-dstat)[^\n]{0,99}CSV output"[\s\S]{0,4000}"epoch"')
_CORE = re.compile(r"cpu(\d{1,4}) usage")
_DISK = re.compile(r"util|%util")

Columns = list[tuple[str, str]]
"""The group and the name of each column."""


def sniff(name: str, head: bytes) -> bool:
    return bool(_SEEN.match(text_head(head) or ""))


def read(source: Source) -> Found:
    found, samples, host = Found(), Sampled(), "host"
    groups: list[str] = []
    columns: Columns = []
    for line_number, line in source.lines(found):
        row = fields(line, ",")
        if row[:1] == ["Host:"]:
            host = row[1] if len(row) > 1 and row[1] else host
        elif "epoch" in row and not groups:
            groups = row
        elif "epoch" in row:
            columns, groups = _columns(groups, row), []
        elif columns and row and number(row[0]) is not None:
            values = dict(zip(columns, map(number, row), strict=False)) if len(row) == len(columns) else {}
            stamp = next((value for (_, name), value in values.items() if name == "epoch"), None)
            if stamp is None:
                found.damaged(source.path.name, line_number)
                continue
            for suffix, metric, value in _metrics(values):
                samples.add(round(stamp * 1000) * MILLISECOND, None, (source.place or host) + suffix, metric, value)
        if samples.full:
            break
    samples.into(found, source, "there is no sample of CPU, run queue or context switches in it")
    return found


def _columns(groups: list[str], names: list[str]) -> Columns:
    columns, group = Columns(), ""
    for i, name in enumerate(names):
        group = groups[i] if i < len(groups) and groups[i] else group
        columns.append((group, name))
    return columns


def _metrics(values: Mapping[tuple[str, str], float | None]) -> Iterator[tuple[str, str, float]]:
    """Suffix of the place, metric and value."""
    for group in dict.fromkeys(group for group, _ in values):
        core = _CORE.fullmatch(group)
        if core is None and group not in ("total cpu usage", "total usage"):
            continue
        suffix = f"/cpu{core[1]}" if core else ""
        busy = [v for name in ("usr", "sys", "hiq", "siq") if (v := values.get((group, name))) is not None]
        if busy:
            yield suffix, "cpu_busy", round(min(sum(busy) / 100, 1.0), 9)
        for name, metric in (("wai", "cpu_iowait"), ("stl", "cpu_steal")):
            if (value := values.get((group, name))) is not None:
                yield suffix, metric, round(value / 100, 9)
    if (value := values.get(("procs", "run"))) is not None:
        yield "", "run_queue", value
    disks = [v for (_, name), v in values.items() if v is not None and _DISK.fullmatch(name)]
    if disks:
        yield "", "disk_busy", round(min(max(disks) / 100, 1.0), 9)
