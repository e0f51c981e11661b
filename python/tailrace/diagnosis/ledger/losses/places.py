"""Slow visits held the places of the server (workers, connections to a server behind), and the others waited for one.

Such a visit takes long by itself, and it does not wait for the CPU but for something else. `ledger.places` describes
how such visits are recognised.
"""

from __future__ import annotations

from tailrace.diagnosis.causes.soft_resource import CAUSE
from tailrace.diagnosis.ledger.losses.holding import visits
from tailrace.diagnosis.ledger.losses.loss import Loss, Seen

__all__ = ["CAUSE", "EVENTS", "METRICS", "PLAIN", "SAYS", "find"]

SAYS = "{place}, which held places of {server}"
PLAIN = "a pool or thread limit of {origin} was used up, with hardware to spare"
METRICS, EVENTS = ("pool_in_use", "pool_waiting", "workers_busy"), ()


def find(seen: Seen, server: str) -> Loss | None:
    return visits(seen, server, computing=False)
