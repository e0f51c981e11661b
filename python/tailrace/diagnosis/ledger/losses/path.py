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
    took = recorded.arrival - recorded.sent
    late = (recorded.server == recorded.number[server]) & (recorded.lost > 0) & (2 * took >= REPEATED_NS)
    late = np.flatnonzero(late)
    late = late[~_refused(seen, server, recorded, late)]
    if not len(late):
        return None
    way = f"between {callers(recorded, late)} and {server}"
    delays = Delays.came_late(late, took[late]).and_also(_in_the_middle(seen, server, recorded))
    return Loss(np.zeros(len(seen.steps)), 1, way, delays=delays)


def _in_the_middle(seen: Seen, server: str, recorded: Recorded) -> Delays:
    """Return the visits that lost data after they had arrived. They need nothing from the server until it is sent
    again: after the least timeout, and after twice as long each time (RFC 6298, 5.5)."""
    here = np.flatnonzero(recorded.server == recorded.number[server])
    lost = here[(recorded.lost[here] > 0) & (recorded.arrival[here] - recorded.sent[here] < REPEATED_NS)]
    beyond = recorded.own_ns[lost] - usual_ns(recorded, here)[recorded.group[lost]]
    long = beyond >= REPEATED_NS * NEARLY
    waited = REPEATED_NS * (2.0 ** recorded.lost[lost] - 1.0)
    return Delays.paused(lost[long], np.minimum(beyond, waited).astype(np.int64)[long])


def usual_ns(recorded: Recorded, here: Times) -> Times:
    """Return the median time that visits of each group spend without calls."""
    found = np.zeros(recorded.groups, dtype=np.int64)
    for group in np.unique(recorded.group[here]).tolist():
        found[group] = np.median(recorded.own_ns[here][recorded.group[here] == group])
    return found


def _refused(seen: Seen, server: str, recorded: Recorded, late: Times) -> NDArray[np.bool_]:
    """Return which of these visits lost an attempt that the kernel may have refused. The schedule says when the last
    attempt that was lost was sent: the one after it arrived."""
    sent, took = recorded.sent[late], recorded.arrival[late] - recorded.sent[late]
    repeated = np.searchsorted(recorded.schedule, took + REPEATED_NS, "right")
    lost = sent + np.array((0, *recorded.schedule))[np.maximum(repeated - 1, 0)]
    return seen.view.may_refuse(server, *map(recorded.steps.lengthened, (sent, lost)))


def missing(view: View, server: str) -> str | None:
    return None if view.refusals_of(server) or view.is_asked_for_names(server) else f"listen_drops of {server}"
