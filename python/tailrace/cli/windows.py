"""`tailrace windows`: queues, throughput and response times of servers, window by window."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tailrace.cli.confinement import confine
from tailrace.cli.options import Window, window_ns
from tailrace.cli.running import open_run
from tailrace.cli.screen import Screen
from tailrace.cli.words import AsJson, Quiet, parsed, print_json, progress, say
from tailrace.errors import UsageError
from tailrace.whole import refuse_unusual

if TYPE_CHECKING:
    import polars as pl

    from tailrace.dataset import Dataset

ROWS_SHOWN = 60
"""Rows of the terminal's table: those with the longest queues."""
JSON_ROWS_MAX = 100_000
FORMATS = (".csv", ".parquet")

EPILOG = (
    "Examples:\n\n`tailrace windows run --server app --window 1s`\n\n"
    "`tailrace windows run -o windows.parquet`, then read it with any tool"
)


def windows(
    source: Annotated[
        str, typer.Argument(metavar="RUN", help="A run folder, a folder of run folders, or a table of a database.")
    ],
    server: Annotated[
        list[str] | None, typer.Option("--server", metavar="NAME", help="Only this one; repeat it.")
    ] = None,
    window: Window = "50ms",
    begin: Annotated[str | None, typer.Option(metavar="MOMENT", help="Only windows from then on.")] = None,
    end: Annotated[str | None, typer.Option(metavar="MOMENT", help="Only windows before then.")] = None,
    engine: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="What reduces the visits: local, dask://…, ray://…, spark://…, chdb://, clickhouse://HOST.",
        ),
    ] = "local",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write all windows: FILE.csv or FILE.parquet.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Reduce the visits of a run to windows. The terminal shows those with the longest queues."""
    width = window_ns(window)
    span = (_moment("--begin", begin), _moment("--end", end))
    if out is not None and out.suffix not in FORMATS:
        raise UsageError(f"--out {out}: the name must end in {' or '.join(FORMATS)}")
    refuse_unusual(out)
    from tailrace.lakes import is_lake

    run = _here(source, out) if engine == "local" and not is_lake(source) else source
    with progress("Reducing", quiet):
        frame = _only(_reduced(run, width, span, engine), server)
    if out is not None:
        _write(frame, out)
        say(f"windows: {out}")
    if as_json:
        print_json({"rows": frame.height, "windows": frame.head(JSON_ROWS_MAX).to_dicts()})
    elif out is None:
        _print(frame)


def _here(source: str, out: Path | None) -> Dataset | str:
    """A run folder of this machine, or a folder of them. This process opens no other files from now on."""
    confine([source], [out])
    from tailrace.dataset import is_run

    return open_run(Path(source)) if is_run(source) else source


def _reduced(run: Dataset | str, width: int, span: tuple[int | None, int | None], engine: str) -> pl.DataFrame:
    import polars as pl

    from tailrace.engines import windows as reduce

    try:
        frame = reduce(run, width, engine=engine, begin=span[0], end=span[1])
    except ValueError as error:
        raise UsageError(str(error)) from error
    return frame.with_columns(pl.col("server").cast(pl.String))


def _only(frame: pl.DataFrame, server: list[str] | None) -> pl.DataFrame:
    import polars as pl

    from tailrace.foreign import listed

    known = frame["server"].unique().to_list()
    for name in server or ():
        if name not in known:
            advice = f"those with visits are {listed(sorted(known))}"
            raise UsageError(f"--server {name}: it has no visits", advice=advice)
    return frame.filter(pl.col("server").is_in(server)) if server else frame


def _moment(option: str, text: str | None) -> int | None:
    from tailrace.units import parse_moment

    return None if text is None else parsed(option, parse_moment, text)


def _write(frame: pl.DataFrame, out: Path) -> None:
    from tailrace import whole

    with whole.replacing(out) as file:
        frame.write_parquet(file) if out.suffix == ".parquet" else frame.write_csv(file)


def _print(frame: pl.DataFrame) -> None:
    from rich.table import Table

    from tailrace.units import format_clock, format_duration

    longest = "queue_max" if "queue_max" in frame.columns else "queue_mean"
    # Of millions of rows, one column is sorted, and the others are not.
    first = frame[longest].arg_sort(descending=True).head(ROWS_SHOWN)
    shown = frame[first].sort("window", "server")
    table = Table(box=None)
    for head in ("window", "server", "arrived", "left", "queue max", "mean", "p99", "VLRT", "drops"):
        named = head in ("window", "server")
        table.add_column(head, justify="left" if named else "right", no_wrap=named)
    for row in shown.iter_rows(named=True):
        p99, queue = row.get("response_ns_p99"), row.get("queue_max")
        counts = [f"{row['arrivals']:,}", f"{row['departures']:,}", "" if queue is None else f"{queue:,}"]
        rest = [f"{row['queue_mean']:.2f}", "" if p99 is None else format_duration(p99), f"{row['vlrt']:,}"]
        table.add_row(format_clock(row["window"]), row["server"], *counts, *rest, f"{row['drops']:,}")
    Screen().print(table if frame.height else "There are no visits in that time.")
    if frame.height > ROWS_SHOWN:
        say(f"{ROWS_SHOWN} of {frame.height:,} windows, those with the longest queues; -o FILE.parquet writes all")
