"""Lines of nginx, and of all logs with its fields, become visits in the engine, many at a time
(crates/core/src/lines/visits.rs). Here it is said what the numbers in their columns mean; the engine then asks no more.

Whatever is unusual is read as the lines of other programs are (`accesslog_outcomes`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tailrace import _core
from tailrace.bounds import EARLIEST_NS, LATEST_NS, YEAR_NS
from tailrace.readers.accesslog_layout import NAME
from tailrace.readers.accesslog_lines import status_of
from tailrace.readers.accesslog_outcomes import is_code
from tailrace.readers.accesslog_rows import DURATION_MAX_NS, Piece, is_method
from tailrace.readers.stays import Stays

SOFTWARE = "nginx"
"""The `software` of the layouts whose lines can be taken."""
UNASKED = ("400", "408")
"""How a server ends a connection on which no request came, or none that it could read: the time is the client's."""
_BOUNDS = (EARLIEST_NS, LATEST_NS, DURATION_MAX_NS, YEAR_NS)


@dataclass
class Taken:
    """What is known of the lines that were taken."""

    calls: Counter[str] = field(default_factory=Counter)
    untimed: int = 0
    whole: bool = True
    """All stamps are whole seconds."""
    fine: bool = False
    """Some stamps are no whole milliseconds."""


class Taker:
    """Takes the lines of one file."""

    def __init__(self, server: str, scales: Mapping[str, int], *, at_end: bool) -> None:
        times = (scales.get("stamp", 1), scales.get("duration", 1), at_end)
        self._server, self._visits = server, _core.LineVisits(times, _BOUNDS)
        self._servers: dict[int, str] = {}
        """Numbers of the servers behind."""
        self._begun = False

    def take(self, piece: Piece, stays: Stays) -> Taken | None:
        """Add the visits of these lines; None: not all of them can be added, and none is."""
        while (taken := stays.take(self._visits, piece.table, piece.rows)) is not None:
            unknown, _, untimed, whole, fine, calls = taken
            if not unknown:
                counts = Counter({self._servers[number]: count for number, count in calls})
                return Taken(counts, untimed, whole, fine)
            if not self._mean(piece, unknown, stays):
                return None
        return None

    def _mean(self, piece: Piece, unknown: list[tuple[str, int]], stays: Stays) -> bool:
        """Give these numbers of columns a meaning; False: there is no room for their texts."""
        meant = [(column, number, self._text(piece, column, number)) for column, number in unknown]
        texts = {name: {text for column, _, text in meant if text is not None and name == _OF[column]} for name in _NEW}
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
            meaning = stays.number_of(text)
            self._visits.mean(column, number, meaning)
            if column == "address":
                self._servers[meaning] = text
            if column == "status" and text in UNASKED:
                self._visits.unasked(meaning)
        return True

    def _text(self, piece: Piece, column: str, number: int) -> str | None:
        """What a number in a column is called; None: a line that has it is unusual."""
        if column == "status":
            return status_of(str(number)) if number < 1000 else None
        text = piece.cutter.text(column, number)
        if column == "address":
            return f"{text} (upstream)" if text == self._server else text or "upstream"
        if column == "address_status":
            return (status_of(text or "") or "unknown") if is_code(text) else None
        if column == "method":
            return str(is_method(text))
        return text or None


_OF = {NAME: "interaction", "address": "server", "status": "status", "address_status": "status", "method": ""}
"""In which column of visits a column of lines is."""
_NEW = ("server", "interaction", "status")
