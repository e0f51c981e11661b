"""Lines of nginx, of all logs with its fields, of Envoy, and of programs that call nobody become visits in the engine,
many at a time (crates/core/src/lines/visits.rs). Here it is said what the numbers in their columns mean; the engine
then asks no more.

Whatever is unusual is read as the lines of other programs are (`accesslog_outcomes`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tailrace import _core
from tailrace.bounds import EARLIEST_NS, LATEST_NS, YEAR_NS
from tailrace.readers.accesslog_layout import COLUMNS, NAME, Layout
from tailrace.readers.accesslog_lines import status_of
from tailrace.readers.accesslog_outcomes import (
    BELIEVED_MAX_NS,
    CADDYS_MAX_NS,
    is_code,
    is_method_or_none,
    is_of_flags,
    is_printable,
    is_programs_method,
    of_three_digits,
    or_abandoned,
)
from tailrace.readers.accesslog_outcomes import (
    OF as SOFTWARE,
)
from tailrace.readers.accesslog_proxies import ended_by, host_of
from tailrace.readers.accesslog_rows import DURATION_MAX_NS, Piece, is_method
from tailrace.readers.stays import Stays

UNASKED = ("400", "408")
"""How a server ends a connection on which no request came, or none that it could read: the time is the client's."""


@dataclass(frozen=True)
class _Program:
    """What the columns of a program mean, as in `accesslog_outcomes`."""

    status: Callable[[str], str | None] = status_of
    """None: a line with this status is unusual."""
    is_usual_method: Callable[[str | None], bool] = lambda _: True
    needed: tuple[str, ...] = ()
    """Columns that each line has."""
    needed_if_any: tuple[str, ...] = ()
    """Columns that each line has, if the layout has them."""
    parts: int = 1
    """Durations are of so many parts of the unit that they were read in."""
    longest: int = DURATION_MAX_NS
    """In ns; longer durations are unusual."""
    most: int = DURATION_MAX_NS
    """The same in units of the log."""
    named: bool = False
    """A call is where an address is, and has no time of its own or one in a unit of the log."""


OF = {
    "nginx": _Program(),
    "uwsgi": _Program(
        is_usual_method=is_programs_method,
        needed=("received", "bytes", "duration"),
        longest=BELIEVED_MAX_NS,
        most=10**9,
    ),
    "rails": _Program(is_usual_method=is_method_or_none, needed=("duration",), parts=1000, longest=BELIEVED_MAX_NS),
    "caddy": _Program(
        status=or_abandoned,
        is_usual_method=is_printable,
        needed=("stamp", "duration", "bytes", "status"),
        longest=CADDYS_MAX_NS,
    ),
    "envoy": _Program(
        status=lambda text: "abandoned" if text == "0" else of_three_digits(text),
        needed=("iso", "status", "bytes", "duration"),
        needed_if_any=("received",),
        longest=BELIEVED_MAX_NS,
        named=True,
    ),
}
"""By the `software` of a layout."""


@dataclass
class Taken:
    """What is known of the lines that were taken."""

    calls: Counter[str] = field(default_factory=Counter)
    flags: Counter[str] = field(default_factory=Counter)
    untimed: int = 0
    whole: bool = True
    """All stamps are whole seconds."""
    fine: bool = False
    """Some stamps are no whole milliseconds."""


class Taker:
    """Takes the lines of one file."""

    def __init__(
        self, server: str, layout: Layout, *, at_end: bool, local: bool, unasked: tuple[str, ...] = UNASKED
    ) -> None:
        self._unasked = unasked
        """Statuses of lines without a method that are of no request."""
        self._server, self._program = server, OF[layout.software]
        self.at_end = at_end = at_end and not SOFTWARE[layout.software].at_begin
        """Stamps are those of the end of a request."""
        has = {COLUMNS[one["column"]] for one in layout.fields if one["column"] is not None}
        stamp, duration = (layout.scales.get(column, 1) for column in ("stamp", "duration"))
        longest = min(self._program.longest, self._program.most * duration, DURATION_MAX_NS)
        self._visits = _core.LineVisits(
            (stamp, duration, self._program.parts, at_end, local),
            (EARLIEST_NS, LATEST_NS, longest, YEAR_NS),
            [*self._program.needed, *(column for column in self._program.needed_if_any if column in has)],
            layout.scales.get("took", 1) if self._program.named else None,
        )
        self._servers: dict[int, str] = {}
        """Numbers of the servers behind."""
        self._begun = False

    def take(self, piece: Piece, stays: Stays) -> Taken | None:
        """Add the visits of these lines; None: not all of them can be added, and none is."""
        while (taken := stays.take(self._visits, piece.table, piece.rows)) is not None:
            unknown, _, untimed, whole, fine, calls, flags, _ = taken
            if not unknown:
                counts = Counter({self._servers[number]: count for number, count in calls})
                flagged = Counter({piece.cutter.text("flags", number) or "": count for number, count in flags})
                return Taken(counts, flagged, untimed, whole, fine)
            if not self._mean(piece, unknown, stays):
                return None
        return None

    def _mean(self, piece: Piece, unknown: list[tuple[str, int]], stays: Stays) -> bool:
        """Give these numbers of columns a meaning; False: there is no room for their texts."""
        meant = [(column, number, self._text(piece, column, number)) for column, number in unknown]
        texts = {name: {text for column, _, text in meant if text and name == _OF[column]} for name in _NEW}
        texts["server"].add(self._server)
        texts["caller"] = {"", self._server}
        if not stays.have(texts):
            return False
        if not self._begun:
            self._visits.serve(stays.number_of(self._server))
            self._begun = True
        for column, number, text in meant:
            if text is None or column == "method":
                self._visits.mean(column, number, None if text is None else int(text))
                continue
            if not text:
                self._visits.mean(column, number, 0)
                continue
            meaning = stays.number_of(text)
            self._visits.mean(column, number, meaning)
            if column == "address":
                self._servers[meaning] = text
            if column == "status" and text in self._unasked:
                self._visits.unasked(meaning)
        return True

    def _text(self, piece: Piece, column: str, number: int) -> str | None:
        """What a number in a column is called; None: a line that has it is unusual; empty: it says nothing."""
        if column == "status":
            return self._program.status(str(number)) if number < 1000 else None
        text = piece.cutter.text(column, number)
        if column == "flags":
            return (ended_by(text or "-") or "") if is_of_flags(text or "-") else None
        if column == "address" and self._program.named:
            text = host_of(text)
            return f"{text} (upstream)" if text == self._server else text or ""
        if column == "address":
            return f"{text} (upstream)" if text == self._server else text or "upstream"
        if column == "address_status":
            return (status_of(text or "") or "unknown") if is_code(text) else None
        if column == "method":
            return str(is_method(text)) if self._program.is_usual_method(text) else None
        return text or None


_OF = {
    NAME: "interaction",
    "address": "server",
    "status": "status",
    "address_status": "status",
    "flags": "status",
    "method": "",
}
"""In which column of visits a column of lines is."""
_NEW = ("server", "interaction", "status")
