"""This module holds up visits without a loss of capacity: packets that come late, and visits that wait together.

late    the attempt arrives later: the packets of the visit were lost on their way
pause   a worker took the visit, and the visit waited: a lock was held
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.constants import STEP_NS
from tailrace.diagnosis.ledger.recorded import Recorded
from tailrace.diagnosis.queues import Stays, Times


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


def free(recorded: Recorded, delays: Iterable[Delays]) -> NDArray[np.float64]:
    """Return the share of the visits on their way to a server or inside it that nothing holds up, by server and step.
    It is 1 where there are none."""
    found = np.ones((len(recorded.servers), len(recorded.steps)))
    middles = np.arange(len(recorded.steps)) * STEP_NS + STEP_NS // 2
    for one in delays:
        begin = recorded.sent[one.visits] if one.late else recorded.start[one.visits]
        for number in np.unique(recorded.server[one.visits]).tolist():
            here, mine = recorded.server == number, recorded.server[one.visits] == number
            whole = Stays.of(recorded.sent[here], recorded.departure[here]).queue(middles)
            held = Stays.of(begin[mine], (begin + one.lasts)[mine]).queue(middles)
            found[number] -= held / np.maximum(whole, 1)
    return np.maximum(found, 0.0)


def held_up(visits: int, delays: Iterable[Delays]) -> tuple[Times, Times]:
    """Return how late each visit arrives, and how long its worker pauses."""
    late, pause = np.zeros(visits, dtype=np.int64), np.zeros(visits, dtype=np.int64)
    for one in delays:
        (late if one.late else pause)[one.visits] = one.lasts
    return late, pause
