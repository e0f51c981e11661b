"""A log was flushed, and the server waited for its disk.

The signs are I/O waits while bytes that appeared at once were written out, or events of kind `log_flush`.
"""

from __future__ import annotations

from tailrace.diagnosis.causes.log_flush import CAUSE
from tailrace.diagnosis.ledger.losses.disk import waits
from tailrace.diagnosis.ledger.losses.loss import Loss, Seen

__all__ = ["CAUSE", "EVENTS", "METRICS", "PLAIN", "SAYS", "find"]

SAYS = "the flushes that {server} waited for"
PLAIN = "{origin} waited for its disk while a log was flushed"
METRICS, EVENTS = ("disk_busy", "cpu_iowait"), ("log_flush",)


def find(seen: Seen, server: str) -> Loss | None:
    events = seen.view.events_of("log_flush", "writeback")
    return seen.recorded(server, "log_flush") if events else waits(seen, server, gathered=False)
