"""Workers, queues, connections and how connections are repeated: from the topology, else from samples, else from the
recording where it shows a limit. What neither shows is in `unknowns`, with the range that the recording allows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np
import polars as pl

from tailrace.diagnosis.ledger import limits
from tailrace.diagnosis.ledger.account import Account
from tailrace.diagnosis.ledger.workers import lost_at
from tailrace.diagnosis.view import View
from tailrace.experiment.model import SYN_SCHEDULES
from tailrace.experiment.tiers import Policy
from tailrace.topology import Pool
from tailrace.twin.structure import Structure
from tailrace.units import SECOND

MOD_JK = ("total_request", "total_traffic", "current_load", "sessions")
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

    @property
    def range(self) -> str:
        return f"{self.low:g} or more" if self.high is None else f"{self.low:g} to {self.high:g}"


@dataclass
class Limits:
    view: View
    account: Account
    structure: Structure
    unknowns: list[Unknown] = field(default_factory=list)

    def tier(self, name: str) -> dict[str, Any]:
        """The keys of `[tiers.NAME]` that say how many requests fit into a server."""
        servers = self.structure.members[name]
        server = max(servers, key=lambda one: len(lost_at(self.view, one)))
        known = self.view.topology.server(server)
        count = {"count": len(servers)} if len(servers) > 1 else {}
        backlog = self._backlog(name, server)
        inside = int(self._of_servers["inside"][self.account.recorded.number[server]])
        light = max(inside - backlog - 1, 0)
        if known is not None and known.kind == "async":
            return count | {"kind": "async", "backlog": backlog, "light_queue": light or 65535}
        workers = int(self.account.workers[self.account.recorded.number[server]])
        if workers:
            light = max(light - workers, 0) if known is not None and known.queue_max else 0
            kind = {"kind": "bounded"} if light else {}
            return count | kind | {"workers": workers, "backlog": backlog, "light_queue": light}
        most = self.view.stays[server].longest
        if light:
            self._lack(f"tiers.{name}.workers", 1, light, f"workers of {server} in topology.toml")
            return count | {"workers": light, "backlog": backlog}
        self._lack(f"tiers.{name}.workers", most, None, f"workers of {server} in topology.toml")
        return count | {"workers": 0, "backlog": backlog}

    def _backlog(self, tier: str, server: str) -> int:
        known = self.view.topology.server(server)
        if known is not None and known.backlog:
            return known.backlog
        limit = self.view.series(server, "accept_queue_limit")
        if limit:
            return max(int(limit[0].value.max()), 1)
        queue = self.view.series(server, "accept_queue")
        most = int(queue[0].value.max()) if queue else 0
        if most and len(lost_at(self.view, server)):
            return max(most - 1, 1)  # a backlog of n holds n + 1
        self._lack(
            f"tiers.{tier}.backlog", most, None, f"backlog of {server} in topology.toml, or its accept_queue_limit"
        )
        return max(most, DEFAULT_BACKLOG)

    @property
    def _of_servers(self) -> dict[str, Any]:
        return limits.of_servers(self.view, self.account.recorded, self.account.workers)

    def calls(self, caller: str, callee: str) -> dict[str, Any]:
        """The keys of `[tiers.CALLER.calls.CALLEE]`."""
        callers, callees = self.structure.members[caller], self.structure.members[callee]
        key = f"tiers.{caller}.calls.{callee}"
        kept = not self._lost(callers, callees)
        if kept:
            self._lack(f"{key}.kept", 0, 1, f"whether {caller} keeps its connections to {callee}")
        found: dict[str, Any] = {"kept": kept, **self._pool(key, callers, callees)}
        policy = self.structure.policy.get((caller, callee))
        if policy in get_args(Policy):
            found["policy"] = policy
        server = self.view.topology.server(callees[0])
        if policy in MOD_JK and server is not None and server.protocol == "ajp":
            found |= {"endpoint": "original", "recover_time": "60 s"}
        return found

    def _pool(self, key: str, callers: tuple[str, ...], callees: tuple[str, ...]) -> dict[str, Any]:
        pools = [pool for pool in self.view.topology.pools if pool.caller in callers and pool.callee in callees]
        if not pools:
            self._lack(f"{key}.pool", 1, None, f"the pool of {callers[0]} for {callees[0]} in topology.toml")
            return {"pool": 0, "pool_per": []}
        first = [pool for pool in pools if pool.caller == pools[0].caller]
        return {"pool": first[0].size, "pool_per": list(_scopes(first))}

    def _lost(self, callers: tuple[str, ...], callees: tuple[str, ...]) -> bool:
        named = pl.col("caller").is_in(list(callers)) & pl.col("server").is_in(list(callees))
        return not self.view.lossy.filter(named & (pl.col("drops") > 0)).is_empty()

    def _lack(self, name: str, low: float, high: float | None, datum: str) -> None:
        if name not in {unknown.name for unknown in self.unknowns}:
            self.unknowns.append(Unknown(name, low, high, datum))


def _scopes(pools: list[Pool]) -> Iterator[str]:
    """Of the pools of one caller. The name of a servlet's pool ends with the servlet."""
    if any("," in pool.name for pool in pools):
        yield "interaction"
    if len({pool.callee for pool in pools}) > 1:
        yield "candidate"


def syn(schedule: tuple[int, ...]) -> str | list[str]:
    """The kernel whose repetitions begin like these, else the moments."""
    seconds = [moment / SECOND for moment in schedule]
    for name, (known, _) in SYN_SCHEDULES.items():
        if list(known[: len(seconds)]) == seconds:
            return name
    return [f"{moment} ns" for moment in schedule]


def latency(account: Account) -> int:
    """One way: the median of what reached a server without a loss."""
    recorded = account.recorded
    under_way = recorded.arrival - recorded.sent
    direct = under_way[(under_way >= 0) & (under_way * 2 < recorded.schedule[0])]
    return int(np.median(direct)) if len(direct) else 0
