#!/usr/bin/env python3
"""The recorder: what it costs, how steady its beat is, and what the recorded servers feel of it. In one run.

    bench.py [--only PART ...] [--seconds S] [--pairs N] [--save NAME] [--more]

`samplers`: CPU time of the whole recorder at 50 ms, of this host alone and with four nodes, nothing else going on.
`packets`: the same with 18,000 packets a second, decoded as they come, and kept as a capture.
`saturated`: the beat while both cores are busy with as many requests as they can carry.
`effect`: response times of a served load, with and without the recorder in turns.
`writes`: the system calls of the recorder that write, by strace.

Two network namespaces with a cable, nginx on one, `tailrace load` on the other. Needs root, nginx, iproute2, strace.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import re
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import hosts

RESULTS = hosts.HERE.parent / "results"
INTERVAL_MS = 50.0
RATE = 2000
"""Requests a second; each has nine packets."""
WARM_S = 1.0
"""After the recorder says that it records, and after the load begins, before anything is measured."""
WATCHED = ("--interface", "n0:eth0", "--server", f"web={hosts.HOSTS.address}:80")
WRITING = "write,pwrite64,writev,pwritev,fsync,fdatasync,sync,syncfs,sync_file_range,msync"


@dataclass(frozen=True)
class Cost:
    """Of a recorder that ran for `seconds`."""

    what: str
    seconds: float
    cores: float
    """CPU time of all its threads, over time."""
    packets_per_s: float
    jitter: hosts.Jitter
    lost: dict[str, int]


@contextmanager
def loaded(folder: Path, seconds: float, *words: str) -> Iterator[None]:
    """Requests come during the block; for so long, at least."""
    asking = hosts.load(folder / "load", round(seconds + 4 * WARM_S), *words)
    try:
        time.sleep(2 * WARM_S)
        yield
        hosts.answer(asking)
    finally:
        asking.kill()


def cost(folder: Path, what: str, seconds: float, words: list[str]) -> Cost:
    out = folder / "recorded"
    with hosts.recorder(out, *words) as process:
        time.sleep(WARM_S)
        begin, used, seen = time.monotonic(), hosts.cpu_s(process), hosts.packets()
        time.sleep(seconds)
        used, seen = hosts.cpu_s(process) - used, hosts.packets() - seen
        took = time.monotonic() - begin
    manifest = json.loads((out / "manifest.json").read_text())
    found = Cost(what, took, used / took, seen / took, hosts.jitter(out, INTERVAL_MS), manifest["lost"])
    print(
        f"{what}: {found.cores:.2%} of a core; {found.packets_per_s:,.0f} packets/s; intervals off by "
        f"p50 {found.jitter.p50_ms:.2f}, p99 {found.jitter.p99_ms:.2f}, at most {found.jitter.most_ms:.2f} ms; "
        f"lost: {found.lost or 'nothing'}"
    )
    return found


def samplers(folder: Path, nodes: list[str], options: argparse.Namespace) -> list[dict[str, Any]]:
    return [
        asdict(cost(folder, "samplers, this host", options.seconds, [])),
        asdict(cost(folder, "samplers, four nodes", options.seconds, nodes)),
    ]


def packets(folder: Path, nodes: list[str], options: argparse.Namespace) -> list[dict[str, Any]]:
    found = []
    for what, more in (("packets decoded", []), ("packets kept", ["--capture"])):
        with loaded(folder, options.seconds, "--rate", str(RATE)):
            found.append(asdict(cost(folder, what, options.seconds, [*nodes, *WATCHED, *more])))
    return found


def saturated(folder: Path, nodes: list[str], options: argparse.Namespace) -> list[dict[str, Any]]:
    with loaded(folder, options.seconds, "--clients", "64"):
        return [asdict(cost(folder, "saturated", options.seconds, [*nodes, *WATCHED]))]


@dataclass(frozen=True)
class Served:
    """A load, with or without a recorder beside it."""

    recorded: bool
    requests: int
    p50_ms: float
    p99_ms: float
    p999_ms: float
    drops: int
    late_windows: int
    machine_cores: float
    """CPUs that were busy, of the whole machine, for whatever."""


def served(folder: Path, recorded: bool, nodes: list[str], seconds: int) -> Served:
    words = [*nodes, *WATCHED]
    with hosts.recorder(folder / "recorded", *words) if recorded else nullcontext():
        time.sleep(WARM_S)
        asking = hosts.load(folder / "load", seconds, "--rate", str(RATE), "--ramp", "1s")
        time.sleep(2 * WARM_S)
        begin, busy = time.monotonic(), hosts.machine_s()
        time.sleep(seconds - 2 * WARM_S)
        cores = (hosts.machine_s() - busy) / (time.monotonic() - begin)
        told = hosts.answer(asking)
    times = [told[f"response_{name}"] / 1e6 for name in ("p50", "p99", "p999")]
    counts = int(told["drops"] + told["data_drops"]), int(told["late_windows"])
    return Served(recorded, int(told["requests"]), *times, *counts, cores)


def effect(folder: Path, nodes: list[str], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Pairs in turns (without, with; with, without; …), so that runs of the same kind are neighbours, too: what these
    differ by is what nothing at all makes."""
    order = [turn % 2 == position for turn in range(options.pairs) for position in (1, 0)]
    before = [Served(**run) for run in saved(options).get("effect", {}).get("runs", [])] if options.more else []
    runs = before + [served(folder, recorded, nodes, options.seconds) for recorded in order]
    for name in ("p50_ms", "p99_ms", "p999_ms", "machine_cores"):
        _tell(name, runs)
    return [asdict(run) for run in runs]


