"""Garbage collection stopped the server: the pauses of its log, or `gc_share` where there is no log."""

from __future__ import annotations

from tailrace.diagnosis.causes.garbage_collection import CAUSE
from tailrace.diagnosis.ledger.losses.loss import Loss, Seen

__all__ = ["CAUSE", "SAYS", "find"]

SAYS = "the collections of {server}"


def find(seen: Seen, server: str) -> Loss | None:
    return seen.recorded(server, "gc") or seen.sampled(server, "gc_share")
