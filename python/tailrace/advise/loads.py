"""The same experiment under more load: for a while (does it recover?), or all the time (how much headroom is left?)."""

from __future__ import annotations

from typing import Any

from tailrace.experiment import Experiment, from_table, to_table
from tailrace.experiment.workloads import Batch, Closed, Modulated, Poisson

SURGE = 0.2
"""Additional load during a surge."""
_MORE = "-more"


def scalable(experiment: Experiment) -> bool:
    """Recorded arrivals are what they are; every other workload can be made larger."""
    return all(isinstance(load, Closed | Poisson | Modulated | Batch) for load in experiment.workloads.values())


def scaled(experiment: Experiment, factor: float) -> Experiment:
    """`factor` times the clients, rates and batches, during the whole run."""
    table = to_table(experiment)
    table["workloads"] = {name: _times(load, factor) for name, load in table["workloads"].items()}
    return from_table(table)


def surged(experiment: Experiment) -> Experiment:
    """`SURGE` more load in the middle third of the run, as additional workloads, so that the others draw the same
    numbers as without."""
    table = to_table(experiment)
    begin, end = experiment.duration // 3, 2 * experiment.duration // 3
    window = {"begin": f"{begin} ns", "end": f"{end} ns"}
    for name, load in list(table["workloads"].items()):
        more = _times(load, SURGE) | window
        if load["kind"] == "batch":
            more["first"] = f"{begin} ns"
        table["workloads"][name + _MORE] = more
    return from_table(table)


def _times(load: dict[str, Any], factor: float) -> dict[str, Any]:
    match load["kind"]:
        case "closed":
            return load | {"clients": max(1, round(load["clients"] * factor))}
        case "poisson":
            return load | {"rate": load["rate"] * factor}
        case "modulated":
            return load | {"rates": [rate * factor for rate in load["rates"]]}
        case _:
            return load | {"size": max(1, round(load["size"] * factor))}
