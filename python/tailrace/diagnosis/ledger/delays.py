"""This module holds up visits without a loss of capacity: packets that come late, and visits that wait together.

late    the attempt arrives later: the packets of the visit were lost on their way
pause   a worker took the visit, and the visit waited: a lock was held
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from tailrace.diagnosis.ledger.recorded import Recorded
from tailrace.diagnosis.queues import Times


@dataclass(frozen=True)
class Delays:
    """These rows of the recording were held up for so long each, before they arrived (`late`) or after a worker took
    them."""

    visits: Times
    lasts: Times
    late: bool


def after_pauses(recorded: Recorded, delays: Iterable[Delays]) -> Recorded:
    """Return the recording with visits that start when their pause is over: a pause needs nothing from the server."""
    start = recorded.start.copy()
    for one in delays:
        if not one.late:
            start[one.visits] = np.minimum(start[one.visits] + one.lasts, recorded.departure[one.visits])
    return replace(recorded, start=start)


def held_up(visits: int, delays: Iterable[Delays]) -> tuple[Times, Times]:
    """Return how late each visit arrives, and how long its worker pauses."""
    late, pause = np.zeros(visits, dtype=np.int64), np.zeros(visits, dtype=np.int64)
    for one in delays:
        (late if one.late else pause)[one.visits] = one.lasts
    return late, pause
