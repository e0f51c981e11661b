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
    for caller, calls in recorded.called_by.items():
        visits = np.flatnonzero(recorded.server == caller)
        left = np.sort(recorded.departure[visits])
        in_calm = calm[np.minimum(recorded.steps.at(left), len(calm) - 1)]
        usual = in_calm.sum() / max(int(calm.sum()) * STEP_NS, 1)
        calls = calls[recorded.parent[calls] >= 0]
        long = calls[(recorded.departure - recorded.sent)[calls] * usual >= EXPECTED]
        found[long] = [_stood(recorded, visits, left, calls, one) for one in long.tolist()]
    return found


def _stood(recorded: Recorded, visits: Times, left: Times, calls: Times, one: int) -> bool:
    begin, end = int(recorded.sent[one]), int(recorded.departure[one])
    slack = int(ALIKE * (end - begin))
    answered = np.diff(np.searchsorted(left, (begin + slack, end)))[0]
    open_ = (recorded.sent[calls] < end) & (recorded.departure[calls] > end - slack)
    waited = (recorded.arrival[visits] < end - slack) & (recorded.departure[visits] > end)
    goes_on = (recorded.departure[visits[waited]] <= end + slack).sum()
    return bool(answered == 0 and open_.sum() == 1 and waited.sum() > SEVERAL and goes_on > 1)
