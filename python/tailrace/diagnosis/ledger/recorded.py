"""This module selects the visits around the very slow requests, as columns that the engine replays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace.diagnosis.constants import FEW, QUICK
from tailrace.diagnosis.ledger import given_up, lent, orphans, silences
from tailrace.diagnosis.ledger.nearby import nearby
from tailrace.diagnosis.ledger.steps import NEVER, Steps
from tailrace.diagnosis.ledger.workers import taken, workers
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.spans import Spans
from tailrace.diagnosis.view import View
from tailrace.diagnosis.vlrt import SCHEDULES, Slow, direct_waits, infer_schedules
from tailrace.topology import Balancer, Topology

CELLS = 16_000_000
"""An account has at most so many steps times servers, which take 128 MB for each of its lines. This suffices for ten
servers over four hours of episodes."""
KINDS_MAX = 10_000
"""Kinds of visits that the ledger distinguishes: as many as a recording has interactions. There are more where names
hold a number or a word of the user."""
NONE = 2**32 - 1
"""This number means that there is no pool, or no choice."""

Numbers = NDArray[np.uint32]
Flags = NDArray[np.uint8]


@dataclass(frozen=True)
class Names:
    """Each visit has a name. Each different name is stored once."""

    labels: NDArray[np.str_]
    """These are the different names, in order."""
    number: Numbers
    """For each visit, this is the place of its name in `labels`."""

    @classmethod
    def of(cls, column: pl.Series) -> Names:
        column = column.cast(pl.Categorical)
        values = column.unique()
        labels, codes = values.cast(pl.String).to_numpy().astype(str), values.to_physical().to_numpy()
        order = np.argsort(labels)
        number = np.zeros(int(codes.max(initial=0)) + 1, dtype=np.uint32)
        number[codes[order]] = np.arange(len(order))
        return cls(labels[order], number[column.to_physical().to_numpy()])

    def __getitem__(self, visits: Times | NDArray[np.bool_] | slice) -> NDArray[np.str_]:
        return self.labels[self.number[visits]]

    def are(self, name: str) -> NDArray[np.bool_]:
        """Return which visits have this name."""
        return np.asarray((self.labels == name)[self.number])

    def under(self, root: Times) -> Names:
        """Return names that also show for what a visit was called: `SELECT of GET /report`. `root` is, for each visit,
        the visit at the end of its chain of parents."""
        pairs = self.number.astype(np.int64) * len(self.labels) + self.number[root]
        found, number = np.unique(pairs, return_inverse=True)
        own, asked = self.labels[found // len(self.labels)], self.labels[found % len(self.labels)]
        both = np.char.add(np.char.add(own, " of "), asked)
        labels = np.select([(own == asked) | (asked == ""), own == ""], [own, asked], both)
        return Names(labels, number.astype(np.uint32))

    def counts(self, visits: Times | NDArray[np.bool_]) -> dict[str, int]:
        """Return how many of these visits have each name."""
        found = np.bincount(self.number[visits], minlength=len(self.labels))
        return dict(zip(self.labels.tolist(), found.tolist(), strict=True))


@dataclass(frozen=True)
class Recorded:
    """The visits are in the order of their numbers. Times are on the shortened clock of `steps`."""

    steps: Steps
    servers: tuple[str, ...]
    server: Numbers
    parent: Times
    caller: Times
    """This is the number of the calling server, or -1 for a client. It is known for some visits without a parent."""
    sent: Times
    arrival: Times
    start: Times
    departure: Times
    group: Numbers
    groups: int
    names: Names
    """Each visit has the name of its interaction, or of its request's; the name is empty if neither is known."""
    request: NDArray[np.uint64]
    """This is the request at the root of each visit, or 0 if it is unknown."""
    may_drop: Flags
    lost: Flags
    """The sender of each visit repeated packets to the server so many times, or 255 times and more."""
    client: Times
    """This is the number of the client that sent each request, or -1 where it is not known, and for other visits."""
    follows: Times
    """For each request, this is the request whose answer its client awaited before it sent this one, or -1."""
    schedule: tuple[int, ...]
    workers: Numbers
    """This is the number of workers of each server, or 0 where it is not known."""
    bytes: NDArray[np.uint64]
    """Each visit and its answer have so many bytes, or 0 where they are not recorded."""
    failed: NDArray[np.bool_]
    """These visits have a status that is not `ok`."""
    taken: Times
    """This is when a worker took the visit, or `NEVER` where that was not recorded. `start` is inferred from it."""
    like: Times
    """This is the visit whose steps this one takes, because its own were not recorded, or -1 (`lent`)."""
    gives_up: Times
    """So long after it was sent, its caller gave the visit up, or `NEVER` (`given_up`)."""
    again: Flags
    """A caller may send the visit again for this reason (`given_up.AGAIN`, `given_up.AT_ONCE`), or 0."""
    locked: NDArray[np.bool_]
    """The status of these visits says that they waited for a lock."""

    @property
    def orphan(self) -> NDArray[np.bool_]:
        """Return which visits are calls of a server without a parent."""
        return np.asarray((self.parent < 0) & (self.caller >= 0))

    @cached_property
    def back(self) -> Times:
        """Return when the caller of each visit went on: with the answer, or because it gave the visit up."""
        given_up = np.flatnonzero(self.gives_up < NEVER)
        found = self.departure.copy()
        found[given_up] = np.minimum(found[given_up], self.sent[given_up] + self.gives_up[given_up])
        return found

    @cached_property
    def number(self) -> dict[str, int]:
        """Return the number of each server."""
        return {name: i for i, name in enumerate(self.servers)}

    @cached_property
    def called_by(self) -> dict[int, Times]:
        """Return for each server that calls others its calls, in the order of their numbers."""
        order = np.argsort(self.caller, kind="stable")
        callers, first = np.unique(self.caller[order], return_index=True)
        return {
            int(caller): its for caller, its in zip(callers, np.split(order, first[1:]), strict=True) if caller >= 0
        }

    @cached_property
    def ways(self) -> dict[tuple[str, str], Times]:
        """Return for each caller and each server that it calls these calls, in the order of their numbers."""
        found = {}
        for caller, its in self.called_by.items():
            servers = self.server[its]
            for callee in np.unique(servers).tolist():
                found[self.servers[caller], self.servers[callee]] = its[servers == callee]
        return found

    def balancers(self, topology: Topology) -> Iterator[Balancer]:
        """Return the balancers of the servers that call others."""
        for caller in self.called_by:
            yield from topology.balancers_of(self.servers[caller])

    @cached_property
    def own_ns(self) -> Times:
        """Return for each visit the time in which it was inside and had no call open. Calls at the same time count one
        after the other, so it is at least 0."""
        called = self.parent >= 0
        in_calls = np.zeros(len(self.parent))
        np.add.at(in_calls, self.parent[called], (self.back - self.sent)[called])
        return np.asarray(np.maximum(self.departure - self.arrival - in_calls.astype(np.int64), 0))

    @cached_property
    def usual_own_ns(self) -> Times:
        """Return for each visit the median of this time over the visits of its group."""
        return medians(self.own_ns, self.group)

    def late(self, visits: Times, since: Times) -> NDArray[np.bool_]:
        """Return which of these visits took much longer than is usual for their kind, from `since` on and without
        calls. Visits of one name that work for different pages may be of different kinds."""
        took = self.own_ns[visits] - (since - self.arrival[visits])
        page = self.names.number[self.root[visits]].astype(np.int64)
        kind = self.group[visits] * len(self.names.labels) + page
        return np.asarray(took > QUICK * medians(took, kind))

    def roots(self, visits: Times) -> Times:
        """Return the requests of clients that these visits work for."""
        return np.unique(self.root[visits])

    @cached_property
    def sent_by_client(self) -> Times:
        """Return, for each visit, when the request was sent that it works for."""
        return self.sent[self.root]

    @cached_property
    def request_stays(self) -> tuple[Times, Times]:
        """Return, for each visit, when the request arrived and left that it works for."""
        return self.arrival[self.root], self.departure[self.root]

    @cached_property
    def root(self) -> Times:
        """Return, for each visit, the visit at the end of its chain of parents; for a cycle, return any visit in it."""
        found = np.where(self.parent >= 0, self.parent, np.arange(len(self.parent)))
        for _ in range(len(found).bit_length()):  # each step goes twice as far as the one before it
            further = found[found]
            if np.array_equal(further, found):
                break
            found = further
        return found

    @cached_property
    def asked(self) -> NDArray[np.bool_]:
        """Return which visits a client asked for. A call of a server whose parent is not known is none of them."""
        return (self.parent < 0) & (self.caller < 0)


