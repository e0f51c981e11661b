"""What makes the runs of a study: the simulator, real servers, or a stand-in for them. Each engine is a value."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from tailrace import readers, sim, testbed
from tailrace.dataset import Dataset
from tailrace.errors import InputError
from tailrace.experiment import Experiment, to_table

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Engine:
    plan: Callable[[Experiment], str]
    """Everything that a run depends on besides the code, as JSON with sorted keys."""
    make: Callable[[Experiment, Path, Progress], object]
    """Writes the run folder, completely or not at all. Its `progress` may raise to stop it."""
    begin: Callable[[Dataset, Experiment], int]
    """When the ramp ended, ns since the Unix epoch."""
    early: Callable[[Any], Mapping[str, int]] = lambda made: {}
    """From the result of `make`: requests to each server that were answered after the ramp and are not recorded."""
    at_once: int | None = None
    """The most runs at a time. None: as many as there are cores."""
    measures: bool = False
    """Whether a run is a measurement. It is then slow and never the same twice, so its folder is kept, and stays valid
    when the code changes."""


def first_sample(dataset: Dataset, experiment: Experiment) -> int:
    """Samples of a testbed begin with the end of the ramp, and each is named by its end."""
    [(begin,)] = dataset.samples().select((pl.col("time") - pl.col("interval_ns")).min()).collect().rows()
    if begin is None:
        raise InputError(dataset.path, "it has no samples, so the end of the ramp is unknown", "make the run again")
    return int(begin)


SIMULATOR = Engine(
    plan=lambda experiment: sim.text(sim.lower(experiment)),
    make=lambda experiment, folder, progress: sim.simulate(experiment, folder, progress=progress),
    begin=lambda dataset, experiment: sim.EPOCH + experiment.ramp,
    early=lambda made: made.early,
)
TESTBED = Engine(
    plan=lambda experiment: json.dumps({"testbed": to_table(experiment)}, sort_keys=True),
    make=lambda experiment, folder, progress: testbed.run(experiment, folder, readers.fill, progress=progress),
    begin=first_sample,
    at_once=1,
    measures=True,
)
