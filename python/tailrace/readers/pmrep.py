"""The CSV that Performance Co-Pilot's `pmrep -o csv` writes, also with `-k` (extended).

```text
Time,"kernel.all.cpu.user","kernel.all.cpu.sys","kernel.all.cpu.idle","disk.dev.avactive-sda","kernel.all.runnable"
2026-11-20 16:49:00,,,,,2.000
2026-11-20 16:49:01,200.000,100.000,1700.000,68.400,3.000
Host,Interval,Time,"kernel.all.cpu.user",…
```
Counters are rates, with `-r` the counters themselves: then the first row has values, and no value falls. The file does
not say its units. The seconds of all modes of the CPUs show the unit of times: a CPU has a second each second. Nothing
shows the unit of memory, so memory is left out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tailrace.errors import InputError
from tailrace.readers import elements, pcp
from tailrace.readers.elements import number
from tailrace.readers.layout import fields
from tailrace.readers.sampled import Sampled
from tailrace.readers.source import Found, Source, text_head
from tailrace.units import SECOND

_SEEN = re.compile(r'\A\ufeff?(?:Host[,;\t]Interval[,;\t])?Time([,;\t])"[a-z][a-z0-9_]{0,99}\.[a-z0-9_.]{1,199}["-]')
_ZONE = re.compile(r"(.*:\d\d\S*) UTC([+-])(\d{1,2})(?::(\d\d))?")
_ZONED = re.compile(r".*:\d\d\S*(?:[+-]\d\d:?\d\d|Z)")
_CPUS_MOST = 700
"""A machine with more CPUs would look like one whose times have another unit."""
_MODES = {"user", "nice", "sys", "idle", "wait.total"}
"""These are nearly all of the time of a CPU."""
_ROWS = 3
"""So many rows show whether values are counters."""


@dataclass(frozen=True)
class _Table:
    """Metric and instance of each column; a place, a time and an interval have columns of their own."""

    names: tuple[str, ...]
    delimiter: str

    def values(self, row: Sequence[str]) -> dict[tuple[str, str], float]:
        """Metric and instance of each value of a row."""
        told = zip(self.names, map(number, row), strict=True)
        return {(name.partition("-")[0], name.partition("-")[2]): value for name, value in told if value is not None}

    def at(self, row: Sequence[str], column: str) -> str:
        return row[self.names.index(column)] if column in self.names else ""


def sniff(name: str, head: bytes) -> bool:
    return bool(_SEEN.match(text_head(head) or ""))


def read(source: Source) -> Found:
    found, samples, rates = Found(), Sampled(), pcp.Rates()
    table = _table(text_head(source.head()) or "")
    per_second = "" if _are_counters(source, table) else "/s"
    whole, zoned = True, True
    for line_number, line in source.lines(found):
        row = fields(line, table.delimiter)
        if line_number == 1 or not row:
            continue
        stamp, zone = _moment(table.at(row, "Time")) if len(row) == len(table.names) else (None, True)
        if stamp is None:
            found.damaged(source.path.name, line_number)
            continue
        whole, zoned = whole and stamp % SECOND == 0, zoned and zone
        place = source.place or table.at(row, "Host") or "host"
        seconds = rates.since(place, stamp) or number(table.at(row, "Interval"))
        interval = round(seconds * SECOND) if seconds and 0 < seconds < 10**6 else None
        for suffix, metric, value in _metrics(table.values(row), rates, place, stamp, per_second, seconds):
            samples.add(stamp, interval, place + suffix, metric, value)
        if samples.full:
            break
    empty = "there is no rate of CPUs, disks or TCP in it whose time has a date; pass kernel.all.cpu to pmrep"
    samples.into(found, source, empty, whole_seconds=whole, local=not zoned)
    if not zoned:
        found.notes.append(f"{source.path.name}: its times have no time zone and are taken as UTC")
    return found


def _table(head: str) -> _Table:
    seen = _SEEN.match(head)
    delimiter = seen[1] if seen else ","
    return _Table(tuple(fields(head.lstrip("\ufeff").split("\n", 1)[0].strip(), delimiter)), delimiter)


def _are_counters(source: Source, table: _Table) -> bool:
    """Whether times and numbers count from the start of the machine (`-r`). Rates need two moments: the first row has
    none."""
    lines = (text_head(source.head()) or "").split("\n")[1:-1]
    rows = [row for line in lines if len(row := fields(line.rstrip("\r"), table.delimiter)) == len(table.names)]
    moments = [{name: value for name, value in table.values(row).items() if pcp.CPU.fullmatch(name[0])} for row in rows]
    if not moments or not moments[0]:
        return False
    if len(moments) < _ROWS:
        said = "its first row has values of CPUs, and its few rows do not show whether these are rates or counters"
        raise InputError(source.path, said, "record more rows")
    return all(low[name] <= high[name] for low, high in pairwise(moments) for name in low.keys() & high.keys())


def _moment(text: str) -> tuple[int | None, bool]:
    """The moment, and whether its zone is known."""
    text = text.strip()
    if zone := _ZONE.fullmatch(text):
        text = f"{zone[1]}{zone[2]}{int(zone[3]):02d}:{zone[4] or '00'}"
    return elements.moment(text), bool(_ZONED.fullmatch(text)) or number(text) is not None


def _metrics(
    values: Mapping[tuple[str, str], float], rates: pcp.Rates, place: str, stamp: int, per: str, seconds: float | None
) -> Iterator[tuple[str, str, float]]:
    """Suffix of the place, metric and value of one moment; `per` is empty if values are counters."""
    cpu: dict[str, dict[str, float]] = defaultdict(dict)
    busy: list[tuple[str, float]] = []
    for (name, instance), value in values.items():
        if name == "kernel.all.runnable":
            yield "", "run_queue", value
        mode = pcp.CPU.fullmatch(name)
        if not mode and name not in pcp.COUNTS and name not in pcp.SHARES:
            continue
        unit = f"s{per}" if mode or name in pcp.SHARES else f"count{per}"
        rate = rates.of((place, name, instance), value, unit, stamp)
        if rate is None:
            continue
        if mode:
            cpu[instance if mode[1] == "percpu" else ""][mode[2]] = rate
        elif name in pcp.COUNTS and seconds:
            yield "", pcp.COUNTS[name], rate * seconds
        elif name == "disk.dev.avactive":
            busy.append((pcp.SHARES[name], rate))
    yield from pcp.cpu_shares(cpu)
    second = _second(cpu)
    if second and busy:
        yield "", busy[0][0], max(rate for _, rate in busy) / second


def _second(cpu: Mapping[str, Mapping[str, float]]) -> float | None:
    """A second in the unit of the times: all modes of a CPU together have one each second."""
    whole = sum(value for mode, value in cpu.get("", {}).items() if not mode.startswith("irq"))
    if not cpu.get("", {}).keys() >= _MODES:
        return None
    return next((unit for unit in (1.0, 1e3, 1e6, 1e9) if 0.7 <= whole / unit < _CPUS_MOST), None)
