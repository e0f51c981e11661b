"""Examines many random systems: draw, simulate, diagnose, score; on all cores, resumable.

```text
seeds ─ a process each ─▶ results.jsonl   one line a seed, written as it is done (a killed sweep goes on from there)
                              └─▶ results.parquet, summary.json   when all are done
```
"""

from __future__ import annotations

import json
import multiprocessing
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from tailrace import whole
from tailrace.errors import cannot_write

Row = dict[str, Any]
Progress = Callable[[int, int], None]

CHAINS, GRAPHS, BOTH = "chains", "graphs", "both"
LINES, TABLE, SUMMARY = "results.jsonl", "results.parquet", "summary.json"
_COUNTS = (
    "requests", "vlrt", "right", "right_with_kind", "right_dropper", "right_origin", "right_cause",
    "episodes", "claims", "false_alarms",
)  # fmt: skip


@dataclass(frozen=True)
class Summary:
    runs: int
    counts: dict[str, int]
    """Sums of the numbers of `Score`."""
    runs_without_vlrt: int
    right_of_runs: float
    """Mean over the runs that have VLRT of the share that is right: a system that never recovers counts once."""
    confusion: dict[str, dict[str, int]]
    """True cause → cause told → VLRT."""
    right_without: int | None
    """VLRT of which the cause that was told may be right by what is left without it (see `without`) …"""
    right_without_of_runs: float | None
    """… and the mean share over runs, as above; None if the systems were not simulated again."""

    def share(self, name: str) -> float:
        """Of all VLRT."""
        return self.counts[name] / self.counts["vlrt"] if self.counts["vlrt"] else 1.0

    @property
    def false_alarm_share(self) -> float:
        """Of all episodes of which a cause was told."""
        return self.counts["false_alarms"] / self.counts["claims"] if self.counts["claims"] else 0.0

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "right_share": self.share("right"), "false_alarm_share": self.false_alarm_share}


def shape(seed: int, systems: str) -> str:
    """Of `both`, even seeds draw chains and odd ones graphs: half of a block each, and a seed alone as in its block."""
    return systems if systems != BOTH else GRAPHS if seed % 2 else CHAINS


def examine(seed: int, systems: str = BOTH, again: bool = False) -> Row:
    """One seed: its experiment's score; and that by simulating `again` without its troubles."""
    from tailrace import sim
    from tailrace.dataset import Dataset
    from tailrace.diagnosis import diagnose
    from tailrace.diagnosis.serialise import as_dict
    from tailrace.experiment import from_table
    from tailrace.score import drawing, graphs, score, without

    drawn = shape(seed, systems)
    table = (graphs if drawn == GRAPHS else drawing).draw(seed)
    with tempfile.TemporaryDirectory(prefix="tailrace-") as folder:
        sim.simulate(from_table(table, f"seed {seed}"), Path(folder) / "run")
        run = Dataset.open(Path(folder) / "run")
        told = as_dict(diagnose(run))
        found = score(run, told)
    more = {"right_without": without.right(table, told)} if again else {}
    return {"seed": seed, "systems": drawn, **found.as_dict(), **more}


def sweep(
    seeds: Iterable[int],
    out: str | PathLike[str] | None = None,
    *,
    systems: str = BOTH,
    again: bool = False,
    processes: int = 0,
    progress: Progress | None = None,
) -> tuple[Row, ...]:
    """Examine every seed; with a folder `out`, those already there are not examined twice. Rows by seed."""
    wanted = list(dict.fromkeys(seeds))
    lines = None if out is None else Path(out) / LINES
    earlier = (row for row in _earlier(lines) if row.get("systems", CHAINS) == shape(row["seed"], systems))
    done = {row["seed"]: row for row in earlier if not again or "right_without" in row}
    left = [seed for seed in wanted if seed not in done]
    with ProcessPoolExecutor(processes or os.cpu_count(), multiprocessing.get_context("spawn"), _alone) as pool:
        for future in as_completed([pool.submit(examine, seed, systems, again) for seed in left]):
            row = future.result()
            done[row["seed"]] = row
            _append(lines, row)
            if progress is not None:
                progress(len(done), len(wanted))
    rows = tuple(done[seed] for seed in sorted(wanted))
    if out is not None:
        _write(Path(out), rows)
    return rows


def summarise(rows: Iterable[Row]) -> Summary:
    known = tuple(rows)
    confusion: dict[str, Counter[str]] = {}
    for row in known:
        for true, told in row["confusion"].items():
            confusion.setdefault(true, Counter()).update(told)
    again = all("right_without" in row for row in known)
    return Summary(
        runs=len(known),
        counts={name: sum(row[name] for row in known) for name in _COUNTS},
        runs_without_vlrt=sum(row["vlrt"] == 0 for row in known),
        right_of_runs=_mean_share(known, "right"),
        confusion={true: dict(told) for true, told in sorted(confusion.items())},
        right_without=sum(row["right_without"] for row in known) if again else None,
        right_without_of_runs=_mean_share(known, "right_without") if again else None,
    )


def _mean_share(rows: Iterable[Row], name: str) -> float:
    shares = [row[name] / row["vlrt"] for row in rows if row["vlrt"]]
    return sum(shares) / len(shares) if shares else 1.0


def _alone() -> None:
    """Each process is one core's: libraries in it start no threads of their own."""
    os.environ["POLARS_MAX_THREADS"] = "1"


def _earlier(lines: Path | None) -> list[Row]:
    if lines is None or not lines.exists():
        return []
    # The last line may have been cut by what killed the sweep.
    ended = lines.read_text(encoding="utf-8").split("\n")[:-1]
    whole.write(lines, "".join(f"{line}\n" for line in ended).encode())
    return [json.loads(line) for line in ended]


def _append(lines: Path | None, row: Row) -> None:
    if lines is None:
        return
    try:
        lines.parent.mkdir(parents=True, exist_ok=True)
        with lines.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    except OSError as error:
        raise cannot_write(lines, error) from error


def _write(out: Path, rows: tuple[Row, ...]) -> None:
    import polars as pl

    summary = summarise(rows)
    table = pl.DataFrame([{name: row[name] for name in ("seed", "systems", *_COUNTS)} for row in rows])
    with whole.replacing(out / TABLE) as file:
        table.write_parquet(file)
    whole.write(out / SUMMARY, (json.dumps(summary.as_dict(), indent=2) + "\n").encode())
