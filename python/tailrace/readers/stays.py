"""Visits and requests that a reader of logs finds one by one, or many at a time. Those that do not fit into memory are
in files, as the visits of traces are (`spans_runs`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace import _core
from tailrace.bounds import EARLIEST_NS, LATEST_NS, NAME_CHARACTERS, NAMES, NAMES_CHARACTERS, SPAN_TEXTS, YEAR_NS
from tailrace.readers import attempts, localclock
from tailrace.readers.accesslog_texts import Ints, Texts
from tailrace.readers.pairs import Pairs
from tailrace.readers.source import Found, Frames
from tailrace.readers.spans_runs import Runs
from tailrace.readers.spills import IN_MEMORY, Scratch, Table

OTHER = "(other)"
"""The name of interactions that have no name of their own, as the engine calls those of captures
(crates/core/src/capture/names.rs)."""
_AT_ONCE = 1 << 13
"""Visits that come one by one are kept so many at a time."""
EXAMINED = 1 << 18
"""Requests whose durations show whether others are missing: 6 MB."""
_NONE = -1


@dataclass(frozen=True)
class Stay:
    """One visit. `parent` is the number of the calling visit, and `request` that of the outermost one above it (without
    it, the parent); `entry` says that a client sent it. After it was sent, connecting took `wait_ns`."""

    server: str
    sent: int
    arrival: int
    departure: int
    status: str
    interaction: str | None = None
    caller: str | None = None
    wait_ns: int = 0
    parent: int | None = None
    request: int | None = None
    entry: bool = False
    bytes_out: int | None = None
    downstream_ns: int | None = None


@dataclass(frozen=True)
class Many:
    """Visits with columns like the fields of a row (`ROW`), and -1 for None."""

    columns: Mapping[str, Ints]
    texts: Mapping[str, Texts]


def _used(texts: Texts) -> dict[int, str]:
    """The texts that any row has, by their numbers in the table."""
    numbers = np.flatnonzero(np.bincount(texts.numbers, minlength=1)).tolist()
    return {number: texts.table.texts[number] or "" for number in numbers}


class Stays:
    """Visits, which are numbered from 0 in the order in which they are added; names by their number. Some `most` of
    them are in memory at a time."""

    def __init__(self, scratch: Scratch | None = None, most: int = IN_MEMORY) -> None:
        self._scratch, self._most = scratch or Scratch(), most
        self._runs = Runs(self._scratch, most, ROW)
        self._new: list[tuple[int | bool, ...]] = []
        self._count = 0
        self._names: dict[str, int] = {"": 0}
        self._characters = 0
        self._of_column = tuple({"", OTHER} for _ in _TEXTS)
        self._interactions = Pairs(SPAN_TEXTS)
        self._sample = _Sample()
        self.clock = localclock.Watch()
        self.local = False
        """Times are of a local clock, which may be set."""
        self.waits = attempts.Waits()
        self.damaged = 0
        self.nameless = 0
        """Visits whose interactions are `OTHER`, because no further names fit."""

    def __len__(self) -> int:
        return self._count

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
        number = self._count
        request = number if stay.entry else stay.parent if stay.request is None else stay.request
        known = (stay.parent, request, stay.bytes_out, stay.downstream_ns)
        times_of = (stay.departure, number, stay.sent, stay.arrival, min(stay.wait_ns, YEAR_NS))
        self._new.append(
            (*times_of, *(_NONE if value is None else value for value in known), *map(self._number, texts), stay.entry)
        )
        self._count += 1
        if len(self._new) >= _AT_ONCE:
            self._keep_new()
        return number

    def add_all(self, parts: Sequence[Many]) -> bool:
        """Add many visits, each after the one that made it; False: not all of them can be added, and none is."""
        times = ("sent", "arrival", "departure")
        if not all(possible_times(*(part.columns[name] for name in times)).all() for part in parts):
            return False
        used = {name: [_used(part.texts[name]) for part in parts] for name in _TEXTS}
        different = {name: {text for texts in used[name] for text in texts.values()} for name in _TEXTS}
        new = set[str]().union(*different.values()) - self._names.keys()
        if not (all(map(self._all_nameable, _TEXTS, different.values())) and self._have_room(new)):
            return False
        for known, texts in zip(self._of_column, different.values(), strict=True):
            known |= texts
        for text in sorted(new):
            self._number(text)
        self._keep_new()
        rows = np.empty(sum(len(part.columns["sent"]) for part in parts), ROW)
        for i, part in enumerate(parts):
            at = part.columns["number"] - self._count
            for name, values in part.columns.items():
                rows[name][at] = values
            for name in _TEXTS:
                numbers = np.zeros(len(part.texts[name].table.texts), np.uint32)
                for number, text in used[name][i].items():
                    numbers[number] = self._names[text]
                rows[name][at] = numbers[part.texts[name].numbers]
        self._count += len(rows)
        self._keep(rows)
        return True

    def _keep_new(self) -> None:
        if self._new:
            rows, self._new = np.array(self._new, ROW), []
            self._keep(rows)

    def _keep(self, rows: Table) -> None:
        """Keep rows of which the requests are in the order of their numbers."""
        entries = np.flatnonzero(rows["entry"])
        if self.local:
            self.clock.add(rows["departure"][entries], rows["number"][entries])
        self.waits.add(rows["wait"])
        self._interactions.add(rows["server"], rows["interaction"])
        self._sample.add(rows, entries)
        self._runs.add(rows)

    def begin_file(self) -> None:
        """What is added from here on comes from another file of the same log."""
        self._keep_new()
        self.clock.begin_file()

    def about_connecting(self, took: str) -> list[str]:
        """What long times to connect show; `took` is what took so long, and a verb."""
        self._keep_new()
        return attempts.notes(took, self.waits)

    def correct_clock(self) -> localclock.Found:
        """Move visits whose local clock had been set back. A call follows the visit that made it, and is moved with
        it."""
        self._keep_new()
        seen = self.clock.found()
        if seen.later:
            moved = Runs(self._scratch, self._most, ROW)
            for there in self._runs:
                rows = there.copy()
                later = np.zeros(len(rows), dtype=bool)
                for first, last in seen.later:
                    later |= (rows["number"] >= first) & (rows["number"] < (self._count if last is None else last))
                for column in ("sent", "arrival", "departure"):
                    rows[column] += np.where(later, localclock.HOUR, 0)
                moved.add(rows)
            self._runs.remove()
            self._runs = moved
        return seen

    def parts(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Of the first requests: their durations and their longest calls in ns, and the numbers of their
        interactions."""
        self._keep_new()
        return self._sample.parts()

    def _nameable(self, column: str, name: str) -> bool:
        known = self._of_column[_TEXTS.index(column)]
        fits = len(known) < _MOST[column] and len(name) <= NAME_CHARACTERS
        return name in known or (fits and (name in self._names or self._have_room((name,))))

    def _all_nameable(self, column: str, names: Collection[str]) -> bool:
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

    def into(
        self,
        found: Found,
        name: str,
        *,
        visits: bool = True,
        routes: Collection[str] = (),
        schedule: attempts.Schedule | None = None,
    ) -> None:
        """Put the tables into `found`; without `visits` the requests alone. The names of `routes` keep rare words.
        Times to connect that lie at a `schedule` are lost attempts; without one, it is what they show."""
        self._keep_new()
        found.lose("requests with impossible times or names", self.damaged)
        texts, counts = list(self._names), self._interactions.counts
        of_each = [(texts[a], texts[b], count) for (a, b), count in counts.items() if b]
        if self._interactions.beyond:
            seen = {name for _, name, _ in of_each}
            of_each += [("", text, 1) for text in self._of_column[1] - seen if text]
        common = common_names(of_each, routes)
        folded = sum(many for (_, b), many in counts.items() if OTHER == common.get(texts[b], texts[b]) != texts[b])
        found.notes += [f"{name}: {note}" for note in about_others(self.nameless + folded)]
        tables = _Tables(self._runs, texts, common, self.waits.schedule if schedule is None else schedule)
        found.requests = Frames([*found.requests.parts, _Each(tables.requests, self._runs)], ordered=True)
        if visits:
            found.visits = Frames([*found.visits.parts, _Each(tables.visits, self._runs)], ordered=True)


