"""How the cost of windows grows with the number of visits: Tailrace beside DuckDB, Polars, ClickHouse (chdb) and Spark
SQL, in one run. `tools/setup --tests` installs the last two.

Sizes are multiples of the visits that `benches/reduce/generate.py` makes: one file cut to its first rows, then more
files. Each engine runs in a process of its own, with one thread, and all give equal cells. The slope is that of
log(CPU) over log(visits), by least squares: 1 is linear.

    PYTHONPATH=python python benches/reduce/generate.py FOLDER
    PYTHONPATH=python python benches/scale/bench.py FOLDER [--rounds 3] [--most 10000000] [--window-ms 1000]

A day of 10⁹ visits takes `generate.py FOLDER --files 200` (10 GB), `--most 1000000000` and windows of a second: the
number of windows is then that of a real day, and memory is not that of the answer.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import machine

HERE = Path(__file__).parent
ENGINES = HERE.parent / "reduce" / "engines.py"
RESULT = HERE.parent / "results" / "scale.json"
COMPARED = ("tailrace", "polars", "duckdb", "clickhouse", "spark")
LEAST = 1_000_000
MS = 1_000_000


def sizes(folder: Path, cut: Path, most: int) -> Iterator[tuple[int, list[str]]]:
    """Numbers of visits, each about ten times the one before, and their files."""
    files = sorted(folder.glob("visits-*.parquet"))
    rows = [pq.read_metadata(file).num_rows for file in files]
    first = cut / files[0].name
    pq.write_table(pq.read_table(files[0]).slice(0, LEAST), first, use_dictionary=["server"], compression="zstd")
    yield LEAST, [str(first)]
    wanted = LEAST * 10
    while wanted <= min(sum(rows), most):
        count = next(number for number in range(1, len(files) + 1) if sum(rows[:number]) >= wanted)
        yield sum(rows[:count]), [str(file) for file in files[:count]]
        wanted *= 10


def warm(files: list[str]) -> None:
    """The first engine must not be the one that waits for the disk: all find the files in memory if they fit."""
    for file in files:
        with Path(file).open("rb") as data:
            while data.read(1 << 24):
                pass


def measured(engine: str, files: list[str], window_ns: int, out: Path) -> dict[str, float]:
    one = {**os.environ, "POLARS_MAX_THREADS": "1", "RAYON_NUM_THREADS": "1"}
    words = (sys.executable, str(ENGINES), engine, json.dumps(files), str(window_ns), "1", str(out))
    # A shell between: the kernel counts the memory of the process that forks as that of its child.
    words = ("sh", "-c", '"$@"; exit $?', "sh", *words)
    said = subprocess.run(words, env=one, check=True, capture_output=True, text=True).stdout
    found: dict[str, float] = json.loads(said)
    return found


def slope(points: list[tuple[int, float]]) -> float:
    x, y = [math.log(size) for size, _ in points], [math.log(cpu) for _, cpu in points]
    return statistics.linear_regression(x, y).slope


def bench(folder: Path, rounds: int, most: int, window_ms: int) -> dict[str, Any]:
    rows = []
    with tempfile.TemporaryDirectory(prefix="tailrace-") as scratch:
        for size, files in sizes(folder, Path(scratch), most):
            found: dict[str, list[dict[str, float]]] = {engine: [] for engine in COMPARED}
            warm(files)
            for _ in range(rounds):
                for engine in COMPARED:
                    out = Path(scratch) / f"{engine}.parquet"
                    found[engine].append(measured(engine, files, window_ms * MS, out))
            cells = [pl.read_parquet(Path(scratch) / f"{engine}.parquet") for engine in COMPARED]
            for other in cells[1:]:
                assert cells[0].drop("response_ns_mean").equals(other.select(cells[0].columns).drop("response_ns_mean"))
            for engine, runs in found.items():
                medians = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
                rows.append({"visits": size, "engine": engine, **medians})
                print(json.dumps(rows[-1]), flush=True)
    slopes = {
        engine: slope([(row["visits"], row["cpu_s"]) for row in rows if row["engine"] == engine]) for engine in COMPARED
    }
    versions = {name: importlib.metadata.version(name) for name in ("polars", "duckdb", "chdb", "pyspark")}
    command = f"benches/scale/bench.py FOLDER --rounds {rounds} --most {most} --window-ms {window_ms}"
    about = {"command": command, "machine": {**machine.about(), "load": machine.load()}, "threads": 1, "rounds": rounds}
    return {**about, "versions": versions, "slopes": slopes, "runs": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--most", type=int, default=100_000_000, help="visits of the largest size at most")
    parser.add_argument("--window-ms", type=int, default=50, help="width of a window")
    parser.add_argument("--result", type=Path, default=RESULT, help="the file to write")
    given = parser.parse_args()
    found = bench(given.folder, given.rounds, given.most, given.window_ms)
    given.result.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found["slopes"]))


if __name__ == "__main__":
    main()
