"""How well twins repeat recordings, and what they say when a trouble is taken away, beside what the system itself does.

    python benches/twin/bench.py [RUN …]

Without run folders: the papers' systems, simulated. Each row has the very slow requests of the recording and of its
twin, then those of the twin without the recorded losses of the trouble's cause, and those of the system without the
trouble. For run folders the second half is empty. Nothing here is tuned to these systems.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tailrace import experiment, sim, twin
from tailrace.dataset import Dataset
from tailrace.experiment import Experiment
from tailrace.score.removing import without

ROOT = Path(__file__).parents[2] / "experiments"
Table = dict[str, Any]
Change = str | Callable[[Table], None]
"""The cause of a trouble that is taken away, or what is changed in the table of an experiment."""
LENGTH = "40 s"


def _without_bursts(table: Table) -> None:
    for name in [name for name in table["workloads"] if name.startswith(("bursty", "high"))]:
        del table["workloads"][name]


def _least(table: Table) -> None:
    for tier in table["tiers"].values():
        for call in tier["calls"].values():
            call["policy"] = "current_load"
            call["endpoint"] = "modified"


def _longer(table: Table) -> None:
    for tier in table["tiers"].values():
        tier["backlog"] = 512


CASES: tuple[tuple[str, str, tuple[str, ...], Change], ...] = (
    ("rpc-vs-async/figure-5", "flush", (), "log-flush"),
    ("rpc-vs-async/figure-5", "backlog 512", (), _longer),
    ("rpc-vs-async/figure-3", "neighbour", (), _without_bursts),
    ("rpc-vs-async/figure-7", "neighbour", (), _without_bursts),
    ("rpc-vs-async/figure-10", "neighbour", (), _without_bursts),
    ("lightning/base/collected.toml", "collections", ("workloads.readers.clients=9000",), "garbage-collection"),
    ("lightning/base/governed.toml", "governor", (), "frequency-step"),
    ("lightning/base/governed.toml", "backlog 512", (), _longer),
    ("balancers/figure-6", "writeback", (), "writeback"),
    ("balancers/figure-6", "current_load", (), _least),
)


def _changed(found: Experiment, change: Change) -> Experiment:
    table = experiment.to_table(found)
    if isinstance(change, str):
        return experiment.from_table(without(table, {change}))
    change(table)
    return experiment.from_table(table)


def _row(name: str, run: Dataset, change: Change | None) -> list[str]:
    began = time.perf_counter()
    learnt = twin.learn(run)
    learning = time.perf_counter() - began
    gate = twin.gate(learnt, run)
    row = [name, f"{len(gate.recorded.vlrt)} → {len(gate.reproduced[0].vlrt)}", "passed" if gate.passed else "refused"]
    row += [f"{learning:.1f} s"]
    if isinstance(change, str):
        kept = tuple(loss for loss in learnt.experiment.losses if loss.cause != change)
        row.append(str(sim.count(learnt.experiment.model_copy(update={"losses": kept})).over_1s))
    elif change:
        row.append(str(sim.count(_changed(learnt.experiment, change)).over_1s))
    return row if gate.passed else [*row, *gate.off]


def main(runs: list[str]) -> None:
    for name in runs:
        print(*_row(Path(name).parent.name, Dataset.open(name), None), sep=" | ", flush=True)
    for path, trouble, settings, change in () if runs else CASES:
        found = experiment.read(ROOT / path, [f'duration="{LENGTH}"', *settings])
        with tempfile.TemporaryDirectory() as folder:
            sim.simulate(found, Path(folder) / "run")
            row = _row(f"{path}, {trouble}", Dataset.open(Path(folder) / "run"), change)
        itself = sim.count(_changed(found, change)).over_1s
        print(*row[:5], itself, *row[5:], sep=" | ", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
