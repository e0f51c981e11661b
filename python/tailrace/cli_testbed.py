"""`tailrace testbed`: real servers on this machine."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.table import Table

from tailrace.cli_words import AsJson, print_json, say
from tailrace.errors import UsageError

testbed = typer.Typer(
    name="testbed",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Real servers on this machine, each in a network namespace and a control group of its own; as root.",
)


@testbed.command(epilog="Example:\n\n`tailrace testbed doctor`")
def doctor(as_json: AsJson = False) -> None:
    """Say what this machine lacks, and the one command that brings it. Exit code 2 when something is missing."""
    from tailrace.testbed.doctor import examine, missing

    findings = examine()
    if as_json:
        print_json([vars(finding) for finding in findings])
    else:
        table = Table("", "", "", box=None, show_header=False)
        for finding in findings:
            table.add_row("ok" if finding.good else "[bold]missing[/bold]", finding.what, finding.said)
        Console().print(table)
    lacking = missing(findings)
    if lacking:
        raise UsageError(lacking)


@testbed.command(epilog="Example:\n\n`tailrace testbed clean`")
def clean() -> None:
    """Undo whatever a testbed left over, however it ended: processes, groups, namespaces."""
    from tailrace.testbed import Site
    from tailrace.testbed.undoing import clean as undo_all

    undone = undo_all(Site())
    say("\n".join(f"undone: {kind} {what}" for kind, what in undone) or "there was nothing to undo")
