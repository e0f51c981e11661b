"""What a run folder holds and what it lacks: `tailrace info`."""

from __future__ import annotations

from typing import Any

import polars as pl
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tailrace.dataset import Dataset
from tailrace.units import format_bytes, format_count, format_duration, format_moment

_MISSING = {
    "requests": "no end-to-end requests: very long response times cannot be counted; capture the clients' side too",
    "visits": "no visits: neither drops nor queue lengths; give a packet capture",
    "samples": "no resource samples: steps 4 and 5 (which resource, by what) stay unknown; see docs/how-to/record.md",
    "events": "no events (drops, garbage collections)",
}


def describe(dataset: Dataset) -> dict[str, Any]:
    """Everything `info` shows, as plain values. Times in nanoseconds."""
    manifest, topology = dataset.manifest, dataset.topology
    return {
        "path": str(dataset.path),
        "maker": f"{manifest.maker} {manifest.maker_version}",
        "begin": manifest.begin,
        "end": manifest.end,
        "tables": {
            name: {"rows": rows, "bytes": (dataset.path / f"{name}.parquet").stat().st_size}
            for name, rows in manifest.rows.items()
        },
        "servers": [
            server.model_dump(exclude_none=True) | _visits(dataset, server.name) for server in topology.servers
        ],
        "calls": [call.model_dump(exclude_none=True) for call in topology.calls],
        "clocks": [clock.model_dump() for clock in topology.clocks],
        "metrics": _groups(dataset.samples(), "metric"),
        "events": _groups(dataset.events(), "kind"),
        "lost": manifest.lost,
        "notes": list(manifest.notes),
        "missing": [sentence for name, sentence in _MISSING.items() if not manifest.rows.get(name)],
    }


def print_info(dataset: Dataset, console: Console) -> None:
    """The same for a person."""
    told = describe(dataset)
    console.print(Text(told["path"], style="bold"), f"made by {told['maker']}")
    if told["begin"] is not None:
        length = format_duration(told["end"] - told["begin"])
        console.print(f"{format_moment(told['begin'])} to {format_moment(told['end'])} ({length})")
    _print_tables(told, console)
    _print_servers(told, console)
    _print_groups("metric", told["metrics"], console)
    _print_groups("event", told["events"], console)
    for clock in told["clocks"]:
        bound = "bound unknown" if clock["bound_ns"] is None else f"to within {format_duration(clock['bound_ns'])}"
        offset = f"{clock['offset_ns']:+,} ns"
        console.print(Text(f"clock: {clock['capture']} {offset} = time of the first capture, {bound}"))
    for what, count in told["lost"].items():
        console.print(Text(f"lost: {what}: {count:,}", style="yellow"))
    for sentence in told["missing"]:
        console.print(Text(f"missing: {sentence}", style="yellow"))
    for note in told["notes"]:
        console.print(Text(f"note: {note}"))


def _print_tables(told: dict[str, Any], console: Console) -> None:
    table = Table("table", "rows", "size", box=None)
    table.columns[1].justify = table.columns[2].justify = "right"
    for name, size in told["tables"].items():
        table.add_row(name, format_count(size["rows"]), format_bytes(size["bytes"]))
    console.print(table)


def _print_servers(told: dict[str, Any], console: Console) -> None:
    if not told["servers"]:
        return
    table = Table("server", "tier", "address", "protocol", "visits", "drops", "called by", box=None)
    for server in told["servers"]:
        callers = ", ".join(call["caller"] for call in told["calls"] if call["callee"] == server["name"])
        shown = (str(server.get(key, "")) for key in ("name", "tier", "address", "protocol", "visits", "drops"))
        table.add_row(*(Text(text) for text in (*shown, callers)))
    console.print(table)


def _print_groups(title: str, groups: list[dict[str, Any]], console: Console) -> None:
    if not groups:
        return
    table = Table(title, "rows", "places", box=None)
    table.columns[1].justify = "right"
    for group in groups:
        table.add_row(Text(group["name"]), format_count(group["rows"]), Text(", ".join(group["places"])))
    console.print(table)


def _visits(dataset: Dataset, server: str) -> dict[str, int]:
    """Visits that came to it, and lost connection attempts: those of who never came, too, where events have them."""
    counted = (
        dataset.visits()
        .filter(pl.col("server").cast(pl.String) == server)
        .select(visits=pl.len(), drops=pl.col("drops").cast(pl.Int64).sum())
        .collect()
    )
    here = (pl.col("kind").cast(pl.String) == "drop") & (pl.col("place").cast(pl.String) == server)
    events = int(dataset.events().filter(here).select(pl.len()).collect().item())
    return {"visits": int(counted["visits"][0]), "drops": max(int(counted["drops"][0] or 0), events)}


def _groups(frame: pl.LazyFrame, column: str) -> list[dict[str, Any]]:
    grouped = (
        frame.group_by(pl.col(column).cast(pl.String).alias("name"))
        .agg(rows=pl.len(), places=pl.col("place").cast(pl.String).unique().sort())
        .sort("name")
        .collect()
    )
    return grouped.to_dicts()
