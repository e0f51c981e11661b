"""The content of a run folder, and what it lacks: `tailrace info`."""

from __future__ import annotations

from typing import Any

import polars as pl
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tailrace.dataset import Dataset
from tailrace.foreign import listed, name, sentence
from tailrace.units import format_bytes, format_count, format_duration, format_moment

_ROWS_MAX = 100
"""Rows of each table that are printed: more than one screen, because a run may have a million servers."""
_UNANSWERED = ("refused", "reset", "timeout", "abandoned")
_STEPS = {
    "responses": "1 response times",
    "losses": "2 lost packets",
    "queues": "3 queues",
    "resources": "4 and 5 resources, causes",
}
_MISSING = {
    "requests": "no end-to-end requests, so no response times; capture on the clients' side too",
    "visits": "no visits, so drops and queue lengths are not known; give a packet capture",
    "samples": "no resource samples, so steps 4 and 5 (resource and cause) stay unknown; see docs/how-to/record.md",
    "events": "no events (drops, garbage collections)",
}


def describe(dataset: Dataset) -> dict[str, Any]:
    """Everything `info` shows, as plain values. Times in nanoseconds."""
    manifest, topology, visits = dataset.manifest, dataset.topology, _visits(dataset)
    return {
        "path": str(dataset.path),
        "maker": f"{manifest.maker} {manifest.maker_version}",
        "begin": manifest.begin,
        "end": manifest.end,
        "tables": {
            table: {"rows": rows, "bytes": (dataset.path / f"{table}.parquet").stat().st_size}
            for table, rows in manifest.rows.items()
        },
        "servers": [
            server.model_dump(exclude_none=True) | visits.get(server.name, {"visits": 0, "drops": 0})
            for server in topology.servers
        ],
        "calls": [call.model_dump(exclude_none=True) for call in topology.calls],
        "clocks": [clock.model_dump() for clock in topology.clocks],
        "metrics": _groups(dataset.samples(), "metric"),
        "events": _groups(dataset.events(), "kind"),
        "inputs": [one.to_table() for one in manifest.inputs],
        "connections": manifest.connections.to_table(),
        "unanswered": _unanswered(dataset),
        "lost": dataset.lost(),
        "notes": list(manifest.notes),
        "missing": [said for table, said in _MISSING.items() if not manifest.rows.get(table)],
    }


def print_info(dataset: Dataset, console: Console) -> None:
    """Print the same for a reader. Of many servers, metrics, losses and notes, only the first are printed."""
    told = describe(dataset)
    console.print(Text.assemble((sentence(told["path"]), "bold"), f" made by {name(told['maker'])}"))
    if told["begin"] is not None:
        length = format_duration(told["end"] - told["begin"])
        console.print(Text(f"{format_moment(told['begin'])} to {format_moment(told['end'])} ({length})"))
    _print_tables(told, console)
    _print_inputs(told, console)
    _print_servers(told, console)
    _print_groups("metric", told["metrics"], console)
    _print_groups("event", told["events"], console)
    _print_lines("clock", [_clock(clock) for clock in told["clocks"]], console)
    _print_lines("not answered", [_not_answered(row) for row in told["unanswered"]], console, "yellow")
    _print_lines("connections", dataset.manifest.connections.sentences(), console)
    _print_lines("lost", [f"{what}: {count:,}" for what, count in told["lost"].items()], console, "yellow")
    _print_lines("missing", told["missing"], console, "yellow")
    _print_lines("note", told["notes"], console)


def _clock(clock: dict[str, Any]) -> str:
    bound = "bound unknown" if clock["bound_ns"] is None else f"to within {format_duration(clock['bound_ns'])}"
    return f"{name(clock['capture'])} {clock['offset_ns']:+,} ns = time of the first capture, {bound}"


def _print_lines(title: str, lines: list[str], console: Console, style: str = "") -> None:
    for line in lines[:_ROWS_MAX]:
        console.print(Text(sentence(f"{title}: {line}"), style=style), soft_wrap=True)
    _print_rest(len(lines), title, console)


def _print_tables(told: dict[str, Any], console: Console) -> None:
    table = _table("table", "rows", "size", right=(1, 2))
    for table_name, size in told["tables"].items():
        table.add_row(Text(name(table_name)), format_count(size["rows"]), format_bytes(size["bytes"]))
    console.print(table)


