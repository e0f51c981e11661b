"""Workers, queues, connections and how connections are repeated: from the topology, else from samples, else from the
recording where it shows a limit. What neither shows is in `unknowns`, with the range that the recording allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations
from typing import Any, get_args

import numpy as np
import polars as pl

from tailrace.diagnosis.constants import LEAST_LIMIT
from tailrace.diagnosis.ledger.account import Account
from tailrace.diagnosis.ledger.limits import calls
from tailrace.diagnosis.ledger.workers import lost_at
from tailrace.diagnosis.queues import NOBODY, Stays, plateau
from tailrace.diagnosis.view import View
from tailrace.experiment.model import SYN_SCHEDULES
from tailrace.experiment.tiers import Policy
from tailrace.topology import Pool, Server
from tailrace.twin.origins import Origins
from tailrace.twin.structure import Structure
from tailrace.units import MICROSECOND, SECOND

MOD_JK = ("total_request", "total_traffic", "current_load", "sessions")
AT_ONCE_NS = 100 * MICROSECOND
"""A caller with a free connection sends the next call so soon, besides the way of the answer and of the call."""
FOLLOWS = 0.8
"""The share of calls at a limit that follow an answer: the first one that reaches it follows none."""
LOOKS = 1_000_000
"""Moments at which calls are counted: in an hour, every four milliseconds."""
LIGHT_QUEUE = 65535
"""The default of asynchronous servers."""
BEYOND = 1.1
"""A few more than fit may seem to be inside: connections open and close within the moment of a packet."""
CALLERS_MOST = 10
"""Of more callers, some set has any number of calls."""
OPENED, KEPT = 0.9, 0.5
"""Connections for each visit: almost one, if each visit opens its own; at most half of one, if connections are kept.
Between them, callers may differ."""
DEFAULT_BACKLOG = 128
"""`somaxconn` until Linux 5.4, and the default of many servers."""


@dataclass(frozen=True)
class Unknown:
    """What the recording does not show."""

    name: str
    """The key of the experiment."""
    low: float
    high: float | None
    """The range that the recording allows; None: no upper bound."""
    datum: str
    """What would settle it."""
    key: str = ""
    tier: str = ""
    """The last part of the name, and the tier that it limits, where it is a key of a tier or of calls to it."""

    @property
    def range(self) -> str:
        """Empty if the question has no number."""
        if self.high is None:
            return f"{self.low:g} or more"
        return "" if (self.low, self.high) == (0, 1) else f"{self.low:g} to {self.high:g}"

    @property
    def sentence(self) -> str:
        between = f" ({self.range})" if self.range else ""
        return f"the recording does not show {self.name}{between}; this would settle it: {self.datum}"


@dataclass
class Limits:
    view: View
    account: Account
    structure: Structure
    origins: Origins
    unknowns: list[Unknown] = field(default_factory=list)

    def tier(self, name: str, waits: bool) -> dict[str, Any]:
        """The keys of `[tiers.NAME]`, whose origins are noted."""
        found = self._tier(name, waits)
        self.origins.of_tier(name, self._fullest(name), found)
        return found

    def _fullest(self, name: str) -> str:
        """The server of a tier that lost most attempts."""
        return max(self.structure.members[name], key=lambda one: len(lost_at(self.view, one)))

    def _tier(self, name: str, waits: bool) -> dict[str, Any]:
        """The keys of `[tiers.NAME]` that say how many requests fit into a server. In the engine, a visit that waits
        holds its event loop. A real event loop goes on with other visits meanwhile, so an asynchronous tier that
        `waits` without computing gets any number of threads."""
        servers = self.structure.members[name]
        server = self._fullest(name)
        known = self.view.topology.server(server) or Server(name=server)
        found: dict[str, Any] = {"count": len(servers)} if len(servers) > 1 else {}
        if not known.backlog:
            datum = f"backlog of {server} in topology.toml"
            self.unknowns.append(Unknown(f"tiers.{name}.backlog", 0, None, datum, "backlog", name))
        found["backlog"] = known.backlog or DEFAULT_BACKLOG
        light = max((known.queue_max or 0) - found["backlog"] - 1, 0)
        if known.kind == "async":
            threads = {"workers": 0} if waits else {}
            return found | {"kind": "async", "light_queue": light or LIGHT_QUEUE} | threads
        workers = int(self.account.workers[self.account.recorded.number[server]])
        if not workers:
            longest, datum = self.view.stays[server].longest, f"workers of {server} in topology.toml"
            self.unknowns.append(Unknown(f"tiers.{name}.workers", longest, None, datum, "workers", name))
            return found | {"workers": 0}
        places = workers + found["backlog"] + 1 + self._over_kept(server)
        light = max(light - workers, 0) or self._beyond(name, server, places)
        return found | {"workers": workers} | ({"kind": "bounded", "light_queue": light} if light else {})

    def _over_kept(self, server: str) -> int:
        """The most calls over connections that stay open, which need no place in the accept queue."""
        open_at_once = {caller: stays.longest for caller, of in self.view.calls.items() if (stays := of.get(server))}
        return sum(most for caller, most in open_at_once.items() if self._keeps((caller,), (server,)) is not False)

    def _beyond(self, name: str, server: str, places: int) -> int:
        """How many wait inside the server for a worker, if more were inside than its workers, its accept queue and kept
        connections hold. A server that lost attempts was full then."""
        stays = self.view.stays[server]
        longest = stays.longest
        if longest <= BEYOND * places:
            return 0
        lost = lost_at(self.view, server)
        full = int(np.median(stays.queue(lost))) if len(lost) >= LEAST_LIMIT else 0
        if full > longest / 2:  # else the attempts were lost on their way
            return max(full - places, 0)
        datum = f"queue_max of {server} in topology.toml"
        self.unknowns.append(Unknown(f"tiers.{name}.light_queue", longest - places, None, datum))
        return LIGHT_QUEUE

    def calls(self, caller: str, callee: str) -> dict[str, Any]:
        """The keys of `[tiers.CALLER.calls.CALLEE]`."""
        callers, callees = self.structure.members[caller], self.structure.members[callee]
        key = f"tiers.{caller}.calls.{callee}"
        found: dict[str, Any] = {"kept": self._kept(key, callers, callees), **self._pool(key, callers, callees)}
        pooled = any(
            pool.callee in self.view.topology.names_of(one) for one in callees for pool in self._pools(callers)
        )
        policy = self.structure.policy.get((caller, callee))
        if policy in get_args(Policy):
            found["policy"] = policy
        self.origins.of_calls(key, pooled, found, self._keeps(callers, callees) is not None)
        server = self.view.topology.server(callees[0])
        if policy in MOD_JK and server is not None and server.protocol == "ajp":
            found |= {"endpoint": "original", "recover_time": "60 s"}
        return found

    def _pools(self, callers: tuple[str, ...]) -> list[Pool]:
        """Those that the topology states."""
        return [pool for caller in callers for pool in self.view.topology.pools_of(caller)]

    def _kept(self, key: str, callers: tuple[str, ...], callees: tuple[str, ...]) -> bool:
        """Whether calls go over connections that stay open. Where that is not known, they are taken to be kept."""
        known = self._keeps(callers, callees)
        if known is not None:
            return known
        datum = f"a packet capture between {callers[0]} and {callees[0]}"
        tier = self.structure.tier[callees[0]]
        self.unknowns.append(Unknown(f"{key}.kept, whether connections are kept", 0, 1, datum, "kept", tier))
        return True

    def _keeps(self, callers: tuple[str, ...], callees: tuple[str, ...]) -> bool | None:
        """The same by the connections that were recorded, which are those of all callers together; else by attempts
        that were lost, which show that there were attempts; None without either."""
        counts = [self.view.connections.servers.get(callee) for callee in callees]
        visits = sum(len(self.view.stays[callee].arrivals) for callee in callees)
        opened = sum(count.established for count in counts if count) if visits and all(counts) else None
        if opened is not None and opened >= OPENED * visits:
            return False
        openers = [self._openers(callee) for callee in callees]
        opening = {caller in found for found in openers for caller in callers}
        if all(openers) and len(opening) == 1:
            return not opening.pop()
        own = sum(
            len(self.view.calls.get(one, {}).get(callee, NOBODY).arrivals) for one in callers for callee in callees
        )
        if opened is not None and opened <= KEPT * own:
            return True
        if self._lost(callers, callees):
            return False
        return True if opened is not None and opened <= KEPT * visits else None

    def _openers(self, callee: str) -> frozenset[str]:
        """The callers whose calls together are as many as the connections that were opened to a server, so that each of
        them opens one for each call, and the others keep theirs; empty if none or several sets of callers are."""
        count = self.view.connections.servers.get(callee)
        made = {caller: len(of[callee].arrivals) for caller, of in self.view.calls.items() if callee in of}
        if count is None or not 2 <= len(made) <= CALLERS_MOST:
            return frozenset()
        sets = chain.from_iterable(combinations(made, size) for size in range(1, len(made) + 1))
        off = {one: abs(count.established - sum(made[caller] for caller in one)) for one in sets}
        near = [one for one, by in off.items() if by <= (1 - OPENED) * count.established]
        return frozenset(near[0]) if len(near) == 1 else frozenset()

    def _pool(self, key: str, callers: tuple[str, ...], callees: tuple[str, ...]) -> dict[str, Any]:
        known = self.view.topology
        pools = [
            pool.model_copy(update={"caller": caller, "callee": callee})
            for caller in callers
            for pool in known.pools_of(caller)
            for callee in callees
            if pool.callee in known.names_of(callee)
        ]
        if not pools:
            opened = [self.view.calls.get(caller, {}).get(callee, NOBODY) for caller in callers for callee in callees]
            workers = self.account.workers[[self.account.recorded.number[name] for name in callers]]
            at_once = AT_ONCE_NS + 2 * latency(self.account)
            held = max((_held(stays, at_once) for stays in opened), default=0)
            held = 0 if held in workers else held  # each worker waits for one call
            most = max((stays.longest for stays in opened), default=0)
            datum = f"the pool of {callers[0]} for {callees[0]} in topology.toml"
            self.unknowns.append(Unknown(f"{key}.pool", held or most, held or None, datum))
            return {"pool": held, "pool_per": ["candidate"] if held and len(callees) > 1 else []}
        first = [pool for pool in pools if pool.caller == pools[0].caller]
        together = [self._together(caller, callees) for caller in callers]
        shared = all(one == first[0].size for one in together)
        if not shared and len({pool.callee for pool in first}) > 1 and max(together) < first[0].size:
            datum = f"whether the pool of {callers[0]} for {callees[0]} holds the calls to all its candidates together"
            what = f"{key}.pool_per, whether each candidate has a pool of its own"
            self.unknowns.append(Unknown(what, 0, 1, datum, "shared", self.structure.tier[callees[0]]))
        scopes = list(_scopes(first, shared))
        held = all(self._held_for_visits(caller, callees, first[0].size, scopes) for caller in callers)
        return {"pool": first[0].size, "pool_per": scopes} | ({"for_visit": True} if held else {})

    def _held_for_visits(self, caller: str, callees: tuple[str, ...], size: int, scopes: Sequence[str]) -> bool:
        """Whether a connection is held from a visit's first call to its end: the visits between these reached the size
        of the pool and never exceeded it, and between its calls a visit is one of them."""
        recorded = self.account.recorded
        rows = calls(recorded, caller, callees)
        rows = rows[recorded.parent[rows] >= 0]
        parent = recorded.parent[rows]
        found = pl.DataFrame({"visit": parent, "sent": recorded.sent[rows], "end": recorded.departure[parent]})
        if "candidate" in scopes:
            found = found.with_columns(candidate=recorded.server[rows])
        if "interaction" in scopes:
            found = found.with_columns(interaction=recorded.names[:][parent])
        keys = [name for name in found.columns if name not in ("visit", "sent", "end")]
        of_visits = found.group_by("visit", *keys).agg(
            pl.col("sent").min(), pl.col("end").first(), several=pl.len() > 1
        )
        parts = of_visits.partition_by(keys) if keys else [of_visits]
        most = [Stays.of(part["sent"].to_numpy(), part["end"].to_numpy()).longest for part in parts if len(part)]
        return bool(of_visits["several"].any()) and max(most, default=0) == size

    def _together(self, caller: str, callees: tuple[str, ...]) -> int:
        """The most calls of a caller to all candidates together. One pool serves all of them if these reached its size
        and never exceeded it."""
        recorded = self.account.recorded
        rows = calls(recorded, caller, callees)
        return Stays.of(recorded.sent[rows], recorded.back[rows]).longest

    def _lost(self, callers: tuple[str, ...], callees: tuple[str, ...]) -> bool:
        named = pl.col("caller").is_in(list(callers)) & pl.col("server").is_in(list(callees))
        return not self.view.lossy.filter(named & (pl.col("drops") > 0)).is_empty()


def places(structure: Structure, tiers: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
    """By server with workers: how many it holds, and how many of these in its accept queue."""
    found: dict[str, tuple[int, int]] = {}
    for tier, servers in structure.members.items():
        keys = tiers[tier]
        if keys.get("workers"):
            outside = keys["backlog"] + 1
            found |= dict.fromkeys(servers, (keys["workers"] + keys.get("light_queue", 0) + outside, outside))
    return found


def _held(stays: Stays, at_once: int) -> int:
    """Return the number at which a limit, such as a pool, holds the concurrent calls; 0 if there is no such limit. At a
    limit, a call is sent when another one has returned: within `at_once` ns."""
    if stays.longest < LEAST_LIMIT:
        return 0
    times = np.linspace(stays.arrivals[0], stays.departures[-1], LOOKS).astype(np.int64)
    many = stays.queue(times)
    held = plateau(many[many > stays.longest / 2])
    if held is None:
        return 0
    full = stays.arrivals[stays.queue(stays.arrivals) >= held]
    before = np.searchsorted(stays.departures, full, "right") - 1
    followed = (before >= 0) & (full - stays.departures[before] <= at_once)
    return held if followed.mean() >= FOLLOWS else 0


def _scopes(pools: list[Pool], shared: bool) -> Iterator[str]:
    """Of the pools of one caller. The name of a servlet's pool ends with the servlet."""
    if any("," in pool.name for pool in pools):
        yield "interaction"
    if len({pool.callee for pool in pools}) > 1 and not shared:
        yield "candidate"


def syn(schedule: tuple[int, ...]) -> str | list[str]:
    """Return the kernel whose retransmissions begin at these times. If there is none, return the times."""
    seconds = [moment / SECOND for moment in schedule]
    for name, (known, _) in SYN_SCHEDULES.items():
        if list(known[: len(seconds)]) == seconds:
            return name
    return [f"{moment} ns" for moment in schedule]


def latency(account: Account) -> int:
    """Return the one-way latency: the median time from sending to arrival, over the calls that lost no packet."""
    recorded = account.recorded
    under_way = recorded.arrival - recorded.sent
    direct = under_way[(under_way >= 0) & (under_way * 2 < recorded.schedule[0])]
    return int(np.median(direct)) if len(direct) else 0
