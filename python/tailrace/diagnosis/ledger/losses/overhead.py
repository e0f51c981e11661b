"""More visits inside made the server slower: threads compete for its CPU, caches and collector.

No sample shows this. `account` attributes to it what the server lacked while it filled its CPU, if it lacked the more,
the more visits were inside.
"""

from __future__ import annotations

import numpy as np

from tailrace.diagnosis.ledger.losses.loss import Loss, Seen
from tailrace.diagnosis.ledger.steps import Shares
from tailrace.diagnosis.view import View

CAUSE = "concurrency-overhead"
SAYS = "what {server} lost because many visits were inside"
PLAIN = "{origin} became slower the more requests it held"
METRICS, EVENTS = ("cpu_busy",), ()
COMPUTES = True
STEPS_LEAST = 20
"""Fewer steps show no relation between two numbers. The rank correlation of 20 pairs exceeds 0.7 by chance in one of
1,000 cases."""
RELATED = 0.7


def find(seen: Seen, server: str) -> Loss | None:
    return None


def missing(view: View, server: str) -> str | None:
    return None if view.series(server, "cpu_busy") else f"cpu_busy of {server}"


def grows(lacked: Shares, inside: Shares) -> bool:
    """Return whether a server lacked the more, the more visits were inside (rank correlation, Spearman 1904)."""
    if len(lacked) < STEPS_LEAST or not np.ptp(lacked) or not np.ptp(inside):
        return False
    ranks = [
        np.argsort(np.argsort(values, kind="stable"), kind="stable").astype(np.float64) for values in (lacked, inside)
    ]
    return bool(np.corrcoef(ranks[0], ranks[1])[0, 1] >= RELATED)
