"""The output of `sadf` for sar's files: JSON (`sadf -j`), CSV (`sadf -d`), and a line for each value (`sadf -p`); and
`-o JSON` of mpstat and iostat.

```text
# hostname;interval;timestamp;CPU;%user;%nice;%system;%iowait;%steal;%idle
app1;1;2026-11-25 22:10:51 UTC;-1;29.15;65.83;5.03;0.00;0.00;0.00            (or a Unix time with -U)
app1⇥1⇥2026-11-25 22:10:51 UTC⇥all⇥%user⇥29.15                                               (-p; the ⇥ are tabs)
{"sysstat": {"hosts": [{"nodename": "app1", "statistics": [{"timestamp": {…}, "cpu-load": […], "queue": {…}}, …
```

Stamps are whole seconds, at the end of the interval. The first report of iostat covers the time since the machine
started, and is left out. Both forms become the same samples, because the columns of the CSV
are renamed to the keys of the JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

from tailrace import units
from tailrace.errors import InputError
from tailrace.readers.elements import elements, number, rows, table, text
from tailrace.readers.sampled import Sampled
from tailrace.readers.source import Found, Source, text_head

_JSON = re.compile(r'\A\s*\{\s*"sysstat"\s*:')
_CSV = re.compile(r"^# hostname;interval;timestamp;", re.MULTILINE)
_EACH = re.compile(
    r"[^\t\n]{1,255}\t\d{1,6}\t(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: \S{1,40})?|\d{9,11})"
    r"\t[^\t\n]{1,99}\t[^\t\n]{1,40}\t[^\t\n]{1,40}\r?"
)
_CPU = re.compile(r"cpu(\d{1,5})")
_NUMBER, _ITEM = re.compile(r"-?\d{1,5}"), re.compile(r"[^\d.,-]")
"""The number of a CPU; what the names of disks and networks have, and no value."""
_NO_TIME = "entries without a time"
_NO_INTERVAL = "-1"
"""Of restarts and comments: such a line has no value, and may be the first."""
_OPENING = re.compile(r'"statistics"\s*:\s*\[')
_RESUME = re.compile(r'\{\s*"timestamp"\s*:')
_HOST = re.compile(r'"nodename"\s*:\s*"([^"\\\n]{1,255})"')
_CPUS = re.compile(r'"number-of-cpus"\s*:\s*([1-9]\d{0,4})\b')
_DATE = re.compile(r'"date"\s*:\s*"([\d/-]{8,10})"')
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?: (\S{1,40}))?|(\d{9,11})")
_PRINTED = re.compile(r"(?:([\d/-]{8,10})[ T])?(\d\d)(:\d\d:\d\d)(?: ([AP]M))?([+-]\d{4})?")
_RESTART = re.compile(r";(?:LINUX-RESTART|COM\b)")
_BUSY = ("user", "usr", "nice", "system", "sys", "irq", "soft", "guest", "gnice")
# Names in `sadf -d` of the values of `sadf -j`; other columns lose their %.
_CALLED = {"CPU": "cpu", "DEV": "disk-device", "%util": "util-percent", "kbdirty": "dirty", "cswch/s": "cswch"}
_CALLED |= {"majflt/s": "majflt", "%scpu": "psi-cpu", "%sio": "psi-io", "%smem": "psi-mem"}

_SIDE_BY_SIDE = "[...]"
"""`sadf -d -h` writes all reports of a moment into one line, with all CPUs or disks. A column with a `*` is one for
each CPU."""

Row = Mapping[str, Any]


def sniff(name: str, head: bytes) -> bool:
    beginning = text_head(head)
    if beginning is None:
        return False
    lines = (line for line in beginning.split("\n") if line.split("\t", 2)[1:2] != [_NO_INTERVAL])
    return bool(_JSON.search(beginning) or _CSV.search(beginning) or _EACH.fullmatch(next(lines, "")))


def read(source: Source) -> Found:
    found, samples, zones = Found(), Sampled(), set[str]()
    beginning = text_head(source.head()) or ""
    entries = _json if _JSON.search(beginning) else _csv if _CSV.search(beginning) else _each
    for host, stamp, seconds, values in entries(source, found):
        moment = _moment(stamp, zones)
        if moment is None:
            samples.unusable += 1
            continue
        place = source.place or host
        interval = round(seconds * units.SECOND) if seconds is not None and 0 < seconds <= 86_400 else None
        for suffix, metric, value in metrics_of(values, seconds):
            samples.add(moment, interval, place + suffix, metric, value)
        if samples.full:
            break
    if found.lost.get(_NO_TIME) and not samples.time:
        raise InputError(source.path, "none of its entries has a time", "record with -t: iostat -xt -o JSON 1")
    empty = "there is no sample of CPU, run queue, memory or disks in it"
    samples.into(found, source, empty, whole_seconds=True, local=bool(zones))
    if zones:
        name = source.path.name
        found.notes.append(f"{name}: its times are in {', '.join(sorted(zones))} and are taken as UTC (use sadf -U)")
    return found


def _moment(stamp: str, zones: set[str]) -> int | None:
    match = _STAMP.fullmatch(stamp)
    if match is None:
        return None
    try:
        if match[4]:
            return units.parse_moment(match[4], scale=units.SECOND)
        if match[3] != "UTC" and len(zones) < 3:
            zones.add(match[3] or "an unknown time zone")
        return units.parse_moment(f"{match[1]}T{match[2]}Z")
    except ValueError:
        return None


Entry = tuple[str, str, float | None, Row]
"""Host, stamp, interval in seconds, and lists of values as in `sadf -j`."""


def _json(source: Source, found: Found) -> Iterator[Entry]:
    since_start = True
    for before, value in elements(source, found, _RESUME, _OPENING):
        entry, hosts, dates = table(value), _HOST.findall(before), _DATE.findall(before)
        stamp = entry.get("timestamp")
        host = hosts[-1] if hosts else "host"
        if isinstance(stamp, str):
            if not (since_start and ("avg-cpu" in entry or "disk" in entry)):
                cpus = _CPUS.findall(before)
                yield _of_tool(host, dates[-1] if dates else "", stamp, entry, int(cpus[-1]) if cpus else 1)
            since_start = False
        elif not table(stamp):
            found.lose(_NO_TIME, 1)
        else:
            moment = table(stamp)
            zone = "UTC" if moment.get("utc") == 1 else text(moment.get("tz")) or ""
            when = f"{moment.get('date')} {moment.get('time')} {zone}".strip()
            yield host, when, number(moment.get("interval")), entry


def _of_tool(host: str, date: str, stamp: str, entry: Row, cpus: int) -> Entry:
    """An entry of `mpstat -o JSON`, `iostat -o JSON` or `pidstat -o JSON`, which name some things otherwise."""
    when = _printed(stamp, date)
    disks = [{"util-percent": row.get("util")} for row in rows(entry.get("disk")) if "util" in row]
    whole = table(entry.get("avg-cpu"))
    renamed = {**entry, **({"disk": disks} if disks else {})}
    if whole:
        renamed["cpu-load"] = [{"cpu": "all", **whole}]
    # The CPU time of each process is in percent of one CPU. That of its threads, which have a TID, is part of it.
    tasks = [number(row.get("cpu")) for row in rows(entry.get("task-cpu-load")) if not row.get("TID")]
    if tasks:
        renamed["cpu-load"] = [{"cpu": "all", "user": sum(share for share in tasks if share is not None) / cpus}]
    return host, when, None, renamed


def _printed(stamp: str, date: str) -> str:
    """A time as these tools print it, which depends on the locale and on `S_TIME_FORMAT`: `16:49:00`, `04:49:00 PM`, a
    date before them, or `2026-11-20T16:49:00+0100`."""
    match = _PRINTED.fullmatch(stamp)
    if match is None:
        return stamp
    day, hour, rest, half, zone = match.groups()
    if half:
        hour = f"{int(hour) % 12 + 12 * (half == 'PM'):02}"
    when = f"{iso_date(day or date)} {hour}{rest}"
    if not zone:
        return when
    return str(units.parse_moment(f"{when.replace(' ', 'T')}{zone[:3]}:{zone[3:]}") // units.SECOND)


def iso_date(text: str) -> str:
    """11/20/26, 11/20/2026 or 2026-11-20 as the last of these; a first number above 12, or before a point, is a day."""
    parts = re.split(r"[/.]", text)
    if len(parts) != 3:
        return text
    month, day, year = parts
    if month > "12" or "." in text:
        month, day = day, month
    return f"{year if len(year) == 4 else '20' + year}-{month}-{day}"


@dataclass(frozen=True)
class _Report:
    """Columns of a line that belong together; with `several`, each CPU or disk has them."""

    columns: list[str]
    several: bool

    def rows(self, values: Sequence[str]) -> list[dict[str, str]]:
        width = len(self.columns)
        return [dict(zip(self.columns, values[at : at + width], strict=True)) for at in range(0, len(values), width)]

    def fits(self, values: Sequence[str]) -> bool:
        """Whether each of these CPUs or disks may have its first value."""
        names = values[:: len(self.columns)]
        if self.columns[0] != "cpu":
            return len(set(names)) == len(names) and all(map(_ITEM.search, names))
        cpus = [int(name) if _NUMBER.fullmatch(name) else None for name in names if name != "all"]
        known = [cpu for cpu in cpus if cpu is not None]
        return len(known) == len(cpus) and all(one < other for one, other in pairwise(known))


def _reports(header: str) -> list[_Report]:
    """The reports of a line; their first columns are in capitals where they name a CPU or a disk."""
    found, columns, capital = list[_Report](), list[str](), False
    for name in header[2:].split(";")[3:]:
        several = name.endswith(_SIDE_BY_SIDE)
        name = name.removesuffix(_SIDE_BY_SIDE)
        if name.endswith("*"):
            return []
        if columns and name.isupper() and not capital:
            found.append(_Report(columns, several=False))
            columns = []
        columns, capital = [*columns, called(name)], name.isupper()
        if several:
            found.append(_Report(columns, several=True))
            columns = []
    return [*found, _Report(columns, several=False)] if columns else found


def _split(values: Sequence[str], reports: Sequence[_Report]) -> list[list[Row]] | None:
    """The rows of each report; None: the line does not have them, or they may be divided in two ways."""
    found = [[], *islice(_divided(values, reports), 2)]
    return found[1] if len(found) == 2 else None


def _divided(values: Sequence[str], reports: Sequence[_Report]) -> Iterator[list[list[Row]]]:
    first, rest = reports[0], reports[1:]
    least = sum(len(report.columns) for report in rest)
    width, most = len(first.columns), len(values) - least
    if not any(report.several for report in rest):
        ends: Iterable[int] = (most,)
    else:
        ends = range(width, most + 1, width) if first.several else (width,)
    for end in ends:
        own = values[:end]
        if end < width or (end % width if first.several else end != width) or (first.several and not first.fits(own)):
            continue
        if not rest:
            yield [list[Row](first.rows(own))]
            continue
        yield from ([list[Row](first.rows(own)), *others] for others in _divided(values[end:], rest))


def _csv(source: Source, found: Found) -> Iterator[Entry]:
    """Rows of one moment and report are one entry, because the busiest of its disks counts."""
    reports, open_key, group = list[_Report](), ("", "", ""), list[Row]()
    for line_number, line in source.lines(found):
        if line.startswith("#"):
            yield from _grouped(open_key, group)
            reports, group = _reports(line), []
            continue
        host, seconds, stamp, *values = [*line.split(";"), *[""] * 3][: max(3, line.count(";") + 1)]
        if _RESTART.search(line) or not reports:
            continue
        split = _split([value.replace(",", ".") for value in values], reports)
        if split is None:
            found.damaged(source.path.name, line_number)
            continue
        if (host, seconds, stamp) != open_key or len(reports) > 1:
            yield from _grouped(open_key, group)
            open_key, group = (host, seconds, stamp), []
        if len(reports) == 1:
            group += split[0]
        else:
            yield host, stamp, number(seconds), _of_all(split)
    yield from _grouped(open_key, group)


def _of_all(split: Sequence[Sequence[Row]]) -> dict[str, Any]:
    """The rows of several reports of one moment."""
    values, single = dict[str, Any](), dict[str, Any]()
    for rows_of_one in split:
        found = report_of(rows_of_one)
        if set(found) == set(_SINGLE):
            single |= rows_of_one[0]
        else:
            values |= found
    return {**dict.fromkeys(_SINGLE, single), **values}


def _each(source: Source, found: Found) -> Iterator[Entry]:
    """A line for each value; those of one moment are one entry."""
    open_key, devices = ("", "", ""), dict[str, dict[str, str]]()
    for line_number, line in source.lines(found):
        host, seconds, stamp, device, column, value, *more = [*line.split("\t"), *[""] * 6]
        if seconds == _NO_INTERVAL:
            continue
        if len(more) != 6 or not column:
            found.damaged(source.path.name, line_number)
            continue
        if (host, seconds, stamp) != open_key:
            yield from _devices(open_key, devices)
            open_key, devices = (host, seconds, stamp), {}
        devices.setdefault(device, {})[called(column)] = value.replace(",", ".")
    yield from _devices(open_key, devices)


def _devices(key: tuple[str, str, str], devices: Mapping[str, Mapping[str, str]]) -> Iterator[Entry]:
    values: dict[str, Any] = report_of([devices["-"]]) if "-" in devices else {}
    for device, row in devices.items():
        if device == "all" or _CPU.fullmatch(device):
            values.setdefault("cpu-load", []).append({"cpu": device.removeprefix("cpu"), **row})
        elif "util-percent" in row:
            values.setdefault("disk", []).append(row)
    if values:
        yield key[0], key[2], number(key[1]), values


def _grouped(key: tuple[str, str, str], group: Sequence[Row]) -> Iterator[Entry]:
    if group:
        yield key[0], key[2], number(key[1]), report_of(group)


def report_of(group: Sequence[Row]) -> dict[str, Any]:
    """The rows of one moment, which have the same columns, as in `sadf -j`."""
    first = group[0]
    kind = "cpu-load" if "cpu" in first else "disk" if "disk-device" in first else ""
    return {kind: list(group)} if kind else dict.fromkeys(_SINGLE, first)


_SINGLE = ("queue", "memory", "process-and-context-switch", "paging", "psi")
"""Reports with one row for each moment."""


def called(column: str) -> str:
    """The name that `sadf -j` gives to a column."""
    return _CALLED.get(column, column.lstrip("%"))


def metrics_of(values: Row, seconds: float | None) -> Iterator[tuple[str, str, float | None]]:
    """Suffix of the place, metric and value of everything that the diagnosis uses."""
    for row in rows(values.get("cpu-load")):
        core = text(row.get("cpu"))
        suffix = "" if core in ("all", "-1") else f"/cpu{core}"
        busy = [share for part in _BUSY if (share := number(row.get(part))) is not None]
        if busy:
            yield suffix, "cpu_busy", sum(busy) / 100
        for part in ("iowait", "steal"):
            if part in row:
                yield suffix, f"cpu_{part}", _times(row[part], 0.01)
    for table_name, key, metric, factor in (
        ("queue", "runq-sz", "run_queue", 1.0),
        ("memory", "dirty", "dirty_bytes", 1024.0),
        ("process-and-context-switch", "cswch", "context_switches", seconds or 0.0),
        ("paging", "majflt", "major_faults", seconds or 0.0),
        ("psi", "psi-cpu", "psi_cpu", 0.01),
        ("psi", "psi-io", "psi_io", 0.01),
        ("psi", "psi-mem", "psi_memory", 0.01),
    ):
        row = table(values.get(table_name))
        if key in row and factor:
            # JSON has a table here, of which the share within the interval counts, and not those of 10 s and more.
            yield "", metric, _times(table(row[key]).get("some_avg", row[key]), factor)
    used = [share for row in rows(values.get("disk")) if (share := number(row.get("util-percent"))) is not None]
    if used:
        yield "", "disk_busy", max(used) / 100


def _times(value: Any, factor: float) -> float | None:
    parsed = number(value)
    return None if parsed is None else round(parsed * factor, 9)
