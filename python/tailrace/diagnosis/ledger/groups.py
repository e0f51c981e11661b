"""This module finds episodes that are judged together, and which requests count for them."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace.diagnosis.ledger import silences
from tailrace.diagnosis.ledger.recorded import Recorded
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.vlrt import Slow

Group = list[int]
"""A group holds episodes at one time with requests to the same servers. Chance decides in which of these episodes a
request is very slow."""


def together(slow: Slow) -> list[Group]:
    entry = _entries(slow)
    groups: list[Group] = []
    entries: list[set[str]] = []
    last: list[int] = []
    for at, cluster in enumerate(slow.clusters):
        mine = set(entry[cluster.rows].tolist())
        same = (g for g, of in enumerate(entries) if of & mine and cluster.begin <= last[g])
        number = next(same, None)
        if number is None:
            groups.append([at])
            entries.append(mine)
            last.append(cluster.end)
        else:
            groups[number].append(at)
            entries[number] |= mine
            last[number] = max(last[number], cluster.end)
    return groups


def _entries(slow: Slow) -> NDArray[np.str_]:
    """Return the server that each very slow request was sent to, or an empty name."""
    return slow.requests["server"].cast(pl.String).fill_null("").to_numpy().astype(np.str_)


def owners(recorded: Recorded, slow: Slow, groups: list[Group], window_ns: int) -> Times:
    """Return, by visit, the group that its request counts for, or -1. This is its own group, or the group during which
    it was sent to the same servers, within a window. If several requests came at once, chance decides which of them was
    dropped."""
    owner = np.full(len(recorded.sent), -1, dtype=np.int64)
    entry = _entries(slow)
    asked = np.array(recorded.servers)[recorded.server[recorded.root]]
    order = np.argsort(recorded.sent, kind="stable")
    sent = recorded.sent[order]
    its = [np.unique(entry[np.concatenate([slow.clusters[at].rows for at in group])]) for group in groups]
    known = [np.isin(one, recorded.servers).all() for one in its]
    for number, at in ((number, at) for number, group in enumerate(groups) for at in group):
        cluster = slow.clusters[at]
        begin, end = recorded.steps.shortened(np.array([cluster.begin, cluster.end])).tolist()
        first, last = np.searchsorted(sent, begin - window_ns), np.searchsorted(sent, end + window_ns, "right")
        near = order[first:last]
        if known[number]:
            near = near[np.isin(asked[near], its[number])]
        owner[near[owner[near] < 0]] = number
    of_request = np.full(len(slow.requests), -1, dtype=np.int64)
    for number, group in enumerate(groups):
        of_request[np.concatenate([slow.clusters[at].rows for at in group])] = number
    requests = slow.requests["request"].to_numpy()
    order = np.lexsort((of_request, requests))
    last = np.maximum(np.searchsorted(requests[order], recorded.request, "right") - 1, 0)
    own = np.where(requests[order][last] == recorded.request, of_request[order][last], -1)
    return np.where(recorded.names.are(silences.NAME), -1, np.where(own >= 0, own, owner))
