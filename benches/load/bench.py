#!/usr/bin/env python3
"""The load generator: connections a CPU second against wrk's, and 70,000 clients that think. In one run, medians.

    bench.py [--pairs N] [--seconds S] [--only rate|clients ...] [--save NAME]

`rate`: Tailrace and wrk take turns at asking the same nginx over a new connection for each request, 64 at a time.
`clients`: 70,000 clients that think 7 s (10,000 requests a second) in four processes, from four addresses. They share a
core, nginx has the other.

CPU time is the kernel's account of the load-generating processes (user and system, start-up included): wrk, and the
workers of `tailrace load`. Making tables from their logs afterwards is counted separately.
"""

from __future__ import annotations

import argparse
import json
import os
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
from tailrace.load.lowering import Settings, Share
from tailrace.load.running import load
from tailrace.load.targets import aim

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import machine

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results"
CONNECTIONS = 64
CLIENTS, WORKERS = 70_000, 4
RAMP_S, CLIENTS_S = 7, 30
"""The clients' mean think time: not recorded, but in their CPU time."""


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
    drops: int = 0
    """SYNs and segments that were lost."""

    @property
    def rate(self) -> float:
        return self.requests / self.cpu_s


@contextmanager
def nginx(folder: Path) -> Iterator[tuple[str, int]]:
    """Its URL and its process."""
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
            yield f"http://127.0.0.1:{port}/", server.pid
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


def tailrace(url: str, folder: Path, workers: int, options: dict[str, object], sources: tuple[str, ...] = ()) -> Run:
    out = folder / "run"
    experiment, targets = plain.experiment(options, aim([url], own=False))
    begin = time.monotonic()
    before, before_self = cpu(resource.RUSAGE_CHILDREN), cpu(resource.RUSAGE_SELF)
    settings = Settings(sources=sources)
    outcome = load(experiment, targets, out, settings=settings, share=Share(workers=workers), overwrite=True)
    asked, tables = cpu(resource.RUSAGE_CHILDREN) - before, cpu(resource.RUSAGE_SELF) - before_self
    if outcome.failed or sum(outcome.not_sent.values()):
        sys.exit(f"tailrace did not do what it should: {outcome}")
    late = Dataset.open(out).requests().select(
        ((pl.col("sent") - pl.col("intended")).quantile(0.99) / 1e6).alias("late"),
        ((pl.col("first_byte") - pl.col("intended")).quantile(0.99) / 1e6).alias("first_byte"),
    ).collect()  # fmt: skip
    wall, lost = time.monotonic() - begin, outcome.drops + outcome.data_drops
    return Run("tailrace", outcome.requests, wall, asked, tables, *late.row(0), outcome.late_windows, lost)


def rate(url: str, folder: Path, pairs: int, seconds: int) -> list[Run]:
    runs = []
    for turn in range(pairs):
        print(f"pair {turn + 1} of {pairs}", file=sys.stderr)
        ours = tailrace(url, folder, 1, {"clients": CONNECTIONS, "duration": f"{seconds} s"})
        runs += [ours, wrk(url, seconds)]
        print(f"{ours.rate:.0f} and {runs[-1].rate:.0f} requests a CPU second", file=sys.stderr)
    return runs


def tell_rates(runs: list[Run]) -> None:
    ratios = sorted(a.rate / b.rate for a, b in zip(runs[::2], runs[1::2], strict=True))
    ours, theirs = (statistics.median(run.rate for run in kind) for kind in (runs[::2], runs[1::2]))
    print(f"tailrace {ours:.0f}, wrk {theirs:.0f} connections a CPU second")
    print(f"ratio of pairs: median {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")


def clients(url: str, server: int, folder: Path) -> Run:
    first, *_, last = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(server, {last})
    os.sched_setaffinity(0, {first})
    options = {"clients": CLIENTS, "think": "7 s", "ramp": f"{RAMP_S} s", "duration": f"{CLIENTS_S} s"}
    many = tailrace(url, folder, WORKERS, options, tuple(f"127.0.0.{n + 1}" for n in range(WORKERS)))
    cores = many.cpu_s / (RAMP_S + CLIENTS_S)
    print(
        f"{CLIENTS} clients: {many.requests / CLIENTS_S:.0f} requests a second in {cores:.2f} of a core, "
        f"{cores / WORKERS:.2f} each worker; p99 of lateness {many.late_p99_ms:.2f} ms, to the first byte "
        f"{many.first_byte_p99_ms:.2f} ms; {many.late_windows} late windows; {many.drops} lost packets"
    )
    return many


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--only", nargs="*", choices=["rate", "clients"], default=["rate", "clients"])
    parser.add_argument("--save", metavar="NAME", help="write the raw numbers to benches/results/NAME.json")
    options = parser.parse_args()
    load_before = os.getloadavg()
    runs: list[Run] = []
    with tempfile.TemporaryDirectory() as temporary, nginx(Path(temporary)) as (url, server):
        if "rate" in options.only:
            runs += rate(url, Path(temporary), options.pairs, options.seconds)
            tell_rates(runs)
        if "clients" in options.only:
            runs.append(clients(url, server, Path(temporary)))
    if options.save:
        kept = {
            "command": f"benches/load/bench.py {' '.join(sys.argv[1:])}",
            "machine": machine.about(),
            "load_before": load_before,
            "load_after": os.getloadavg(),
            "runs": [asdict(run) for run in runs],
        }
        (RESULTS / f"{options.save}.json").write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
