"""`tailrace testbed`: real servers on this machine."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import typer
from rich.table import Table
from rich.text import Text

from tailrace.cli.options import Add, Change, ExperimentFile, Out
from tailrace.cli.screen import Screen
from tailrace.cli.words import AsJson, Engine, Overwrite, Quiet, print_json, progress, say
from tailrace.errors import UsageError

if TYPE_CHECKING:
    from tailrace.experiment import Experiment
    from tailrace.testbed import Outcome

testbed = typer.Typer(
    name="testbed",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Run real servers on this machine, each in its own network namespace and control group. Needs root.",
)


@testbed.command(epilog="Example:\n\n`tailrace testbed doctor`")
def doctor(as_json: AsJson = False) -> None:
    """Report what this machine lacks, and the command that installs it. The exit code is 2 if something is missing."""
    from tailrace.testbed.doctor import examine, missing

    findings = examine()
    if as_json:
        print_json([vars(finding) for finding in findings])
    else:
        table = Table("", "", "", box=None, show_header=False)
        for finding in findings:
            lacking = Text("missing", style="bold") if finding.needed else "without"
            table.add_row("ok" if finding.good else lacking, finding.what, finding.said)
        Screen().print(table)
    if told := missing(findings):
        raise UsageError(told)


@testbed.command(epilog="Example:\n\n`tailrace testbed up experiments/testbed/sync`")
def up(experiment: ExperimentFile, change: Change = None, add: Add = False) -> None:
    """Start an experiment's servers and keep them running until Ctrl-C or `tailrace testbed down`."""
    from tailrace.experiment import read
    from tailrace.testbed import Site, played, serving

    with TemporaryDirectory(prefix="tailrace-") as requests, ExitStack() as stack:
        asked = played(read(experiment, change or [], add=add), Path(requests))
        system = stack.enter_context(serving(asked.experiment, Site()))
        for note in asked.notes:
            say(note)
        for name, setting in system.settings.items():
            say(f"{name} listens at {setting.at}; its files are in {setting.folder}")
        say(f"clients are in a namespace: nsenter --net=/run/netns/{Site().namespace('clients')} curl http://…")
        say("Ctrl-C, or `tailrace testbed down`, stops everything")
        while True:
            signal.pause()


@testbed.command(epilog="Example:\n\n`tailrace testbed run experiments/testbed/sync -o real`")
def run(
    experiment: ExperimentFile,
    out: Out = Path("run"),
    change: Change = None,
    add: Add = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run an experiment on real servers: the same as `tailrace run --engine testbed`."""
    from tailrace.cli.run import run as run_engine

    run_engine(experiment, Engine.TESTBED, out, change, add, as_json=as_json, quiet=quiet, overwrite=overwrite)


@testbed.command(epilog="Example:\n\n`tailrace testbed down`")
def down() -> None:
    """Stop the testbed that another command runs, and wait until it has ended."""
    from tailrace.testbed import Site
    from tailrace.testbed.undoing import take_down

    say("the testbed is stopped" if take_down(Site()) else "no testbed is running")


def measured(experiment: Experiment, out: Path, overwrite: bool, quiet: bool) -> Outcome:
    """A run on real servers, read into a run folder."""
    from tailrace import readers, testbed

    with progress("Running", quiet, of_bytes=False) as step:
        return testbed.run(experiment, out, readers.fill, overwrite=overwrite, progress=step)


@testbed.command(epilog="Example:\n\n`tailrace testbed clean`")
def clean() -> None:
    """Undo what a testbed left over, however it ended: only what its ledger lists."""
    from tailrace.testbed import Site
    from tailrace.testbed.undoing import clean as undo_all
    from tailrace.testbed.undoing import strangers

    undone = undo_all(Site())
    said = [f"undone: {kind} {what}" for kind, what in undone]
    say(*said or ["there was nothing to undo"])
    say(*(f"left alone: {kind} {what}, because no testbed made it" for kind, what in strangers(Site())))