def medians(values: Times, kinds: Times | Numbers) -> Times:
    """Return for each value the median of its kind: of an even number, the lower one of the two in the middle."""
    _, kind, counts = np.unique(kinds, return_inverse=True, return_counts=True)
    ordered = values[np.lexsort((values, kind))]
    return np.asarray(ordered[np.cumsum(counts) - counts + (counts - 1) // 2][kind])


def are_first(parent: Times, sent: Times) -> NDArray[np.bool_]:
    """Return which visits no other of them precedes that was sent for the same visit. All without a parent are such."""
    order = np.lexsort((sent, parent))
    found = parent < 0
    found[order[:1]] = True
    found[order[1:]] |= parent[order[1:]] != parent[order[:-1]]
    return found


def record(
    view: View, slow: Slow, whole: Spans | None = None, counts: Mapping[str, int] | None = None
) -> Recorded | None:
    """Return the visits in the stretches around the very slow requests, or in the stretches of `whole`. Return None if
    there are no very slow requests or no visits, or if the account would take too much memory. `counts` are the workers
    of each server, if they were inferred before."""
    if (whole is None and not slow.clusters) or not view.stays:
        return None
    stretches = nearby(view, slow, slow.clusters) if whole is None else whole
    steps = Steps.of(stretches)
    if len(steps.begins) * len(view.stays) > CELLS:
        return None
    rows = _rows(view, stretches)
    if rows.is_empty():
        return None
    rows = given_up.joined(view, silences.joined(view, stretches, rows))
    servers = view.servers
    number = {name: i for i, name in enumerate(servers)}
    times = {name: steps.shortened(rows[name].to_numpy()) for name in ("sent", "arrival", "departure")}
    known = Names.of(rows["server"])
    server = np.array([number[name] for name in known.labels.tolist()], dtype=np.uint32)[known.number]
    counts = workers(view) if counts is None else counts
    numbers = np.array([counts[name] for name in servers], dtype=np.uint32)
    start = np.clip(steps.shortened(_start(rows, server, numbers)), times["arrival"], times["departure"])
    client = _clients(view, rows)
    parent = _parents(rows)
    groups, group = _groups(server, Names.of(rows["interaction"].fill_null("")))
    found = Recorded(
        steps,
        servers,
        server,
        parent,
        _callers(view, rows, server, parent),
        times["sent"],
        times["arrival"],
        start,
        times["departure"],
        group,
        groups,
        _names(view, rows),
        rows["request"].fill_null(0).to_numpy(),
        _may_drop(rows, server),
        rows["lost"].fill_null(0).to_numpy().astype(np.uint8),
        client,
        np.full(len(rows), -1, dtype=np.int64),
        SCHEDULES[next(iter((*slow.schedules, *_schedules(view))), "SYN, doubling from 1 s (RFC 6298)")],
        numbers,
        rows["bytes"].to_numpy(),
        rows["failed"].fill_null(False).to_numpy(),
        _taken(rows, steps),
        np.full(len(rows), -1, dtype=np.int64),
        given_up.gives_up(rows, steps),
        given_up.may_repeat(rows),
        given_up.locked(rows),
    )
    found = replace(found, follows=_follows(client, found.sent, found.back))
    loans = lent.find(view, found, slow.calm)
    return lent.joined(orphans.joined(lent.without_calls(found, loans)), loans)


def _schedules(view: View) -> tuple[str, ...]:
    """Return the retransmission schedules that fit the lost attempts of servers that call others."""
    waits = view.lossy.select("drops", "sent", connected="arrival")
    return infer_schedules(direct_waits(waits), ())


def _rows(view: View, stretches: Spans) -> pl.DataFrame:
    """Return the visits that lie in a stretch at least in part, and requests that never became a visit."""
    inside = pl.any_horizontal(
        *((pl.col("sent") < end) & (pl.col("departure") > begin) for begin, end in stretches.tolist())
    )
    names = pl.col("server", "interaction", "caller").cast(pl.Categorical)
    rows = (
        view.visits.filter(inside, pl.col("arrival").is_not_null(), pl.col("departure") >= pl.col("arrival"))
        .select(
            "visit",
            "parent",
            "request",
            names,
            "sent",
            "arrival",
            "start",
            "departure",
            pl.col("drops").fill_null(0),
            lost=pl.sum_horizontal(pl.col("drops", "data_drops").cast(pl.UInt32)).clip(upper_bound=255),
            bytes=pl.sum_horizontal("bytes_in", "bytes_out").cast(pl.UInt64),
            failed=pl.col("status") != "ok",
            status=pl.col("status").cast(pl.Categorical),
        )
        .collect()
    )
    absent = (
        view.requests.filter((pl.col("sent") < int(stretches[-1, 1])) & (pl.col("end") > int(stretches[0, 0])))
        .filter(pl.col("drops") > 0)
        .filter(pl.col("server").cast(pl.String).is_in(list(view.stays)))
        .join(rows.select("request").drop_nulls(), on="request", how="anti", maintain_order="left")
        .select(
            visit=pl.lit(2**63, pl.UInt64) + pl.col("request"),
            parent=pl.lit(None, pl.UInt64),
            request="request",
            server=pl.col("server").cast(pl.Categorical),
            interaction=pl.col("interaction").cast(pl.Categorical),
            caller=pl.lit(None, pl.Categorical),
            sent="sent",
            arrival="end",
            start="end",
            departure="end",
            drops=pl.col("drops").cast(rows.schema["drops"]),
            lost=pl.lit(1, pl.UInt32),
            bytes=pl.lit(0, pl.UInt64),
            failed=pl.lit(False),
            status=pl.lit(None, pl.Categorical),
        )
    )
    return pl.concat([rows, absent]).sort("visit")


def _groups(server: Numbers, interaction: Names) -> tuple[int, Numbers]:
    """Return how many groups there are, and the group of each visit. The visits of a group have one server and one
    interaction. Of very many, each server has one group of all that are rare there."""
    both = server.astype(np.int64) * len(interaction.labels) + interaction.number
    found, group, count = np.unique(both, return_inverse=True, return_counts=True)
    if len(found) > KINDS_MAX:
        rare = count < max(FEW, int(np.sort(count)[-KINDS_MAX]) + 1)
        both = np.where(rare[group], -1 - server.astype(np.int64), both)
        found, group = np.unique(both, return_inverse=True)
    return len(found), group.astype(np.uint32)


def _start(rows: pl.DataFrame, server: Numbers, counts: Numbers) -> Times:
    """Return when a worker took each visit. An event loop shares its time among all arrived visits, so there each visit
    starts at its arrival. `server` is the number of the server of each visit, and `counts` are the workers of each
    server."""
    arrival, departure = rows["arrival"].to_numpy(), rows["departure"].to_numpy()
    start = arrival.copy()
    for number, count in enumerate(counts.tolist()):
        if count:
            here = np.flatnonzero(server == number)
            known = rows["start"][here].fill_null(NEVER).to_numpy()
            start[here] = taken(arrival[here], departure[here], count, known)
    return start


def _taken(rows: pl.DataFrame, steps: Steps) -> Times:
    """Return when workers took the visits, as far as that was recorded. A request that never became a visit has its end
    there, and was not taken."""
    known = rows["start"].is_not_null() & (rows["start"] < rows["departure"])
    return np.where(known.to_numpy(), steps.shortened(rows["start"].fill_null(0).to_numpy()), NEVER)


def _names(view: View, rows: pl.DataFrame) -> Names:
    interaction = rows["interaction"]
    if interaction.null_count():
        asked = view.requests.select("request", asked=pl.col("interaction").cast(pl.Categorical))
        named = rows.select("request", "interaction").join(asked, on="request", how="left", maintain_order="left")
        interaction = named.select(pl.coalesce("interaction", "asked"))["interaction"]
    return Names.of(interaction.fill_null(""))


def _parents(rows: pl.DataFrame) -> Times:
    ids = rows["visit"].to_numpy()
    wanted = rows["parent"].fill_null(2**64 - 1).to_numpy()
    at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    # A parent that was not recorded does not count, and no visit is its own parent.
    called = (ids[at] == wanted) & (at != np.arange(len(ids)))
    return np.where(called, at, -1).astype(np.int64)


def _callers(view: View, rows: pl.DataFrame, server: Numbers, parent: Times) -> Times:
    """Return the calling server of each visit: that of its parent, or the one that its address shows where the
    recording does not show the parent."""
    number = {name: i for i, name in enumerate(view.servers)}
    labels = Names.of(rows["caller"].fill_null(""))
    by_label = np.array([number.get(view.callers.get(label, ""), -1) for label in labels.labels.tolist()])
    shown = by_label[labels.number]
    is_call = rows["request"].is_null().to_numpy() & (shown != server)
    return np.where(parent >= 0, server[parent].astype(np.int64), np.where(is_call, shown, -1))


def _may_drop(rows: pl.DataFrame, server: Numbers) -> Flags:
    """Return whether any attempt was lost between caller and server. Over kept connections, no attempt is lost."""
    caller = Names.of(rows["caller"].fill_null(""))
    pair = caller.number.astype(np.int64) * (int(server.max(initial=0)) + 1) + server
    lost = pair[(rows["drops"] > 0).to_numpy()]
    return np.isin(pair, lost).astype(np.uint8)


def _clients(view: View, rows: pl.DataFrame) -> Times:
    known = view.requests.select("request", "client").drop_nulls()
    asked = rows.select("request", "parent").with_row_index("row").filter(pl.col("parent").is_null())
    theirs = asked.join(known, on="request", maintain_order="left").with_columns(pl.col("client").rank("dense"))
    found = np.full(len(rows), -1, dtype=np.int64)
    found[theirs["row"].to_numpy()] = theirs["client"].to_numpy()
    return found


def _follows(client: Times, sent: Times, back: Times) -> Times:
    """Return the previous request of the same client, if it was answered or given up before this one was sent. Such a
    client waits: it sends its next request later if the answer comes later. A client that sends while another request
    is unanswered does not wait."""
    found = np.full(len(client), -1, dtype=np.int64)
    at = np.flatnonzero(client >= 0)
    at = at[np.lexsort((sent[at], client[at]))]
    waited = (client[at[1:]] == client[at[:-1]]) & (sent[at[1:]] >= back[at[:-1]])
    found[at[1:][waited]] = at[:-1][waited]
    return found
