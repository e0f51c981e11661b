"""Traces in which every request failed: either everything failed then, or only errors were kept.

Such traces do not show which. Another input of the same time does: if it has as many requests, and none of them
succeeded, none are missing. If some succeeded, the traces lack these. The user may say it as well, with `kept` or
`chosen = false` of a server in the topology.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from tailrace.readers.source import Found, Frames
from tailrace.topology import Topology

if TYPE_CHECKING:
    from tailrace.readers.assembly import Text

_SAME = 0.1
"""Two inputs see the same requests if their numbers differ by this share at most."""


def settle(topology: Topology, texts: Sequence[Text]) -> Topology:
    """Decide whether the visits of such traces are all visits; without evidence that they are, these are left out.
    Returns the topology, in which servers of a whole set are no choice."""
    for source, _, found in texts:
        failed = found.failed_alone
        if not failed:
            continue
        servers = {server.name for server in found.topology.servers} if found.topology else set()
        # Traces of which only errors were kept say nothing about others.
        others = [
            (other.path.name, *_of_same_time(found, there))
            for other, _, there in texts
            if there is not found and not there.failed_alone
        ]
        same = [(name, count) for name, count, ok in others if not ok and abs(count - failed) <= _SAME * failed]
        better = [(name, count, ok) for name, count, ok in others if ok and count >= (1 - _SAME) * failed]
        said = any(known.name in servers and (known.kept or known.chosen is False) for known in topology.servers)
        note = f"{source.path.name}: all {failed} requests failed"
        if said or same:
            by_topology = "the topology says that they were not kept because they failed"
            none_missing = f"none are missing: {same[0][0]} has {same[0][1]} requests of the same time" if same else ""
            found.notes.append(f"{note}, and {by_topology if said else none_missing}")
            topology = _whole(topology, servers)
            continue
        found.visits = Frames()
        why = (
            f"{better[0][0]} has {better[0][1]} requests of the same time, and {better[0][2]} of them succeeded: only "
            "traces with errors were kept, so they do not show how many requests a server held"
            if better
            else "either everything failed then, or only traces with errors were kept. The traces alone do not show "
            "which, so they do not show how many requests a server held: there are requests and no visits. An access "
            "log or a counter of all requests of the same time would settle it"
        )
        found.notes.append(f"{note}: {why}")
    return topology


def _whole(topology: Topology, servers: set[str]) -> Topology:
    known = (
        server.model_copy(update={"chosen": None}) if server.name in servers else server for server in topology.servers
    )
    return topology.model_copy(update={"servers": tuple(known)})


def _of_same_time(found: Found, other: Found) -> tuple[int, int]:
    """How many requests of another input were sent while those of this one were, and how many of them succeeded."""
    ends = [frame.select(first=pl.col("sent").min(), last=pl.col("sent").max()).row(0) for frame in found.requests]
    known = [moment for pair in ends for moment in pair if moment is not None]
    if not known:
        return 0, 0
    inside = pl.col("sent").is_between(min(known), max(known))
    statuses = [frame.filter(inside).get_column("status").cast(pl.String) for frame in other.requests]
    return sum(map(len, statuses)), sum(int((one == "ok").sum()) for one in statuses)
