"""A server has a full CPU where its threads wait for a CPU: it used all of its own, some thread of it waited all the
time, or the servers of its node used all of it together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.ledger.losses.loss import Seen
from tailrace.diagnosis.ledger.steps import Shares
from tailrace.diagnosis.series import AT_WORK


def steps(seen: Seen, server: str) -> NDArray[np.bool_]:
    """Return the steps in which samples show it. There is none where the CPU of the server was not sampled."""
    full = np.zeros(len(seen.steps), dtype=bool)
    for own in seen.view.series(server, "cpu_busy")[:1]:
        full |= seen.at(own) >= AT_WORK * own.capacity
        waited = [one for one in seen.view.series(server, "psi_cpu")[:1] if seen.view.is_own(one.place, server)]
        for share in (*map(seen.at, waited), *of_node(seen, server)):
            full |= share >= AT_WORK
    return full


def of_node(seen: Seen, server: str) -> list[Shares]:
    """Return what all servers of its node used together, as a share of the node's CPU. The list is empty if the server
    shares no node."""
    used = seen.view.beside(server)
    if len(used) < 2:
        return []
    whole = np.sum([np.nan_to_num(seen.at(one)) for one in used], axis=0)
    return [np.asarray(whole / max(one.capacity for one in used))]
