"""A virtual machine stopped the threads of the server for an operation that is no collection, such as a heap dump. The
loss consists of the stops of its log that have other work than collections for most of their time. Where the server
used no CPU, its threads may have waited for one before they could stop.
"""

from __future__ import annotations

from tailrace.diagnosis.ledger.losses.loss import Loss, Seen
from tailrace.diagnosis.view import View

CAUSE = "safepoint"
SAYS = "the safepoints of {server}"
PLAIN = "the virtual machine of {origin} stopped its threads for something else than a collection, such as a heap dump"
METRICS, EVENTS = (), ("safepoint",)
COMPUTES = True


def find(seen: Seen, server: str) -> Loss | None:
    return seen.recorded(server, *EVENTS)


def missing(view: View, server: str) -> str | None:
    """Return nothing: the log of collections, which would show it, is asked for as evidence of collections."""
    return None
