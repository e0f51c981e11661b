#!/usr/bin/env python3
"""The load generator: connections a CPU second against wrk's, and 70,000 clients that think. In one run, medians.

    bench.py [--pairs N] [--seconds S] [--only rate|clients ...] [--save NAME]

`rate`: Tailrace and wrk take turns at asking the same nginx over a new connection for each request, 64 at a time.
`clients`: 70,000 clients that think 7 s (10,000 requests a second) in four processes.

CPU time is the kernel's account of the processes that ask (user and system, start-up included): wrk, and the workers of
`tailrace load`. What the command does after them, making tables of their logs, is told apart.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import polars as pl

from tailrace.dataset import Dataset
from tailrace.load import plain
from tailrace.load.lowering import Share
from tailrace.load.running import load
from tailrace.load.targets import aim

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results"
CONNECTIONS = 64


@dataclass(frozen=True)
class Run:
    contender: str
    requests: int
    wall_s: float
    cpu_s: float
    """Of the processes that ask."""
    tables_cpu_s: float = 0.0
    late_p99_ms: float = 0.0
    """From the moment at which a request was to leave to `sent`, and to the first byte of its answer."""
    first_byte_p99_ms: float = 0.0
    late_windows: int = 0

    @property
    def rate(self) -> float:
        return self.requests / self.cpu_s


@contextmanager
def nginx(folder: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = folder / "nginx.conf"
    config.write_text((HERE / "nginx.conf").read_text().replace("FOLDER", str(folder)).replace("PORT", str(port)))
    with subprocess.Popen(["nginx", "-e", str(folder / "error.log"), "-c", str(config)]) as server:
        try:
            while server.poll() is None:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    time.sleep(0.05)
            yield f"http://127.0.0.1:{port}/"
        finally:
            server.terminate()


def cpu(who: int) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def wrk(url: str, seconds: int) -> Run:
    before, begin = cpu(resource.RUSAGE_CHILDREN), time.monotonic()
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "-H", "Connection: close", url]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    counted = re.search(r"(\d+) requests in", said)
    if not counted or "Socket errors" in said or "Non-2xx" in said:
        sys.exit(f"wrk did not do what it should:\n{said}")
    return Run("wrk", int(counted[1]), time.monotonic() - begin, cpu(resource.RUSAGE_CHILDREN) - before)


def tailrace(url: str, folder: Path, workers: int, options: dict[str, object]) -> Run:
    out = folder / "run"
    experiment, targets = plain.experiment(options, aim([url], own=False))
    begin = time.monotonic()
    before, before_self = cpu(resource.RUSAGE_CHILDREN), cpu(resource.RUSAGE_SELF)
    outcome = load(experiment, targets, out, share=Share(workers=workers), overwrite=True)
    asked, tables = cpu(resource.RUSAGE_CHILDREN) - before, cpu(resource.RUSAGE_SELF) - before_self
    if outcome.failed or sum(outcome.not_sent.values()):
        sys.exit(f"tailrace did not do what it should: {outcome}")
    late = Dataset.open(out).requests().select(
        ((pl.col("sent") - pl.col("intended")).quantile(0.99) / 1e6).alias("late"),
        ((pl.col("first_byte") - pl.col("intended")).quantile(0.99) / 1e6).alias("first_byte"),
    ).collect()  # fmt: skip
    return Run(
        "tailrace", outcome.requests, time.monotonic() - begin, asked, tables, *late.row(0), outcome.late_windows
    )


def rate(url: str, folder: Path, pairs: int, seconds: int) -> list[Run]:
    runs = []
    for turn in range(pairs):
        print(f"pair {turn + 1} of {pairs}", file=sys.stderr)
        ours = tailrace(url, folder, 1, {"clients": CONNECTIONS, "duration": f"{seconds} s"})
        runs += [ours, wrk(url, seconds)]
        print(f"{ours.rate:.0f} and {runs[-1].rate:.0f} requests a CPU second", file=sys.stderr)
    return runs


def clients(url: str, folder: Path, seconds: int) -> Run:
    # Without a ramp: CPU seconds are those of all requests that are counted.
    options = {"clients": 70_000, "think": "7 s", "duration": f"{seconds} s"}
    return tailrace(url, folder, 4, options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--only", nargs="*", choices=["rate", "clients"], default=["rate", "clients"])
    parser.add_argument("--save", metavar="NAME", help="write the raw numbers to benches/results/NAME.json")
    options = parser.parse_args()
    load_before = os.getloadavg()
    runs: list[Run] = []
    with tempfile.TemporaryDirectory() as temporary, nginx(Path(temporary)) as url:
        folder = Path(temporary)
        if "rate" in options.only:
            runs += rate(url, folder, options.pairs, options.seconds)
            ratios = sorted(a.rate / b.rate for a, b in zip(runs[::2], runs[1::2], strict=True))
            median = {
                name: statistics.median(r.rate for r in runs if r.contender == name) for name in ("tailrace", "wrk")
            }
            print(f"tailrace {median['tailrace']:.0f}, wrk {median['wrk']:.0f} connections a CPU second")
            print(f"ratio of pairs: median {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")
        if "clients" in options.only:
            many = clients(url, folder, 30)
            runs.append(many)
            print(
                f"70,000 clients: {many.requests / 30:.0f} requests a second in {many.cpu_s / 30:.2f} of a core; p99 "
                f"of lateness {many.late_p99_ms:.2f} ms, to the first byte {many.first_byte_p99_ms:.2f} ms; "
                f"{many.late_windows} late windows"
            )
    if options.save:
        found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
        kept = {
            "command": f"benches/load/bench.py {' '.join(sys.argv[1:])}",
            "machine": {
                "cpu": found[1] if found else platform.machine(),
                "cores": os.cpu_count(),
                "kernel": platform.release(),
            },
            "load_before": load_before,
            "load_after": os.getloadavg(),
            "runs": [asdict(run) for run in runs],
        }
        (RESULTS / f"{options.save}.json").write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
