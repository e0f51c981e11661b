"""Advice on random systems: what a remedy is predicted to leave, from the run folder alone, against what it leaves in
the system itself.

Each seed draws a system with its troubles, as `tailrace examine` does, and simulates it into a run folder. The twin is
learnt from the folder. Where the twin repeats it, every remedy of the ranking is applied to the system itself, too.
With --out, each finished system is kept, and the same command continues.

    PYTHONPATH=python python benches/advise/bench.py --seeds 40 --first 5000 --out advise.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tailrace import sim
from tailrace.advise import RefusedError, advise
from tailrace.advise.advice import Advice, Ranked
from tailrace.advise.changing import changed
from tailrace.advise.proving import NAMED, applied
from tailrace.errors import TailraceError
from tailrace.experiment import Experiment, from_table
from tailrace.score import removing
from tailrace.score.sweep import BOTH, CHAINS, GRAPHS, draw, shape

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
    system: str
    recorded: int
    refused: list[str] = field(default_factory=list)
    """What of the twin differs from the recording."""
    failed: str = ""
    off: list[dict[str, Any]] = field(default_factory=list)
    """The predictions that are not near, with what the system itself does."""
    predicted: int = 0
    near: int = 0
    inside: int = 0
    best_place: int = 0
    """The place of the predicted best among the remedies of the system; 0: nothing could be compared."""
    true_place: int = 0
    """The place, in the ranking that is predicted, of the remedy that is the best of the system itself or within noise
    of it; 0: nothing could be compared."""


def examined(seed: int, systems: str, seconds: float) -> Row:
    """A system with too few very long requests to compare has no predictions."""
    table = removing.complete(draw(seed, systems))
    system = from_table(table)
    row = Row(seed, shape(seed, systems), sim.count(system).over_1s)
    if row.recorded <= FEW:
        return row
    with tempfile.TemporaryDirectory(prefix="tailrace-") as folder:
        run = Path(folder) / "run"
        sim.simulate(system, run)
        try:
            found = advise(run, Path(folder) / "advice", replications=3, seconds=seconds)
        except RefusedError as refusal:
            row.refused = [reason.partition(":")[0] for reason in refusal.reasons]
            return row
        except TailraceError as error:
            row.failed = str(error)
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
        row.predicted += 1
        if abs(vlrt.mean - truth) <= max(NEAR * truth, FEW):
            row.near += 1
        else:
            row.off.append({"change": one.words, "predicted": vlrt.mean, "itself": truth})
        row.inside += vlrt.low is not None and vlrt.high is not None and vlrt.low <= truth <= vlrt.high
    if truths:
        noise = max(0.01 * row.recorded, FEW)
        row.best_place = 1 + sum(other < truths[0] - noise for other in truths)
        row.true_place = 1 + next(place for place, other in enumerate(truths) if other <= min(truths) + noise)


def in_the_system(found: Advice, table: dict[str, Any]) -> Iterator[tuple[Ranked, Experiment]]:
    """Each single change of the ranking, and the system with it; what the system cannot express is left out."""
    system = from_table(table)
    for one in found.ranked:
        if len(one.remedies) != 1:
            continue
        try:
            if ("losses",) in one.changes:
                yield one, from_table(removing.without(table, CAUSES[one.remedies[0]]))
            elif (changes := applied(one.changes, system)) and all(_known(path, system) for path in changes):
                yield one, changed(system, changes)
        except TailraceError:
            continue


def _known(path: tuple[str, ...], system: Experiment) -> bool:
    """Whether the system has this tier or workload: a tier of the twin may be one of several servers of its tier."""
    return path[0] not in NAMED or path[1] in getattr(system, path[0])


def summary(rows: list[Row]) -> dict[str, Any]:
    slow = [row for row in rows if row.recorded > FEW]
    told = [row for row in slow if row.predicted]
    placed = [row for row in told if row.true_place]
    predictions = sum(row.predicted for row in told)
    share = {name: sum(getattr(row, name) for row in told) / predictions for name in ("near", "inside") if predictions}
    return {
        "systems with very long requests": len(slow),
        "refused": sum(bool(row.refused) for row in slow),
        "refused by": dict(Counter(_kind(what) for row in slow for what in dict.fromkeys(row.refused)).most_common()),
        "refused by one row alone": dict(
            Counter(_kind(row.refused[0]) for row in slow if len({_kind(what) for what in row.refused}) == 1)
        ),
        "failed": sum(bool(row.failed) for row in slow),
        "predictions": predictions,
        **share,
        "predicted best in the first two": statistics.fmean(row.best_place <= 2 for row in told) if told else None,
        "true best in the first two": statistics.fmean(row.true_place <= 2 for row in placed) if placed else None,
    }


def _kind(what: str) -> str:
    """The row of the gate without the name of the server."""
    return what.partition(" of ")[0] if what.startswith(("longest queue", "CPU time")) else what


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--seeds", type=int, default=40)
    options.add_argument("--first", type=int, default=5000)
    options.add_argument("--systems", choices=(CHAINS, GRAPHS, BOTH), default=BOTH)
    options.add_argument("--budget", type=float, default=60.0, help="seconds of simulation for each system")
    options.add_argument("--out", type=Path)
    given = options.parse_args()
    kept = json.loads(given.out.read_text())["rows"] if given.out and given.out.exists() else []
    rows = {row["seed"]: Row(**row) for row in kept}
    for seed in range(given.first, given.first + given.seeds):
        if seed not in rows:
            rows[seed] = examined(seed, given.systems, given.budget)
            print(json.dumps(asdict(rows[seed])), flush=True)
        if given.out:
            table = {"summary": summary(list(rows.values())), "rows": [asdict(row) for row in rows.values()]}
            given.out.write_text(json.dumps(table, indent=1) + "\n")
    print(json.dumps(summary(list(rows.values())), indent=2))


if __name__ == "__main__":
    main()
