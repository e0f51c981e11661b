"""Dirty pages that had gathered for seconds were written back, and the server waited for its disk. Events of kind
`writeback` show this, too."""

from __future__ import annotations

from tailrace.diagnosis.ledger.losses import disk
from tailrace.diagnosis.ledger.losses.loss import Loss, Seen
from tailrace.diagnosis.view import View

CAUSE = "writeback"
SAYS = "the writeback that {server} waited for"
PLAIN = "{origin} waited for its disk while dirty pages were written back"
METRICS, EVENTS = ("dirty_bytes", "writeback_bytes"), ("writeback",)
COMPUTES = False


def find(seen: Seen, server: str) -> Loss | None:
    events = seen.view.events_of(*disk.EVENTS)
    return seen.recorded(server, "writeback") if events else disk.waits(seen, server, gathered=True)


def missing(view: View, server: str) -> str | None:
    return None if view.events_of(*EVENTS) else disk.missing(view, server)
