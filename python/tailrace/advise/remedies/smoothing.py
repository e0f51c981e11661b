"""A batch that comes in parts."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.advise.remedies.remedy import Option, Remedy
from tailrace.experiment import Experiment
from tailrace.experiment.workloads import Batch
from tailrace.units import exact_duration

PARTS = (2, 4, 8, 16, 32)


def _options(experiment: Experiment) -> Iterator[Option]:
    return (_of(name, load) for name, load in experiment.workloads.items() if isinstance(load, Batch) and load.size > 1)


def _of(name: str, load: Batch) -> Option:
    return Option(
        name,
        tuple(parts for parts in PARTS if parts <= load.size),
        lambda size: {
            ("workloads", name, "size"): max(1, load.size // size),
            ("workloads", name, "every"): exact_duration(load.every // size),
        },
        lambda size: f"send the batches of {name} in {size} parts",
    )


REMEDY = Remedy(
    "smoothing",
    _options,
    "code",
    "The batch takes longer.",
    "rpc-vs-async V-B (bursts of a batch); average 3 (burstiness)",
)
