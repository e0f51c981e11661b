"""Visits and requests that a reader of logs finds one by one, or many at a time. The engine sorts them, and keeps those
that do not fit into memory in files (crates/core/src/stays)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace import _core
from tailrace.bounds import EARLIEST_NS, LATEST_NS, NAME_CHARACTERS, NAMES, NAMES_CHARACTERS, SPAN_TEXTS, YEAR_NS
from tailrace.readers import attempts, localclock
from tailrace.readers.accesslog_texts import Ints, Texts
from tailrace.readers.source import Found, Frames
from tailrace.readers.spills import Scratch

OTHER = "(other)"
"""The name of interactions that have no name of their own, as the engine calls those of captures
(crates/core/src/capture/names.rs)."""
_AT_ONCE = 1 << 13
"""Visits that come one by one are kept so many at a time."""
EXAMINED = 1 << 18
"""Requests whose durations show whether others are missing: 6 MB."""
_NONE = -1
IN_MEMORY = 1 << 19
"""Visits that stay in memory: some 11 MB, because the engine packs them."""


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
        self._store = _core.StayStore(
            (scratch or Scratch()).new, most, (SPAN_TEXTS, EXAMINED), (attempts.LONG_NS, *attempts.KEPT)
        )
        self._new: list[tuple[int | bool, ...]] = []
        self._count = 0
        self._names: dict[str, int] = {"": 0}
        self._characters = 0
        self._of_column = tuple({"", OTHER} for _ in _TEXTS)
        self.clock = localclock.Watch()
        self.local = False
        """Times are of a local clock, which may be set."""
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
        if not self.have({name: {text for texts in used[name] for text in texts.values()} for name in _TEXTS}):
            return False
        self._keep_new()
        frames = []
        for i, part in enumerate(parts):
            columns = {name: pl.Series(name, values) for name, values in part.columns.items()}
            for name in _TEXTS:
                numbers = np.zeros(len(part.texts[name].table.texts), np.uint32)
                for number, text in used[name][i].items():
                    numbers[number] = self._names[text]
                columns[name] = pl.Series(name, numbers[part.texts[name].numbers])
            frames.append(pl.DataFrame(columns))
            self._watch(part.columns)
        self._count += sum(map(len, frames))
        self._store.add(frames)
        return True

    def take(self, visits: _core.LineVisits, table: _core.LineTable, rows: tuple[int, int]) -> _core.Taken | None:
        """Add the visits of these rows of a table of lines; None: one of them is unusual. If the meanings of some
        numbers are unknown, they are in what is returned. In both cases, nothing is added."""
        self._keep_new()
        taken = visits.take(table, rows, self._count, self._store)
        if taken is not None:
            self._count += taken[1]
            if taken[-1] is not None:
                ends = pl.DataFrame(taken[-1])
                self.clock.add(ends["end"].to_numpy(), ends["number"].to_numpy())
        return taken

    def have(self, texts: Mapping[str, set[str]]) -> bool:
        """Have numbers for the texts of these columns; False: there is no room for all of them, and none is added."""
        new = set[str]().union(*texts.values()) - self._names.keys()
        if not (all(self._all_nameable(name, of_column) for name, of_column in texts.items()) and self._have_room(new)):
            return False
        for name, of_column in texts.items():
            self._of_column[_TEXTS.index(name)].update(of_column)
        for text in sorted(new):
            self._number(text)
        return True

    def number_of(self, text: str) -> int:
        """The number of a text that has one."""
        return self._names[text]

    def _keep_new(self) -> None:
        if self._new:
            rows, self._new = np.array(self._new, ROW), []
            columns = {name: np.ascontiguousarray(rows[name]) for name in ROW.names or ()}
            self._watch(columns)
            self._store.add([pl.DataFrame(columns)])

    def _watch(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """See the ends of requests, which are in the order of their lines."""
        if self.local:
            entries = columns["entry"]
            self.clock.add(columns["departure"][entries], columns["number"][entries])

    def begin_file(self) -> None:
        """What is added from here on comes from another file of the same log."""
        self._keep_new()
        self.clock.begin_file()

    def about_connecting(self, took: str) -> list[str]:
        """What long times to connect show; `took` is what took so long, and a verb."""
        self._keep_new()
        return attempts.notes(took, self.waits)

    @property
    def waits(self) -> attempts.Waits:
        """How long connecting took."""
        self._keep_new()
        count, *kept = self._store.waits()
        return attempts.Waits.kept(count, *(pl.DataFrame(waits)["wait"].to_numpy() for waits in kept))

    def correct_clock(self) -> localclock.Found:
        """Move visits whose local clock had been set back. A call follows the visit that made it, and is moved with
        it."""
        self._keep_new()
        seen = self.clock.found()
        if seen.later:
            ranges = [(first, self._count if last is None else last) for first, last in seen.later]
            self._store.shift(ranges, localclock.HOUR)
        return seen

    def parts(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Of the first requests: their durations and their longest calls in ns, and the numbers of their
        interactions."""
        self._keep_new()
        sample = pl.DataFrame(self._store.sample())
        took, longest, interactions = (sample[name].to_numpy() for name in ("took", "longest", "interaction"))
        return took, longest, interactions

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
        texts, (counts, beyond) = list(self._names), self._store.pairs()
        of_each = [(texts[a], texts[b], count) for a, b, count in counts if b]
        if beyond:
            seen = {name for _, name, _ in of_each}
            of_each += [("", text, 1) for text in self._of_column[1] - seen if text]
        common = common_names(of_each, routes)
        folded = sum(many for _, b, many in counts if OTHER == common.get(texts[b], texts[b]) != texts[b])
        found.notes += [f"{name}: {note}" for note in about_others(self.nameless + folded)]
        windows = (self.waits.schedule if schedule is None else schedule).windows
        names = _Names(texts, common)
        found.requests = Frames([*found.requests.parts, _Tables(self._store, "requests", windows, names)], ordered=True)
        if visits:
            found.visits = Frames([*found.visits.parts, _Tables(self._store, "visits", windows, names)], ordered=True)


class _Names:
    """What the numbers of texts mean, in the columns of a table."""

    def __init__(self, texts: Sequence[str], common: Mapping[str, str]) -> None:
        plain = [text.encode(errors="replace").decode() for text in texts]
        named = [common.get(text, by) for text, by in zip(texts, plain, strict=True)]
        self._names = {
            "server": pl.Series(plain, dtype=pl.Categorical),
            "interaction": pl.Series([None, *named[1:]], dtype=pl.Categorical),
            "caller": pl.Series([None, *plain[1:]], dtype=pl.Categorical),
        }
        self._names["status"] = self._names["server"]

    def put(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The texts of a frame in place of their numbers."""
        columns = (name for name in _TEXTS if name in frame.columns)
        return frame.with_columns(pl.lit(self._names[name]).gather(pl.col(name)).alias(name) for name in columns)


@dataclass(frozen=True)
class _Tables:
    """Tables of the engine, which are made anew each time."""

    store: _core.StayStore
    kind: Literal["visits", "requests"]
    windows: Sequence[tuple[int, int]]
    """Times to connect that show lost attempts."""
    names: _Names

    def __iter__(self) -> Iterator[pl.DataFrame]:
        for table in self.store.tables(self.kind, self.windows):
            yield self.names.put(pl.DataFrame(table))


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
