"""Many lines of an access log at once: the columns that the engine cut (`accesslog_layout`) become visits.

Whatever is unusual goes to the slow reader, which gives the same visits for the same lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace import _core, units
from tailrace.bounds import LATEST_NS, LINE
from tailrace.readers.accesslog_layout import NAME, TEXTS, TIMERS
from tailrace.readers.accesslog_texts import Ints, Table, Texts, check
from tailrace.readers.naming import Names

RUN_MIN = 50
"""Fewer lines in a row are read one by one; columns of so few would cost more."""
NONE, UNKNOWN = -1, -(1 << 63)
"""No number, and none of a column with negative numbers (crates/core/src/lines/sheet.rs)."""
DURATION_MAX_NS = 10**8 * units.SECOND


@dataclass(frozen=True)
class Cut:
    """The columns of lines that have a layout."""

    lines: Ints
    """Their numbers in the block, from 0."""
    columns: Mapping[str, Ints]
    tables: Mapping[str, Table]

    def __len__(self) -> int:
        return len(self.lines)

    def number(self, name: str) -> Ints:
        """A column of numbers; none, if no layout has it."""
        nothing = UNKNOWN if name in TIMERS else NONE
        column = self.columns.get(name)
        return np.full(len(self), nothing) if column is None else column

    def has(self, name: str) -> bool:
        """Whether any line has a value in this column."""
        return name in self.columns and bool((self.columns[name] > (0 if name in TEXTS else NONE)).any())

    def text(self, name: str) -> Texts:
        """A column of texts, or the names of the requests."""
        column = self.columns.get(name)
        if column is None:
            return Texts.same(None, len(self))
        return Texts(column + (1 if name == NAME else 0), self.tables[name])

    def __getitem__(self, rows: slice | NDArray[np.bool_]) -> Cut:
        columns = {name: column[rows] for name, column in self.columns.items()}
        return Cut(self.lines[rows], columns, self.tables)


class Block:
    """Whole lines: bytes up to some place. With `wanted`, a line without a match of it is not read."""

    def __init__(self, data: bytes, end: int | None = None, wanted: re.Pattern[bytes] | None = None) -> None:
        self.data, self.end, self._wanted = data, len(data) if end is None else end, wanted
        self.count = 0
        """How many lines they are, as soon as they were looked at."""

    @property
    def lines(self) -> list[bytes]:
        lines = self.data[: self.end].split(b"\n")
        self.count = len(lines)
        return lines

    def others(self, lines: list[bytes], taken: Ints) -> Ints:
        """The numbers of the lines to read that are not `taken`."""
        is_other = np.ones(len(lines), bool)
        is_other[taken] = False
        numbers = np.flatnonzero(is_other)
        if self._wanted is None:
            return numbers
        search = self._wanted.search
        return np.array([number for number in numbers.tolist() if search(lines[number])], np.int64)


class Cutter:
    """Cuts blocks of lines into columns."""

    def __init__(self, plan: str, names: Names) -> None:
        self._cutter, self._names = _core.LineCutter(plan), names
        self._tables = {name: Table([None]) for name in (*TEXTS, NAME)}

    def cut(self, block: Block) -> _core.LineTable:
        """The rows of the lines that have a layout."""
        table = self._cutter.cut(block.data, self._names.engine, block.end)
        block.count = self._cutter.lines
        return table

    def text(self, column: str, number: int) -> str | None:
        """What a number in a column of texts or of names means."""
        at, table = number + (column == NAME), self._tables[column].texts
        if at >= len(table):
            self._list(column)
        return table[at]

    def _list(self, column: str) -> None:
        """List the texts of a column that are new."""
        table = self._tables[column].texts
        table += self._names.listed(len(table) - 1) if column == NAME else self._cutter.texts(column, len(table))

    def columns(self, table: _core.LineTable) -> Cut:
        """The columns of such a table."""
        columns = {column.name: column.to_numpy() for column in pl.DataFrame(table)}
        lines = columns.pop("line").astype(np.int64)
        for name in (*TEXTS, NAME):
            if name in columns:
                self._list(name)
        return Cut(lines, columns, self._tables)


@dataclass(frozen=True)
class Piece:
    """Lines in a row that have a layout: some rows of a table of the engine."""

    table: _core.LineTable
    rows: tuple[int, int]
    """The first, and that after the last."""
    cutter: Cutter

    def columns(self) -> Cut:
        return self.cutter.columns(self.table)[slice(*self.rows)]


@dataclass(frozen=True)
class Outcomes:
    """How the requests ended, and the only call of each to a server behind."""

    status: Texts
    address: Texts
    """The server that was called; None: none."""
    took: Ints
    connect: Ints
    answer: Texts
    """The status of its answer."""
    before: Ints
    queued: Ints
    flags: Texts | None = None
    """Envoy's."""
    retries: Ints | None = None
    """HAProxy's, with how many requests left its queue before each."""
    ahead: Ints | None = None


