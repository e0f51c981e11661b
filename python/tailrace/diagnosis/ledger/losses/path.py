"""Packets were lost on their way to the server, and their senders sent them again.

A lost attempt arrives late. The server's queue did not refuse it if the kernel of the server counted no drop
meanwhile. Without such a counter, it is not known where an attempt was lost, and nothing is charged.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.constants import REPEATED_NS
from tailrace.diagnosis.ledger.delays import Delays
from tailrace.diagnosis.ledger.losses.loss import Loss, Seen
from tailrace.diagnosis.ledger.losses.senders import callers, is_asked_for_names
from tailrace.diagnosis.ledger.recorded import Recorded
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.view import View

CAUSE = "packet-loss"
SAYS = "the packets that were lost {place}"
PLAIN = "packets were lost {place}"
METRICS, EVENTS = ("listen_drops", "syn_retransmits"), ("drop", "data_drop")
COMPUTES = False


def find(seen: Seen, server: str) -> Loss | None:
    recorded, refusals = seen.recorded_visits, seen.view.refusals_of(server)
    # The kernel counts no drops of UDP: `lookup` has queries for names.
    if recorded is None or not refusals or is_asked_for_names(seen.view, server):
        return None
    took = recorded.arrival - recorded.sent
    late = (recorded.server == recorded.number[server]) & (recorded.lost > 0) & (2 * took >= REPEATED_NS)
    late = np.flatnonzero(late)
    late = late[~_refused(seen, server, recorded, late)]
    if not len(late):
        return None
    way = f"between {callers(recorded, late)} and {server}"
    return Loss(np.zeros(len(seen.steps)), 1, way, delays=Delays(late, took[late], late=True))


def _refused(seen: Seen, server: str, recorded: Recorded, late: Times) -> NDArray[np.bool_]:
    """Return which of these visits lost an attempt while the kernel counted drops. It counts a drop some time after the
    packet was sent. The clock of the samples may be off by as much as one of them lasts. The schedule says when
    the last attempt that was lost was sent: the one after it arrived."""
    counts = np.nansum([seen.at(series) for series in seen.view.refusals_of(server)], axis=0)
    edges = np.concatenate(([0], np.cumsum(counts)))
    interval = max(series.interval_ns for series in seen.view.refusals_of(server))
    sent, took = recorded.sent[late], recorded.arrival[late] - recorded.sent[late]
    repeated = np.searchsorted(recorded.schedule, took + REPEATED_NS, "right")
    lost = sent + np.array((0, *recorded.schedule))[np.maximum(repeated - 1, 0)]
    first, last = recorded.steps.at(sent - interval), recorded.steps.at(lost + interval + REPEATED_NS)
    return np.asarray(edges[last + 1] > edges[first])


def missing(view: View, server: str) -> str | None:
    return None if view.refusals_of(server) or is_asked_for_names(view, server) else f"listen_drops of {server}"
