"""A day of visits, diagnosed in two passes: how long it takes, and with how much memory.

A system is simulated twice, with and without stalls. The day is many copies of the calm run, shifted in time, and two
of the other. `tailrace diagnose DAY --engine local` must find all very slow requests and their cause.

    PYTHONPATH=python python benches/scale/day.py FOLDER [--visits 1000000000]

A visit takes 23 bytes of the disk, so a day of 10⁹ visits needs 23 GB.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import machine

RESULT = Path(__file__).parents[1] / "results" / "scale-day.json"
SECOND = 1_000_000_000
TIMES = {
    "visits": ("sent", "arrival", "start", "first_byte", "departure"),
    "requests": ("intended", "sent", "connected", "first_byte", "end"),
    "samples": ("time",),
    "events": ("begin", "end"),
}
STALL = {"kind": "freeze", "place": "app", "at": "100 s", "for": "900 ms"}
SYSTEM: dict[str, Any] = {
    "duration": "300 s",
    "ramp": "2 s",
    "nodes": {name: {"cores": 16} for name in ("web", "app", "db")},
    "tiers": {
        "web": {"kind": "sync", "workers": 600, "backlog": 128, "calls": {"app": {"pool": 600}}},
        "app": {"kind": "sync", "workers": 400, "backlog": 128, "calls": {"db": {"pool": 200}}},
        "db": {"kind": "sync", "workers": 400, "backlog": 128},
    },
    "interactions": {
        "page": {"at": {"web": {"compute": "0.3 ms", "calls": {"query": 1}}}},
        "query": {"at": {"app": {"compute": "1 ms", "calls": {"select": 1}}}},
        "select": {"at": {"db": {"compute": "0.5 ms"}}},
    },
    "workloads": {"users": {"kind": "poisson", "rate": 4000, "interaction": "page", "entry": "web"}},
}


def simulated(folder: Path, stalls: list[Any]) -> Path:
    from tailrace import sim
    from tailrace.experiment import from_table

    if not folder.exists():
        sim.simulate(from_table(SYSTEM | {"stalls": stalls}), folder)
    return folder


def shifted(source: Path, target: Path, number: int) -> None:
    """A copy of a run that began later: the copies follow one another."""
    from tailrace.dataset import Dataset, create

    if target.exists():
        return
    run, later = Dataset.open(source), number * 300 * SECOND
    with create(target) as writer:
        writer.topology = run.topology
        for table, times in TIMES.items():
            frame = getattr(run, table)()
            known = [name for name in times if name in frame.collect_schema()]
            writer.write_table(table, frame.with_columns(pl.col(known) + later))


def diagnosed(command: list[str]) -> tuple[dict[str, Any], resource.struct_rusage]:
    """What it prints, and what it used. The shell keeps the memory of this process out of the count."""
    child = subprocess.Popen(["sh", "-c", '"$@"; exit $?', "sh", *command], stdout=subprocess.PIPE)
    assert child.stdout is not None
    told = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    if status != 0:
        raise SystemExit(f"{' '.join(command)} ended with {status}")
    return json.loads(told), used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--visits", type=int, default=1_000_000_000)
    arguments = parser.parse_args()
    os.environ["POLARS_MAX_THREADS"] = "1"
    arguments.folder.mkdir(parents=True, exist_ok=True)
    calm = simulated(arguments.folder / "calm", [])
    stalled = simulated(arguments.folder / "stalled", [STALL])
    of_one = pl.scan_parquet(calm / "visits.parquet").select(pl.len()).collect().item()
    count = -(-arguments.visits // of_one)
    day = arguments.folder / f"day-{count}"
    day.mkdir(parents=True, exist_ok=True)
    sources = [stalled if number in (count // 3, 2 * count // 3) else calm for number in range(count)]
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        targets = [day / f"run-{number:04}" for number in range(count)]
        list(pool.map(shifted, sources, targets, range(count)))
    out = arguments.folder / "out"
    command = [
        "tailrace",
        "diagnose",
        str(day),
        "--engine",
        "local",
        "-o",
        str(out),
        "--overwrite",
        "--json",
        "--quiet",
    ]
    begun = time.monotonic()
    told, used = diagnosed(command)
    found = {
        "visits": of_one * count,
        "run_folders": count,
        "bytes": sum(file.stat().st_size for file in day.rglob("*.parquet")),
        "wall_s": round(time.monotonic() - begun, 1),
        "cpu_s": round(used.ru_utime + used.ru_stime, 1),
        "max_mib": round(used.ru_maxrss / 1024),
        "vlrt": told["vlrt"],
        "summary": told["summary"],
        "machine": machine.about(),
    }
    RESULT.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
