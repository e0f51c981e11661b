"""This module finds parents for calls without one.

In a crowd, a decoder may give a visit the call of another one. Then a call has no parent, and a visit lacks its call.
In the replay, such a visit would compute for as long as it waited for that call. Calls are handed on from visit to
visit until the one that lacked a call has one (`tailrace._core.rejoined`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tailrace._core import rejoined
from tailrace.diagnosis.constants import NEARLY
from tailrace.diagnosis.queues import Times

if TYPE_CHECKING:
    from tailrace.diagnosis.ledger.recorded import Recorded


def joined(recorded: Recorded) -> Recorded:
    """Return the recording with parents for calls of servers that had none, as far as visits lack such calls."""
    parent = recorded.parent.copy()
    alone = np.flatnonzero(recorded.orphan)
    for caller, group in np.unique(np.column_stack((recorded.caller[alone], recorded.group[alone])), axis=0).tolist():
        calls = np.flatnonzero((recorded.caller == caller) & (recorded.group == group))
        visits = _with_one_call(recorded, caller, parent[calls])
        place = np.full(len(parent) + 1, -1)
        place[visits] = np.arange(len(visits))
        calls = calls[(parent[calls] < 0) | (place[parent[calls]] >= 0)]
        times = recorded.arrival[visits], recorded.departure[visits], recorded.sent[calls], recorded.back[calls]
        found = np.array(rejoined(*map(np.ascontiguousarray, (*times, place[parent[calls]]))), dtype=np.int64)
        parent[calls[found >= 0]] = visits[found[found >= 0]]
    return replace(recorded, parent=parent)


def _with_one_call(recorded: Recorded, caller: int, parents: Times) -> Times:
    """Return the visits of a server that make one call at most, of kinds that make exactly one. `parents` are the
    visits that made calls."""
    here = np.flatnonzero(recorded.server == caller)
    made = np.bincount(parents[parents >= 0], minlength=len(recorded.server))[here]
    kinds, kind = np.unique(recorded.group[here], return_inverse=True)
    one, all_ = np.bincount(kind, made == 1, len(kinds)), np.bincount(kind, minlength=len(kinds))
    return here[(one >= NEARLY * all_)[kind] & (made <= 1)]
