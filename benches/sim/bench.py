#!/usr/bin/env python3
"""Speed of the simulator against a loop written by hand and named peers: requests a CPU second, in one run, medians.

    bench.py [--rounds N] [--only NAME ...] [--save NAME]

Each contender simulates the same three models (models.py) in a process of its own; CPU time is the kernel's account of
that process, so start-up counts and other load on the machine does not. The contenders take turns. Throughput and mean
response of each are compared with the exact values: a program that simulates something else ends the benchmark.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from models import EXACT

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import machine

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results"
PEERS = str(HERE / ".venv/bin/python")
MODELS = ("single", "tiers", "stalls")
# What is simulated: seconds, or completions of LINE's LDES (2 a request in `single`, 6 in `tiers`).
CONTENDERS: dict[str, tuple[list[str], dict[str, int]]] = {
    "by hand": ([str(HERE / "by-hand/target/release/by-hand")], {"single": 20_000, "tiers": 8000, "stalls": 8000}),
    "tailrace": ([sys.executable, str(HERE / "engine.py")], {"single": 20_000, "tiers": 8000, "stalls": 8000}),
    "simcore": (
        [str(HERE / "simcore-driver/target/release/simcore-driver")],
        {"single": 4000, "tiers": 2000, "stalls": 2000},
    ),
    "LINE LDES": ([PEERS, str(HERE / "ldes_model.py")], {"single": 10_000_000, "tiers": 12_000_000}),
    "SimPy": ([PEERS, str(HERE / "simpy_model.py")], {"single": 300, "tiers": 100, "stalls": 100}),
}
# Requests are correlated, above all in short runs; a program that differs by more than this simulates another model.
TOLERANCE = 0.02
SHORT_TOLERANCE = 0.15


@dataclass(frozen=True)
class Run:
    contender: str
    model: str
    amount: int
    cpu_s: float
    answered: int
    mean_ms: float
    over_1s: int
    drops: int

    @property
    def rate(self) -> float:
        return self.answered / self.cpu_s


def measure(contender: str, model: str) -> Run:
    command, amounts = CONTENDERS[contender]
    process = subprocess.Popen([*command, model, str(amounts[model])], stdout=subprocess.PIPE)
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{contender} ended with {process.returncode} on {model}")
    counts = json.loads(said.decode().strip().splitlines()[-1])
    cpu_s = usage.ru_utime + usage.ru_stime
    mean_ms = counts["response_ns"] / counts["answered"] / 1e6
    drops = counts["drops"] if isinstance(counts["drops"], int) else sum(counts["drops"])
    return Run(contender, model, amounts[model], cpu_s, counts["answered"], mean_ms, counts["over_1s"], drops)


def check(run: Run, reference: Run | None) -> None:
    """Ends the benchmark when a run is not of the model: exact values, or the loop's where there are none."""
    tolerance = TOLERANCE if run.answered >= 900_000 else SHORT_TOLERANCE
    expected = [("mean response, ms", run.mean_ms, EXACT[run.model][1])] if run.model in EXACT else []
    if run.model in EXACT and run.contender != "LINE LDES":
        expected.append(("requests a second", run.answered / run.amount, EXACT[run.model][0]))
    if run.model not in EXACT and reference is not None:
        lost, share = run.drops / run.answered, reference.drops / reference.answered
        # Where jobs do not share a CPU, a stall catches one more or less: lost SYNs differ by a few in a hundred.
        expected = [("lost SYNs a request", lost, share), ("mean response, ms", run.mean_ms, reference.mean_ms)]
        tolerance = max(tolerance, 0.05)
    for what, seen, known in expected:
        if abs(seen / known - 1) > tolerance:
            sys.exit(f"{run.contender} on {run.model}: {what} is {seen:.4g}, expected {known:.4g}")


def table(runs: list[Run]) -> str:
    def median(contender: str, model: str) -> float | None:
        rates = [run.rate for run in runs if (run.contender, run.model) == (contender, model)]
        return statistics.median(rates) if rates else None

    models = [m for m in MODELS if any(run.model == m for run in runs)]
    lines = ["| | " + " | ".join(models) + " |", "|---|" + "---:|" * len(models)]
    for contender in dict.fromkeys(run.contender for run in runs):
        cells = []
        for model in models:
            rate, ours = median(contender, model), median("tailrace", model)
            ratio = "" if rate is None or ours is None or contender == "tailrace" else f" ({ours / rate:.2f})"
            cells.append("-" if rate is None else f"{rate / 1e6:.3g} M{ratio}")
        lines.append(f"| {contender} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", "Requests a CPU second; in brackets: Tailrace's rate divided by this one."])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=list(CONTENDERS), metavar="NAME")
    parser.add_argument("--save", metavar="NAME", help="write the raw numbers to benches/results/NAME.json")
    options = parser.parse_args()
    load_before = os.getloadavg()
    runs: list[Run] = []
    for turn in range(options.rounds):
        for model in MODELS:
            reference = None
            for contender in (c for c in CONTENDERS if c in options.only and model in CONTENDERS[c][1]):
                print(f"round {turn + 1} of {options.rounds}: {model}, {contender}", file=sys.stderr)
                runs.append(measure(contender, model))
                check(runs[-1], reference)
                reference = reference or runs[-1]
    print(table(runs))
    if options.save:
        kept = {
            "command": f"benches/sim/bench.py --rounds {options.rounds} --save {options.save}",
            "machine": machine.about(),
            "load_before": load_before,
            "load_after": os.getloadavg(),
            "runs": [asdict(run) | {"requests_per_cpu_s": round(run.rate)} for run in runs],
        }
        (RESULTS / f"{options.save}.json").write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
