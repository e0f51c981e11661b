#!/usr/bin/env python3
"""Does cross-tier queue overflow still happen with today's servers? One table, measured.

    bench.py [--only NAME ...] [--runs N] [--rate N] [--freeze S] [--small] [--keep FOLDER] [--save]

Clients send requests, each on a new connection, to a front, which asks an origin. The origin is frozen several times.
Each front runs as it is shipped, and with `--small` with the queues of the papers: 150 threads where it has threads,
and accept queues of 128. Needs root, iproute2, Go for the origin, and the servers; a front that is missing is left out
and named.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fronts import FRONTS, Front, Tools
from measure import Condition, measure
from table import table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import machine

RESULTS = Path(__file__).resolve().parents[1] / "results" / "today.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=[front.name for front in FRONTS], metavar="NAME")
    parser.add_argument("--runs", type=int, default=1, help="of each server; the table has the medians")
    parser.add_argument("--rate", type=int, default=600, help="requests a second")
    parser.add_argument("--freeze", type=float, default=0.8, help="seconds of each freeze")
    parser.add_argument("--freezes", type=int, default=2)
    parser.add_argument("--every", type=float, default=6.0, help="seconds from freeze to freeze")
    parser.add_argument("--small", action="store_true", help="the papers' queues instead of those as shipped")
    parser.add_argument("--tools", type=Path, default=Path(tempfile.gettempdir()) / "tailrace-today", help="for builds")
    parser.add_argument("--keep", type=Path, help="keep the run folders here")
    parser.add_argument("--save", action="store_true", help="write benches/results/today.json")
    options = parser.parse_args()
    tools = Tools(options.tools)
    tools.build()
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    key = f"{'Queues of the papers' if options.small else 'As shipped'}, {_frozen(options)}"
    for front in FRONTS:
        if options.only and front.name not in options.only:
            continue
        if front.needs and shutil.which(front.needs) is None:
            print(f"{front.name}: left out, {front.needs} is not installed", file=sys.stderr)
            continue
        found.setdefault(key, {})[front.name] = row = _measured(front, tools, options)
        print(f"{front.name}: {json.dumps(row)}", flush=True)
        if options.save:
            RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print(table({key: found.get(key, {})}))


def _frozen(options: argparse.Namespace) -> str:
    times = "one freeze" if options.freezes == 1 else f"{options.freezes} freezes"
    return f"{times} of {options.freeze:g} s"


def _measured(front: Front, tools: Tools, options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="tailrace-today-") as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)  # PostgreSQL and PgBouncer are not root
        conditions = [
            Condition(options.rate, options.freeze, options.freezes, options.every, options.small, seed)
            for seed in range(1, options.runs + 1)
        ]
        runs = [
            measure(front, tools, condition, folder / f"{re.sub(r'[^a-z0-9]+', '-', front.name.lower())}-{number}")
            for number, condition in enumerate(conditions, 1)
        ]
    about = {
        "version": _version(front, tools),
        "machine": {**machine.about(), "load": machine.load()[0]},
        "condition": asdict(conditions[0]),
    }
    return {**about, "runs": len(runs), "median": _median(runs), "diagnoses": [run["diagnosis"] for run in runs]}


def _median(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Of each number of several runs."""
    found: dict[str, Any] = {}
    for name, value in runs[0].items():
        if isinstance(value, int | float):
            found[name] = statistics.median([run[name] for run in runs])
        elif name == "servers":
            found[name] = {server: _median([run[name][server] for run in runs]) for server in value}
    return found


def _version(front: Front, tools: Tools) -> str:
    done = subprocess.run(front.version(tools), capture_output=True, text=True, check=True)
    said = re.sub(r"\S*/site-packages/\S*|[0-9a-f]{40}/", "", done.stdout + done.stderr)  # Envoy's path and its commit
    found = re.search(r"\d+\.\d+(?:\.\d+)*", said)
    return found[0] if found else "unknown"


if __name__ == "__main__":
    main()
