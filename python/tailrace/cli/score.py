"""`tailrace score`: compares a diagnosis with the truth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.confinement import confine
from tailrace.cli.options import Run
from tailrace.cli.running import diagnosed, open_run
from tailrace.cli.screen import Screen
from tailrace.cli.words import AsJson, Quiet, print_json

EPILOG = "Examples:\n\n`tailrace score run`\n\n`tailrace score run --diagnosis diagnosis.json --json`"


def score(
    run: Run,
    diagnosis: Annotated[
        Path | None, typer.Option(metavar="JSON", help="A diagnosis.json of the run. Default: diagnose it now.")
    ] = None,
    truth: Annotated[Path | None, typer.Option(metavar="FILE", help="Default: RUN/truth.toml.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare a diagnosis with what really happened, for simulated runs and recordings with a truth.toml."""
    from tailrace.diagnosis.serialise import as_dict
    from tailrace.score import read_diagnosis
    from tailrace.score import score as compare
    from tailrace.score.table import print_score

    confine([run, diagnosis, truth])
    dataset = open_run(run)
    told = as_dict(diagnosed(dataset, None, 50_000_000, quiet)) if diagnosis is None else read_diagnosis(diagnosis)
    found = compare(dataset, told, truth)
    print_json(found.as_dict()) if as_json else print_score(found, Screen())
