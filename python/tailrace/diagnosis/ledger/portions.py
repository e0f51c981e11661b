"""This module divides the episodes of a long recording into portions. Only two of them are judged at the same time, so
the memory that a ledger needs does not grow with the recording.

A portion also holds the time around its episodes. So it has several groups of episodes, even if the time around one of
them has many visits: most of that time is around the next group, too."""

from __future__ import annotations

import numpy as np

from tailrace.diagnosis.constants import STEP_NS
from tailrace.diagnosis.ledger.groups import together
from tailrace.diagnosis.ledger.nearby import VISITS, nearby, visits
from tailrace.diagnosis.spans import Spans, length, spans
from tailrace.diagnosis.view import View
from tailrace.diagnosis.vlrt import Slow

CELLS = 2_000_000
"""A portion has at most so many steps times servers, if it has several groups. Its lines take 16 MB for each cause."""


def portions(view: View, slow: Slow) -> list[list[int]]:
    """Return the numbers of the episodes of each portion. Episodes that are judged together are in one portion. Each
    portion has calm time on both sides of each of its episodes."""
    found: list[list[int]] = []
    stretches = np.empty((0, 2), dtype=np.int64)
    most = 0
    for group in together(slow):
        its = nearby(view, slow, (slow.clusters[at] for at in group))
        both = spans(np.concatenate((stretches, its)), gap=STEP_NS)
        if not found or visits(view, both) > most or _cells(view, both) > CELLS:
            found.append([])
            most, both = visits(view, its) + VISITS, its
        found[-1] += group
        stretches = both
    return found


def _cells(view: View, stretches: Spans) -> int:
    return length(stretches) // STEP_NS * len(view.stays)