class _Sample:
    """The first requests, and their calls."""

    def __init__(self) -> None:
        self._left = EXAMINED
        self._requests: list[Table] = []
        self._calls: list[Table] = []

    def add(self, rows: Table, entries: Ints) -> None:
        """Add visits; `entries` are the places of those that clients sent."""
        if self._left > 0:
            entries = entries[: self._left]
            self._left -= len(entries)
            self._requests.append(_narrow(rows, entries, "number"))
            self._calls.append(_narrow(rows, np.flatnonzero((rows["parent"] >= 0) & ~rows["entry"]), "parent"))

    def parts(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        requests, calls = (np.concatenate([np.empty(0, _TOOK), *some]) for some in (self._requests, self._calls))
        longest = np.zeros(len(requests), np.int64)
        if len(requests):
            at = np.minimum(np.searchsorted(requests["of"], calls["of"]), len(requests) - 1)
            known = requests["of"][at] == calls["of"]
            np.maximum.at(longest, at[known], calls["took"][known])
        return requests["took"].copy(), longest, requests["interaction"].astype(np.int64)


_TOOK = np.dtype([("of", "i8"), ("took", "i8"), ("interaction", "u4")])


def _narrow(rows: Table, at: Ints, number: str) -> Table:
    """What is needed of the rows at these places. Columns are taken one by one, because whole rows are wide."""
    found = np.empty(len(at), _TOOK)
    found["of"], found["interaction"] = rows[number][at], rows["interaction"][at]
    found["took"] = rows["departure"][at] - rows["sent"][at]
    return found


class _Tables:
    """Visits and requests as frames."""

    def __init__(
        self, runs: Runs, texts: Sequence[str], common: Mapping[str, str], schedule: attempts.Schedule
    ) -> None:
        plain = [text.encode(errors="replace").decode() for text in texts]
        named = [common.get(text, by) for text, by in zip(texts, plain, strict=True)]
        self._names = {
            "server": pl.Series(plain, dtype=pl.Categorical),
            "interaction": pl.Series([None, *named[1:]], dtype=pl.Categorical),
            "caller": pl.Series([None, *plain[1:]], dtype=pl.Categorical),
        }
        self._names["status"] = self._names["server"]
        self._schedule = schedule

    def visits(self, rows: Table) -> pl.DataFrame:
        drops = self._drops(rows)
        accepted = np.where(drops > 0, np.minimum(rows["sent"] + rows["wait"], rows["departure"]), rows["arrival"])
        values = {
            "visit": rows["number"],
            **{name: rows[name] for name in (*_TEXTS, "sent")},
            **{"arrival": accepted, "departure": rows["departure"], "drops": drops},
            **{name: rows[name] for name in ("parent", "request", "bytes_out", "downstream_ns")},
        }
        parts = [_known("parent"), _known("request"), _known("bytes_out"), _known("downstream_ns", pl.Int64)]
        return self._frame(
            values, _whole("visit"), *self._named(_TEXTS), "sent", "arrival", "departure", "drops", _NO_DROPS, *parts
        )

    def requests(self, rows: Table) -> pl.DataFrame:
        at, texts = np.flatnonzero(rows["entry"]), ("server", "interaction", "status")
        values = {
            "request": rows["number"][at],
            **{name: rows[name][at] for name in (*texts, "sent")},
            **{"end": rows["departure"][at], "drops": self._drops(rows)[at], "bytes": rows["bytes_out"][at]},
        }
        return self._frame(
            values, _whole("request"), *self._named(texts), "sent", "end", "drops", _NO_DROPS, _known("bytes")
        )

    def _drops(self, rows: Table) -> NDArray[np.uint8]:
        return attempts.lost_of_each(rows["wait"], self._schedule)

    def _named(self, columns: Sequence[str]) -> list[pl.Expr]:
        return [pl.lit(self._names[name]).gather(pl.col(name)).alias(name) for name in columns]

    def _frame(self, values: Mapping[str, NDArray[np.generic]], *columns: pl.Expr | str) -> pl.DataFrame:
        """Columns of these values, by one query: each query has a cost of its own."""
        frame = pl.DataFrame([pl.Series(name, np.ascontiguousarray(column)) for name, column in values.items()])
        return frame.select(*columns)


_NO_DROPS = pl.lit(0, dtype=pl.UInt8).alias("data_drops")


def _whole(name: str) -> pl.Expr:
    return pl.col(name).cast(pl.UInt64)


def _known(name: str, dtype: type[pl.DataType] = pl.UInt64) -> pl.Expr:
    return pl.when(pl.col(name) >= 0).then(pl.col(name)).cast(dtype)


@dataclass(frozen=True)
class _Each:
    """A frame of each block of rows, made anew each time."""

    frame: Callable[[Table], pl.DataFrame]
    runs: Runs

    def __iter__(self) -> Iterator[pl.DataFrame]:
        return map(self.frame, self.runs)


_TEXTS = ("server", "interaction", "caller", "status")
_MOST = {**dict.fromkeys(_TEXTS, NAMES), "interaction": SPAN_TEXTS}
"""Different texts of a column. Of interactions, the rarest lose their names later."""
ROW = np.dtype(
    [
        *((name, "i8") for name in ("departure", "number", "sent", "arrival", "wait", "parent", "request")),
        *(("bytes_out", "i8"), ("downstream_ns", "i8"), *((name, "u4") for name in _TEXTS), ("entry", "?")),
    ],
    align=True,
)
"""A visit; numbers that are unknown are negative, and texts are numbers."""


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
