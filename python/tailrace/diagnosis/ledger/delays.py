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
    late: NDArray[np.bool_]

    @classmethod
    def paused(cls, visits: Times, lasts: Times) -> Delays:
        """Return delays of visits that a worker had taken."""
        return cls(visits, lasts, np.zeros(len(visits), dtype=bool))

    @classmethod
    def came_late(cls, visits: Times, lasts: Times) -> Delays:
        """Return delays of visits that had not arrived."""
        return cls(visits, lasts, np.ones(len(visits), dtype=bool))

    def only(self, some: NDArray[np.bool_]) -> Delays:
        """Return some of these delays."""
        return Delays(self.visits[some], self.lasts[some], self.late[some])

    def and_also(self, other: Delays) -> Delays:
        """Return these delays and others."""
        return Delays(
            np.concatenate((self.visits, other.visits)),
            np.concatenate((self.lasts, other.lasts)),
            np.concatenate((self.late, other.late)),
        )


def after_pauses(recorded: Recorded, delays: Iterable[Delays]) -> Recorded:
    """Return the recording with visits that start when their pause is over: a pause needs nothing from the server."""
    start = recorded.start.copy()
    for one in (each.only(~each.late) for each in delays):
        start[one.visits] = np.minimum(start[one.visits] + one.lasts, recorded.departure[one.visits])
    return replace(recorded, start=start)


def free(recorded: Recorded, delays: Iterable[Delays]) -> NDArray[np.float64]:
    """Return the share of the visits on their way to a server or inside it that nothing holds up, by server and step.
    It is 1 where there are none."""
    found = np.ones((len(recorded.servers), len(recorded.steps)))
    middles = np.arange(len(recorded.steps)) * STEP_NS + STEP_NS // 2
    for one in delays:
        begin = np.where(one.late, recorded.sent[one.visits], recorded.start[one.visits])
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
        np.add.at(late, one.visits[one.late], one.lasts[one.late])
        np.add.at(pause, one.visits[~one.late], one.lasts[~one.late])
    return late, pause
