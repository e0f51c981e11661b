"""A request kept the server computing, and the others waited: it held an event loop, or took part of all cores.

Such a visit takes long by itself (`ledger.places` describes how that is recognised), and the server used the CPU all
along.
"""

from __future__ import annotations

from tailrace.diagnosis.ledger.losses.holding import visits
from tailrace.diagnosis.ledger.losses.loss import Loss, Seen
from tailrace.diagnosis.view import View

CAUSE = "own-work"
SAYS = "{place}, which kept {server} computing"
PLAIN = "{place} kept {origin} computing, and the others waited"
METRICS, EVENTS = ("cpu_busy",), ()
COMPUTES = True


def find(seen: Seen, server: str) -> Loss | None:
    return visits(seen, server, computing=True)


def missing(view: View, server: str) -> str | None:
    return None if view.series(server, "cpu_busy") else f"cpu_busy of {server}"
