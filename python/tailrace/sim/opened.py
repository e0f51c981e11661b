"""How many connections a simulated run opened at each server: the manifest says so, as it does of packets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from tailrace.dataset import Connections, ServerConnections
from tailrace.experiment import Experiment, places

_CALLER, _SERVER = (pl.col(name).cast(pl.String) for name in ("caller", "server"))


def connections(experiment: Experiment, folder: Path) -> Connections:
    """The connections of each server, from the visits in the folder. A visit over a connection that is not kept opened
    one. A kept one carries many, and no more are open than a caller has workers or places in its pool. Servers whose
    callers have neither are left out."""
    visits = folder / "visits.parquet"
    if not visits.exists():
        return Connections()
    rows = pl.scan_parquet(visits).group_by(_CALLER, _SERVER).len().collect(engine="streaming")
    tier = {server.name: server.tier for server in places.servers(experiment)}
    opened: dict[str, list[int | None]] = {}
    for caller, server, count in rows.iter_rows():
        if server in tier:
            opened.setdefault(server, []).append(_opened(experiment, tier.get(caller), tier[server], count))
    return Connections({server: found for server, counts in sorted(opened.items()) for found in _summed(counts)})


def _opened(experiment: Experiment, caller: str | None, callee: str, visits: int) -> int | None:
    """By the visits of one caller; None if that is not known."""
    if caller is None:
        clients = (load for load in experiment.workloads.values() if (load.entry or callee) == callee)
        return None if any(load.kept for load in clients) else visits
    call = experiment.tiers[caller].calls.get(callee)
    if call is None or not call.kept:
        return None if call is None else visits
    most = call.pool or experiment.tiers[caller].workers
    return min(visits, most) if most else None


def _summed(counts: list[int | None]) -> Iterator[ServerConnections]:
    known = [count for count in counts if count is not None]
    if len(known) == len(counts):
        yield ServerConnections(attempts=sum(known), established=sum(known))
