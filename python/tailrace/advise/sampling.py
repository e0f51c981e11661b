"""A fair part of the episodes of a long recording, on which changes are tried before the best are simulated with all.

Episodes are put in the order of what took most capacity in them and of how many requests were very slow, and every so
many are taken. So each cause and each size has its share (systematic sampling). The very slow requests of the chosen
episodes stand for those of all: each counts `weight` times. A part is fair if that is also, nearly, how many episodes
each of the chosen ones stands for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace.advise.outcomes import NOTHING, Rest
from tailrace.dataset import tables
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.spans import Spans, inside
from tailrace.experiment import Experiment
from tailrace.experiment.workloads import Trace
from tailrace.twin import Twin
from tailrace.units import SECOND

ENOUGH = 100_000
"""Simulated requests. A part need not be smaller."""
LEAST = 8
"""Episodes. Fewer show little of how episodes differ."""
MOST = 0.5
"""A part with more than this share of the episodes saves little."""
FAIR = 0.1
"""How much the weight may differ from the number of episodes that each stands for, as a share."""


@dataclass(frozen=True)
class Sample:
    files: Mapping[str, str] = field(default_factory=dict)
    """File of requests of the twin → the file beside it with those of the chosen episodes. Empty: there is no part."""
    rest: Rest = NOTHING
    of: int = 0
    """Episodes in all."""

    def __bool__(self) -> bool:
        return bool(self.files)

    @property
    def words(self) -> str:
        return f"{len(self.rest.episodes)} of {self.of} episodes"

    @property
    def note(self) -> str:
        return (
            f"changes are tried on {self.words}, taken evenly from all in the order of cause and size; each very slow "
            f"request there counts {self.rest.weight:.1f} times. The best changes are simulated with all episodes, "
            "and the interval of the others holds how much episodes differ"
        )

    def part(self, experiment: Experiment) -> Experiment:
        """With the requests of the chosen episodes alone."""
        return _renamed(experiment, self.files)

    def whole(self, experiment: Experiment) -> Experiment:
        """With the requests of all episodes."""
        return _renamed(experiment, {part: all_ for all_, part in self.files.items()})

    def holds(self, experiment: Experiment) -> bool:
        """Whether an experiment has the requests of the chosen episodes alone."""
        parts = set(self.files.values())
        loads = experiment.workloads.values() if parts else ()
        return any(isinstance(load, Trace) and Path(load.file).name in parts for load in loads)


ALL = Sample()
"""No part: everything is tried on all episodes."""


def drawn(twin: Twin, vlrt: Times, rest: Rest, folder: Path) -> Sample:
    """A part of the twin's episodes, whose requests are written into the folder of the twin; `ALL` if it would save
    little or is not fair. `vlrt` are the moments of the very slow requests, ns since the begin of the recording."""
    if twin.kept is None:
        return ALL
    kept = twin.kept
    slow = np.bincount(_in(kept, vlrt), minlength=len(kept))
    # A single stretch without very slow requests is the busiest calm time, which each part has. If there are several,
    # the others are episodes with long queues or lost attempts. These are drawn like the rest.
    calm = np.flatnonzero(slow == 0)
    calm = calm if len(calm) == 1 else calm[:0]
    troubled = np.setdiff1d(np.arange(len(kept)), calm)
    sent = sum(map(len, twin.arrivals.values()))
    count = max(LEAST, round(len(troubled) * ENOUGH / sent))
    if count > MOST * len(troubled):
        return ALL
    order = sorted(troubled.tolist(), key=lambda number: (_cause(twin, kept, number), slow[number], number))
    chosen = np.sort(np.array(order)[((np.arange(count) + 0.5) * len(order) / count).astype(np.int64)])
    weight = float(slow.sum() / max(slow[chosen].sum(), 1))
    if abs(weight * count / len(troubled) - 1) > FAIR:
        return ALL
    parts = {name: _of(rows, kept[np.union1d(chosen, calm)]) for name, rows in twin.arrivals.items()}
    if not all(map(len, parts.values())):
        return ALL
    files = {name: f"part-{name}" for name in parts}  # those of the twin begin otherwise
    for name, rows in parts.items():
        tables.write(rows, folder / files[name])
    simulated = round(weight * sum(map(len, parts.values())))
    stretches = tuple((int(begin), int(end)) for begin, end in kept[chosen])
    left = max(rest.requests + rest.simulated - simulated, 0)
    return Sample(files, Rest(left, simulated, rest.histogram, weight, stretches), len(troubled))


def _in(kept: Spans, times: Times) -> Times:
    rows: Times = inside(kept, times)
    return rows[rows >= 0]


def _cause(twin: Twin, kept: Spans, number: int) -> str:
    """What took most capacity in an episode; empty if nothing did."""
    begin, end = kept[number] / SECOND
    taken = {name: _taken(np.array(steps).reshape(-1, 2), begin, end) for name, steps in twin.losses.items()}
    most = max(taken, key=lambda name: taken[name], default="")
    return most if taken.get(most) else ""


def _taken(steps: NDArray[np.float64], begin: float, end: float) -> float:
    """Seconds of capacity that were lost from `begin` to `end`."""
    edges = np.clip(np.append(steps[:, 0], end), begin, end)
    return float((np.diff(edges) * steps[:, 1]).sum())


def _of(rows: pl.DataFrame, kept: Spans) -> pl.DataFrame:
    times = np.rint(rows["time"].to_numpy() * SECOND).astype(np.int64)
    return rows.filter(pl.Series(inside(kept, times) >= 0))


def _renamed(experiment: Experiment, names: Mapping[str, str]) -> Experiment:
    loads: dict[str, Any] = {
        name: load.model_copy(update={"file": str(Path(load.file).with_name(names[Path(load.file).name]))})
        if isinstance(load, Trace) and Path(load.file).name in names
        else load
        for name, load in experiment.workloads.items()
    }
    return experiment.model_copy(update={"workloads": loads})
