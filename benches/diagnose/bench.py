"""How long `tailrace diagnose` takes, and how much memory it needs, replays and report included.

    minutes   a million requests in three tiers in ten minutes, a stall every 15 s. The bar is 10 s on two cores
    day       as many requests over a day, a stall every ten minutes. The bar is 2 GB, as for any input

Samples are 50 ms apart. The medians of several runs are printed and written to `table.md`, and the raw numbers to
`../results/diagnose.json`. CPU seconds depend less on a busy machine than the wall clock does.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import machine
import used

RESULTS = Path(__file__).parents[1] / "results" / "diagnose.json"
TABLE = Path(__file__).with_name("table.md")
CASES = {
    "minutes": (["--seconds", "600", "--every", "15"], "10 s"),
    "day": (["--seconds", "86400", "--every", "600"], "2,000 MB"),
}
HEAD = "| recording | requests | VLRT | episodes | CPU | wall clock | peak memory | bar |"


def run(run_folder: Path, report: Path) -> dict[str, float]:
    command = [
        sys.executable,
        "-m",
        "tailrace",
        "diagnose",
        str(run_folder),
        "--report",
        str(report),
        "--json",
        "--quiet",
    ]
    out, took = used.run(command)
    found = json.loads(out)
    return took | {
        "vlrt": found["vlrt"],
        "requests": found["requests"],
        "episodes": len(found["episodes"]),
    }


def measured(name: str, requests: int, runs: int, folder: Path) -> dict[str, Any]:
    made = folder / name
    generate = Path(__file__).with_name("generate.py")
    command = [sys.executable, str(generate), str(made), "--requests", str(requests), *CASES[name][0]]
    subprocess.run(command, check=True)
    found = [run(made, folder / "report.html") for _ in range(runs)]
    return {"runs": found, "medians": {key: statistics.median(one[key] for one in found) for key in found[0]}}


def row(name: str, found: dict[str, float]) -> str:
    counts = " | ".join(f"{found[key]:,.0f}" for key in ("requests", "vlrt", "episodes"))
    costs = f"{found['cpu_s']:.1f} s | {found['wall_s']:.1f} s | {found['peak_mb']:,.0f} MB"
    return f"| {name} | {counts} | {costs} | {CASES[name][1]} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", choices=tuple(CASES))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        names = [arguments.only] if arguments.only else list(CASES)
        cases = {name: measured(name, arguments.requests, arguments.runs, Path(folder)) for name in names}
    load = machine.load()
    about = {"command": sys.argv, "machine": {**machine.about(), "load": load}}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({**about, "cases": cases}, indent=1) + "\n")
    rows = [row(name, one["medians"]) for name, one in cases.items()]
    where = f"on {os.cpu_count()} cores. Other programs used them, too: the load average was {load[0]} at the end."
    of = f"Medians of {arguments.runs} runs" if arguments.runs > 1 else "One run"
    told = f"{of} of `tailrace diagnose --report` {where}"
    table = "\n".join((told, "", HEAD, "|---" * HEAD.count(" | ") + "|---|", *rows))
    print(table)
    if not arguments.only:
        TABLE.write_text(f"# The table of the last complete run\n\n{table}\n")


if __name__ == "__main__":
    main()
