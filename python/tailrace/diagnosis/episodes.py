"""Requests sent at the same time need not be slow for the same reason: web1 may have stalled while app3 did.

Each very slow request was held up somewhere: at the server that dropped its packet, or where it waited longest. Those
of a cluster whose origins differ become clusters of their own, and so episodes of their own.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace.diagnosis import drops, overflow
from tailrace.diagnosis.drops import QUEUED
from tailrace.diagnosis.view import View
from tailrace.diagnosis.vlrt import Cluster, Slow, cluster_of
from tailrace.diagnosis.waiting import Usual


def separate(view: View, slow: Slow, known: Usual) -> Slow:
    """The same requests, in clusters of one origin each."""
    if not slow.clusters or len(view.stays) < 2:
        return slow
    droppers, lost_at = drops.attribute(view, slow)
    held = _held(view, slow, droppers)

    def origin(part: Cluster) -> str | None:
        return overflow.origin_of(view, part, drops.of_cluster(view, slow, part, droppers, lost_at), known)

    found: list[Cluster] = []
    for cluster in slow.clusters:
        parts = [_part(slow, cluster.rows[held[cluster.rows] == place], place) for place in _places(held, cluster)]
        found += parts if len(parts) == 1 else _joined(slow, parts, [origin(part) for part in parts])
    return replace(slow, clusters=tuple(sorted(found, key=lambda c: (c.begin, c.end))))


def _held(view: View, slow: Slow, droppers: NDArray[np.str_]) -> NDArray[np.str_]:
    """Where each request was held up: the server that dropped its packet, or where it waited longest."""
    waited = view.longest_stays(slow.requests.filter(droppers == QUEUED))
    held = droppers.astype(object)
    held[droppers == QUEUED] = waited
    entries = slow.requests["server"].cast(pl.String).to_list()
    return np.array([place or entry for place, entry in zip(held.tolist(), entries, strict=True)], dtype=np.str_)


def _places(held: NDArray[np.str_], cluster: Cluster) -> list[str]:
    return list(dict.fromkeys(held[cluster.rows].tolist()))


def _part(slow: Slow, rows: NDArray[np.int64], place: str) -> Cluster:
    return replace(cluster_of(slow.requests, np.sort(rows)), place=place)


def _joined(slow: Slow, parts: list[Cluster], origins: list[str | None]) -> list[Cluster]:
    """One for each origin; those without one go with most of the others."""
    told: dict[str | None, list[Cluster]] = {}
    for part, origin in zip(parts, origins, strict=True):
        told.setdefault(origin, []).append(part)
    stray = told.pop(None, []) if len(told) > 1 else []
    groups = sorted(told.values(), key=lambda group: -sum(part.vlrt for part in group))
    groups[0] = groups[0] + stray
    return [
        _part(slow, np.concatenate([part.rows for part in group]), max(group, key=lambda p: p.vlrt).place or "")
        for group in groups
    ]
