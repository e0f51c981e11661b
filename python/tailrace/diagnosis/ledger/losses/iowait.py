"""The server waited for its disk, and the bytes do not show whether a log was flushed or dirty pages were written back.

On a host with several disks, for example, the dirty pages of others hide those of the server. Where only the host of
several nodes was sampled, its bytes may be those of another node.
"""

from __future__ import annotations

from tailrace.diagnosis.ledger.losses import disk
from tailrace.diagnosis.ledger.losses.loss import Loss, Seen
from tailrace.diagnosis.view import View

CAUSE = "log-flush or writeback"
SAYS = "the waits of {server} for its disk"
PLAIN = "{origin} waited for its disk"
METRICS, EVENTS = ("psi_io", "disk_busy", "cpu_iowait"), ()
COMPUTES = False


def find(seen: Seen, server: str) -> Loss | None:
    events = seen.view.events_of(*disk.EVENTS)
    return None if events else disk.waits(seen, server, gathered=None)


def missing(view: View, server: str) -> str | None:
    return disk.missing(view, server)
