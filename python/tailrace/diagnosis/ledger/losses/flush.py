"""A log was flushed, and the server waited for its disk.

The signs are I/O waits while bytes that appeared at once were written out, or events of kind `log_flush`.
"""

from __future__ import annotations

from tailrace.diagnosis.ledger.losses import disk
from tailrace.diagnosis.ledger.losses.loss import Loss, Seen
from tailrace.diagnosis.view import View

CAUSE = "log-flush"
SAYS = "the flushes that {server} waited for"
PLAIN = "{origin} waited for its disk while a log was flushed"
METRICS, EVENTS = ("disk_busy", "cpu_iowait"), ("log_flush",)
COMPUTES = False


def find(seen: Seen, server: str) -> Loss | None:
    events = seen.view.events_of(*disk.EVENTS)
    return seen.recorded(server, "log_flush") if events else disk.waits(seen, server, gathered=False)


def missing(view: View, server: str) -> str | None:
    return None if view.events_of(*EVENTS) else disk.missing(view, server)
