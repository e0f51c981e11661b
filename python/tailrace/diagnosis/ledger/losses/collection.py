"""Garbage collection stopped the server, or threads that waited for memory. The loss consists of the pauses and stalls
of the GC log, or of `gc_share` where there is no log."""

from __future__ import annotations

from tailrace.diagnosis.causes.garbage_collection import CAUSE
from tailrace.diagnosis.ledger.losses.loss import Loss, Seen

__all__ = ["CAUSE", "EVENTS", "METRICS", "PLAIN", "SAYS", "find"]

SAYS = "the collections of {server}"
PLAIN = "a garbage collection stopped {origin}"
METRICS, EVENTS = ("gc_share",), ("gc", "allocation_stall")


def find(seen: Seen, server: str) -> Loss | None:
    return seen.recorded(server, "gc", "allocation_stall") or seen.sampled(server, "gc_share")
