"""`tailrace advise`: what to change, and what it buys."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.options import Add, Change, Jobs
from tailrace.cli.screen import Screen
from tailrace.cli.words import AsJson, Quiet, duration_ns, progress
from tailrace.units import SECOND

EPILOG = (
    "Examples:\n\n`tailrace advise experiments/testbed/governed`\n\n"
    "`tailrace advise web.toml --budget 5min --replications 10 -o advice`"
)


def advise(
    experiment: Annotated[
        Path, typer.Argument(metavar="EXPERIMENT", help="An experiment.toml, or a folder with one in it.")
    ],
    change: Change = None,
    add: Add = False,
    replications: Annotated[
        int, typer.Option(min=2, max=100, metavar="N", help="Runs of each change that is compared.")
    ] = 5,
    budget: Annotated[
        str, typer.Option(metavar="TIME", help="No further run begins after this time; 0s: no limit.")
    ] = "60s",
    jobs: Jobs = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder for the stored runs.")] = Path(
        "advice"
    ),
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Rank the changes that make fewer requests very long, by simulating each of them."""
    from tailrace.advise import advise as advise_on
    from tailrace.advise.terminal import print_advice
    from tailrace.experiment import read

    seconds = duration_ns("--budget", budget) / SECOND or None
    planned = read(experiment, change or (), add=add)
    with progress("Simulating", quiet, of_bytes=False) as step:
        found = advise_on(
            planned, str(experiment), out, replications=replications, seconds=seconds, workers=jobs, progress=step
        )
    print_advice(found, Screen())
