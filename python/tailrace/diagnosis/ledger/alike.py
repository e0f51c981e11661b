"""Visits that last as long as each other do the same, or wait for the same timer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.constants import ALIKE, MOSTLY, SEVERAL
from tailrace.diagnosis.ledger.steps import Mask, Shares
from tailrace.diagnosis.queues import Times

SPREAD = 1.0 + MOSTLY
"""Visits that wait for the same timer or compute the same share a machine with others. So the longest of them takes up
to a half longer than the shortest."""


def of_one_kind(known: Shares | Times) -> Shares | Times:
    """Return those of these lengths that belong to a kind of visits that all take as long. Neighbours in the order of
    lengths that differ by less than a twentieth are of one kind. Where such a kind goes on to lengths much longer than
    its shortest, the lengths vary, and another visit has one of them by chance."""
    ordered = np.sort(known)
    kinds = np.split(ordered, _breaks(ordered))
    return np.concatenate([kind for kind in kinds if len(kind) and kind[-1] <= SPREAD * kind[0]] or [ordered[:0]])


def _breaks(ordered: NDArray[Any]) -> Times:
    """Return where these lengths differ by more than a twentieth from the one before."""
    return np.flatnonzero(np.diff(ordered) > ALIKE * ordered[1:]) + 1


def near(lasted: Shares | Times, known: Shares | Times) -> Mask:
    """Return which visits took as long as one of `known`. Visits that compute the same agree in time at full speed.
    Visits that wait for the same thing agree in clock time."""
    if not len(known):
        return np.zeros(len(lasted), dtype=bool)
    ordered = np.sort(known)
    at = np.searchsorted(ordered, lasted)
    near = [np.abs(ordered[np.clip(at - k, 0, len(ordered) - 1)] - lasted) for k in (0, 1)]
    return np.asarray(np.minimum(*near) <= ALIKE * lasted)


def each_alone(begin: Times, end: Times, long: Mask) -> Mask:
    """Return which of these `long` visits take that long by themselves: several that were inside together last as long
    as each other, although most of them began apart, and no slow visit was inside when the first of them came. What
    holds visits together would release them together, and in a queue a visit waits for those before it."""
    found = np.zeros(len(begin), dtype=bool)
    lasted = end - begin
    by_length = np.flatnonzero(long)[np.argsort(lasted[long], kind="stable")]
    for kind in np.split(by_length, _breaks(lasted[by_length])):
        if len(kind) < SEVERAL or lasted[kind[-1]] > (1.0 + ALIKE) * lasted[kind[0]]:
            continue
        kind = kind[np.argsort(begin[kind], kind="stable")]
        until = np.maximum.accumulate(end[kind])
        for run in np.split(kind, np.flatnonzero(begin[kind[1:]] >= until[:-1]) + 1):
            first, length = begin[run[0]], lasted[run[0]]
            apart = 1 + int((np.diff(begin[run]) > ALIKE * length).sum())
            if apart < max(SEVERAL, MOSTLY * len(run)):
                continue
            before = (begin < first) & (end > first) & (lasted >= MOSTLY * length)
            found[run] = not before.any()
    return found
