"""This module finds calls for which a server stood still: it made no other call meanwhile, answered nobody, and went
on when the call ended.

    its visits  ─┤├─┤├─┤                    ├┤├┤├─┤├──     they leave again when the call ends
    the call           ├────────────────────┤              no other call is open near its end

A server that is stopped does not delay the answers of the servers behind it. So the call took so long by itself, and
the server waited for it: its event loop, or its only worker.
"""

from __future__ import annotations

import numpy as np

from tailrace.diagnosis.constants import ALIKE, EXPECTED, SEVERAL, STEP_NS
from tailrace.diagnosis.ledger.recorded import Recorded
from tailrace.diagnosis.ledger.steps import Mask
from tailrace.diagnosis.queues import Times


def still_for(recorded: Recorded, calm: Mask) -> Mask:
    """Return which visits are such calls. `calm` says which steps are calm."""
    found = np.zeros(len(recorded.server), dtype=bool)
    for caller, made in recorded.called_by.items():
        calls = made[recorded.parent[made] >= 0]
        found[calls] = _stood(recorded, calm, np.flatnonzero(recorded.server == caller), calls)
    return found


def _stood(recorded: Recorded, calm: Mask, visits: Times, calls: Times) -> Mask:
    """Return for which of its `calls` the server of these visits stood still."""
    begin, end = recorded.sent[calls], recorded.departure[calls]
    slack = (ALIKE * (end - begin)).astype(np.int64)
    arrived, left = np.sort(recorded.arrival[visits]), np.sort(recorded.departure[visits])
    in_calm = calm[np.minimum(recorded.steps.at(left), len(calm) - 1)]
    usual = in_calm.sum() / max(int(calm.sum()) * STEP_NS, 1)
    gone = np.searchsorted(left, end, "right")
    answered = np.searchsorted(left, end) - np.searchsorted(left, begin + slack)
    still_open = np.searchsorted(np.sort(begin), end) - np.searchsorted(np.sort(end), end - slack, "right")
    waited = np.searchsorted(arrived, end - slack) - gone
    goes_on = np.searchsorted(left, end + slack, "right") - gone
    is_long = (end - begin) * usual >= EXPECTED
    return np.asarray(is_long & (answered <= 0) & (still_open == 1) & (waited > SEVERAL) & (goes_on > 1))
