"""`tailrace prove`: what the changes of an advice leave on real servers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailrace.cli.options import Add, Change
from tailrace.cli.words import AsJson, Quiet, duration_ns, print_json, progress, say, tell
from tailrace.errors import UsageError
from tailrace.units import SECOND

if TYPE_CHECKING:
    from tailrace.advise.proving import Measured

EPILOG = (
    "Examples:\n\n`tailrace prove experiments/testbed/sync`\n\n"
    "`tailrace advise experiments/testbed/sync/measured.toml`, then "
    "`tailrace prove advice --of experiments/testbed/sync`\n\n"
    "`tailrace testbed doctor` says what this machine lacks for it."
)
REFUSED = 2


def prove(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="ADVICE | EXPERIMENT", help="The folder of an advice; or an experiment for the testbed."
        ),
    ],
    of: Annotated[
        Path | None, typer.Option(metavar="EXPERIMENT", help="The experiment that the advice is about.")
    ] = None,
    best: Annotated[int, typer.Option(min=1, max=100, metavar="N", help="So many changes are measured.")] = 3,
    change: Change = None,
    add: Add = False,
    replications: Annotated[
        int, typer.Option(min=2, max=100, metavar="N", help="For an experiment: runs of each change in the advice.")
    ] = 5,
    budget: Annotated[str, typer.Option(metavar="TIME", help="For an experiment: time for its advice.")] = "60s",
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="FOLDER", help="Folder for the measured runs, kept for the next time."),
    ] = Path("proof"),
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Apply the best changes of an advice to an experiment on real servers, and show measured beside predicted.

    An experiment is measured as it is first, and the advice is that on its recording. Needs root and the servers of the
    testbed.
    """
    from tailrace.advise import RefusedError, claims
    from tailrace.advise.proving import Proof, ready
    from tailrace.advise.writing import JSON
    from tailrace.experiment import read

    known = (source / JSON).is_file()
    if known and of is None:
        raise UsageError(f"{source} is an advice", advice="--of EXPERIMENT names the experiment that it is about")
    if of is not None and not known:
        raise UsageError(f"{source} holds no {JSON}", advice="`tailrace advise` makes one")
    experiment = read(of or source, change or (), add=add)
    seconds = duration_ns("--budget", budget) / SECOND or None
    if known:
        told = claims.read(source)
    ready()
    proof = Proof(experiment, out)
    with progress("Measuring", quiet, of_bytes=False) as step:
        try:
            if not known:
                told = claims.read(proof.advise(step, replications=replications, seconds=seconds))
        except RefusedError as refusal:
            say(f"tailrace: {refusal}:", *(f"    {reason}" for reason in refusal.reasons))
            raise typer.Exit(REFUSED) from refusal
        rows = proof.prove(told, best, step)
    if as_json:
        print_json([_row(row) for row in rows])
    else:
        tell(*_lines(rows))
    say(f"measured runs: {out}")


def _row(row: Measured) -> dict[str, Any]:
    claim, found = row.claim, row.found
    return {
        "change": claim.words,
        "predicted": {"mean": claim.mean, "low": claim.low, "high": claim.high},
        "measured": None if found is None else {"vlrt": found.vlrt, "failed": found.failed, "requests": found.requests},
        "holds": row.holds,
        "why": row.why or None,
    }


def _lines(rows: list[Measured]) -> list[str]:
    cells = [("change", "predicted VLRT (90 %)", "measured", "failed", "")]
    cells += [_cells(row) for row in rows]
    width = [max(len(row[column]) for row in cells) for column in range(4)]
    lines = [
        f"{a:<{width[0]}}  {b:>{width[1]}}  {c:>{width[2]}}  {d:>{width[3]}}  {e}".rstrip() for a, b, c, d, e in cells
    ]
    held, tried = sum(row.holds is True for row in rows), sum(row.found is not None for row in rows)
    return [*lines, "", f"{held} of {tried} measured counts lie in the predicted interval."]


def _cells(row: Measured) -> tuple[str, str, str, str, str]:
    claim = row.claim
    told = f"{claim.mean:,.0f} ({claim.low:,.0f} to {claim.high:,.0f})"
    if row.found is None:
        return claim.words, told, "-", "-", f"not applied: {row.why}"
    return claim.words, told, f"{row.found.vlrt:,}", f"{row.found.failed:,}", "" if row.holds else "outside"
