"""The CSV that dstat and dool write with `--output`, with `-T` (Unix times) or `-t` (a date and a time of day).

```text
"Host:","app1",,,,"User:","root"
"epoch","total cpu usage",,,,,"procs",,,"system",
"epoch","usr","sys","idl","wai","stl","run","blk","new","int","csw"
1795193341.120,50.000,25.000,20.000,5.000,0.000,3.000,0,0,846.0,471.0
```
The percentages of a row are those of the interval that its time ends. The first row of dstat and dool has the means
since the machine started, and is left out; pcp-dstat has no such row. The column of `-t` has no year (`20-11 16:49:01`
from dstat, `Nov-20 16:49:01` from dool): it comes from the date in the file's head, as does the time zone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tailrace.readers.elements import number
from tailrace.readers.layout import fields
from tailrace.readers.sampled import Sampled
from tailrace.readers.source import Found, Source, text_head
from tailrace.units import MILLISECOND, SECOND

_SEEN = re.compile(
    r'\A\ufeff?"(?:dstat|dool|pcp-dstat)[^\n]{0,99}CSV output"[\s\S]{0,4000}"(?:epoch|(?:date/)?time)"', re.I
)
_DATE = re.compile(r"(\d{1,2} \w{3} \d{4} \d\d:\d\d:\d\d)(?: (\S{1,20}))?")
_DATES = ("%d-%m", "%b-%d", "%m-%d")
"""Dates without a year. If two fit, the one nearer to the file's begin counts."""
_WHOLE_DATES = ("%Y-%m-%d", "%Y/%m/%d")
_DAY = timedelta(days=1)
_CORE = re.compile(r"cpu(\d{1,4}) usage")
_DISK = re.compile(r"util|%util")

Columns = list[tuple[str, str]]
"""The group and the name of each column."""


_TIMES = {"epoch", "time", "date/time"}
"""Columns of times; the last is that of old versions."""


def sniff(name: str, head: bytes) -> bool:
    return bool(_SEEN.match(text_head(head) or ""))


@dataclass
class _Clock:
    """The date in the head of the file, and the moments of its rows."""

    began: datetime | None = None
    zone: str = "UTC"
    unix: bool = True
    whole: bool = True

    def head(self, row: list[str]) -> None:
        """A line of the head, which may have the date."""
        if "Date:" in row[:-1] and (date := _DATE.fullmatch(row[row.index("Date:") + 1].strip())):
            with suppress(ValueError):
                self.began = datetime.strptime(date[1], "%d %b %Y %H:%M:%S").replace(tzinfo=UTC)
                self.zone = date[2] or "an unknown zone"

    def moment(self, row: Mapping[tuple[str, str], str]) -> int | None:
        """The time of a row, which is that of `epoch` if it has one."""
        named = {name: text for (_, name), text in row.items() if name in _TIMES}
        if "epoch" in named:
            stamp = number(named["epoch"])
            moment = None if stamp is None else round(stamp * 1000) * MILLISECOND
        else:
            self.unix = False
            moment = self._dated(named.get("time") or named.get("date/time", ""))
        self.whole = self.whole and (moment or 0) % SECOND == 0
        return moment

    def _dated(self, text: str) -> int | None:
        date, _, clock = text.strip().partition(" ")
        clock, _, fraction = clock.partition(".")
        found = [moment for form in _WHOLE_DATES if (moment := _parsed(f"{date} {clock}", f"{form} %H:%M:%S"))]
        began = self.began
        if not found and began is not None:
            years = (began.year, began.year + 1)
            dated = (_parsed(f"{year} {date} {clock}", f"%Y {form} %H:%M:%S") for form in _DATES for year in years)
            found = sorted(
                (moment for moment in dated if moment and moment > began - _DAY), key=lambda moment: moment - began
            )
        if not found or not (fraction or "0").isdecimal():
            return None
        return round(found[0].timestamp()) * SECOND + int(f"{fraction:0<9}"[:9])


def _parsed(text: str, form: str) -> datetime | None:
    with suppress(ValueError):
        return datetime.strptime(text, form).replace(tzinfo=UTC)
    return None


def read(source: Source) -> Found:
    found, samples, clock, host = Found(), Sampled(), _Clock(), "host"
    groups: list[str] = []
    columns: Columns = []
    since_start, before = False, None
    for line_number, line in source.lines(found):
        row = fields(line, ",")
        if row and row[0].lower().endswith("csv output"):
            since_start = not row[0].lower().startswith("pcp-")
        elif row[:1] == ["Host:"]:
            host = row[1] if len(row) > 1 and row[1] else host
        elif row[:1] == ["Cmdline:"]:
            clock.head(row)
        elif _TIMES.intersection(row) and groups:
            columns, groups = _columns(groups, row), []
        elif "epoch" in row or "system" in row:
            groups = row
        elif columns and row and row[0]:
            told = dict(zip(columns, row, strict=False)) if len(row) == len(columns) else {}
            stamp = clock.moment(told)
            if stamp is None:
                found.damaged(source.path.name, line_number)
            elif since_start:
                since_start, before = False, stamp
            else:
                interval, before = stamp - before if before is not None else None, stamp
                for suffix, metric, value in _metrics({column: number(text) for column, text in told.items()}):
                    samples.add(stamp, interval, (source.place or host) + suffix, metric, value)
        if samples.full:
            break
    empty = "there is no sample of CPU, run queue or disks in it, after the means since the machine started"
    samples.into(found, source, empty, whole_seconds=clock.whole, local=not clock.unix and clock.zone != "UTC")
    if not clock.unix and clock.zone != "UTC":
        found.notes.append(f"{source.path.name}: its times are in {clock.zone} and are taken as UTC")
    return found


def _columns(groups: list[str], names: list[str]) -> Columns:
    columns, group = Columns(), ""
    for i, name in enumerate(names):
        group = groups[i] if i < len(groups) and groups[i] else group
        prefix, colon, short = name.rpartition(":")  # dool repeats the group if several columns have one name
        columns.append((prefix, short) if colon else (group, name))
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
            yield suffix, "cpu_busy", sum(busy) / 100
        for name, metric in (("wai", "cpu_iowait"), ("stl", "cpu_steal")):
            if (value := values.get((group, name))) is not None:
                yield suffix, metric, value / 100
    if (value := values.get(("procs", "run"))) is not None:
        yield "", "run_queue", value
    disks = [v for (_, name), v in values.items() if v is not None and _DISK.fullmatch(name)]
    if disks:
        yield "", "disk_busy", max(disks) / 100
