"""Data of Netdata: `/api/v1/data?chart=system.cpu&format=json` (and `csv`).

```text
{"labels": ["time", "guest_nice", "guest", "steal", "softirq", "irq", "user", "system", "nice", "iowait"],
 "data": [[1795193341, 0, 0, 1, 0.5, 0, 12, 7, 0.5, 4], …]}
time,guest_nice,guest,steal,softirq,irq,user,system,nice,iowait
```
The values of `system.cpu` are percentages of the interval before. The data do not contain the name of the chart, so
only this chart is recognised, by its dimensions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tailrace.readers.elements import elements, moment, number
from tailrace.readers.layout import fields, named_rows
from tailrace.readers.sampled import Sampled
from tailrace.readers.source import Found, Source, text_head

_LABELS = re.compile(r'"labels"\s*:\s*(\[[^\]]{1,4000}\])')
_OPENING = re.compile(r'"data"\s*:\s*\[')
_RESUME = re.compile(r"\[\s*\d{9,13}\s*,")
_NEEDED = {"time", "user", "system", "iowait"}
_BUSY = ("user", "system", "nice", "irq", "softirq")


def _names(text: str) -> list[str]:
    """The dimensions of the chart of CPUs; empty for any other file."""
    if text.lstrip().startswith("{"):
        match = _LABELS.search(text)
        try:
            names = json.loads(match[1]) if match else []
        except ValueError:
            return []
    else:
        names = fields(text.lstrip("\ufeff").split("\n", 1)[0].strip(), ",")
    known = [name if isinstance(name, str) else "" for name in names]
    return known if known[:1] == ["time"] and set(known) >= _NEEDED else []


def sniff(name: str, head: bytes) -> bool:
    return bool(_names(text_head(head) or ""))


def read(source: Source) -> Found:
    found, samples, place = Found(), Sampled(), source.place or "netdata"
    for row in _rows(source, found):
        stamp = moment(str(row.get("time")))
        values = {key: share for key, value in row.items() if (share := number(value)) is not None}
        if stamp is None or not _NEEDED - {"time"} <= values.keys():
            samples.unusable += 1
            continue
        busy = sum(values.get(key, 0.0) for key in _BUSY)
        for metric, percent in (
            ("cpu_busy", busy),
            ("cpu_iowait", values["iowait"]),
            ("cpu_steal", values.get("steal")),
        ):
            if percent is not None:
                samples.add(stamp, None, place, metric, round(min(percent / 100, 1.0), 9))
        if samples.full:
            break
    samples.into(found, source, "there is no sample in it")
    return found


def _rows(source: Source, found: Found) -> Iterator[Mapping[str, Any]]:
    head = text_head(source.head()) or ""
    if head.lstrip().startswith("{"):
        names = _names(head)
        for _, row in elements(source, found, _RESUME, _OPENING):
            if isinstance(row, list) and len(row) == len(names):
                yield dict(zip(names, row, strict=True))
        return
    for line_number, row in named_rows(source, found):
        if row:
            yield row
        else:
            found.damaged(source.path.name, line_number)
