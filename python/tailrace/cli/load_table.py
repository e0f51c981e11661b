"""`tailrace load-table`: a run folder into ClickHouse."""

from __future__ import annotations

from typing import Annotated

import typer

from tailrace.cli.options import Run
from tailrace.cli.words import Quiet, progress, tell

EPILOG = (
    "Example:\n\n`tailrace load-table run --engine clickhouse://127.0.0.1`, then "
    "`tailrace windows tailrace.visits --engine clickhouse://127.0.0.1`"
)


def load_table(
    run: Run,
    engine: Annotated[
        str, typer.Option(metavar="URL", help="clickhouse://[USER@]HOST[:PORT], clickhouses://…, or chdb:///FOLDER.")
    ],
    database: Annotated[str, typer.Option(metavar="NAME", help="Made if it is missing.")] = "tailrace",
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of the run, in the column `run`. Default: that of its folder.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Append the tables of a run folder to tables of ClickHouse: visits, requests, samples, events."""
    from tailrace.dataset import Dataset
    from tailrace.engines.loading import load

    dataset = Dataset.open(run)
    with progress("Loading", quiet):
        done = load(dataset, engine, database, name or run.resolve().name)
    tell(*(f"{database}.{table}: {rows:,} rows" for table, rows in done.items()))
