"""Where a value reaches a number between runs: the least load at which 1 % of the requests lose a packet.

A single replication may reach it twice or never, so it is where the means over replications do. What stands for
replications are its jackknife pseudo-values (Efron and Stein, "The jackknife estimate of variance", 1981): n times the
estimate of all, less n - 1 times that without the i-th. Equal seeds pair them as they pair runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from tailrace.toml import Name, Table

Means = NDArray[np.float64]


class Crossing(Table):
    """A place between runs, which values can be taken at like in a run: straight lines join those of its runs."""

    name: Name
    """As the paper calls it: "I = 100"."""
    value: Name
    """Of [[values]]: what reaches a number."""
    reaches: float
    """The number, in the value's unit."""
    runs: tuple[Name, ...] = Field(min_length=2)
    """Along the way, such as from few clients to many. The first two neighbours that have it between them count."""


def crossed(
    crossing: Crossing, name: str, replications: Mapping[tuple[str, str], Sequence[float]]
) -> list[float] | None:
    """Another value there, as so many pseudo-values as all its runs have replications.

    `replications` are by value and run. None: it is reached between no two of the runs.
    """
    count = min(len(replications[crossing.value, run]) for run in crossing.runs)
    reaching, wanted = (
        np.array([replications[value, run][:count] for run in crossing.runs], dtype=np.float64)
        for value in (crossing.value, name)
    )
    estimate = _there(reaching.mean(axis=1), wanted.mean(axis=1), crossing.reaches)
    if estimate is None:
        return None
    if count == 1:
        return [estimate]
    found = []
    for left_out in range(count):
        means = [np.delete(values, left_out, axis=1).mean(axis=1) for values in (reaching, wanted)]
        without = _there(means[0], means[1], crossing.reaches)
        if without is None:
            return None
        found.append(count * estimate - (count - 1) * without)
    return found


def _there(reaching: Means, wanted: Means, level: float) -> float | None:
    """The second, where the first is at the level."""
    for (before, after), (here, there) in zip(pairwise(reaching), pairwise(wanted), strict=True):
        if min(before, after) <= level <= max(before, after) and before != after:
            return float(here + (level - before) / (after - before) * (there - here))
    return None
