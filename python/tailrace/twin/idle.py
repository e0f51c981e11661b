"""What a server lacked while no visit was inside.

The ledger charges no loss there, because it delayed nothing. A change may send requests to the server at that time, and
they would meet the busy disk. Samples show when it was.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tailrace.diagnosis.ledger.account import Account, Line
from tailrace.diagnosis.ledger.losses import Seen, flush, memory, writeback
from tailrace.diagnosis.ledger.steps import Shares

ANYWAY = frozenset(one.CAUSE for one in (flush, memory, writeback))
"""These take a server's time whether it has work or not. A neighbour or a slow clock may only seem to."""


def lost(seen: Seen, account: Account, taken: Mapping[Line, Shares]) -> dict[Line, Shares]:
    """The losses with what they took of idle servers."""
    found = dict(taken)
    for (cause, server), share in taken.items():
        loss = account.losses.get((cause, server))
        if cause in ANYWAY and loss is not None and len(loss.share):
            idle = seen.view.own_queue(server, seen.steps.middles) < 1
            found[cause, server] = np.where(idle, np.maximum(share, loss.share), share)
    return found
