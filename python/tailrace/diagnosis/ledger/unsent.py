"""This module finds visits that waited for a connection of a pool, and gave up.

mod_jk answers 503 if it finds no free connection for about a second. Such a visit has no call, so the wait looks like
work of the server, which it does not need: a server that seems to compute for a second for each of them is overloaded
in each replay.
"""

from __future__ import annotations

import numpy as np

from tailrace.diagnosis.constants import MOSTLY
from tailrace.diagnosis.ledger.delays import Delays
from tailrace.diagnosis.ledger.limits import Pools
from tailrace.diagnosis.ledger.recorded import Recorded
from tailrace.diagnosis.ledger.waits import LOOKS_NS


def pauses(recorded: Recorded, pools: Pools) -> Delays | None:
    """Return the failed visits without calls, of kinds that usually call over a pool, that lasted as long as a balancer
    waits before it looks again. They wait as long in each replay: when they would have got a connection is not
    known."""
    callers = list({recorded.number[caller] for caller, _ in pools.of})
    calls = np.zeros(len(recorded.parent), dtype=bool)
    calls[recorded.parent[recorded.parent >= 0]] = True
    every = np.bincount(recorded.group, minlength=recorded.groups)
    share = np.bincount(recorded.group, calls, recorded.groups) / np.maximum(every, 1)
    lasts = recorded.departure - recorded.start
    gave_up = recorded.failed & ~calls & (share[recorded.group] >= MOSTLY) & (lasts >= LOOKS_NS)
    rows = np.flatnonzero(gave_up & np.isin(recorded.server, callers))
    return Delays.paused(rows, lasts[rows]) if len(rows) else None
