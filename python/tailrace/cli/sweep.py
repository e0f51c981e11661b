"""`tailrace sweep`: one experiment under many conditions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.options import Add, Change, Cluster, ExperimentFile, Jobs, cluster_of
from tailrace.cli.words import AsJson, Quiet, print_json, progress, say, tell

EPILOG = (
    "Examples:\n\n`tailrace sweep experiments/rpc-vs-async/base --vary workloads.steady.clients=1000:9000:1000`\n\n"
    "`tailrace sweep web.toml --vary tiers.web.workers=150,300,2000 --vary workloads.steady.think=5s,7s --seeds 10`\n\n"
    "`tailrace sweep web.toml --seeds 20`"
)


def sweep(
    experiment: ExperimentFile,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUES",
            help="a,b,c or FROM:TO:STEP, with units if the key has one; repeat it for a grid. Default: the "
            "experiment as it is.",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="Replications of each combination.")] = 5,
    change: Change = None,
    add: Add = False,
    measure: Annotated[
        list[str] | None,
        typer.Option(metavar="MEASURE:KEY=VALUE,…", help="Add a column: queue_max:place=web; repeat it."),
    ] = None,
    jobs: Jobs = None,
    engine: Cluster = "local",
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="FOLDER", help="Folder for sweep.parquet, sweep.html and the stored runs."),
    ] = Path("sweep"),
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run an experiment under many conditions: one table of all runs, and plots against the varied keys.

    Without --vary, the experiment runs unchanged with every seed: means and their 95 % intervals.
    """
    from tailrace import whole
    from tailrace.sweep import page, parse
    from tailrace.sweep import sweep as sweep_all
    from tailrace.sweep.table import TABLE, column
    from tailrace.sweep.terminal import lines

    varied = [parse(text) for text in vary or ()]
    extra = [column(text) for text in measure or ()]
    cluster = cluster_of(engine)
    with progress("Simulating", quiet, of_bytes=False) as step:
        found = sweep_all(experiment, varied, out, seeds, change or (), extra, jobs, step, add=add, cluster=cluster)
    whole.write(out / "sweep.html", page.html(found).encode())
    if as_json:
        print_json(found.frame.to_dicts())
    else:
        tell(*lines(found))
    say(f"table: {out / TABLE}, one row a run ({found.frame.height}); page: {out / 'sweep.html'}")
