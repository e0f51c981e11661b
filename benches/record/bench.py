#!/usr/bin/env python3
"""The recorder: what it costs, how steady its beat is, and what the recorded servers feel of it. In one run.

    bench.py [--only PART ...] [--seconds S] [--threes N] [--save NAME] [--more]

`samplers`: CPU time of the whole recorder at 50 ms, of this host alone and with four nodes, nothing else going on.
`packets`: the same with 18,000 packets a second, decoded as they come, and kept as a capture.
`saturated`: the beat while both cores are busy with as many requests as they can carry.
`behind`: how long requests waited behind a thread of the recorder, by the kernel's trace of switches.
`effect`: response times of one long load, with and without the recorder in turns; `effect_kept`: as the testbed has it.
`writes`: the system calls of the recorder that write, by strace.

Two network namespaces with a cable, nginx on one, `tailrace load` on the other. Needs root, nginx, iproute2, strace.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import behind as trace
import hosts
import polars as pl
import windows

from tailrace.recorder import Node, Plan

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import machine

RESULTS = hosts.HERE.parent / "results"
INTERVAL_MS = 50.0
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


def samplers(folder: Path, nodes: list[Node], options: argparse.Namespace) -> list[dict[str, Any]]:
    return [
        asdict(cost(folder, "samplers, this host", options.seconds, [])),
        asdict(cost(folder, "samplers, four nodes", options.seconds, hosts.words(nodes))),
    ]


def packets(folder: Path, nodes: list[Node], options: argparse.Namespace) -> list[dict[str, Any]]:
    found = []
    for what, more in (("packets decoded", []), ("packets kept", ["--capture"])):
        with loaded(folder, options.seconds, "--rate", str(hosts.RATE)):
            found.append(asdict(cost(folder, what, options.seconds, [*hosts.words(nodes), *WATCHED, *more])))
    return found


def saturated(folder: Path, nodes: list[Node], options: argparse.Namespace) -> list[dict[str, Any]]:
    with loaded(folder, options.seconds, "--clients", "64"):
        return [asdict(cost(folder, "saturated", options.seconds, [*hosts.words(nodes), *WATCHED]))]


def behind(folder: Path, nodes: list[Node], options: argparse.Namespace) -> list[dict[str, Any]]:
    found = []
    for what, words in (
        ("samplers, this host", []),
        ("samplers, four nodes", hosts.words(nodes)),
        ("packets decoded", [*hosts.words(nodes), *WATCHED]),
        ("packets kept", [*hosts.words(nodes), *WATCHED, "--capture"]),
    ):
        with (
            loaded(folder, options.seconds + 3, "--rate", str(hosts.RATE), "--epoch", "0"),
            hosts.recorder(folder / "recorded", *words) as process,
        ):
            time.sleep(WARM_S)
            recorder, measured = hosts.threads(process), hosts.beside(process)
            with trace.traced() as seen:
                begin = time.monotonic_ns()
                time.sleep(options.seconds)
                end, lines = time.monotonic_ns(), seen()
        requests = pl.read_parquet(folder / "load" / "requests.parquet", columns=["sent", "end"])
        inside = requests.filter((pl.col("sent") >= begin) & (pl.col("end") <= end))
        told = trace.delays(what, trace.waits(lines), recorder, measured, inside)
        told.tell()
        found.append(asdict(told))
    return found


def effect(folder: Path, nodes: list[Node], options: argparse.Namespace) -> list[dict[str, Any]]:
    return _effect("effect", folder, windows.decoding(nodes), options)


def effect_kept(folder: Path, nodes: list[Node], options: argparse.Namespace) -> list[dict[str, Any]]:
    return _effect("effect_kept", folder, windows.keeping(nodes), options)


def _effect(part: str, folder: Path, plan: Plan, options: argparse.Namespace) -> list[dict[str, Any]]:
    found = [windows.Window(**row) for row in saved(options).get(part, {}).get("runs", [])] if options.more else []
    turn = 1 + max((window.turn for window in found), default=0)
    found += windows.turn(folder / part, turn, plan, options.threes)
    windows.tell(found)
    return [asdict(window) for window in found]


def writes(folder: Path, nodes: list[Node], options: argparse.Namespace) -> list[dict[str, Any]]:
    found = []
    for what, more in (("packets decoded", []), ("packets kept", ["--capture"])):
        trace = folder / "trace"
        by = ("strace", "-f", "-qq", "--seccomp-bpf", "-e", f"trace={WRITING}", "-o", str(trace))
        with (
            loaded(folder, options.seconds, "--rate", str(hosts.RATE)),
            hosts.recorder(folder / "recorded", *hosts.words(nodes), *WATCHED, *more, by=by),
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


Part = Callable[[Path, list[Node], argparse.Namespace], list[dict[str, Any]]]
PARTS: dict[str, Part] = {
    part.__name__: part for part in (samplers, packets, saturated, behind, effect, effect_kept, writes)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--seconds", type=int, default=10, help="of each single run")
    parser.add_argument("--threes", type=int, default=9, help="of windows of `effect` and `effect_kept`, 15 s each")
    parser.add_argument("--more", action="store_true", help="add the windows of effects to those that are saved")
    parser.add_argument("--save", metavar="NAME", help="write the raw numbers to benches/results/NAME.json")
    options = parser.parse_args()
    if options.more and not options.save:
        parser.error("--more: say to what, with --save")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # namespaces and groups go
    load_before = os.getloadavg()
    found = {}
    with (
        tempfile.TemporaryDirectory() as temporary,
        hosts.shielded() as nodes,
        hosts.cable(),
        hosts.nginx(Path(temporary)),
    ):
        for name in options.only:
            found[name] = PARTS[name](Path(temporary), nodes, options)
    if options.save:
        save(options, found, load_before)


def raw_results(options: argparse.Namespace) -> Path:
    """Every single number, to which `--more` adds; not part of the project."""
    return RESULTS / "raw" / f"{options.save}.json"


def saved(options: argparse.Namespace) -> dict[str, Any]:
    path = raw_results(options)
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def save(options: argparse.Namespace, found: dict[str, Any], load_before: tuple[float, ...]) -> None:
    """Parts that were not measured stay as they were."""
    kept = saved(options)
    about = {"command": f"benches/record/bench.py {' '.join(sys.argv[1:])}", "machine": machine.about()}
    about |= {"load_before": load_before, "load_after": os.getloadavg()}
    found_now = {name: {**about, "runs": runs} for name, runs in found.items()}
    raw_results(options).parent.mkdir(exist_ok=True)
    raw_results(options).write_text(json.dumps(kept | found_now) + "\n")
    summary = json.dumps(summarised(kept | found_now), indent=1) + "\n"
    (RESULTS / f"{options.save}.json").write_text(summary)


def summarised(value: Any) -> Any:
    """Runs of one kind (what they were, with or without the recorder) as the median of each number. A list of numbers
    counts as its own median."""
    match value:
        case {"runs": [{}, *_] as runs, **about}:
            kinds: dict[str, list[dict[str, Any]]] = {}
            for run in runs:
                labels = (f"{name} {label}" for name, label in run.items() if isinstance(label, str | bool))
                kinds.setdefault(", ".join(labels), []).append(run)
            return {**about, "medians": {kind: {"runs": len(some), **medians(some)} for kind, some in kinds.items()}}
        case dict():
            return {name: summarised(part) for name, part in value.items()}
        case _:
            return value


def medians(runs: list[dict[str, Any]]) -> dict[str, float]:
    found = {name: median([run[name] for run in runs]) for name in runs[0]}
    return {name: value for name, value in found.items() if value is not None}


def median(values: list[Any]) -> float | None:
    """None of what has no order."""
    plain = [median(value) if isinstance(value, list) else value for value in values]
    numbers = [value for value in plain if isinstance(value, int | float) and not isinstance(value, bool)]
    return statistics.median(numbers) if numbers else None


if __name__ == "__main__":
    main()
