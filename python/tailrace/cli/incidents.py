"""`tailrace incidents`: lists what a watch has detected, and writes the page of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tailrace.cli.confinement import confine
from tailrace.cli.screen import Screen
from tailrace.cli.words import AsJson, Quiet, print_json, say

if TYPE_CHECKING:
    from tailrace.watch.listing import Incident

EPILOG = "Examples:\n\n`tailrace incidents /var/lib/tailrace`\n\n`tailrace incidents incidents --json | jq '.[].cause'`"


def incidents(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of `tailrace watch`.")],
    no_page: Annotated[bool, typer.Option("--no-page", help="Only list them, and write nothing.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """List the incidents of a watch, the latest first, and write them into FOLDER/index.html."""
    from tailrace.watch import index, listing
    from tailrace.watch.remembered import Memory

    confine([folder] if no_page else [], [None if no_page else folder / index.PAGE])
    memory = Memory(folder)
    found = listing.of(folder, memory.known)
    path = None if no_page else index.write(folder, found)
    if path:
        memory.write(found)
    if as_json:
        print_json([incident.as_dict() for incident in found])
    elif not quiet:
        _print(found)
    if path and not quiet:
        say(f"page: {path}")


def _print(found: list[Incident]) -> None:
    from rich.table import Table

    from tailrace.units import format_moment

    table = Table("incident", "began", "VLRT", "dropped by", "origin", "cause", box=None)
    for each in found:
        began = "" if each.begin is None else format_moment(each.begin, digits=0)
        cause = "not explained" if each.failed else each.cause or "no VLRT"
        table.add_row(each.name, began, f"{each.vlrt:,}", each.dropper or "", each.origin or "", cause)
    Screen().print(table if found else "No incident has been written yet.")
