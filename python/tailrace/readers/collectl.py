"""collectl's plot format (`collectl -P`): .tab, .cpu and .dsk files, or what it writes to standard output.

```text
# Host:       app1  DaemonOpts:
# Date:       20261120-180034  Secs: 1795197634 TZ: +0000
# SubSys:     cdmn Options: m Interval: 0.1 NumCPUs: 2 …
#Date Time [CPU]User% [CPU]Nice% … [MEM]Dirty …          (or #UTC … with -oU; any separator of --sep)
20261120 18:00:38.503 95 0 …                             stamped at the end of the interval
```

The place is the host in the header, else in the file name (`<name>-<host>-<date>.tab`). Standard output has no header
but "waiting for .1 second sample...". Without `-om` stamps are whole seconds: the rows of a second are then spread
evenly over it. Kilobytes become bytes, percentages shares, and rates counts within the interval. Other measurements of
collectl are ignored. Its raw files, its rows of processes and its tables for people are refused with the command that
makes the plot format.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from shlex import quote

import polars as pl

from tailrace import units
from tailrace.errors import InputError
from tailrace.readers import intervals, outliers, room
from tailrace.readers.source import Found, Source, text_head

_HEADER = re.compile(r"^#(Date[^\w\[]Time|UTC)([^\w\[])\[", re.MULTILINE)
_OTHER_ROWS = re.compile(r"^#(?:Date[^\w\[]Time|UTC)[^\w\[](PID|SlabName)\b", re.MULTILINE)
_RAW = re.compile(r"^>>> \d{1,12}\.\d{1,9} <<<", re.MULTILINE)
_FOR_PEOPLE = re.compile(r"^#<-+[A-Z][A-Za-z]*-+>|^# [A-Z]+ SUMMARY \(|^### RECORD +\d+ >>> ", re.MULTILINE)
_WAITING = re.compile(r"waiting for (\d*\.?\d+) second sample")
_HOST = re.compile(r"^# Host:\s+(\S+)")
_ZONE = re.compile(r"\bTZ: ([+-]\d{4})")
_INTERVAL = re.compile(r"\bInterval: (\d*\.?\d+)")
_DAY = re.compile(r"(\d{4})[-/]?(\d\d)[-/]?(\d\d)")
_FILE = re.compile(r"-([^-]+(?:-[^-]+)*?)-\d{8}(?:-\d{6})?\.\w+(?:\.gz)?$")
_CORE = re.compile(r"\[CPU:(\d+)\]User%")

Row = Sequence[float]
Formula = Callable[[Row, float], float]


@dataclass
class _Header:
    """The comments' content and the column numbers; replaced when collectl writes them again (a new day)."""

    host: str | None = None
    zone: str | None = None
    interval_ns: int | None = None
    columns: dict[str, int] = field(default_factory=dict)
    separator: str | None = None
    utc: bool = False
    series: list[tuple[str, str, Formula]] = field(default_factory=list)
    """Suffix of the place (a core), metric, and how to compute it from a row and its interval in seconds."""


def sniff(name: str, head: bytes) -> bool:
    text = text_head(head)
    kinds = (_HEADER, _OTHER_ROWS, _FOR_PEOPLE)
    return text is not None and ("# Collectl:" in text[:400] or any(kind.search(text) for kind in kinds))


def read(source: Source) -> Found:
    _refuse_other(source)
    found = Found()
    series: dict[tuple[str, str], _Series] = {}
    seconds = array("q")
    header, most, count = _Header(), room.samples(), 0
    for number, line in source.lines(found):
        if line.startswith(("#", "waiting for ")):
            _learn(header, line)
            continue
        if not line.strip():
            continue
        parsed = _parse(header, line)
        if parsed is None:
            found.damaged(source.path.name, number)
            continue
        moment, values = parsed
        count += len(header.series)
        if count > most:
            found.filled(source.path.name, most)
            break
        step = header.interval_ns / units.SECOND if header.interval_ns else float("nan")
        for place, metric, formula in header.series:
            series.setdefault((place, metric), _Series()).add(len(seconds), formula(values, step))
        seconds.append(moment)
    if not seconds:
        raise InputError(source.path, "no row of samples in this collectl file", "record for longer")
    if not series:
        found.notes.append(f"{source.path.name}: it has no column that the diagnosis uses (CPU, memory, disks)")
        return found
    found.samples.append(_frame(source, found, header, series, seconds))
    return found


