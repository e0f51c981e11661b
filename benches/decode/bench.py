#!/usr/bin/env python3
"""Decoding speed against named peers: CPU seconds on one capture, in one run, medians.

    bench.py CAPTURE [--runs N] [--only NAME ...] [--save NAME]

Each contender reads the same file in a process of its own; CPU time and peak memory are the kernel's account of that
process and its children (wait4), so start-up counts and other load on the machine does not. All count HTTP responses
with a known response time; a contender that is not installed is left out by name. The contenders take turns, so that
a slow minute of the machine hits all of them.

The mean is from the first byte of the request to the last of the response, which is what `http.time` measures where the
request is one segment.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import machine

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results"
FLOWSCOPE = HERE / "flowscope-driver/target/release/flowscope-driver"
TIMEOUT_S = 600
# The kernel accounts ru_maxrss in KiB on Linux.
KIB = 1024

THREADS = {1: "tailrace", 2: "tailrace-2", 4: "tailrace-4"}
"""How many threads decode; the first is compared with the peers."""
OURS = """
import json, sys
from tailrace import _core
json.dump(json.loads(_core.decode([sys.argv[1]], sys.argv[2], sys.argv[3])), sys.stdout)
"""


@dataclass(frozen=True)
class Run:
    contender: str
    cpu_s: float
    wall_s: float
    peak_bytes: int
    transactions: int | None
    seconds: float | None


@dataclass(frozen=True)
class Contender:
    name: str
    command: list[str]
    version: str
    # From what the process printed and the folder it may write to: transactions and the sum of response times.
    count: Callable[[str, Path], tuple[int | None, float | None]]


def tshark_count(output: str, _: Path) -> tuple[int, float]:
    times = [float(line) for line in output.split()]
    return len(times), sum(times)


def flowscope_count(output: str, _: Path) -> tuple[int, float]:
    found = json.loads(output)
    return found["transactions"], found["seconds"]


def tailrace_count(_: str, folder: Path) -> tuple[int | None, float | None]:
    import polars as pl

    visits = pl.read_parquet(folder / "visits.parquet").filter(pl.col("first_byte").is_not_null())
    return visits.height, float((visits["departure"] - visits["arrival"]).sum()) / 1e9


def contenders(capture: Path, folder: Path) -> list[Contender]:
    found = []
    python = sys.executable
    built = subprocess.run([python, "-c", "from tailrace import _core; _core.decode"], capture_output=True, check=False)
    if built.returncode == 0:
        version = subprocess.run(
            [python, "-c", "from tailrace import _core; print(_core.__version__)"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for threads, name in THREADS.items():
            command = [python, "-c", OURS, str(capture), str(folder), json.dumps({"threads": threads})]
            found.append(Contender(name, command, version, tailrace_count))
    if shutil.which("tshark"):
        banner = subprocess.run(["tshark", "--version"], capture_output=True, text=True, check=True).stdout
        version = (re.search(r"\d+\.\d+\.\d+", banner) or [""])[0]
        # nginx answers on ports that Wireshark does not know as HTTP.
        ports = [part for port in (18080, 18081) for part in ("-d", f"tcp.port=={port},http")]
        command = ["tshark", "-r", str(capture), *ports, "-Y", "http.time", "-T", "fields", "-e", "http.time"]
        found.append(Contender("tshark", command, version, tshark_count))
    if FLOWSCOPE.exists():
        found.append(Contender("flowscope", [str(FLOWSCOPE), str(capture)], "0.22.0", flowscope_count))
    return found


def measure(contender: Contender, folder: Path) -> Run:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        begin = time.monotonic()
        process = subprocess.Popen(contender.command, stdout=out, stderr=errors)
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() - begin > TIMEOUT_S:
                process.kill()
            time.sleep(0.005)
        wall_s = time.monotonic() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        errors.seek(0)
        if process.returncode != 0:
            sys.exit(f"{contender.name} ended with {process.returncode}: {errors.read().decode()[-2000:]}")
        transactions, seconds = contender.count(out.read().decode(), folder)
    cpu_s = usage.ru_utime + usage.ru_stime
    return Run(contender.name, cpu_s, wall_s, usage.ru_maxrss * KIB, transactions, seconds)


def table(runs: list[Run], size: int) -> str:
    names = list(dict.fromkeys(run.contender for run in runs))

    def median(name: str, field: str) -> float:
        return float(statistics.median(getattr(run, field) for run in runs if run.contender == name))

    first = median(names[0], "cpu_s")
    head = ["contender", "runs", "CPU s", "wall s", "MB per CPU s", f"CPU s ÷ {names[0]}'s", "peak MiB"]
    lines = [
        f"| {' | '.join([*head, 'transactions', 'mean ms'])} |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in names:
        own = [run for run in runs if run.contender == name]
        counts = sorted({run.transactions for run in own if run.transactions is not None})
        seconds, count = own[0].seconds, own[0].transactions
        mean = f"{seconds / count * 1e3:.5f}" if seconds is not None and count else "-"
        cpu_s = median(name, "cpu_s")
        lines.append(
            f"| {name} | {len(own)} | {cpu_s:.2f} | {median(name, 'wall_s'):.2f} | {size / 1e6 / cpu_s:.0f} "
            f"| {cpu_s / first:.2f} | {median(name, 'peak_bytes') / 2**20:.0f} "
            f"| {' '.join(f'{count:,}' for count in counts) or '-'} | {mean} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("capture", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[], help="contenders to run: tailrace, tailrace-2, flowscope …")
    parser.add_argument("--save", metavar="NAME", help="write the raw numbers to benches/results/NAME.json")
    options = parser.parse_args()
    size = options.capture.stat().st_size
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        chosen = [c for c in contenders(options.capture, folder) if not options.only or c.name in options.only]
        if not chosen:
            sys.exit("no contender is installed; see README.md here")
        for name in {*THREADS.values(), "tshark", "flowscope"} - {c.name for c in chosen}:
            print(f"{name}: left out", file=sys.stderr)
        # Once unmeasured, so that the file is in memory for the first as for the last.
        with options.capture.open("rb") as file:
            while file.read(1 << 24):
                pass
        runs = []
        for turn in range(options.runs):
            for contender in chosen:
                print(f"run {turn + 1} of {options.runs}: {contender.name}", file=sys.stderr)
                runs.append(measure(contender, folder))
    print(table(runs, size))
    if options.save:
        RESULTS.mkdir(exist_ok=True)
        kept = {
            "capture": {"bytes": size, "made_by": "benches/decode/generate.sh"},
            "machine": {**machine.about(), "python": platform.python_version()},
            "commands": {
                c.name: [Path(part).name if part.startswith("/") else part for part in c.command] for c in chosen
            },
            "versions": {c.name: c.version for c in chosen},
            "runs": [asdict(run) for run in runs],
        }
        (RESULTS / f"{options.save}.json").write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