def _tell(name: str, runs: list[Served]) -> None:
    pairs = list(zip(runs[::2], runs[1::2], strict=True))
    without = statistics.median(getattr(run, name) for run in runs if not run.recorded)
    change = sorted(getattr(max(p, key=_kind), name) - getattr(min(p, key=_kind), name) for p in pairs)
    same = sorted(abs(getattr(a, name) - getattr(b, name)) for a, b in zip(runs[1::2], runs[2::2], strict=False))
    least, most = _interval(change)
    print(
        f"{name}: without {without:.3f}; with less without, {len(pairs)} pairs: "
        f"median {statistics.median(change):+.3f}, 95 % {least:+.3f} to {most:+.3f}, "
        f"all {change[0]:+.3f} to {change[-1]:+.3f}; "
        f"two alike differ by {statistics.median(same):.3f} in the median, {same[-1]:.3f} at most"
    )


def _interval(ordered: list[float]) -> tuple[float, float]:
    """Of the median, at 95 %, by ranks alone (the sign test's); of less than six pairs it is all that was seen."""
    outside, rank = 0.0, 0
    while (outside := outside + math.comb(len(ordered), rank) / 2 ** len(ordered)) <= 0.025:
        rank += 1
    rank = max(rank, 1)
    return ordered[rank - 1], ordered[-rank]


def _kind(run: Served) -> bool:
    return run.recorded


def writes(folder: Path, nodes: list[str], options: argparse.Namespace) -> list[dict[str, Any]]:
    found = []
    for what, more in (("packets decoded", []), ("packets kept", ["--capture"])):
        trace = folder / "trace"
        by = ("strace", "-f", "-qq", "--seccomp-bpf", "-e", f"trace={WRITING}", "-o", str(trace))
        with (
            loaded(folder, options.seconds, "--rate", str(RATE)),
            hosts.recorder(folder / "recorded", *nodes, *WATCHED, *more, by=by),
        ):
            time.sleep(options.seconds)
            lines = trace.read_text().splitlines()
        calls = Counter(match[1] for line in lines if (match := re.search(r"^\d+ +(\w+)\(", line)))
        sizes = sorted(int(match[1]) for line in lines if (match := re.search(r"^\d+ +p?write\w*\(.*= (\d+)$", line)))
        told = {"what": what, "seconds": options.seconds, "calls": calls, "largest": sizes[-1], "bytes": sum(sizes)}
        print(
            f"{what}: {sum(sizes) / options.seconds / 1e3:.0f} kB/s in {len(sizes) / options.seconds:.0f} writes a "
            f"second, the largest of {sizes[-1] / 1e3:.0f} kB; calls {dict(calls)}"
        )
        found.append(told)
    return found


Part = Callable[[Path, list[str], argparse.Namespace], list[dict[str, Any]]]
PARTS: dict[str, Part] = {part.__name__: part for part in (samplers, packets, saturated, effect, writes)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--seconds", type=int, default=10, help="of each single run")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--more", action="store_true", help="add the pairs of `effect` to those that are saved")
    parser.add_argument("--save", metavar="NAME", help="write the raw numbers to benches/results/NAME.json")
    options = parser.parse_args()
    if options.more and not options.save:
        parser.error("--more: say to what, with --save")
    if options.pairs < 2:
        parser.error("--pairs: two at least, so that two runs alike can be compared")
    load_before = os.getloadavg()
    found = {}
    with (
        tempfile.TemporaryDirectory() as temporary,
        hosts.cable(),
        hosts.nginx(Path(temporary)),
        hosts.nodes() as nodes,
    ):
        for name in options.only:
            found[name] = PARTS[name](Path(temporary), nodes, options)
    if options.save:
        save(options, found, load_before)


def results(options: argparse.Namespace) -> Path:
    return RESULTS / f"{options.save}.json"


def saved(options: argparse.Namespace) -> dict[str, Any]:
    path = results(options)
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def save(options: argparse.Namespace, found: dict[str, Any], load_before: tuple[float, ...]) -> None:
    """Parts that were not measured stay as they were."""
    kept = saved(options)
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    machine = {
        "cpu": cpu[1] if cpu else platform.machine(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
    }
    about = {"command": f"benches/record/bench.py {' '.join(sys.argv[1:])}", "machine": machine}
    about |= {"load_before": load_before, "load_after": os.getloadavg()}
    found_now = {name: {**about, "runs": runs} for name, runs in found.items()}
    results(options).write_text(json.dumps(kept | found_now, indent=1) + "\n")


if __name__ == "__main__":
    main()
