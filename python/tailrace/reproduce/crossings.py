"""Finds where a value reaches a number between runs: the least load at which 1 % of the requests lose a packet.

A single replication may reach the number twice or never, so the means over replications decide. Their jackknife
pseudo-values take the place of replications (Efron and Stein, "The jackknife estimate of variance", 1981): n times the
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
    """A place between runs, at which values can be taken as in a run: straight lines connect those of its runs."""

    name: Name
    """In the paper's words: "I = 100"."""
    value: Name
    """The value of [[values]] that reaches a number."""
    reaches: float
    """The number, in the value's unit."""
    runs: tuple[Name, ...] = Field(min_length=2)
    """The runs in order, such as from few clients to many. The first two neighbours that enclose the number count."""


def crossed(
    crossing: Crossing, name: str, replications: Mapping[tuple[str, str], Sequence[float]]
) -> list[float] | None:
    """Another value there, with as many pseudo-values as all its runs have replications.

    `replications` are by value and run. None: no two of the runs enclose the number.
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
    """The second value, where the first has this level."""
    for (before, after), (here, there) in zip(pairwise(reaching), pairwise(wanted), strict=True):
        if min(before, after) <= level <= max(before, after) and before != after:
            return float(here + (level - before) / (after - before) * (there - here))
    return None
