"""Advice on random systems: what a remedy is predicted to leave, from the run folder alone, against what it leaves in
the system itself.

Each seed draws a system with its troubles, as `tailrace examine` does, and simulates it into a run folder. The twin is
learnt from the folder. Where the twin repeats it, every remedy that helps is applied to the system itself, too.

    PYTHONPATH=python python benches/advise/bench.py --seeds 40 --first 5000
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tailrace import sim
from tailrace.advise import RefusedError, advise
from tailrace.advise.advice import Advice, Ranked
from tailrace.advise.changing import changed
from tailrace.errors import TailraceError
from tailrace.experiment import Experiment, from_table
from tailrace.score import drawing, removing

NEAR, FEW = 0.2, 10
"""A predicted count is near if it is off by at most this share, or by so many."""
CAUSES = {
    "quota": {"cpu-quota"},
    "governor": {"frequency-step"},
    "heap": {"garbage-collection"},
    "isolation": {"neighbour"},
    "flush": {"log-flush", "writeback", "log-flush or writeback"},
}
"""What a remedy removes from the system, if it relieves a recorded loss of the twin."""


@dataclass
class Row:
    seed: int
    recorded: int
    refused: str = ""
    predicted: int = 0
    near: int = 0
    inside: int = 0
    best_place: int = 0
    """The place of the predicted best among the remedies of the system; 0: nothing could be compared."""


def examined(seed: int, seconds: float) -> Row | None:
    """None for a system with too few very long requests to compare."""
    table = removing.complete(drawing.draw(seed))
    system = from_table(table)
    recorded = sim.count(system).over_1s
    if recorded <= FEW:
        return None
    row = Row(seed, recorded)
    with tempfile.TemporaryDirectory(prefix="tailrace-") as folder:
        run = Path(folder) / "run"
        sim.simulate(system, run)
        try:
            found = advise(run, Path(folder) / "advice", replications=3, seconds=seconds)
        except RefusedError as refusal:
            row.refused = refusal.reasons[0] if refusal.reasons else str(refusal)
            return row
        except TailraceError as error:
            row.refused = str(error)
            return row
        compare(row, found, table)
    return row


def compare(row: Row, found: Advice, table: dict[str, Any]) -> None:
    truths: list[float] = []
    for one, real in in_the_system(found, table):
        made = sim.count(real)
        truth = made.over_1s
        truths.append(made.over_1s + made.failed)
        vlrt = one.effect.vlrt
        off = abs(vlrt.mean - truth)
        row.predicted += 1
        row.near += off <= max(NEAR * truth, FEW)
        row.inside += vlrt.low is not None and vlrt.high is not None and vlrt.low <= truth <= vlrt.high
    if truths:
        row.best_place = 1 + sum(other < truths[0] - max(0.01 * row.recorded, FEW) for other in truths)


def in_the_system(found: Advice, table: dict[str, Any]) -> Iterator[tuple[Ranked, Experiment]]:
    """Each single change of the ranking, and the system with it; what the system cannot express is left out."""
    for one in found.ranked:
        if len(one.remedies) != 1:
            continue
        try:
            if ("losses",) in one.changes:
                real = from_table(removing.without(table, CAUSES[one.remedies[0]]))
            else:
                real = changed(from_table(table), one.changes)
        except TailraceError:
            continue
        yield one, real


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seeds", type=int, default=40)
    options.add_argument("--first", type=int, default=5000)
    options.add_argument("--budget", type=float, default=60.0, help="seconds of simulation for each system")
    options.add_argument("--out", type=Path)
    given = options.parse_args()
    rows = []
    for seed in range(given.first, given.first + given.seeds):
        if row := examined(seed, given.budget):
            rows.append(row)
            print(json.dumps(asdict(row)), flush=True)
    told = [row for row in rows if row.predicted]
    predictions = sum(row.predicted for row in told)
    summary = {
        "systems": len(rows),
        "refused": sum(bool(row.refused) for row in rows),
        "predictions": predictions,
        "near": sum(row.near for row in told) / predictions if predictions else None,
        "inside": sum(row.inside for row in told) / predictions if predictions else None,
        "best_in_first_two": statistics.fmean(row.best_place <= 2 for row in told) if told else None,
    }
    print(json.dumps(summary, indent=2))
    if given.out:
        given.out.write_text(json.dumps({"summary": summary, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
