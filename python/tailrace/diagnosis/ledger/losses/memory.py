"""The server waited for memory.

`psi_memory` is the share of the time in which some of its tasks waited for pages that were reclaimed or read from the
disk again. Many kernels do not record it. There, the server waited for memory while it waited for a disk and pages were
read back (`major_faults`), or while its threads were blocked in the kernel and allocations had to free memory first
(`direct_reclaims`).
"""

from __future__ import annotations

from tailrace.diagnosis.ledger.losses.disk import OFTEN, read_back
from tailrace.diagnosis.ledger.losses.loss import Loss, Seen, blur, most
from tailrace.diagnosis.view import View

CAUSE = "memory"
SAYS = "the waits of {server} for memory"
PLAIN = "{origin} waited for memory"
METRICS, EVENTS = ("psi_memory", "psi_memory_full", "major_faults", "direct_reclaims"), ()
COMPUTES = False


def find(seen: Seen, server: str) -> Loss | None:
    return most(seen.sampled(server, "psi_memory"), read_back(seen, server), _reclaiming(seen, server))


def _reclaiming(seen: Seen, server: str) -> Loss | None:
    """Return the steps in which allocations freed memory first, and threads of the server were blocked."""
    blocked = next(iter(seen.view.series(server, "tasks_blocked")), None)
    reclaims = seen.more_than_usual(server, "direct_reclaims", OFTEN)
    if blocked is None or reclaims is None:
        return None
    waited = reclaims & (seen.at(blocked) >= 1.0)
    return Loss(waited.astype(float), blur(blocked))


def missing(view: View, server: str) -> str | None:
    known = any(view.series(server, metric) for metric in METRICS)
    return None if known else f"psi_memory of {server}"
