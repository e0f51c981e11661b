"""Requests that are sent at the same time may be slow for different reasons: web1 may have stalled while app3 did.

Each very slow request was held up somewhere: at the server that dropped its packet, or where it waited longest. If the
requests of a cluster have different origins, this module splits them into one cluster for each origin. So each of them
becomes an episode of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace.diagnosis import drops, overflow
from tailrace.diagnosis.losses import NOWHERE, Losses
from tailrace.diagnosis.overflow import FOLLOWED
from tailrace.diagnosis.view import View
from tailrace.diagnosis.vlrt import GAP_NS, Cluster, Slow, cluster_of, clusters_of
from tailrace.diagnosis.waiting import Usual


def separate(view: View, slow: Slow, lost: Losses, known: Usual) -> Slow:
    """Return the same requests, in clusters of one origin each."""
    if not slow.clusters or len(view.stays) < 2:
        return slow
    held = _held(view, slow, lost.server)

    def origin(part: Cluster) -> str | None:
        return overflow.origin_of(view, part, drops.of_cluster(view, slow, part, lost), known)

    found: list[Cluster] = []
    for cluster in slow.clusters:
        places = list(dict.fromkeys(held[cluster.rows].tolist()))
        at = (replace(cluster, rows=cluster.rows[held[cluster.rows] == place], place=place) for place in places)
        parts = [part for one in at for part in _apart(view, slow, one)]
        found += parts if len(places) == 1 else _joined(view, slow, parts, _origins(parts, origin))
    return replace(slow, clusters=tuple(sorted(found, key=lambda c: (c.begin, c.end))))


def _origins(parts: list[Cluster], origin: Callable[[Cluster], str | None]) -> list[str | None]:
    """Return the origin of each part. If there are many parts, return only those of the parts with the most
    requests."""
    largest = set(sorted(range(len(parts)), key=lambda at: -parts[at].vlrt)[:FOLLOWED])
    return [origin(part) if at in largest else None for at, part in enumerate(parts)]


def _held(view: View, slow: Slow, droppers: NDArray[np.str_]) -> NDArray[np.str_]:
    """Return where each request was held up: at the server that dropped its packet, or where it waited longest."""
    waited = view.longest_stays(slow.requests.filter(droppers == NOWHERE))
    held = droppers.astype(object)
    held[droppers == NOWHERE] = waited
    entries = slow.requests["server"].cast(pl.String).to_list()
    return np.array([place or entry for place, entry in zip(held.tolist(), entries, strict=True)], dtype=np.str_)


def _apart(view: View, slow: Slow, part: Cluster) -> list[Cluster]:
    """Split a part at one place into its stalls. Stalls that followed one another there may have been one cluster only
    because another place stalled in between."""
    return [replace(one, place=part.place) for one in clusters_of(view, slow.requests, part.rows)]


def _joined(view: View, slow: Slow, parts: list[Cluster], origins: list[str | None]) -> list[Cluster]:
    """Return one cluster for each origin and time. A part without an origin joins the largest cluster that was sent at
    the same time, if there is one."""
    told: dict[str, list[Cluster]] = {}
    for part, origin in zip(parts, origins, strict=True):
        if origin is not None:
            told.setdefault(origin, []).append(part)
    groups = [_together(view, slow, group) for group in told.values()]
    known = sorted((one for group in groups for one in group), key=lambda one: -one.vlrt)
    alone = []
    for stray in (part for part, origin in zip(parts, origins, strict=True) if origin is None):
        begin, end = stray.begin - GAP_NS, stray.end + GAP_NS
        near = next((i for i, one in enumerate(known) if one.begin <= end and begin <= one.end), None)
        if near is None:
            alone.append(stray)
        else:
            known[near] = _part(slow, [known[near], stray])
    return known + _together(view, slow, alone)


def _together(view: View, slow: Slow, group: list[Cluster]) -> list[Cluster]:
    return _apart(view, slow, _part(slow, group)) if group else []


def _part(slow: Slow, group: list[Cluster]) -> Cluster:
    rows = np.sort(np.concatenate([part.rows for part in group]))
    return replace(cluster_of(slow.requests, rows), place=max(group, key=lambda part: part.vlrt).place)
