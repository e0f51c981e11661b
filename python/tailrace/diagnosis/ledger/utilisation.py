"""This module finds how busy a server usually is: the utilisation of its busiest resource in calm time.

A visit does not need a core all the time: it also sleeps, waits for a disk, or sends to a slow client. So a server that
used a tenth of its CPU while eight visits were inside can serve many more of them at full speed.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tailrace.diagnosis.ledger.losses import full_cpu, neighbour
from tailrace.diagnosis.ledger.losses.loss import Seen
from tailrace.diagnosis.ledger.steps import Shares


def of(seen: Seen) -> Shares:
    """Return the utilisation of each server, or NaN where its CPU was not sampled."""
    return np.array([max(_resources(seen, server), default=np.nan) for server in seen.view.servers])


def _resources(seen: Seen, server: str) -> Iterator[float]:
    """Yield the utilisation of the CPU of a server, of what contains or shares this CPU, and of its disk."""
    view, own = seen.view, seen.view.series(server, "cpu_busy")[:1]
    if not own:
        return
    host = view.of_host(server, "cpu_busy")
    for one in (*own, *neighbour.around(seen, server), *([] if host is None else [host])):
        yield _in_calm(seen, seen.at(one) / one.capacity)
    for shared in full_cpu.of_node(seen, server):
        yield _in_calm(seen, shared)
    for disk in view.series(server, "disk_busy"):
        yield _in_calm(seen, seen.at(disk))


def _in_calm(seen: Seen, share: Shares) -> float:
    """Return the mean of a share in calm steps. It is 1 where nothing was sampled in them: then nothing is known."""
    sampled = share[seen.calm & ~np.isnan(share)]
    return float(sampled.mean()) if len(sampled) else 1.0
