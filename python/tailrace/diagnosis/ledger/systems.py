"""Servers that share no request are of different systems, such as two tenants of one machine."""

from __future__ import annotations

import numpy as np

from tailrace.diagnosis.ledger.recorded import Recorded
from tailrace.diagnosis.queues import Times


def of(recorded: Recorded) -> Times:
    """Return, for each visit, the system of its server: the lowest number of a server that a chain of calls joins with
    it."""
    called = np.flatnonzero(recorded.parent >= 0)
    unlinked = np.flatnonzero((recorded.parent < 0) & (recorded.caller >= 0))
    above = np.concatenate([recorded.server[recorded.parent[called]], recorded.caller[unlinked]]).astype(np.int64)
    below = np.concatenate([recorded.server[called], recorded.server[unlinked]]).astype(np.int64)
    calls = np.unique(np.stack([above, below]), axis=1).T.tolist()
    system = list(range(len(recorded.servers)))
    for caller, server in calls:
        joined = {system[caller], system[server]}
        system = [min(joined) if one in joined else one for one in system]
    return np.array(system, dtype=np.int64)[recorded.server]