@dataclass(frozen=True)
class Software:
    """What the columns of the lines of a program mean: the duration in ns, `NONE` where there is none; and the
    outcomes of lines with these durations."""

    duration: Callable[[Cut, Mapping[str, int]], Ints]
    outcomes: Callable[[Cut, Ints, Mapping[str, int]], Outcomes]
    at_begin: bool = False
    """Its lines are stamped at the begin of a request, whatever others of the same form are."""


@dataclass(frozen=True)
class Rows:
    """Lines with a duration, in nanoseconds since the Unix epoch and nanoseconds; `NONE` is unknown."""

    begin: Ints
    duration: Ints
    stamp: Ints
    name: Texts
    """Those of the interactions."""
    asked: NDArray[np.bool_]
    """Whether the line has a method."""
    bytes_out: Ints
    ended: Outcomes
    untimed: int


def parts(block: Block, cutter: Cutter | None) -> Iterator[Piece | tuple[int, str]]:
    """In their order: lines that have a layout, and each other line with its number, from 0. Without a cutter, each
    line."""
    if cutter is None:
        lines = block.lines
        yield from _singly(lines, block.others(lines, np.empty(0, np.int64)))
        return
    table = cutter.cut(block)
    if len(table) == block.count:
        yield Piece(table, (0, len(table)), cutter)
        return
    lines, numbers, done = block.lines, cutter.columns(table).lines, 0
    others = block.others(lines, numbers)
    read = np.sort(np.concatenate([numbers, others]))
    before = np.searchsorted(others, numbers)
    # Where another line comes between two that have a layout, the latter are in two pieces.
    edges = [0, *(np.flatnonzero(np.diff(before)) + 1).tolist(), len(numbers)]
    for first, end in pairwise(edges):
        if end - first >= RUN_MIN:
            at = first + int(before[first])
            yield from _singly(lines, read[done:at])
            yield Piece(table, (first, end), cutter)
            done = at + end - first
    yield from _singly(lines, read[done:])


def singly(piece: Piece, block: Block) -> Iterator[tuple[int, str]]:
    """Its lines, one by one."""
    return _singly(block.lines, piece.columns().lines)


def _singly(lines: list[bytes], numbers: Ints) -> Iterator[tuple[int, str]]:
    for number in numbers.tolist():
        if text := lines[number].decode("utf-8", errors="replace")[:LINE].rstrip("\r"):
            yield number, text


def of(rows: Cut, software: Software, *, at_end: bool, scales: Mapping[str, int]) -> Rows:
    """The lines' values. Raises UnusualError."""
    duration, timed = software.duration(rows, scales), None
    if (duration < 0).any():
        timed = duration >= 0
        rows, duration = rows[timed], duration[timed]
    check((duration < DURATION_MAX_NS).all())
    stamp = _stamps(rows, scales)
    return Rows(
        begin=stamp - duration if at_end else stamp,
        duration=duration,
        stamp=stamp,
        name=rows.text(NAME),
        asked=_asked(rows),
        bytes_out=rows.number("bytes"),
        ended=software.outcomes(rows, duration, scales),
        untimed=0 if timed is None else int((~timed).sum()),
    )


def _asked(rows: Cut) -> NDArray[np.bool_]:
    if "method" in rows.columns:
        return np.equal(rows.text("method").each_number(is_method), 1)
    return np.not_equal(rows.number(NAME), NONE)


def is_method(text: str | None) -> int:
    """1 for the method of a request."""
    return int(text is not None and text[:1].isascii() and text[:1].isalpha())


def scaled(column: Ints, scale: int) -> Ints:
    if scale == 1:
        return column
    check((column <= LATEST_NS // scale).all())
    return np.where(column < 0, NONE, column * scale)


def _stamps(rows: Cut, scales: Mapping[str, int]) -> Ints:
    stamps = scaled(rows.number("stamp"), scales.get("stamp", 1))
    others = [rows.columns[name] for name in ("iso", "clock") if name in rows.columns]
    if rows.has("day"):
        day, time = rows.text("day").each_number(_day), rows.text("time").each_number(_time)
        others.insert(0, day + time)
    for other in others:
        stamps = np.where(stamps < 0, other, stamps)
    check((stamps >= 0).all())
    return stamps


def _day(text: str | None) -> int:
    check(text is not None and _DAY.fullmatch(text))
    return units.parse_moment(f"{text}T00:00:00Z")


def _time(text: str | None) -> int:
    match = _TIME.fullmatch(text or "")
    check(match)
    hours, minutes, seconds = map(int, match.groups() if match else ())
    check(hours < 24 and minutes < 60 and seconds < 60)
    return (hours * 3600 + minutes * 60 + seconds) * units.SECOND


_DAY, _TIME = re.compile(r"(?:19[789]|20\d|21\d)\d-\d\d-\d\d", re.ASCII), re.compile(r"(\d\d):(\d\d):(\d\d)", re.ASCII)
"""Days in the years of which nanoseconds fit."""
