"""A garbage collector that stops the server more rarely or for a shorter time."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.advise.remedies.remedy import Option, Remedy, relieved, sizeless
from tailrace.experiment import Experiment, places
from tailrace.experiment.tiers import Heap
from tailrace.units import exact_bytes

FACTORS = (2, 4, 8, 16)
NEWER = "jvm16"
CONCURRENT = "let {} collect concurrently, without pauses"


def _options(experiment: Experiment) -> Iterator[Option]:
    cores = _cores(experiment)
    for name, tier in experiment.tiers.items():
        if tier.heap:
            yield _larger(name, tier.heap)
            yield sizeless(name, {("tiers", name, "heap"): NEWER}, f"run {name} on a newer JVM with short collections")
            if tier.heap.threads < cores[name]:
                yield _parallel(name, cores[name])
            yield sizeless(name, {("tiers", name, "heap"): None}, CONCURRENT.format(name))
    yield from relieved(experiment, ("garbage-collection",), CONCURRENT)


def _cores(experiment: Experiment) -> dict[str, float]:
    """The cores that a server of each tier can use."""
    every = places.cores(experiment)
    return {server.tier: every[server.name] for server in places.servers(experiment)}


def _larger(name: str, heap: Heap) -> Option:
    now = exact_bytes(heap.young)
    return Option(
        name,
        FACTORS,
        lambda size: {("tiers", name, "heap", "young"): exact_bytes(heap.young * size)},
        lambda size: f"raise the young generation of {name} from {now} to {exact_bytes(heap.young * size)}",
    )


def _parallel(name: str, cores: float) -> Option:
    return Option(
        name,
        (cores,),
        lambda size: {("tiers", name, "heap", "threads"): size},
        lambda size: f"let {name} collect with {size:g} threads",
    )


REMEDY = Remedy(
    "heap",
    _options,
    "setting",
    "A larger heap needs memory; a concurrent collector uses CPU time beside the requests, which is not simulated.",
    "lightning 3.1 and 4 (newer JVM); average 4.1.2",
)
