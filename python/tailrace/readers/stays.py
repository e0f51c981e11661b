"""Visits and requests that a reader of logs or traces finds one by one, until no more fit into memory."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace import _core
from tailrace.bounds import EARLIEST_NS, LATEST_NS, NAME_CHARACTERS, NAMES, NAMES_CHARACTERS, SPAN_TEXTS, YEAR_NS
from tailrace.readers import attempts, localclock, room
from tailrace.readers.source import Found

OTHER = "(other)"
"""The name of interactions that have no name of their own, as the engine calls those of captures
(crates/core/src/capture/names.rs)."""
_BYTES_PER_SAMPLE_PER_STAY = 4
"""A visit and its request take as much memory as so many samples (measured: 800 bytes)."""


@dataclass(frozen=True)
class Stay:
    """One visit. `parent` is the number of the calling visit, `entry` says that a client sent it."""

    server: str
    sent: int
    arrival: int
    departure: int
    status: str
    interaction: str | None = None
    caller: str | None = None
    drops: int = 0
    parent: int | None = None
    entry: bool = False
    bytes_out: int | None = None
    downstream_ns: int | None = None


class Stays:
    """Rows of the visits, which are numbered from 0 in the order in which they are added; names by their number."""

    def __init__(self) -> None:
        self._numbers = array("q")
        self._names: dict[str, int] = {"": 0}
        self._characters = 0
        self._of_column = tuple({"", OTHER} for _ in _TEXTS)
        self.most = room.samples() // _BYTES_PER_SAMPLE_PER_STAY
        self.damaged = 0
        self.nameless = 0
        """Visits whose interactions are `OTHER`, because no further names fit."""

    def __len__(self) -> int:
        return len(self._numbers) // _WIDTH

    @property
    def full(self) -> bool:
        return len(self) >= self.most

    def add(self, stay: Stay) -> int | None:
        """The number of the visit; None if its times are impossible, which is counted."""
        interaction = stay.interaction or ""
        if nameless := not self._nameable("interaction", interaction):
            interaction = OTHER
        texts = (stay.server, interaction, stay.caller or "", stay.status)
        times = EARLIEST_NS <= stay.sent <= stay.arrival <= stay.departure <= LATEST_NS
        nameable = all(map(self._nameable, _TEXTS, texts))
        if not times or stay.departure - stay.sent > YEAR_NS or not stay.server or not nameable:
            self.damaged += 1
            return None
        self.nameless += nameless
        for named, text in zip(self._of_column, texts, strict=True):
            named.add(text)
        self._numbers.extend([self._number(text) for text in texts])
        self._numbers.extend((stay.sent, stay.arrival, stay.departure, stay.drops))
        known = (stay.parent, stay.bytes_out, stay.downstream_ns)
        self._numbers.extend([-1 if value is None else value for value in known])
        self._numbers.append(stay.entry)
        return len(self) - 1

    def add_all(self, columns: Mapping[str, NDArray[np.int64]], names: Mapping[str, pl.Series]) -> int | None:
        """The number of the first of many visits, with columns like the fields of a stay and -1 for None; None if not
        all of them can be added, and then none is."""
        possible = possible_times(columns["sent"], columns["arrival"], columns["departure"])
        texts = [names[name].fill_null("") for name in _TEXTS]
        different = [column.unique(maintain_order=True) for column in texts]
        new = {text for column in different for text in column} - self._names.keys()
        fits = all(map(self._all_nameable, _TEXTS, different)) and self._have_room(new)
        if not fits or not possible.all() or len(self) + len(possible) > self.most:
            return None
        for known, column in zip(self._of_column, different, strict=True):
            known.update(column)
        for text in sorted(new):
            self._number(text)
        coded = [
            column.replace_strict(of_all, [self._names[text] for text in of_all], return_dtype=pl.Int64)
            for column, of_all in zip(texts, different, strict=True)
        ]
        first = len(self)
        self.add_coded(columns, [codes.to_numpy() for codes in coded])
        return first

    def add_coded(self, columns: Mapping[str, NDArray[Any]], codes: Sequence[NDArray[np.int64]]) -> None:
        """Add possible visits, with the `codes` of server, interaction, caller and status."""
        numbers = [columns[name] for name in _COLUMNS if name not in _TEXTS]
        self._numbers.frombytes(np.column_stack([*codes, *numbers]).astype(np.int64, copy=False).tobytes())

    def lost_attempts(self, waits_ns: Mapping[int, int]) -> int:
        """Set the lost attempts of visits that took so long to connect; returns the number of visits with any."""
        of_each, waits = np.array([min(wait, YEAR_NS) for wait in waits_ns.values()], np.int64), attempts.Waits()
        waits.add(of_each)
        drops = attempts.lost_of_each(of_each, waits.schedule).tolist()
        for (visit, wait), lost in zip(waits_ns.items(), drops, strict=True):
            if lost:
                self._lost(visit, lost, wait)
        return sum(lost > 0 for lost in drops)

    def correct_clock(self, parts: Sequence[int]) -> localclock.Found:
        """Move visits whose local clock had been set back; `parts` has the number of the first visit of each file.
        A call follows the visit that made it, and is moved with it."""
        table = np.frombuffer(self._numbers, np.int64).reshape(-1, _WIDTH)
        entries = np.flatnonzero(table[:, _COLUMNS.index("entry")] == 1)
        ends = table[entries, _COLUMNS.index("departure")]
        seen = localclock.examine(ends, np.searchsorted(entries, parts).tolist())
        if seen.later.any():
            moved = table.copy()
            above = np.cumsum(table[:, _COLUMNS.index("entry")] == 1) - 1
            rows = (above >= 0) & seen.later[np.maximum(above, 0)]
            for column in ("sent", "arrival", "departure"):
                moved[rows, _COLUMNS.index(column)] += localclock.HOUR
            self._numbers = array("q", moved.tobytes())
        return seen

    def parts(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Of each request: its duration and its longest call in ns, and the number of its interaction."""
        table = np.frombuffer(self._numbers, np.int64).reshape(-1, _WIDTH)
        begin, end, parent, entry, interaction = (
            table[:, _COLUMNS.index(name)] for name in ("sent", "departure", "parent", "entry", "interaction")
        )
        longest = np.zeros(len(table), np.int64)
        calls = parent >= 0
        np.maximum.at(longest, parent[calls], (end - begin)[calls])
        tops = entry == 1
        return (end - begin)[tops], longest[tops], interaction[tops]

    def _lost(self, visit: int, drops: int, wait_ns: int) -> None:
        row = visit * _WIDTH
        self._numbers[row + _COLUMNS.index("drops")] = drops
        self._numbers[row + _COLUMNS.index("arrival")] = self._numbers[row + _COLUMNS.index("sent")] + wait_ns

    def _nameable(self, column: str, name: str) -> bool:
        known = self._of_column[_TEXTS.index(column)]
        fits = len(known) < _MOST[column] and len(name) <= NAME_CHARACTERS
        return name in known or (fits and (name in self._names or self._have_room((name,))))

    def _all_nameable(self, column: str, names: pl.Series) -> bool:
        known = self._of_column[_TEXTS.index(column)]
        new = [name for name in names if name not in known]
        return len(known) + len(new) < _MOST[column] and all(len(name) <= NAME_CHARACTERS for name in new)

    def _have_room(self, names: Collection[str]) -> bool:
        return self._characters + sum(map(len, names)) <= NAMES_CHARACTERS

    def _number(self, text: str) -> int:
        number = self._names.get(text)
        if number is None:
            number = self._names[text] = len(self._names)
            self._characters += len(text)
        return number

    def into(self, found: Found, name: str, *, visits: bool = True, routes: Collection[str] = ()) -> None:
        """Put the tables into `found`; without `visits` the requests alone. The names of `routes` keep rare words."""
        found.lose("requests with impossible times or names", self.damaged)
        if self.full:
            found.filled(name, self.most, "visits")
        frame, folded = _with_common_names(self._frame(), routes)
        found.notes += [f"{name}: {note}" for note in about_others(self.nameless + folded)]
        request = _root(frame)
        entries = frame.filter(pl.col("entry") == 1)
        found.requests.append(
            entries.select(
                *(pl.col("visit").alias("request"), pl.col("server"), pl.col("interaction"), pl.col("sent")),
                *(pl.col("departure").alias("end"), pl.col("status"), pl.col("drops").cast(pl.UInt8)),
                *(pl.lit(0, pl.UInt8).alias("data_drops"), pl.col("bytes_out").alias("bytes")),
            )
        )
        if visits:
            drops = pl.col("drops").cast(pl.UInt8)
            found.visits.append(frame.with_columns(request, drops=drops, data_drops=pl.lit(0, pl.UInt8)).drop("entry"))

    def _frame(self) -> pl.DataFrame:
        names = pl.Series([text.encode(errors="replace").decode() for text in self._names], dtype=pl.String)
        table = np.frombuffer(self._numbers, np.int64).reshape(-1, _WIDTH)
        numbers = {name: pl.Series(table[:, i]) for i, name in enumerate(_COLUMNS)}
        texts = {name: names.gather(numbers.pop(name)).cast(pl.Categorical) for name in _TEXTS}
        frame = pl.DataFrame({**texts, **numbers}).with_row_index("visit")
        unknown = [pl.when(pl.col(name) >= 0).then(pl.col(name)) for name in _OPTIONAL]
        absent = [
            pl.when(pl.col(name).cast(pl.String) != "").then(pl.col(name)).alias(name)
            for name in ("interaction", "caller")
        ]
        frame = frame.with_columns(*unknown, *absent).with_columns(pl.col("visit", "parent").cast(pl.UInt64))
        return frame.with_columns(pl.col("bytes_out").cast(pl.UInt64))


