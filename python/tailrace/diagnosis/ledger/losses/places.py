"""Slow visits held the places of the server (workers, connections to a server behind), and the others waited for one.

Such a visit takes long by itself, and it does not wait for the CPU but for something else. `ledger.places` describes
how such visits are recognised.
"""

from __future__ import annotations

from tailrace.diagnosis.ledger.losses.holding import visits
from tailrace.diagnosis.ledger.losses.loss import Loss, Seen
from tailrace.diagnosis.view import View

CAUSE = "soft-resource"
SAYS = "{place}, which held places of {server}"
PLAIN = "{place} held the places (workers or connections) of {origin}, and the others waited"
METRICS, EVENTS = ("pool_in_use", "pool_waiting", "workers_busy"), ()
COMPUTES = False


def find(seen: Seen, server: str) -> Loss | None:
    known = seen.view.topology.server(server)
    # A server that does not block has no places that a waiting visit could hold.
    return None if known is not None and known.kind == "async" else visits(seen, server, computing=False)


def missing(view: View, server: str) -> str | None:
    return None if view.series(server, "cpu_busy") else f"cpu_busy of {server}"
