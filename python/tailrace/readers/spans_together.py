"""The visits of all parts of the traces, and what only all of them together show: which outermost visits are requests,
which gaps are lost attempts, which words of names are rare, and who calls whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import compress

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace.bounds import CALLS, SPAN_TEXTS
from tailrace.readers import attempts, spans_visits
from tailrace.readers.pairs import Pairs, counted
from tailrace.readers.source import Found, Frames, Source
from tailrace.readers.spans_chosen import Shape
from tailrace.readers.spans_columns import NAMELESS, ROOT, SERVER, Linked
from tailrace.readers.spans_locks import Locks
from tailrace.readers.spans_pools import Pools
from tailrace.readers.spans_runs import Runs
from tailrace.readers.spans_visits import WITH_ROOT
from tailrace.readers.spills import Table
from tailrace.readers.stays import OTHER, common_names
from tailrace.topology import Call, Pool, Server, Topology

_NAMES = ("server", "interaction", "caller", "status")


class Visits:
    """The numbers of texts are those of `texts`; `naming` says which of them may name a server, an interaction and a
    status."""

    def __init__(self, texts: Sequence[str], naming: Mapping[str, NDArray[np.bool_]], runs: Runs) -> None:
        self._texts, self._naming = texts, naming
        self._runs = runs
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
        return self._runs.count

    def add(self, spans: Linked) -> None:
        """Add the visits of a part of the spans."""
        if (spans.container[spans.kind == SERVER] == ROOT).any():
            self.orphans_enter = False
        part = spans_visits.of(spans, self._naming["server"])
        self.pools.add(spans, part.visits)
        self.locks.add(spans)
        self.shape.add(part.visits, self._ok)
        self._runs.add(part.visits)
        self._waits.add(part.visits["arrival"] - part.visits["sent"])
        self._calls.add(part.calls["caller"], part.calls["server"])
        self._interactions.add(part.visits["server"], part.visits["interaction"])
        self._of_interaction += np.bincount(part.visits["interaction"], minlength=len(self._texts))
        for (server, _), count in counted(part.visits["server"], part.visits["server"]).items():
            self._of_server[server] += count
        self._remote.update(np.unique(part.remote["server"]).tolist())
        self.twice, self.cycles = self.twice + spans.twice, self.cycles + spans.cycles
        self.moved, self.chosen = self.moved + spans.moved, self.chosen + spans.chosen
        self.damaged, self.skewed = self.damaged + part.damaged, self.skewed + part.skewed
        self.orphans += part.orphans
        self.taken += int(np.count_nonzero(part.visits["start"] >= 0))

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
        return _Tables(self._runs, by_column, self._waits.lost()[1], orphans_enter=self.orphans_enter)

    def _named(self, what: str, renamed: Callable[[str], str] = str, nameless: str | None = None) -> pl.Series:
        """The names of a kind by the numbers of texts."""
        able = self._naming[what].tolist()
        names = [renamed(_plain(text)) if able else None for text, able in zip(self._texts, able, strict=True)]
        names[0], names[NAMELESS] = None, nameless
        return pl.Series(names, dtype=pl.Categorical)


class _Tables:
    """Visits and requests as frames, in the order in which they ended."""

    def __init__(
        self, runs: Runs, names: dict[str, pl.Series], schedule: attempts.Schedule, *, orphans_enter: bool
    ) -> None:
        self._runs, self._names, self._schedule = runs, names, schedule
        self._least_entry = spans_visits.ORPHAN if orphans_enter else WITH_ROOT

    def visits(self) -> Frames:
        return Frames([_Each(self._runs, self._visits)], ordered=True)

    def requests(self) -> Frames:
        return Frames([_Each(self._runs, self._requests)], ordered=True)

    def _visits(self, rows: Table) -> pl.DataFrame:
        enters = rows["entry"] >= self._least_entry
        frame = pl.DataFrame(
            {
                "visit": rows["number"].astype(np.uint64),
                **self._coded(rows),
                **{name: rows[name] for name in ("sent", "arrival", "start", "departure")},
                "drops": attempts.lost_of_each(rows["arrival"] - rows["sent"], self._schedule),
                "parent": rows["parent"],
                "request": np.where(enters, rows["top"], -1),
            }
        )
        known = [
            pl.when(pl.col(name) >= 0).then(pl.col(name)).cast(dtype)
            for name, dtype in (("parent", pl.UInt64), ("request", pl.UInt64), ("start", pl.Int64))
        ]
        nothing = {"bytes_out": pl.lit(None, pl.UInt64), "downstream_ns": pl.lit(None, pl.Int64)}
        return frame.with_columns(*known, data_drops=pl.lit(0, pl.UInt8), **nothing)

    def _requests(self, rows: Table) -> pl.DataFrame:
        rows = rows[(rows["number"] == rows["top"]) & (rows["entry"] >= self._least_entry)]
        names = self._coded(rows)
        del names["caller"]
        return pl.DataFrame(
            {
                "request": rows["number"].astype(np.uint64),
                **names,
                **{"sent": rows["sent"], "end": rows["departure"]},
                "drops": attempts.lost_of_each(rows["arrival"] - rows["sent"], self._schedule),
            }
        ).with_columns(data_drops=pl.lit(0, pl.UInt8), bytes=pl.lit(None, pl.UInt64))

    def _coded(self, rows: Table) -> dict[str, pl.Series]:
        return {column: names.gather(rows[column]).alias(column) for column, names in self._names.items()}


class _Each:
    """A frame of each block of rows, made anew each time."""

    def __init__(self, runs: Runs, frame: Callable[[Table], pl.DataFrame]) -> None:
        self._runs, self._frame = runs, frame

    def __iter__(self) -> Iterator[pl.DataFrame]:
        return map(self._frame, self._runs)


def _plain(text: str) -> str:
    return text.encode(errors="replace").decode()
