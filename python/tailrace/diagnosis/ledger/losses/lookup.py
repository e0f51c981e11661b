"""A query for a name had no answer, and the resolver sent it again after some seconds.

    web   ├─ A? ────────────── 5 s ─────────────┤ A? ┤├─ connects to app ─┤
    dns      (no answer)                          ├─┤

DNS runs over UDP, which repeats nothing: the resolver waits for its own timeout (5 s in the C library, see
resolv.conf(5)). A capture shows that there was no answer. Whether the query was lost, or the answer, or whether the
server was slow, is unknown, and the cause does not say so. Without the wait, the caller would have connected at once.
"""

from __future__ import annotations

import numpy as np

from tailrace.diagnosis.ledger.delays import Delays
from tailrace.diagnosis.ledger.losses.loss import Loss, Seen
from tailrace.diagnosis.ledger.losses.senders import callers
from tailrace.diagnosis.view import View

CAUSE = "dns"
SAYS = "the waits for names whose queries were sent again {place}"
PLAIN = "queries for a name had no answer and were sent again {place}, so what asked for it waited"
METRICS, EVENTS = (), ()
COMPUTES = False


def find(seen: Seen, server: str) -> Loss | None:
    recorded = seen.recorded_visits
    if recorded is None or not seen.view.is_asked_for_names(server):
        return None
    took = recorded.arrival - recorded.sent
    again = np.flatnonzero((recorded.server == recorded.number[server]) & (recorded.lost > 0))
    if not len(again):
        return None
    way = f"from {callers(recorded, again)} to {server}"
    return Loss(np.zeros(len(seen.steps)), 1, way, delays=Delays.came_late(again, took[again]))


def missing(view: View, server: str) -> str | None:
    return None
