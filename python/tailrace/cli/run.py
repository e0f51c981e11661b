"""`tailrace run`: an experiment, simulated or on real servers."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tailrace.cli.options import Add, Change, ExperimentFile, Out
from tailrace.cli.testbed import measured
from tailrace.cli.words import AsJson, Engine, Overwrite, Quiet, print_json, progress, say, tell
from tailrace.errors import UsageError

if TYPE_CHECKING:
    from tailrace.experiment import Experiment
    from tailrace.sim import Outcome as Simulated
    from tailrace.testbed import Outcome as Measured


def _schema(wanted: bool) -> None:
    if wanted:
        from tailrace.experiment import json_schema

        print_json(json_schema())
        raise typer.Exit


EPILOG = (
    "Examples:\n\n"
    "`tailrace run experiments/rpc-vs-async/base -o run`, then `tailrace diagnose run`\n\n"
    "`tailrace run experiments/rpc-vs-async/base --set tiers.web.workers=300 -o run-300`\n\n"
    "`tailrace run experiments/rpc-vs-async/base --draw system.svg`\n\n"
    "`tailrace run experiments/testbed/sync --engine testbed -o real`\n\n"
    "`tailrace run --schema > experiment.schema.json` for your editor"
)


def run(
    experiment: ExperimentFile,
    engine: Annotated[
        Engine,
        typer.Option(
            help="What runs it: sim simulates, at millions of events a second; testbed starts real servers on this "
            "machine, as root."
        ),
    ] = Engine.SIM,
    out: Out = Path("run"),
    change: Change = None,
    add: Add = False,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Instead of the experiment's.")] = None,
    schema: Annotated[
        bool,
        typer.Option(
            "--schema", callback=_schema, is_eager=True, help="Print the JSON Schema of experiments and exit."
        ),
    ] = False,
    draw: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.svg",
            help="Draw the servers with their queues, pools and calls, and run nothing. Here EXPERIMENT may be a run "
            "folder.",
        ),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    overwrite: Overwrite = False,
) -> None:
    """Run an experiment and write its run folder; the truth about its stalls is stored beside the record."""
    from tailrace.experiment import read as read_experiment

    changes = [*(change or []), *([f"seed={seed}"] if seed is not None else [])]
    if draw is not None:
        _draw(experiment, changes, add, draw, overwrite)
        return
    found = read_experiment(experiment, changes, add=add)
    outcome = (
        _simulated(found, out, overwrite, quiet) if engine is Engine.SIM else measured(found, out, overwrite, quiet)
    )
    _show_outcome(found, outcome, out, as_json)


def _draw(source: Path, changes: list[str], add: bool, out: Path, overwrite: bool) -> None:
    from tailrace import topology, whole
    from tailrace.dataset import is_run
    from tailrace.experiment import read as read_experiment
    from tailrace.experiment.layout import topology as topology_of
    from tailrace.report import picture

    if is_run(source):
        if changes:
            raise UsageError("--set and --seed change an experiment, and this is a run folder", where=str(source))
        known = topology.read(source / "topology.toml", untrusted=True)
    else:
        known = topology_of(read_experiment(source, changes, add=add))
    if out.suffix != ".svg":
        raise UsageError("the drawing is SVG", where=str(out), advice="give it a name that ends in .svg")
    if out.exists() and not overwrite:
        raise UsageError("it exists", where=str(out), advice="choose another name, or pass --overwrite")
    whole.write(out, picture.svg(known, source.resolve().name).encode())
    say(f"drawing: {out}")


def _simulated(found: Experiment, out: Path, overwrite: bool, quiet: bool) -> Simulated:
    from tailrace.sim import simulate

    with progress("Simulating", quiet, of_bytes=False) as step:
        return simulate(found, out, overwrite=overwrite, progress=step)


def _show_outcome(experiment: Experiment, outcome: Simulated | Measured, out: Path, as_json: bool) -> None:
    from tailrace.units import format_count, format_duration, format_share

    if as_json:
        print_json({**asdict(outcome), "run": str(out)})
        return
    rate = outcome.answered / experiment.duration * 10**9
    share = outcome.over_1s / outcome.requests if outcome.requests else 0.0
    mean = outcome.response_ns_mean
    lines = [
        f"{format_count(outcome.requests)} requests, {rate:,.4g} answered a second"
        + (f"; mean response {format_duration(round(mean))}" if mean is not None else ""),
        f"{format_count(outcome.over_1s)} answers took over 1 s ({format_share(share)}), "
        f"{format_count(outcome.failed)} requests failed",
        *_unfinished(outcome),
        *_never(experiment),
        _dropped(experiment, outcome),
        "stalled: " + (_stalls(outcome) or "nothing"),
        f"run folder: {out}; explain it with `tailrace diagnose {out}`",
    ]
    tell(*lines)


def _dropped(experiment: Experiment, outcome: Simulated | Measured) -> str:
    from tailrace.sim import Outcome
    from tailrace.units import format_count

    lost = ", ".join(f"{name} {format_count(n)}" for name, n in outcome.drops.items())
    since = ", ramp included" if isinstance(outcome, Outcome) and experiment.ramp and lost else ""
    return f"dropped{since}: {lost or 'nothing'}"


def _unfinished(outcome: Simulated | Measured) -> list[str]:
    """For the simulator: what it gave up."""
    from tailrace.sim import Outcome

    left = outcome.unfinished if isinstance(outcome, Outcome) else 0
    told = f"{left:,} requests and calls were still under way 10 minutes after the end; they are in no table"
    return [told] if left else []


def _never(experiment: Experiment) -> list[str]:
    """Workloads without any client."""
    from tailrace.experiment.workloads import never
    from tailrace.units import exact_duration

    late = {name: never(load, experiment.duration) for name, load in experiment.workloads.items()}
    return [
        f"workloads.{name} sent no request: it begins at {exact_duration(begin)}, after the end of the run"
        for name, begin in late.items()
        if begin is not None
    ]


def _stalls(outcome: Simulated | Measured) -> str:
    kinds = Counter((stall.place, stall.kind) for stall in outcome.stalls)
    return ", ".join(f"{place} by {kind} {times} times" for (place, kind), times in sorted(kinds.items()))
