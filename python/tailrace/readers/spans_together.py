"""The visits of all parts of the traces, and what only all of them together show: which outermost visits are requests,
which gaps are lost attempts, which words of names are rare, and who calls whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import compress

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace import _core
from tailrace.bounds import CALLS, SPAN_TEXTS
from tailrace.readers import attempts
from tailrace.readers.pairs import Pairs
from tailrace.readers.source import Found, Frames, Source
from tailrace.readers.spans_chosen import Shape
from tailrace.readers.spans_columns import NAMELESS, Linked
from tailrace.readers.spans_locks import Locks
from tailrace.readers.spans_pools import Pools
from tailrace.readers.spills import Scratch
from tailrace.readers.stays import OTHER, common_names
from tailrace.topology import Call, Pool, Server, Topology

_NAMES = ("server", "interaction", "caller", "status")
_ORPHAN, _WITH_ROOT = 1, 2
"""What makes an outermost visit a request, at least: an orphan is one, or only those of traces with their root."""


class Visits:
    """The numbers of texts are those of `texts`; `naming` says which of them may name a server, an interaction and a
    status."""

    def __init__(
        self, texts: Sequence[str], naming: Mapping[str, NDArray[np.bool_]], scratch: Scratch, most: int
    ) -> None:
        self._texts, self._naming = texts, naming
        self._scratch, self._most = scratch, most
        self._runs = _core.VisitRuns()
        self._calls, self._interactions = Pairs(CALLS), Pairs(SPAN_TEXTS)
        self._of_server = Counter[int]()
        self._remote = set[int]()
        self._waits = attempts.Waits()
        self.orphans_enter = True
        """No trace has its root, so all outermost visits are requests."""
        self.damaged = self.skewed = self.orphans = self.twice = self.cycles = self.moved = self.chosen = 0
        self.shape = Shape()
        self.pools = Pools()
        self.locks = Locks(texts, naming["interaction"].tolist())
        self._ok = texts.index("ok") if "ok" in texts else 0
        self._of_interaction = np.zeros(len(texts), dtype=np.int64)
        self.others = 0
        """Visits of interactions without a name of their own, once there are `tables`."""
        self.taken = 0
        """Visits of which it is known when a worker took them."""

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, spans: Linked) -> None:
        """Add the visits of a part of the spans."""
        visits = spans.visits(self._naming["server"])
        self.orphans_enter &= not visits.rooted
        self.pools.add(spans, visits)
        self.locks.add(spans)
        self.shape.add(visits, self._ok)
        self._waits.add(pl.DataFrame(visits.waits())["wait"].to_numpy())
        self._calls.add_counted({(caller, server): count for caller, server, count in visits.calls()})
        interactions = {(server, interaction): count for server, interaction, count in visits.interactions()}
        self._interactions.add_counted(interactions)
        for (server, interaction), count in interactions.items():
            self._of_server[server] += count
            self._of_interaction[interaction] += count
        self._remote.update(visits.remote())
        self.twice, self.cycles = self.twice + spans.twice, self.cycles + spans.cycles
        self.moved, self.chosen = self.moved + spans.moved, self.chosen + spans.chosen
        damaged, skewed, orphans, taken = visits.counts
        self.damaged, self.skewed = self.damaged + damaged, self.skewed + skewed
        self.orphans, self.taken = self.orphans + orphans, self.taken + taken
        self._runs.add(visits)
        if self._runs.held > self._most or (self._runs.held and len(self._runs) > self._most):
            self._runs.spill(self._scratch.new())

    @property
    def lost(self) -> int:
        """Visits with lost attempts, which gaps show if nearly all long ones lie at the times of a kernel."""
        return self._waits.lost()[0]

    @property
    def calls_left_out(self) -> int:
        """Calls between pairs of servers beyond the largest number of pairs: the topology lacks these."""
        return self._calls.beyond

    @property
    def remote(self) -> set[str]:
        """Servers without spans of their own, whose visits are as their clients saw them."""
        return {self._texts[server] for server in self._remote}

    def waits(self, found: Found, source: Source) -> None:
        """Put the numbers of visits that waited for a connection into `found`."""
        self.pools.samples([_plain(text) for text in self._texts], found, source)

    @property
    def waiting(self) -> list[str]:
        """Services with waits for a connection of a pool."""
        return sorted({self._texts[service] for service in self.pools.services})

    def topology(self) -> Topology:
        name, calls = self._texts, sorted((self._texts[a], self._texts[b]) for a, b in self._calls.counts)
        count = {name[server]: count for server, count in self._of_server.items()}
        many = {(name[a], name[b]): number for (a, b), number in self._calls.counts.items()}
        return Topology(
            servers=tuple(Server(name=server) for server in sorted(count)),
            calls=tuple(
                Call(caller=caller, callee=callee, visits_mean=many[caller, callee] / count[caller])
                for caller, callee in calls
                if caller in count
            ),
            pools=tuple(
                Pool(name=f"{name[a]} to {name[b]}", caller=name[a], callee=name[b], size=size)
                for (a, b), size in sorted(self.pools.full().items())
                if name[a] in count and name[b] in count
            ),
        )

    def tables(self, routes: Collection[str]) -> _Tables:
        """The rows of the tables, after all parts were added; the names of `routes` keep rare words."""
        texts = self._texts
        counts = [(texts[a], texts[b], count) for (a, b), count in self._interactions.counts.items() if b]
        if self._interactions.beyond:
            counted = {name for _, name, _ in counts}
            named = compress(texts, self._naming["interaction"].tolist())
            counts += [("", text, 1) for text in named if text and text not in counted]
        common = common_names(counts, routes)
        servers = self._named("server")
        of_interactions = self._named("interaction", lambda text: common.get(text, text), OTHER)
        folded = (of_interactions == OTHER).fill_null(value=False).to_numpy() & (np.array(texts, dtype=object) != OTHER)
        self.others = int(self._of_interaction[folded].sum())
        statuses = self._named("status", nameless="unknown")
        by_column = dict(zip(_NAMES, (servers, of_interactions, servers, statuses), strict=True))
        return _Tables(self._runs, self._most, by_column, self._waits.lost()[1], orphans_enter=self.orphans_enter)

    def _named(self, what: str, renamed: Callable[[str], str] = str, nameless: str | None = None) -> pl.Series:
        """The names of a kind by the numbers of texts."""
        able = self._naming[what].tolist()
        names = [renamed(_plain(text)) if able else None for text, able in zip(self._texts, able, strict=True)]
        names[0], names[NAMELESS] = None, nameless
        return pl.Series(names, dtype=pl.Categorical)


class _Tables:
    """Visits and requests as frames, in the order in which they ended."""

    def __init__(
        self,
        runs: _core.VisitRuns,
        most: int,
        names: dict[str, pl.Series],
        schedule: attempts.Schedule,
        *,
        orphans_enter: bool,
    ) -> None:
        self._runs, self._most, self._names, self._schedule = runs, most, names, schedule
        self._least_entry = _ORPHAN if orphans_enter else _WITH_ROOT

    def visits(self) -> Frames:
        return Frames([_Each(partial(self._blocks, requests=False), self._visits)], ordered=True)

    def requests(self) -> Frames:
        return Frames([_Each(partial(self._blocks, requests=True), self._requests)], ordered=True)

    def _blocks(self, *, requests: bool) -> Iterator[pl.DataFrame]:
        reading = self._runs.reading(self._most)
        while (rows := reading.next(self._runs, requests, self._least_entry)) is not None:
            yield pl.DataFrame(rows)

    def _visits(self, rows: pl.DataFrame) -> pl.DataFrame:
        drops = self._drops(rows["arrival"].to_numpy() - rows["sent"].to_numpy())
        times, links = rows["sent", "arrival", "start", "departure"], rows["parent", "request"]
        nothing = [_nothing("bytes_out", rows.height, pl.UInt64), _nothing("downstream_ns", rows.height, pl.Int64)]
        return pl.DataFrame(
            [rows["visit"], *self._coded(rows), *times, drops, *links, _zeros("data_drops", rows.height), *nothing]
        )

    def _requests(self, rows: pl.DataFrame) -> pl.DataFrame:
        nothing = _nothing("bytes", rows.height, pl.UInt64)
        times, drops = rows["sent", "end"], self._drops(rows["wait"].to_numpy())
        return pl.DataFrame(
            [rows["request"], *self._coded(rows), *times, drops, _zeros("data_drops", rows.height), nothing]
        )

    def _drops(self, waits_ns: NDArray[np.int64]) -> pl.Series:
        lost = attempts.lost_of_each(waits_ns, self._schedule)
        return pl.Series("drops", lost) if lost.any() else _zeros("drops", len(lost))

    def _coded(self, rows: pl.DataFrame) -> list[pl.Series]:
        return [names.gather(rows[name]).alias(name) for name, names in self._names.items() if name in rows.columns]


def _zeros(name: str, count: int) -> pl.Series:
    # From an array of numpy, polars makes it by modules that take longer to import than many spans to read.
    return pl.Series(name, [0], dtype=pl.UInt8).new_from_index(0, count)


def _nothing(name: str, count: int, dtype: type[pl.DataType]) -> pl.Series:
    return pl.Series(name, [None], dtype=dtype).new_from_index(0, count)


class _Each:
    """A frame of each block of rows, made anew each time."""

    def __init__(self, blocks: Callable[[], Iterator[pl.DataFrame]], frame: Callable[[pl.DataFrame], pl.DataFrame]):
        self._blocks, self._frame = blocks, frame

    def __iter__(self) -> Iterator[pl.DataFrame]:
        return map(self._frame, self._blocks())


def _plain(text: str) -> str:
    return text.encode(errors="replace").decode()
