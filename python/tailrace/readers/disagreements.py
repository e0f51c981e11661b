"""Where two inputs show the same server, and differ: how many of its requests took very long in each, and why.

Both views are shown, and the reasons that the kinds of the inputs, or their numbers, give. Only the time that both
cover is compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import polars as pl

from tailrace import units
from tailrace.dataset import COUNTED, TABLES, Input, Writer, scan
from tailrace.readers.source import Found

_LONG_NS = 950 * units.MILLISECOND
"""The shortest wait for a repeated connection attempt, less 5 %, as in a diagnosis."""
_DIFFERENCE_NS = units.SECOND // 4
"""A quarter of the shortest retransmission timeout of a SYN: less than that is no lost attempt."""
_SHARE = 0.1
"""Two counts that differ by at most this share, or by one, agree: requests at the ends may be in one of them only."""
_SHOWN = 8
"""So many servers at most are named."""
CLIENTS = "load test"
"""The kind of inputs whose times are those of the clients."""
_EVERY = ""
"""In the place of a server: the requests of all clients."""

_BEGINS: dict[str, tuple[int, str]] = {
    CLIENTS: (0, "the times of a load test begin in the client, so they include the way to the server"),
    "capture": (1, "the times of a capture begin with the first packet of a connection"),
    "recording": (1, "the times of a recording begin with the first packet of a connection"),
    "traces": (
        2,
        "a span begins after its connection was accepted, so lost attempts and the accept queue are not in it",
    ),
    "access log": (2, "a line of a log begins after its connection was accepted, and lacks what was before"),
    "database log": (3, "the log of a database has the time of the statement alone"),
}
"""Which kind of input begins a request earlier than another, and the words for it."""


@dataclass(frozen=True)
class _Seen:
    """What an input shows of a server within some time."""

    requests: int
    long: int
    longest_ns: int
    whole_seconds: bool


_NOTHING = _Seen(0, 0, 0, whole_seconds=False)


def notes(writer: Writer, name: str, kind: str, found: Found) -> list[str]:
    """Sentences about the servers of which the file `name`, which is of this `kind`, says something else than the
    inputs that were read before it."""
    here = _views(found.visits, found.requests)
    files = [writer.folder / TABLES[table].file for table in ("visits", "requests")]
    there = _views(*([scan(file)] if file.exists() else [] for file in files))
    own, others = _extents(here), _extents(there)
    both = sorted(own.keys() & others.keys() - {_EVERY})
    if not both and _EVERY in own and _EVERY in others and CLIENTS in (kind, _owner(writer, _EVERY).kind):
        both = [_EVERY]
    common = {s: (max(own[s][0], others[s][0]), min(own[s][1], others[s][1])) for s in both}
    apart = [s for s, (begin, end) in common.items() if begin > end]
    shared = {s: span for s, span in common.items() if s not in apart}
    mine, theirs = _seen(here, shared), _seen(there, shared)
    differ = [s for s in shared if _differ(mine.get(s, _NOTHING), theirs.get(s, _NOTHING))]
    said = [
        _note(writer, name, kind, found, s, mine.get(s, _NOTHING), theirs.get(s, _NOTHING)) for s in differ[:_SHOWN]
    ]
    said += [f"{name}: it and the inputs before it differ about {len(differ) - _SHOWN} more servers"] * (
        len(differ) > _SHOWN
    )
    return said + [_apart(writer, name, s, own[s], others[s]) for s in apart[:1]]


def _views(
    visits: Iterable[pl.DataFrame | pl.LazyFrame], requests: Iterable[pl.DataFrame | pl.LazyFrame]
) -> list[_View]:
    """Requests of a server count where it has no visits; requests of all clients count as those of `_EVERY`."""
    return [_View(visits, "departure", is_visit=True), _View(requests, "end", is_visit=False)]


@dataclass(frozen=True)
class _View:
    frames: Iterable[pl.DataFrame | pl.LazyFrame]
    ended: str
    is_visit: bool

    def each(self) -> Iterable[pl.LazyFrame]:
        """Columns `server`, `sent`, `end`."""
        for frame in self.frames:
            lazy = frame.lazy().select(pl.col("server").cast(pl.String), "sent", end=pl.col(self.ended)).drop_nulls()
            yield lazy
            if not self.is_visit:
                yield lazy.with_columns(server=pl.lit(_EVERY))


def _extents(views: list[_View]) -> dict[str, tuple[int, int]]:
    """The first begin and the last end of what an input shows of each server."""
    found: dict[str, tuple[int, int]] = {}
    for view in views:
        of_view: dict[str, tuple[int, int]] = {}
        for frame in view.each():
            spans = frame.group_by("server").agg(pl.col("sent").min(), pl.col("end").max()).collect()
            for server, begin, end in spans.iter_rows():
                old = of_view.get(server, (begin, end))
                of_view[server] = (min(begin, old[0]), max(end, old[1]))
        found = of_view | found
    return found


def _seen(views: list[_View], spans: Mapping[str, tuple[int, int]]) -> dict[str, _Seen]:
    """What the views show of these servers within these times; of a server with visits, its visits."""
    if not spans:
        return {}
    found: dict[str, _Seen] = {}
    table = {
        "server": list(spans),
        "first": [span[0] for span in spans.values()],
        "last": [s[1] for s in spans.values()],
    }
    within = pl.LazyFrame(table, schema={"server": pl.String, "first": pl.Int64, "last": pl.Int64})
    took = pl.col("end") - pl.col("sent")
    for view in views:
        of_view: dict[str, _Seen] = {}
        for frame in view.each():
            inside = frame.join(within, on="server").filter(
                (pl.col("sent") <= pl.col("last")) & (pl.col("end") >= pl.col("first"))
            )
            counted = inside.group_by("server").agg(
                requests=pl.len(),
                long=(took >= _LONG_NS).sum(),
                longest=took.max(),
                whole=(took % units.SECOND == 0).all() & (took > 0).any(),
            )
            for server, requests, long, longest, whole in counted.collect().iter_rows():
                old = of_view.get(server, _Seen(0, 0, 0, whole_seconds=True))
                of_view[server] = _Seen(
                    old.requests + requests, old.long + long, max(old.longest_ns, longest), old.whole_seconds and whole
                )
        found = of_view | found
    return found


def _differ(one: _Seen, other: _Seen) -> bool:
    return abs(one.longest_ns - other.longest_ns) > _DIFFERENCE_NS or not _agree(one.long, other.long)


def _agree(one: int, other: int) -> bool:
    return abs(one - other) <= max(1, _SHARE * max(one, other))


def _owner(writer: Writer, server: str) -> Input:
    """The input before that shows a server; without one, its kind is empty."""
    for step in ("queues", "responses"):
        for one in writer.inputs:
            carries = one.carries.get(step, "")
            if carries and (step == "queues" or carries == COUNTED) and (server in one.servers or not one.servers):
                return one
    counted = (one for one in writer.inputs if one.carries.get("responses") == COUNTED)
    return next(counted, Input("the input before it", ""))


def _note(writer: Writer, name: str, kind: str, found: Found, server: str, mine: _Seen, other: _Seen) -> str:
    owner = _owner(writer, server)
    requests = f"requests to {server}" if server else "requests"
    reasons = _reasons(_Side(name, kind, mine), _Side(owner.file, owner.kind, other))
    own = found.topology.server(server) if found.topology and server else None
    if own is not None and own.kept:
        reasons.append(f"a sampler kept {100 * own.kept:.3g} % of {name}")
    settling = "" if owner.kind == "capture" else "; a packet capture of the same time would"
    why = f"What may be why: {'; '.join(reasons)}" if reasons else f"Nothing in them shows why{settling}"
    return (
        f"{name} and {owner.file} differ in the time that both cover. In {name}, {_said(mine, requests)}; in "
        f"{owner.file}, {_said(other, requests)}. {why}"
    )


@dataclass(frozen=True)
class _Side:
    name: str
    kind: str
    seen: _Seen


def _reasons(one: _Side, other: _Side) -> list[str]:
    """Why two inputs may differ: the shorter begins later, times are coarse, or one lacks requests."""
    shorter, longer = sorted((one, other), key=lambda side: (side.seen.longest_ns, side.seen.long))
    reasons: list[str] = []
    if {shorter.kind, longer.kind} <= _BEGINS.keys():
        (late, own), (early, others) = _BEGINS[shorter.kind], _BEGINS[longer.kind]
        reasons += [own, others] if late > early else []
    coarse = (side.name for side in (one, other) if side.seen.whole_seconds)
    reasons += [f"the response times of {name} are whole seconds" for name in coarse]
    fewer, more = sorted((one, other), key=lambda side: side.seen.requests)
    if not _agree(fewer.seen.requests, more.seen.requests):
        reasons.append(
            f"{fewer.name} has {fewer.seen.requests:,} requests and {more.name} has {more.seen.requests:,}, so some "
            "never came there, or are left out"
        )
    return reasons


def _said(seen: _Seen, requests: str) -> str:
    if not seen.requests:
        return f"no {requests} are there"
    longest = units.format_duration(seen.longest_ns)
    return f"{seen.long:,} of {seen.requests:,} {requests} took 0.95 s or longer, the longest {longest}"


def _apart(writer: Writer, name: str, server: str, own: tuple[int, int], other: tuple[int, int]) -> str:
    of = f" of {server}" if server else ""
    here, there = (" to ".join(map(units.format_moment, span)) for span in (own, other))
    return (
        f"{name}: its requests{of} and those in {_owner(writer, server).file} have no moment in common "
        f"({here}, and {there}); a clock or a time zone may be wrong"
    )
