"""This module divides the episodes of a long recording into portions. They are judged one after the other, so the
memory that a ledger needs does not grow with the recording."""

from __future__ import annotations

import numpy as np

from tailrace.diagnosis.ledger.groups import together
from tailrace.diagnosis.ledger.recorded import AROUND_NS
from tailrace.diagnosis.ledger.steps import STEP_NS
from tailrace.diagnosis.view import View
from tailrace.diagnosis.vlrt import Slow

VISITS = 2_000_000
"""A portion has at most so many visits, if it has several groups. The ledger takes about 400 bytes for each of them."""
CELLS = 2_000_000
"""A portion has at most so many steps times servers. Its lines take 16 MB for each cause."""


def portions(view: View, slow: Slow) -> list[list[int]]:
    """Return the numbers of the episodes of each portion. Episodes that are judged together are in one portion. Each
    portion has calm time on both sides of each of its episodes."""
    found: list[list[int]] = []
    visits, steps, reach = 0, 0, view.begin
    for group in together(slow):
        spans = [_around(view, slow, at) for at in group]
        begin, end = min(b for b, _ in spans), max(e for _, e in spans)
        more = _size(view, max(begin, reach), end)
        if not found or visits + more[0] > VISITS or (steps + more[1]) * len(view.stays) > CELLS:
            found.append([])
            visits, steps, more = 0, 0, _size(view, begin, end)
        found[-1] += group
        visits, steps, reach = visits + more[0], steps + more[1], max(reach, end)
    return found


def _around(view: View, slow: Slow, number: int) -> tuple[int, int]:
    cluster = slow.clusters[number]
    return max(cluster.begin - AROUND_NS, view.begin), min(slow.answered(cluster) + AROUND_NS, view.end + 1)


def _size(view: View, begin: int, end: int) -> tuple[int, int]:
    """Return the numbers of visits and of steps in this time."""
    if end <= begin:
        return 0, 0
    bounds = np.array([begin, end])
    visits = sum(int(stays.arrived(bounds)[0]) for stays in view.stays.values())
    return visits, (end - begin) // STEP_NS + 1
