"""`tailrace examine`: the diagnosis on random systems."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.options import Cluster, Experiments, cluster_of
from tailrace.cli.screen import Screen
from tailrace.cli.words import AsJson, Quiet, Systems, print_json, progress

EPILOG = (
    "Examples:\n\n`tailrace examine --runs 200`\n\n"
    "`tailrace examine --runs 900 --seed 100000 -o exam`\n\n"
    "`tailrace examine --systems papers --runs 40 --thin`"
)


def examine(
    runs: Annotated[int, typer.Option(min=1, help="How many random systems.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first system; the others follow.")] = 0,
    systems: Annotated[
        Systems,
        typer.Option(
            help="Chains of tiers; graphs of services; both: chains for even seeds, graphs for odd ones; or the "
            "papers' systems with drawn parameters."
        ),
    ] = Systems.BOTH,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FOLDER", help="Keep results here; a killed examination continues."),
    ] = None,
    thin: Annotated[
        bool,
        typer.Option(
            "--thin", help="Reduce each recording to what real ones often have: samples at 1 s, an unobserved server …"
        ),
    ] = False,
    experiments: Experiments = Path("experiments"),
    engine: Cluster = "local",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Diagnose random simulated systems, simulate each again without its troubles, and count the correct answers."""
    from tailrace.score import sweep
    from tailrace.score.table import print_summary

    cluster = cluster_of(engine)
    with progress("Examining", quiet, of_bytes=False) as step:
        seeds = range(seed, seed + runs)
        rows = sweep.sweep(
            seeds, out, systems=systems.value, thin=thin, experiments=experiments, cluster=cluster, progress=step
        )
    found = sweep.summarise(rows)
    print_json(found.as_dict()) if as_json else print_summary(found, Screen())
