"""When a JVM started: what its log says of it, so that an uptime becomes a moment.

```text
exact    a line with both clocks                                           wall - uptime
told     --began app=2026-11-20T16:49:00Z                                  the user knows
carrier  a stamp that docker or kubectl put before the line                never before the line was written: the least
                                                                           difference to the uptime counts
header   2026-11-20 16:49:00 GC log file created gc.log.0                  JDK 7 and 8 with UseGCLogFileRotation, whole
         2026-11-20 16:58:12 GC log file has reached the maximum size      seconds: between two uptimes
```
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tailrace import units
from tailrace.readers.gclog_lines import Line, Stamps, moment

_HEADER = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) GC log (?:file (created|has reached)|rotation request)")
_HEADER_WIDTH_MAX = 10 * units.SECOND
"""A header is written between two reports, and the JVM's start is only known to within their distance. If this is
larger, a pause could be attributed to unrelated requests."""


class Clock:
    """The start of one run of a JVM, in ns since the Unix epoch."""

    def __init__(self) -> None:
        self.exact: int | None = None
        self.told: int | None = None
        self.carrier: int | None = None
        self.low: int | None = None
        self.high: int | None = None
        self.header: int | None = None
        self.first: int | None = None
        self.last: int | None = None
        self._opened: int | None = None

    @staticmethod
    def of(clocks: Sequence[Clock]) -> Clock:
        """Stamps that several parts of one run have in common."""
        one = Clock()
        one.exact = next((clock.exact for clock in clocks if clock.exact is not None), None)
        one.header = next((clock.header for clock in clocks if clock.header is not None), None)
        one.carrier = min((clock.carrier for clock in clocks if clock.carrier is not None), default=None)
        one.low = max((clock.low for clock in clocks if clock.low is not None), default=None)
        one.high = min((clock.high for clock in clocks if clock.high is not None), default=None)
        return one

    def learn(self, stamps: Stamps, line: Line) -> None:
        """Use the stamps of a report."""
        if stamps.uptime is None:
            return
        if stamps.wall is not None:
            self.exact = stamps.wall - stamps.uptime
        elif self.exact is None and (carried := line.carried()) is not None:
            late = carried - stamps.uptime
            self.carrier = late if self.carrier is None else min(self.carrier, late)
        if self._opened is not None:
            self._above(self._opened - stamps.uptime)
            self._opened = None
        self.first = stamps.uptime if self.first is None else self.first
        self.last = stamps.uptime if self.last is None else max(self.last, stamps.uptime)

    def learn_header(self, text: str) -> None:
        """Use a header of a rotated file: it lies after the last report before it and before the next one."""
        match = _HEADER.match(text)
        if match is None:
            return
        second = moment(match[1].replace(" ", "T"), None, "Z")
        if second is None:
            return
        likely = second - (self.last or 0)  # a file begins with the JVM, or as soon as the previous one is full
        self.header = likely if self.header is None else self.header
        self.high = likely + units.SECOND if self.high is None else min(self.high, likely + units.SECOND)
        self._opened = second

    def _above(self, start: int) -> None:
        self.low = start if self.low is None else max(self.low, start)

    def begins_anew(self, stamps: Stamps) -> bool:
        """An uptime that decreases belongs to another run. Threads that stamp at the same time differ by less than
        this."""
        return (
            stamps.uptime is not None
            and self.last is not None
            and self.last - stamps.uptime > units.SECOND
            and stamps.uptime < self.last // 2
        )

    def start(self) -> int | None:
        for known in (self.exact, self.told, self.carrier):
            if known is not None:
                return known
        return self._by_header()

    def _by_header(self) -> int | None:
        if self.low is None or self.high is None or not 0 <= self.high - self.low <= _HEADER_WIDTH_MAX:
            return None
        return None if self.header is None else min(max(self.header, self.low), self.high)

    def source(self) -> str:
        """The source of the start, for a note; empty if the log has a wall clock."""
        if self.exact is not None:
            return ""
        if self.told is not None:
            return "from --began"
        if self.carrier is not None:
            return "from the stamps of its prefixes, which may be late"
        if self._by_header() is not None and self.low is not None and self.high is not None:
            within = units.format_duration(self.high - self.low)
            return f"from its header, within {within}; the header has no time zone and is taken as UTC"
        return ""
