"""Packets were lost on their way to the server, and their senders sent them again.

A lost attempt arrives late. The server's queue did not refuse it if the kernel of the server counted no drop
meanwhile. Without such a counter, it is not known where an attempt was lost, and nothing is charged.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.constants import NEARLY, REPEATED_NS
from tailrace.diagnosis.ledger.delays import Delays
from tailrace.diagnosis.ledger.losses.loss import Loss, Seen
from tailrace.diagnosis.ledger.losses.senders import callers
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
    if recorded is None or not refusals or seen.view.is_asked_for_names(server):
        return None
    delays = _late(seen, server, recorded).and_also(_in_the_middle(seen, server, recorded))
    if not len(delays.visits):
        return None
    way = f"between {callers(recorded, delays.visits)} and {server}"
    return Loss(np.zeros(len(seen.steps)), 1, way, delays=delays)


def _late(seen: Seen, server: str, recorded: Recorded) -> Delays:
    """Return the visits that arrived late because an attempt, or their first data, was lost."""
    late = _lossy(server, recorded, late=True)
    late = late[~_refused(seen, server, recorded, late)]
    return Delays.came_late(late, (recorded.arrival - recorded.sent)[late])


def _in_the_middle(seen: Seen, server: str, recorded: Recorded) -> Delays:
    """Return the visits that lost data after they had arrived. They need nothing from the server until it is sent
    again."""
    lost = _lossy(server, recorded, late=False)
    if not len(lost):
        return Delays.paused(lost, lost)
    beyond = (recorded.own_ns - recorded.usual_own_ns)[lost]
    waited = np.minimum(beyond, repeated_after(recorded.lost[lost].astype(float))).astype(np.int64)
    sent = recorded.steps.lengthened(recorded.sent[lost])
    strayed = (beyond >= REPEATED_NS * NEARLY) & ~seen.view.may_refuse(server, sent, sent + waited)
    return Delays.paused(lost[strayed], waited[strayed])


def repeated_after(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return after how many nanoseconds Linux repeats data on an open connection for the first, second … time. The
    least timeout passes first, and twice as long each time after it (RFC 6298, 5.5)."""
    return REPEATED_NS * (2.0**times - 1.0)


def _lossy(server: str, recorded: Recorded, *, late: bool) -> Times:
    """Return the visits that lost packets, of which those that arrived late lost them before."""
    came_late = 2 * (recorded.arrival - recorded.sent) >= REPEATED_NS
    return np.flatnonzero((recorded.server == recorded.number[server]) & (recorded.lost > 0) & (came_late == late))


def _refused(seen: Seen, server: str, recorded: Recorded, late: Times) -> NDArray[np.bool_]:
    """Return which of these visits lost an attempt that the kernel may have refused. The schedule says when the last
    attempt that was lost was sent: the one after it arrived."""
    sent, took = recorded.sent[late], recorded.arrival[late] - recorded.sent[late]
    repeated = np.searchsorted(recorded.schedule, took + REPEATED_NS, "right")
    lost = sent + np.array((0, *recorded.schedule))[np.maximum(repeated - 1, 0)]
    return seen.view.may_refuse(server, *map(recorded.steps.lengthened, (sent, lost)))


def missing(view: View, server: str) -> str | None:
    return None if view.refusals_of(server) or view.is_asked_for_names(server) else f"listen_drops of {server}"
