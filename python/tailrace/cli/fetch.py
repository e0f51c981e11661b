"""`tailrace fetch`: what a Prometheus stored while something was recorded, into a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.words import tell
from tailrace.errors import UsageError

EPILOG = (
    "Example:\n\n`tailrace fetch http://localhost:9090 --during run -o node.json`, then "
    "`tailrace diagnose run node.json --place 10.0.0.3:9100=app`"
)


def fetch(
    url: Annotated[str, typer.Argument(help="A Prometheus, or what has its API.", metavar="URL")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Where the answer is written.")],
    during: Annotated[Path | None, typer.Option(metavar="RUN", help="The time range of this run folder.")] = None,
    begin: Annotated[str | None, typer.Option("--from", metavar="MOMENT", help="Its begin, instead.")] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="MOMENT", help="Its end.")] = None,
) -> None:
    """Fetch the metrics that Tailrace uses from a Prometheus, as they were stored, for the time of a run."""
    from tailrace import whole
    from tailrace.readers import fetching

    if out.exists():
        raise UsageError("the file exists", where=str(out), advice="choose another name")
    first, last = _interval(during, begin, end)
    body, series = fetching.fetch(url, first, last)
    if not series:
        raise UsageError(
            f"{url} has none of the metrics that Tailrace uses for this time", advice="check the time range"
        )
    whole.write(out, body)
    tell(f"{out}: {series:,} series; read it with `tailrace diagnose … {out}`")


def _interval(during: Path | None, begin: str | None, end: str | None) -> tuple[int, int]:
    from tailrace.dataset import Dataset
    from tailrace.units import parse_moment

    if during is not None and begin is None and end is None:
        manifest = Dataset.open(during).manifest
        if manifest.begin is not None and manifest.end is not None:
            return manifest.begin, manifest.end
        raise UsageError("it has no rows, so it has no time range", where=str(during), advice="give --from and --to")
    if during is not None or begin is None or end is None:
        raise UsageError("a time range is needed", advice="give --during RUN, or --from MOMENT and --to MOMENT")
    try:
        first, last = parse_moment(begin), parse_moment(end)
    except ValueError as error:
        advice = "like --from 2026-11-20T16:49:00Z --to 2026-11-20T16:54:00Z"
        raise UsageError(f"--from {begin} --to {end}: {error}", advice=advice) from error
    if last <= first:
        raise UsageError(f"--from {begin} --to {end}: the end is not after the begin")
    return first, last
