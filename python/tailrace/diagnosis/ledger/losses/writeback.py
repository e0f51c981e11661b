"""Dirty pages that had gathered for seconds were written back, and the server waited for its disk. Events of kind
`writeback` show this, too."""

from __future__ import annotations

from tailrace.diagnosis.causes.writeback import CAUSE
from tailrace.diagnosis.ledger.losses.disk import waits
from tailrace.diagnosis.ledger.losses.loss import Loss, Seen

__all__ = ["CAUSE", "EVENTS", "METRICS", "PLAIN", "SAYS", "find"]

SAYS = "the writeback that {server} waited for"
PLAIN = "{origin} waited for its disk while dirty pages were written back"
METRICS, EVENTS = ("dirty_bytes", "writeback_bytes"), ("writeback",)


def find(seen: Seen, server: str) -> Loss | None:
    events = seen.view.events_of("log_flush", "writeback")
    return seen.recorded(server, "writeback") if events else waits(seen, server, gathered=True)