def _refuse_other(source: Source) -> None:
    """Files that collectl writes in other formats."""
    head = text_head(source.head()) or ""
    if _HEADER.search(head):
        return
    if rows := _OTHER_ROWS.search(head):
        what = "processes" if rows[1] == "PID" else "slabs"
        raise InputError(
            source.path,
            f"these are collectl's rows of {what}, from which Tailrace reads no metric",
            "the .tab file beside it has the samples of the machine; without one, record them",
            commands=("collectl -scdm -i .05 -P -om > samples.tab", "tailrace read NAME=samples.tab -o run"),
        )
    if _RAW.search(head):
        commands = (f"collectl -p {quote(str(source.path))} -P -om -f .", "tailrace read *.tab.gz -o run")
        what = "this is a raw file of collectl, which only collectl can read"
        raise InputError(source.path, what, "convert it", commands=commands)
    if _FOR_PEOPLE.search(head):
        raise InputError(
            source.path,
            "this is collectl's terminal format, which has no dates",
            "record in its plot format",
            commands=("collectl -scdm -i .05 -P -om > samples.tab", "tailrace read NAME=samples.tab -o run"),
        )


class _Series:
    """The samples of one place and metric, column by column."""

    def __init__(self) -> None:
        self.row, self.value = array("i"), array("d")

    def add(self, row: int, value: float) -> None:
        self.row.append(row)
        self.value.append(value)

    def frame(self, place: str, metric: str) -> pl.DataFrame:
        columns = {"row": pl.Series(self.row, dtype=pl.Int32), "value": pl.Series(self.value, dtype=pl.Float64)}
        names = pl.lit(place, pl.Categorical).alias("place"), pl.lit(metric, pl.Categorical).alias("metric")
        return pl.DataFrame(columns).with_columns(*names)


def _learn(header: _Header, line: str) -> None:
    for pattern, key in ((_HOST, "host"), (_ZONE, "zone")):
        if match := pattern.search(line):
            setattr(header, key, match[1])
    if match := _INTERVAL.search(line) or _WAITING.match(line):
        header.interval_ns = max(1, units.parse_duration(match[1] + "s"))
    columns = _HEADER.match(line)
    if columns is None:
        return
    header.utc = columns[1] == "UTC"
    header.separator = None if columns[2] == " " else columns[2]
    names = line[1:].split(header.separator)
    header.columns = {name: i for i, name in enumerate(names)}
    header.series = list(_series(header.columns))


def _parse(header: _Header, line: str) -> tuple[int, Row] | None:
    """Moment and columns; a column that is not a number (the name of a disk) is NaN."""
    fields = line.split(header.separator)
    if not header.columns or len(fields) != len(header.columns):
        return None
    try:
        if header.utc:
            moment = units.parse_moment(fields[0], scale=units.SECOND)
        else:
            day = _DAY.fullmatch(fields[0])
            if day is None:
                return None
            moment = units.parse_moment(f"{day[1]}-{day[2]}-{day[3]}T{fields[1]}{header.zone or 'Z'}")
    except ValueError:
        return None
    return moment, [_number(text) for text in fields]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _series(columns: dict[str, int]) -> Iterator[tuple[str, str, Formula]]:
    """The metrics that these columns contain."""
    for core in ("", *(f":{match[1]}" for name in columns if (match := _CORE.fullmatch(name)))):
        place = f"/cpu{core[1:]}" if core else ""
        busy = [columns.get(f"[CPU{core}]{part}%") for part in ("User", "Nice", "Sys", "Irq", "Soft")]
        there = [column for column in busy if column is not None]
        if there:
            yield place, "cpu_busy", _sum(there, 0.01)
        for part, metric in (("Wait", "cpu_iowait"), ("Steal", "cpu_steal")):
            if (column := columns.get(f"[CPU{core}]{part}%")) is not None:
                yield place, metric, _sum([column], 0.01)
    for name, metric, factor in (
        ("[CPU]RunTot", "run_queue", 1.0),
        ("[MEM]Dirty", "dirty_bytes", 1024.0),
        ("[CPU]Ctx/int", "context_switches", 1.0),
    ):
        if name in columns:
            yield "", metric, _sum([columns[name]], factor)
    if "[CPU]Ctx/sec" in columns:
        yield "", "context_switches", _count(columns["[CPU]Ctx/sec"])
    disks = [column for name, column in columns.items() if re.fullmatch(r"\[DSK:[^\]]+\]Util", name)]
    if disks:
        yield "", "disk_busy", _max(disks, 0.01)


