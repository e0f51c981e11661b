"""Advice on a long recording: how long it takes, and whether simulating its episodes alone predicts the same.

A simulated recording of ten minutes and a million requests in three tiers has a stall every so many seconds. `tailrace
advise` gets a minute for it. With --whole, every change of its ranking is then simulated with all requests, too.

    PYTHONPATH=python python benches/advise/long.py --whole --out results.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import machine
import used

from tailrace import sim, twin
from tailrace.advise.changing import changed
from tailrace.advise.trials import Trials
from tailrace.experiment import from_table

CHANGES: dict[str, dict[tuple[str, ...], Any]] = {
    "none": {},
    "backlog 1024": {("tiers", "web", "backlog"): 1024},
    "backlog 256": {("tiers", "web", "backlog"): 256},
    "workers 300": {("tiers", "web", "workers"): 300},
    "SYN after 200 ms": {("kernel", "syn"): ["200 ms", "400 ms", "800 ms"]},
    "half the workers": {("tiers", "web", "workers"): 75},
    "2 servers of web": {("tiers", "web", "count"): 2},
}


def system(seconds: int, rate: float, every: int) -> dict[str, Any]:
    call = {"pool": 150}
    return {
        "duration": f"{seconds} s",
        "ramp": "5 s",
        "kernel": {"syn": "linux-6.5"},
        "tiers": {
            "web": {"workers": 150, "backlog": 128, "calls": {"app": call}},
            "app": {"workers": 150, "backlog": 128, "calls": {"db": {}}},
            "db": {"workers": 150},
        },
        "interactions": {
            "page": {"at": {"web": {"compute": "100 us", "calls": {"servlet": 1}}}},
            "servlet": {"at": {"app": {"compute": "330 us", "calls": {"query": 1}}}},
            "query": {"at": {"db": {"compute": "150 us"}}},
        },
        "workloads": {"steady": {"kind": "poisson", "rate": rate, "interaction": "page"}},
        "stalls": [{"kind": "freeze", "place": "app", "at": "54 s", "for": "600 ms", "every": f"{every} s"}],
    }


def advised(run: Path, out: Path) -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        "tailrace",
        "advise",
        str(run),
        "-o",
        str(out),
        "--budget",
        "60s",
        "--json",
        "--quiet",
    ]
    said, took = used.run(command)
    told = json.loads(said)
    return {
        "wall_s": round(took["wall_s"], 1),
        "cpu_s": round(took["cpu_s"], 1),
        "peak_mb": round(took["peak_mb"]),
        "complete": told["complete"],
        "compared": len(told["ranked"]),
        "best": told["ranked"][0]["change"] if told["ranked"] else None,
    }


def medians(rounds: list[dict[str, Any]]) -> dict[str, float]:
    return {key: statistics.median(one[key] for one in rounds) for key in ("wall_s", "cpu_s", "peak_mb")}


def both(run: Path, folder: Path) -> list[dict[str, Any]]:
    """Each change with the episodes alone and with all requests: the counts of three replications."""
    whole = twin.learn(run)
    part = twin.learn(run, part=True)
    rows = []
    for name, changes in CHANGES.items():
        row: dict[str, Any] = {"change": name}
        for kind, learnt in (("episodes", part), ("whole", whole)):
            began = time.process_time()
            found = Trials(folder / kind).replications(changed(learnt.experiment, changes), range(3))
            row[kind] = [one.vlrt for one in found]
            row[f"{kind}_cpu_s"] = round(time.process_time() - began, 1)
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--seconds", type=int, default=600)
    options.add_argument("--rate", type=float, default=1667.0)
    options.add_argument("--every", type=int, nargs="+", default=[100])
    options.add_argument("--rounds", type=int, default=3, help="runs of advise, of which the medians are stored, too")
    options.add_argument("--whole", action="store_true")
    options.add_argument("--out", type=Path)
    given = options.parse_args()
    found: list[dict[str, Any]] = []
    for every in given.every:
        with tempfile.TemporaryDirectory(prefix="tailrace-") as folder:
            run = Path(folder) / "run"
            made = sim.simulate(from_table(system(given.seconds, given.rate, every)), run)
            row: dict[str, Any] = {"every_s": every, "requests": made.requests, "vlrt": made.over_1s}
            rounds = [
                {"load": machine.load()} | advised(run, Path(folder) / f"advice {number}")
                for number in range(given.rounds)
            ]
            row |= {"rounds": rounds, "medians": medians(rounds)}
            print(json.dumps(row), flush=True)
            if given.whole:
                row["both"] = both(run, Path(folder))
            found.append(row)
    if given.out:
        about = {"command": sys.argv, "machine": machine.about()}
        given.out.write_text(json.dumps({**about, "rows": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
