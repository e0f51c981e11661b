"""What sar, mpstat, pidstat and iostat print.

```text
Linux 6.1.0 (app1)  11/20/26  _x86_64_  (2 CPU)

16:49:00     CPU    %usr   %nice    %sys %iowait  %steal   %idle        the columns, after a stamp
16:49:01     all   10.50    0.50    6.00    4.00    1.00   75.00        (11:59:59 PM; a Unix time with pidstat -H)

11/20/26 16:49:01                                                       iostat -t: a stamp, then its tables
avg-cpu:  %user   %nice %system %iowait  %steal   %idle
          12.50    0.50    7.00    4.00    1.00   75.00
```
The columns have the names that `sadf` gives them, so its rules apply. The first report of iostat covers the time since
the machine started, and is left out. A clock that goes back by more than half a day has passed midnight.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tailrace.readers import localclock, sadf
from tailrace.readers.sadf import Row
from tailrace.readers.sampled import Sampled
from tailrace.readers.source import Found, Source, text_head
from tailrace.units import SECOND, parse_moment, parse_number

_HEADER = re.compile(r"Linux \S{1,99} \(([^()\n]{1,99})\)\s+(\S{8,10})\s[^(]{0,99}(?:\((\d{1,5}) CPU\))?")
_CLOCK = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\s+([AP])M)?(?=\s|$)")
_UNIX = re.compile(r"(\d{9,11})(?=\s)")
_DECIMAL = re.compile(r"(?<!\S)(-?\d+),(\d{1,4})(?!\S)")
"""Of a locale with a decimal comma."""
_PERCENT = re.compile(r"(?<=\d)%(?!\S)")
"""Of `sar -h`."""
_COLOUR = re.compile(r"\x1b\[[\d;]{0,9}m")
"""Of a terminal, or with `S_COLORS=always`."""
_REMARKS = ("LINUX", "COM", "LINUX-RESTART")
"""First words of lines about a restart, and of comments."""
_IOSTAT = re.compile(r"(\d\d[/.]\d\d[/.]\d{2,4}|\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d(?: [AP]M)?)([+-]\d{4})?\s*$")
_COLUMNS = re.compile(r"(?<!\S)(?:%?idle|%CPU|runq-sz|%util|kbdirty|cswch/s|majflt/s|%s(?:cpu|io|mem))(?=\s|$)")
_STAMPLESS = re.compile(r"\s*(?:avg-cpu:|Device|[^\n]* Device\n)")
_HALF_DAY, _DAY = 12 * 3600 * SECOND, 24 * 3600 * SECOND


def sniff(name: str, head: bytes) -> bool:
    text = text_head(head) or ""
    first, _, rest = text.partition("\n")
    columns = _COLUMNS.search(_COLOUR.sub("", rest))
    return bool(_HEADER.match(first.rstrip("\r")) and columns and not _STAMPLESS.match(rest))


def read(source: Source) -> Found:
    found, samples, print_out = Found(), Sampled(), _Printed()
    for moment, seconds, values in print_out.entries(source, found):
        interval = round(seconds * SECOND) if seconds else None
        for suffix, metric, value in sadf.metrics_of(values, seconds):
            samples.add(moment, interval, (source.place or print_out.host) + suffix, metric, value)
        if samples.full:
            break
    empty = "there is no sample of CPU, run queue, memory or disks in it"
    samples.into(found, source, empty, whole_seconds=True, local=not print_out.zoned)
    if not print_out.zoned:
        found.notes.append(f"{source.path.name}: its times have no time zone and are taken as UTC")
    return found


Entry = tuple[int, float | None, Row]


@dataclass
class _Printed:
    """The report that is being read: the rows of one moment and table are one entry, as in `sadf`."""

    host: str = "host"
    day: str = ""
    cores: int = 1
    columns: list[str] = field(default_factory=list)
    moment: int | None = None
    rows: list[Row] = field(default_factory=list)
    reports: int = 0
    """Of iostat."""
    iostat: bool = False
    zoned: bool = False
    days: int = 0
    last: int = 0
    before: int | None = None
    """When the interval of the entry began."""

    def entries(self, source: Source, found: Found) -> Iterator[Entry]:
        """Moment, interval in seconds and values of each entry."""
        for _, line in source.lines(found):
            yield from self._line(_PERCENT.sub("", _DECIMAL.sub(r"\1.\2", _COLOUR.sub("", line))))
        yield from self._rest()

    def _line(self, line: str) -> Iterator[Entry]:
        header = _HEADER.match(line)
        stamp = _IOSTAT.match(line)
        if header:
            yield from self._rest()
            self.host, self.day, self.cores = header[1], sadf.iso_date(header[2]), int(header[3] or 1)
            self.columns, self.iostat, self.days, self.last = [], False, 0, 0
            self.before = self.moment = None
        elif stamp:
            yield from self._rest()
            self.day, self.days, self.last = sadf.iso_date(stamp[1]), 0, 0
            self.before = self.moment
            self.moment, self.reports = self._clock(stamp[2], stamp[3] or ""), self.reports + 1
        elif line.startswith("avg-cpu:"):
            yield from self._rest()
            self.columns, self.iostat = ["CPU", *line.split()[1:]], True
        elif line.startswith("Device"):
            yield from self._rest()
            self.columns, self.iostat = ["DEV", *line.split()[1:]], True
        elif line.endswith(" Device"):  # iostat -h and --pretty
            yield from self._rest()
            self.columns, self.iostat = [*line.split()[:-1], "DEV"], True
        elif self.iostat:
            row = line.split()
            self._row(["all", *row] if self.columns[0] == "CPU" else row)
        else:
            yield from self._stamped(line)

    def _stamped(self, line: str) -> Iterator[Entry]:
        """A line of sar, mpstat or pidstat: columns, or values, after a stamp."""
        bare = re.sub(r"^# *Time", "", line).lstrip()
        clock = _CLOCK.match(bare) or _UNIX.match(bare)
        words = (bare[clock.end() :] if clock else bare).split()
        if not words or line.startswith("Average:") or words[0] in _REMARKS:
            return
        if len(words) > 1 and all(parse_number(word) is None for word in words):
            yield from self._rest()
            days, last = self.days, self.last
            self.columns, self.before = words, self._moment(clock) if clock else None
            self.days, self.last = days, last  # the stamp of columns may be one of the day before
        elif clock and self.columns:
            moment = self._moment(clock)
            if moment != self.moment:
                yield from self._rest()
                self.moment = moment
            self._row(words)

    def _moment(self, clock: re.Match[str]) -> int | None:
        if clock.re is _UNIX:
            self.zoned = True
            return parse_moment(clock[1], scale=SECOND)
        return self._clock(clock[0], "")

    def _clock(self, text: str, zone: str) -> int | None:
        clock = _CLOCK.match(text)
        if clock is None or not self.day:
            return None
        hour = int(clock[1]) % 12 + 12 * (clock[4] == "P") if clock[4] else int(clock[1])
        self.zoned = self.zoned or bool(zone)
        try:
            moment = parse_moment(f"{self.day}T{hour:02d}:{clock[2]}:{clock[3]}{zone or 'Z'}")
        except ValueError:
            return None
        self.days += moment + self.days * _DAY < self.last - _HALF_DAY
        self.last = moment + self.days * _DAY
        return self.last

    def _row(self, words: list[str]) -> None:
        names = self.columns[: len(words)]
        if "Command" in names:  # a command may contain spaces
            words = words[: len(names)]
        if len(words) == len(self.columns) and self.moment is not None:
            self.rows.append(dict(zip((sadf.called(name) for name in names), words, strict=True)))

    def _rest(self) -> Iterator[Entry]:
        """The entry that is complete now."""
        rows, self.rows = self.rows, []
        if not rows or self.moment is None or (self.iostat and self.reports < 2):
            return
        before = self.before
        if not self.iostat:  # several of its tables have one stamp
            self.before = self.moment
        was_set_back = before is not None and 0 < before - self.moment < 2 * localclock.HOUR
        seconds = (self.moment - before) % _DAY / SECOND if before is not None and not was_set_back else None
        if _PROCESSES.intersection(rows[0]):
            if "CPU" in rows[0]:  # other tables of pidstat have no CPU time
                busy = _of_processes(rows) / self.cores
                yield self.moment, seconds, {"cpu-load": [{"cpu": "all", "user": busy}]}
        else:
            yield self.moment, seconds, sadf.report_of(rows)


_PROCESSES = {"PID", "TGID"}
"""Columns of pidstat; its reports are of processes, and with `-t` also of their threads."""


def _of_processes(rows: list[Row]) -> float:
    """The CPU time of all processes, in percent of one CPU. Threads count in their process, which has a row, too."""
    own = (row for row in rows if row.get("TGID") != "-")
    return float(sum(number for row in own if (number := parse_number(str(row.get("CPU")))) is not None))
