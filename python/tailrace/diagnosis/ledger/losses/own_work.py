"""A request kept the server computing, and the others waited: it held an event loop, or took part of all cores.

Such a visit takes long by itself (`ledger.places` describes how that is recognised), and the server used the CPU all
along. Where visits do not show which of them it was, the CPU time does: `account` attributes to it what the server
lacked while it used much CPU and answered nobody.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.constants import EXPECTED, STEP_NS
from tailrace.diagnosis.ledger.losses import holding
from tailrace.diagnosis.ledger.losses.loss import Loss, Seen
from tailrace.diagnosis.ledger.steps import Shares
from tailrace.diagnosis.view import View
from tailrace.diagnosis.waiting import per_second
from tailrace.units import SECOND

CAUSE = "own-work"
SAYS = "{place}, which kept {server} computing"
PLAIN = "{place} kept {origin} computing, and the others waited"
METRICS, EVENTS = ("cpu_busy",), ()
COMPUTES = True
UNNAMED = "work that no visit shows (one request of many, or a job of its own)"


def find(seen: Seen, server: str) -> Loss | None:
    return holding.visits(seen, server, computing=True)


def unnamed(seen: Seen, server: str, silent: Iterable[tuple[int, int]]) -> tuple[NDArray[np.bool_], Shares]:
    """Return the steps of those stretches without answers in which the server used as much of a core as visits that
    compute, and the CPU time of `EXPECTED` more visits than were inside. Of a visit that is not answered, at most all
    of its work is done. Also return what this work alone takes of the capacity: all of it, for as long as it needs at
    the highest share of CPU that it had."""
    found, alone = np.zeros(len(seen.steps), dtype=bool), np.zeros(len(seen.steps))
    rate = per_second(seen.view.stays[server].departures, seen.slow)
    for own in seen.view.series(server, "cpu_busy")[:1] if rate else ():
        used, inside = np.nan_to_num(seen.at(own)), seen.view.stays[server].queue(seen.steps.middles)
        for begin, end in silent:
            here = used[begin:end]
            visits = here.sum() * STEP_NS / SECOND / max(seen.slow.usual(own) / rate, 1e-9)
            if visits > inside[begin:end].max() + EXPECTED and here.mean() >= holding.COMPUTES:
                found[begin:end] = True
                alone[begin : begin + round(here.sum() / here.max())] = 1.0
    return found, alone


def missing(view: View, server: str) -> str | None:
    return None if view.series(server, "cpu_busy") else f"cpu_busy of {server}"