_TEXTS = ("server", "interaction", "caller", "status")
_MOST = {**dict.fromkeys(_TEXTS, NAMES), "interaction": SPAN_TEXTS}
"""Different texts of a column. Of interactions, the rarest lose their names later."""
_OPTIONAL = ("parent", "bytes_out", "downstream_ns")
_COLUMNS = (*_TEXTS, "sent", "arrival", "departure", "drops", *_OPTIONAL, "entry")
_WIDTH = len(_COLUMNS)


def _with_common_names(frame: pl.DataFrame, routes: Collection[str]) -> tuple[pl.DataFrame, int]:
    """The frame with the names that its interactions keep, and how many visits have lost theirs."""
    names = frame.select(pl.col("server", "interaction").cast(pl.String)).drop_nulls()
    counts = names.group_by("server", "interaction").len().rows()
    own = pl.col("interaction").cast(pl.String)
    renamed = own.replace(common_names(counts, routes))
    folded = int(frame.select(((renamed == OTHER) & (own != OTHER)).sum()).item())
    return frame.with_columns(renamed.cast(pl.Categorical)), folded


def _root(frame: pl.DataFrame) -> pl.Series:
    """The request of each visit: the entry above it; null where there is none. Parents come before their children."""
    number = np.arange(frame.height)
    parent = frame["parent"].fill_null(frame.height).to_numpy().astype(np.int64)
    entry = frame["entry"].to_numpy() == 1
    nobody = frame.height
    above = np.append(np.where(entry, number, np.where(parent < number, parent, nobody)), nobody)
    root = pl.Series("request", topmost(above)[:-1], dtype=pl.UInt64)
    return root.set(root == nobody, None)


