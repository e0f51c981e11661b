"""The server waited for memory. `psi_memory` is the share of the time in which some of its tasks waited for pages that
were reclaimed or read from the disk again."""

from __future__ import annotations

from tailrace.diagnosis.ledger.losses.loss import Loss, Seen

__all__ = ["CAUSE", "EVENTS", "METRICS", "PLAIN", "SAYS", "find"]

CAUSE = "memory"
SAYS = "the waits of {server} for memory"
PLAIN = "{origin} waited for memory"
METRICS, EVENTS = ("psi_memory", "psi_memory_full"), ()


def find(seen: Seen, server: str) -> Loss | None:
    return seen.sampled(server, "psi_memory")
