"""`tailrace diagnose` on a million requests in three tiers with ten minutes of samples, report included.

The bound asked for is 10 s on two cores. Prints the median of several runs and keeps the raw numbers.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RESULTS = Path(__file__).parents[1] / "results" / "diagnose.json"


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
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    out = process.stdout.read() if process.stdout else b""
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{command} failed with status {status}")
    found = json.loads(out)
    return {
        "wall_s": time.perf_counter() - began,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_mib": usage.ru_maxrss / 1024,
        "vlrt": found["vlrt"],
        "requests": found["requests"],
        "episodes": len(found["episodes"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "run"
        generate = Path(__file__).with_name("generate.py")
        subprocess.run([sys.executable, str(generate), str(made), "--requests", str(arguments.requests)], check=True)
        runs = [run(made, Path(folder) / "report.html") for _ in range(arguments.runs)]
    medians = {key: statistics.median(one[key] for one in runs) for key in runs[0]}
    RESULTS.parent.mkdir(exist_ok=True)
    machine = {"machine": platform.machine(), "cores": os.cpu_count(), "kernel": platform.release()}
    RESULTS.write_text(
        json.dumps({"command": sys.argv, "machine": machine, "runs": runs, "medians": medians}, indent=1)
    )
    print(
        "  ".join(f"{key} {value:.2f}" for key, value in medians.items()), f"(medians of {len(runs)}; bound 10 s wall)"
    )


if __name__ == "__main__":
    main()
