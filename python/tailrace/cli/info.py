"""`tailrace info`: what is in a run folder, or in many."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.confinement import confine
from tailrace.cli.options import Verify
from tailrace.cli.running import open_run, show_info
from tailrace.cli.words import AsJson, print_json, tell

EPILOG = "Examples:\n\n`tailrace info run --json | jq .lost`\n\n`tailrace info day --engine dask://10.0.0.1:8786`"


def info(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="A run folder, or with --engine a folder of run folders, a lake, or a database's table."
        ),
    ],
    verify: Verify = False,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Count requests and VLRT where they are: local, dask://…, …, clickhouse://HOST."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what is in a run folder, what is missing, clock offsets and losses."""
    from tailrace.lakes import is_lake

    if is_lake(run) or engine not in (None, "local"):  # these are reached through sockets
        _show_many(run, engine or "local", as_json)
        return
    confine([run])
    if engine is None:
        show_info(open_run(Path(run), verify), as_json)
    else:
        _show_many(run, engine, as_json)


def _show_many(folder: str, engine: str, as_json: bool) -> None:
    from tailrace.engines.gathering import survey
    from tailrace.units import format_duration, format_moment, format_share

    found = survey(folder, engine)
    if as_json:
        counts = {"run_folders": found.folders, "requests": found.requests, "vlrt": found.vlrt}
        print_json({**counts, "threshold_ns": found.threshold_ns, "sent": found.moments})
        return
    share = format_share(found.vlrt / found.requests) if found.requests else "0 %"
    slow = f"{found.vlrt:,} ({share}) took {format_duration(found.threshold_ns)} or longer"
    tell(f"{found.requests:,} requests in {found.folders:,} {found.of}; {slow}")
    if found.moments:
        first, last = (format_moment(moment, digits=0) for moment in (found.moments[0], found.moments[-1]))
        tell(f"The first of these was sent at {first}, the last at {last}.")
