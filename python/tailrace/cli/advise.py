"""`tailrace advise`: what to change, and what it buys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tailrace.cli.confinement import confine
from tailrace.cli.options import Add, Change, Jobs, SoftwareOfTiers
from tailrace.cli.running import open_run
from tailrace.cli.screen import Screen
from tailrace.cli.words import AsJson, Quiet, duration_ns, pairs, print_json, progress, say
from tailrace.errors import UsageError
from tailrace.units import SECOND

if TYPE_CHECKING:
    from tailrace.dataset import Dataset
    from tailrace.experiment import Experiment

EPILOG = (
    "Examples:\n\n`tailrace advise run`\n\n"
    "`tailrace advise run --software app=tomcat,hikaricp --software db=postgresql`\n\n"
    "`tailrace advise experiments/testbed/governed --budget 5min --replications 10`"
)
REFUSED = 2


def advise(
    source: Annotated[
        Path,
        typer.Argument(metavar="RUN | EXPERIMENT", help="A run folder; or an experiment.toml, or a folder with one."),
    ],
    software: SoftwareOfTiers = None,
    change: Change = None,
    add: Add = False,
    replications: Annotated[
        int, typer.Option(min=2, max=100, metavar="N", help="Runs of each change that is compared.")
    ] = 5,
    budget: Annotated[
        str, typer.Option(metavar="TIME", help="No further run begins after this time; 0s: no limit.")
    ] = "60s",
    jobs: Jobs = None,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="FOLDER", help="Folder for advice.html, advice.json, best.toml and the stored runs."
        ),
    ] = Path("advice"),
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Rank the changes that make fewer requests very long, by simulating each of them.

    Of a recording, an experiment that repeats it is made first; where it does not repeat it well enough, advice is
    refused.
    """
    from tailrace.advise import RefusedError
    from tailrace.advise import advise as advise_on
    from tailrace.advise.terminal import print_advice
    from tailrace.advise.writing import write

    confine([source], [out])
    seconds = duration_ns("--budget", budget) / SECOND or None
    named = pairs("--software", software, "TIER=NAME, like app=tomcat")
    with progress("Simulating", quiet, of_bytes=False) as step:
        try:
            found = advise_on(
                _opened(source, change, add=add),
                out,
                name=source.resolve().name or str(source),
                software=named,
                replications=replications,
                seconds=seconds,
                workers=jobs,
                progress=step,
            )
        except KeyboardInterrupt:
            say(f"tailrace: the finished runs are kept in {out}; the same command continues")
            raise
        except RefusedError as refusal:
            say(f"tailrace: {refusal}:", *(f"    {reason}" for reason in refusal.reasons))
            raise typer.Exit(REFUSED) from refusal
    files = write(found, out)
    if as_json:
        from tailrace.advise.serialise import to_json

        print_json(to_json(found))
    else:
        print_advice(found, Screen())
    say(f"written: {', '.join(map(str, files))}")


def _opened(source: Path, changes: list[str] | None, *, add: bool) -> Experiment | Dataset:
    from tailrace.dataset import is_run
    from tailrace.experiment import read

    if not is_run(source):
        if source.is_file() and source.suffix != ".toml":
            advice = f"make a run folder of it, and advise on that: tailrace read {source} -o run"
            raise UsageError("neither a run folder nor an experiment.toml", where=str(source), advice=advice)
        return read(source, changes or (), add=add)
    if changes or add:
        raise UsageError(
            "--set changes an experiment, and this is a recording", advice="change its twin: tailrace twin"
        )
    return open_run(source)