def _sum(columns: list[int], factor: float) -> Formula:
    return lambda row, _: sum(row[column] for column in columns) * factor


def _max(columns: list[int], factor: float) -> Formula:
    return lambda row, _: max(row[column] for column in columns) * factor


def _count(column: int) -> Formula:
    return lambda row, seconds: row[column] * seconds


def _frame(
    source: Source,
    found: Found,
    header: _Header,
    series: Mapping[tuple[str, str], _Series],
    seconds: Sequence[int],
) -> pl.DataFrame:
    name = source.path.name
    host = source.place or header.host or ((match := _FILE.search(name)) and match[1]) or None
    if host is None:
        raise InputError(source.path, "the host that it was recorded on is unknown", "name it with NAME=FILE")
    if not header.utc and header.zone is None:
        found.notes.append(f"{name}: its header has no time zone, so its times are taken as UTC")
    moments = pl.Series("moment", _spread(seconds, header.interval_ns, name, found), dtype=pl.Int64)
    table = pl.concat([one.frame(host + place, metric) for (place, metric), one in series.items()]).sort("row")
    frame = table.select(
        time=moments.gather(table.get_column("row")),
        interval_ns=pl.lit(None, pl.Int64),
        place=pl.col("place"),
        metric=pl.col("metric"),
        value=pl.col("value"),
    )
    known = frame.filter(pl.col("value").is_finite())
    found.lose("samples without a value", frame.height - known.height)
    frame, notes = intervals.complete(outliers.without(known, "time", found, name))
    found.notes += [f"{name}: {note}" for note in notes if "taken as" not in note]
    return frame


def _spread(moments: Sequence[int], interval_ns: int | None, name: str, found: Found) -> Sequence[int]:
    """Rows that share a whole second are placed one interval apart. The first second may be incomplete and is filled
    from its end."""
    whole = all(moment % units.SECOND == 0 for moment in moments)
    shared = len(set(moments)) < len(moments)
    if not (whole and shared):
        return moments
    interval_ns = interval_ns or units.SECOND // _usual_rows(moments)
    if interval_ns >= units.SECOND:
        return moments
    found.notes.append(
        f"{name}: its stamps are whole seconds (record with -om): samples are good to "
        f"{units.format_duration(units.SECOND)} only, spread over each second in their order"
    )
    rows_a_second = max(1, round(units.SECOND / interval_ns))
    spread: list[int] = []
    for moment, group in groupby(moments):
        count = len(list(group))
        first = max(0, rows_a_second - count) if not spread else 0
        step = min(interval_ns, units.SECOND // count)
        spread += [moment + first * interval_ns + i * step for i in range(count)]
    return spread


def _usual_rows(moments: Sequence[int]) -> int:
    """The median number of rows in a second. The first and the last second may be incomplete and do not count."""
    counts = [len(list(group)) for _, group in groupby(moments)]
    return sorted(counts[1:-1] or counts)[len(counts[1:-1] or counts) // 2]