def topmost(above: NDArray[np.int64]) -> NDArray[np.int64]:
    """The topmost of each, which is above itself. Each round doubles how far up each looks."""
    while not np.array_equal(further := above[above], above):
        above = further
    return above


def possible_times(
    sent: NDArray[np.int64], arrival: NDArray[np.int64], departure: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Whether each visit may have such times."""
    ordered = (sent >= EARLIEST_NS) & (sent <= arrival) & (arrival <= departure) & (departure <= LATEST_NS)
    return ordered & (departure - sent <= YEAR_NS)


def common_names(counts: Sequence[tuple[str, str, int]], routes: Collection[str]) -> dict[str, str]:
    """Name of an interaction → its name without rare words; `counts` are those of a server and an interaction. The
    names of `routes` keep theirs. If there are still too many, the rarest are `OTHER`."""
    common = {name: to for name, to in _core.without_rare_words(list(counts)) if name not in routes}
    of_name = Counter[str]()
    for _, name, count in counts:
        of_name[common.get(name, name)] += count
    if len(of_name) < NAMES:
        return common
    kept = set(sorted(of_name, key=lambda name: (-of_name[name], name))[: NAMES - 2])  # one is OTHER, one is none
    names = {name for _, name, _ in counts}
    return common | {name: OTHER for name in names if common.get(name, name) not in kept}


def about_others(visits: int) -> list[str]:
    """What to say of visits that are of `OTHER` interactions."""
    if not visits:
        return []
    return [
        f"requests have more than {NAMES:,} names, or names of more than {NAME_CHARACTERS:,} characters (or "
        f"{NAMES_CHARACTERS:,} together): {visits:,} visits with the rarest, longest or last names are called {OTHER}"
    ]
