"""`tailrace calibrate`: a few numbers of a paper are fitted to few figures, and the other figures are predicted."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tailrace.cli.options import Experiments, Jobs
from tailrace.cli.words import AsJson, Quiet, print_json, progress, tell
from tailrace.errors import UsageError
from tailrace.toml import wrong_name

if TYPE_CHECKING:
    from tailrace.reproduce.calibration import Calibrated, Score

EPILOG = (
    "Examples:\n\n`tailrace calibrate rpc-vs-async`\n\n"
    "`tailrace calibrate rpc-vs-async --predict figure-7 --predict figure-8 --seeds 2`"
)


def calibrate(
    paper: Annotated[str, typer.Argument(metavar="PAPER", help="A folder of the experiments.")],
    predict: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIGURE", help="A figure or table to predict; repeat it. Default: all that are not fitted."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="Replications of each run.")] = 3,
    rounds: Annotated[int, typer.Option(min=1, max=50, metavar="N", help="Steps of the fit at most.")] = 5,
    jobs: Jobs = None,
    experiments: Experiments = Path("experiments"),
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder for the stored runs.")] = Path(
        "calibrated"
    ),
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Fit a few numbers that a paper does not give to the figures that its base names, and predict the others."""
    from tailrace.reproduce import calibration, find
    from tailrace.reproduce.outcome import Seeds

    every = {entry.name: entry for entry in find(experiments, paper)}
    read = calibration.read(experiments / paper, list(every))
    others = [name for name in every if name not in read.figures]
    for name in predict or ():
        if name not in others:
            raise UsageError(wrong_name("--predict", name, others, "figure or table that is not fitted"))
    fitted = [every[name] for name in read.figures]
    predicted = [every[name] for name in predict or others]
    with progress("Simulating", quiet, of_bytes=False) as step:
        fit = calibration.Fit(read, out, Seeds(seeds), jobs, step)
        found = calibration.calibrate(fitted, predicted, fit, rounds)
    if as_json:
        print_json({"format": 1, **asdict(found), "calibration": read.model_dump()})
    else:
        _show(found)


def _show(found: Calibrated) -> None:
    from tailrace.diagnosis import words

    tell(f"{words.count(found.rounds, 'step')} of the fit")
    for one, value in zip(found.calibration.parameters, found.values, strict=True):
        edge = ", at its bound" if value in (one.least, one.most) else ""
        tell(f"  {one.key} = {one.text(value)} (from {one.start:g}{edge})")
    tell(f"fitted: {_said(found.fitted)}")
    if found.predicted:
        tell(f"predicted: {_said(found.predicted)}")


def _said(score: Score) -> str:
    from tailrace.units import format_share

    numbers = f"{score.close} of {score.numbers} numbers within a quarter"
    typical = f"root mean square of the relative error {format_share(score.error)}"
    return f"{', '.join(score.figures)}: {numbers}, {typical}; {score.held} of {score.claims} claims hold"
