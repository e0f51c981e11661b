"""The result of a load in numbers, and the notes of its run folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from tailrace.dataset import Writer, scan
from tailrace.load import ports
from tailrace.units import format_count, format_duration

WINDOW = 50_000_000
"""Windows have the diagnosis' default width."""
LATE = "load_late"
"""The kind of event for a late load generator."""
PERCENTILES = {"p50": 0.5, "p99": 0.99, "p999": 0.999}


@dataclass(frozen=True)
class Outcome:
    """Numbers of the requests sent after the ramp; times in ns, from `sent` on."""

    requests: int
    lasted: int | None
    """How long requests were sent, ramp included. Unknown for a load that was killed."""
    stopped: bool
    """Ctrl-C ended it early."""
    statuses: dict[str, int]
    over_1s: int
    response_p50: int | None
    response_p99: int | None
    response_p999: int | None
    response_max: int | None
    drops: int
    data_drops: int
    late_windows: int
    """Windows of 50 ms in which the generator itself was late."""
    late_worst: int
    not_sent: dict[str, int]
    """Requests that were never sent: `port`, no source port was free; `socket`, no file descriptor."""
    rows_lost: int

    @property
    def failed(self) -> int:
        return self.requests - self.statuses.get("ok", 0)


def outcome(folder: Path, rows: dict[str, int], reports: list[dict[str, Any]], whole: int | None) -> Outcome:
    """From the tables in `folder` and the workers' reports (empty after a kill)."""
    requests = scan(folder / "requests.parquet")
    took = pl.col("end") - pl.col("sent")
    numbers = requests.select(
        *(took.quantile(share, "nearest").alias(name) for name, share in PERCENTILES.items()),
        took.max().alias("max"),
        (took > 1_000_000_000).sum().alias("over_1s"),
        pl.col("drops", "data_drops").cast(pl.Int64).sum(),
    ).collect()
    told = numbers.row(0, named=True)
    statuses = requests.group_by(pl.col("status").cast(pl.String)).len().sort("len", descending=True).collect()
    times = {f"response_{name}": None if told[name] is None else int(told[name]) for name in (*PERCENTILES, "max")}
    lasted = max((report["lasted_ns"] for report in reports), default=None)
    late_windows, late_worst = _late(folder, rows)
    return Outcome(
        requests=rows["requests"],
        lasted=lasted,
        stopped=any(report["stopped"] for report in reports) and lasted is not None and lasted < (whole or 0),
        statuses={str(name): int(count) for name, count in statuses.iter_rows()},
        over_1s=int(told["over_1s"]),
        **times,
        drops=int(told["drops"]),
        data_drops=int(told["data_drops"]),
        late_windows=late_windows,
        late_worst=max([late_worst, *(report["late_worst_ns"] for report in reports)]),
        not_sent={what: sum(report[f"no_{what}"] for report in reports) for what in ("port", "socket")},
        rows_lost=sum(report["rows_lost"] for report in reports),
    )


def _late(folder: Path, rows: dict[str, int]) -> tuple[int, int]:
    """Windows that touch a late stretch, and the longest stretch."""
    if not rows["late"]:
        return 0, 0
    late = pl.col("kind").cast(pl.String) == LATE
    events = scan(folder / "events.parquet").filter(late).select("begin", "end").collect()
    windows = {
        window for begin, end in events.iter_rows() for window in range(begin // WINDOW, (end + WINDOW - 1) // WINDOW)
    }
    return len(windows), max(end - begin for begin, end in events.iter_rows())


def write_notes(writer: Writer, found: Outcome, warnings: list[str]) -> None:
    writer.lose("windows of 50 ms in which the load generator was late (load_late)", found.late_windows)
    writer.lose("requests that were never sent, because no source port was free", found.not_sent["port"])
    writer.lose("requests that were never sent, because no socket was free", found.not_sent["socket"])
    writer.lose("requests without a row, because the disk was too slow", found.rows_lost)
    writer.notes += [*warnings, *troubles(found)]


def troubles(found: Outcome) -> list[str]:
    """What a reader must know to interpret the numbers."""
    said = []
    if found.stopped:
        said.append(f"stopped after {format_duration(found.lasted or 0)}")
    if found.late_windows:
        said.append(
            f"the load generator was late by up to {format_duration(found.late_worst)}. Do not trust the "
            f"{format_count(found.late_windows)} windows of 50 ms that events.parquet marks load_late; give it a "
            "core of its own, or more --workers"
        )
    if found.not_sent["port"]:
        said.append(f"{format_count(found.not_sent['port'])} requests found no free source port: {ports.advice()}")
    if found.not_sent["socket"]:
        said.append(
            f"{format_count(found.not_sent['socket'])} requests found no free socket, one worker can have "
            f"{format_count(ports.sockets_max())}: raise --workers or `ulimit -n`"
        )
    return said
