"""Reduce the visits of `generate.py` with Tailrace, Polars and DuckDB, beside merely decoding them, in one run.

Rounds go over all engines in turn, so that a noisy neighbour hits all alike; medians are compared. The cells of every
engine must be equal. CPU seconds are the number to trust on a shared machine. Raw numbers go to benches/results/.

    cargo build --release -p tailrace-python && cp target/release/lib_core.so python/tailrace/_core.abi3.so
    PYTHONPATH=python python benches/reduce/bench.py FOLDER [--rounds 3] [--threads N]
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
from engines import DECODE, ENGINES
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import machine

ROOT = Path(__file__).resolve().parents[2]
Run = dict[str, float]


def engine(name: str, files: list[str], window_ns: int, threads: int, out: str) -> Run:
    script = Path(__file__).with_name("engines.py")
    command = [sys.executable, str(script), name, json.dumps(files), str(window_ns), str(threads), out]
    environment = {**os.environ, "POLARS_MAX_THREADS": str(threads)}
    run: Run = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment).stdout)
    return run


def measure(files: list[str], window_ns: int, threads: int, rounds: int) -> tuple[dict[str, list[Run]], int]:
    runs: dict[str, list[Run]] = {name: [] for name in ENGINES}
    compared = [name for name in ENGINES if name != DECODE]
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(rounds):
            for name in ENGINES:
                out = str(Path(folder) / name) if turn == 0 else ""
                runs[name].append(engine(name, files, window_ns, threads, out))
        cells = {name: pl.read_parquet(Path(folder) / name) for name in compared}
    for name in compared:
        if not cells[name].equals(cells["tailrace"]):
            raise SystemExit(f"the cells of {name} differ from Tailrace's")
    return runs, cells["tailrace"].height


def medians(runs: list[Run]) -> Run:
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def show(result: dict[str, Run], rows: int) -> None:
    table = Table(title=f"{rows / 1e6:.0f} M visits, medians")
    for column in ["", "CPU s", "M rows per CPU s", "wall s", "peak MB", "CPU / decode only", "CPU / tailrace"]:
        table.add_column(column, justify="left" if column == "" else "right")
    for name, run in result.items():
        ratios = [run["cpu_s"] / result[base]["cpu_s"] for base in (DECODE, "tailrace")]
        numbers = [f"{run['cpu_s']:.2f}", f"{rows / run['cpu_s'] / 1e6:.1f}", f"{run['wall_s']:.2f}"]
        table.add_row(name, *numbers, f"{run['rss_mb_max']:.0f}", *(f"{ratio:.2f}" for ratio in ratios))
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--window-ms", type=int, default=50)
    parser.add_argument("--out", type=Path, default=ROOT / "benches/results/reduce.json")
    options = parser.parse_args()
    files = sorted(str(path) for path in options.folder.glob("*.parquet"))
    rows = sum(pq.read_metadata(path).num_rows for path in files)
    load_before = os.getloadavg()
    runs, cells = measure(files, options.window_ms * 1_000_000, options.threads, options.rounds)
    result = {name: medians(of_name) for name, of_name in runs.items()}
    show(result, rows)
    versions = {name: importlib.metadata.version(name) for name in ("polars", "duckdb")}
    record = {
        "command": f"benches/reduce/bench.py --rounds {options.rounds} --threads {options.threads}",
        "rows": rows,
        "cells": cells,
        "window_ms": options.window_ms,
        "load_before": load_before,
        "load_after": os.getloadavg(),
        "versions": versions,
        "machine": machine.about(),
        "medians": result,
        "runs": runs,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
