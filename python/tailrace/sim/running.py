"""Runs the engine and makes a run folder of its output."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from tailrace import dataset
from tailrace.errors import OutputError, UsageError, cannot_write
from tailrace.experiment import Experiment, layout, truth
from tailrace.sim import opened
from tailrace.sim.lowering import lower, text

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Outcome:
    """The result in numbers; requests are those sent after the ramp. A request and its hedge count as one, and so do a
    page and what it embeds; a repetition by the client counts as a new request."""

    requests: int
    answered: int
    """From the end of the ramp to the end of the run, whenever they were sent."""
    failed: int
    over_1s: int
    response_ns_mean: float | None
    """Mean over all that were answered; None if there are none."""
    drops: dict[str, int]
    """Lost connection attempts of each server that had any, ramp included."""
    events: int
    stalls: tuple[truth.Stall, ...]
    early: dict[str, int] = field(default_factory=dict)
    """Requests to each server that were sent in the ramp and answered after it, before the end; no table has them."""
    unfinished: int = 0
    """Requests and calls that were still under way ten minutes after the end of the run; they are in no table, and in
    no other number here."""


def simulate(
    experiment: Experiment, out: str | PathLike[str], *, overwrite: bool = False, progress: Progress | None = None
) -> Outcome:
    """Write the run folder `out`: tables, topology, truth. `progress(simulated ns, whole ns)` is called now and then.

    Raises UsageError for what the simulator cannot do. After any error, no half-written file remains.
    """
    plan = lower(experiment)
    with dataset.create(out, overwrite) as writer:
        writer.maker = "tailrace sim"
        writer.topology = layout.with_neighbours(layout.topology(experiment), experiment)
        outcome = _outcome(plan, _engine(plan, writer.folder, progress))
        writer.lose("requests and calls still under way 10 minutes after the end", outcome.unfinished)
        writer.connections = opened.connections(experiment, writer.folder)
        truth.write(truth.Truth("sim", experiment, outcome.stalls), writer.folder / truth.FILE)
    return outcome


def count(experiment: Experiment, progress: Progress | None = None) -> Outcome:
    """The numbers alone, without tables."""
    plan = lower(experiment)
    return _outcome(plan, _engine(plan, None, progress))


def _engine(plan: dict[str, Any], folder: Path | None, progress: Progress | None) -> dict[str, Any]:
    from tailrace._core import simulate as run

    try:
        report: dict[str, Any] = json.loads(run(text(plan), str(folder) if folder else None, progress))
    except OSError as error:
        raise (cannot_write(folder, error) if folder else OutputError("the run", str(error))) from error
    except ValueError as error:
        if folder and str(folder) in str(error):
            raise cannot_write(folder, error) from error
        raise UsageError(f"the simulator cannot do this: {error}") from error
    return report


def _outcome(plan: dict[str, Any], report: dict[str, Any]) -> Outcome:
    counts = report["counts"]
    names = [server["name"] for server in plan["servers"]]
    answered = counts["answered"]
    # in the engine a neighbour is a group of its own; readers of the folder know it by its node
    nodes = {group["name"]: plan["nodes"][group["node"]]["name"] for group in plan["groups"][len(names) :]}
    stalls = ({**stall, "place": nodes.get(stall["place"], stall["place"])} for stall in report["stalls"])
    return Outcome(
        requests=answered + counts["failed"],
        answered=counts["in_time"] + sum(counts["early"]),
        failed=counts["failed"],
        over_1s=counts["over_1s"],
        response_ns_mean=counts["response_ns"] / answered if answered else None,
        drops={name: lost for name, lost in zip(names, counts["drops"], strict=True) if lost},
        events=counts["events"],
        stalls=truth.stalls_of(stalls),
        unfinished=counts["unfinished"],
        early={name: answered for name, answered in zip(names, counts["early"], strict=True) if answered},
    )