def _print_inputs(told: dict[str, Any], console: Console) -> None:
    """Step by step, what each file shows of it."""
    if not told["inputs"]:
        return
    table = _table("input", "kind", *_STEPS.values())
    for one in told["inputs"][:_ROWS_MAX]:
        shown = (one["carries"].get(step, "no") for step in _STEPS)
        table.add_row(
            Text(name(one["file"]), overflow="fold"), Text(name(one["kind"])), *(Text(sentence(said)) for said in shown)
        )
    console.print(table)
    _print_rest(len(told["inputs"]), "input", console)


def _print_servers(told: dict[str, Any], console: Console) -> None:
    if not told["servers"]:
        return
    callers: dict[str, list[str]] = {}
    for call in told["calls"]:
        callers.setdefault(call["callee"], []).append(call["caller"])
    table = _table("server", "tier", "address", "protocol", "visits", "drops", "called by")
    for server in told["servers"][:_ROWS_MAX]:
        shown = (str(server.get(key, "")) for key in ("name", "tier", "address", "protocol", "visits", "drops"))
        table.add_row(*(Text(name(text)) for text in shown), _names(callers.get(server["name"], [])))
    console.print(table)
    _print_rest(len(told["servers"]), "server", console)


def _print_groups(title: str, groups: list[dict[str, Any]], console: Console) -> None:
    if not groups:
        return
    table = _table(title, "rows", "places", right=(1,))
    for group in groups[:_ROWS_MAX]:
        table.add_row(Text(name(group["name"])), format_count(group["rows"]), _names(group["places"]))
    console.print(table)
    _print_rest(len(groups), title, console)


def _table(*heads: str, right: tuple[int, ...] = ()) -> Table:
    table = Table(*heads, box=None)
    for column in right:
        table.columns[column].justify = "right"
    return table


def _names(names: list[str]) -> Text:
    return Text(listed(names))


def _print_rest(count: int, title: str, console: Console) -> None:
    if count > _ROWS_MAX:
        console.print(Text(f"and {count - _ROWS_MAX:,} more of this kind ({title}); `--json` has all"))


def _not_answered(row: dict[str, Any]) -> str:
    longest = format_duration(row["longest_ns"])
    return f"{name(row['server'])}: {row['requests']:,} {row['status']}, the longest after {longest}"


def _unanswered(dataset: Dataset) -> list[dict[str, Any]]:
    """Requests without an answer, by server and status, the most first."""
    status = pl.col("status").cast(pl.String)
    rows = (
        dataset.requests()
        .filter(status.is_in(_UNANSWERED))
        .group_by(server=pl.col("server").cast(pl.String), status=status)
        .agg(requests=pl.len(), longest_ns=(pl.col("end") - pl.col("sent")).max())
        .sort("requests", "server", "status", descending=[True, False, False])
        .collect()
    )
    return rows.to_dicts()


def _visits(dataset: Dataset) -> dict[str, dict[str, int]]:
    """The visits and the lost connection attempts of each server. If there are events of drops, the attempts of clients
    that never connected count too."""
    visits = (
        dataset.visits()
        .group_by(pl.col("server").cast(pl.String))
        .agg(visits=pl.len(), drops=pl.col("drops").cast(pl.Int64).sum())
        .collect()
    )
    events = (
        dataset.events()
        .filter(pl.col("kind").cast(pl.String) == "drop")
        .group_by(pl.col("place").cast(pl.String))
        .agg(drops=pl.len())
        .collect()
    )
    lost = dict(events.iter_rows())
    came = {server: (count, drops or 0) for server, count, drops in visits.iter_rows()}
    return {
        server: {"visits": came.get(server, (0, 0))[0], "drops": max(came.get(server, (0, 0))[1], lost.get(server, 0))}
        for server in (*came, *lost)
    }


def _groups(frame: pl.LazyFrame, column: str) -> list[dict[str, Any]]:
    grouped = (
        frame.group_by(pl.col(column).cast(pl.String).alias("name"))
        .agg(rows=pl.len(), places=pl.col("place").cast(pl.String).unique().sort())
        .sort("name")
        .collect()
    )
    return grouped.to_dicts()
