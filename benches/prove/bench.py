"""Advice on real servers: what a remedy is predicted to leave, from one recording of the testbed alone, against what
the same servers leave with it.

Each experiment of `experiments/testbed` runs as it is, advice is given on that recording, and the best changes are
applied to the servers and measured with the same requests. Needs root and the servers of the testbed; measured runs are
kept, and the same command continues.

    PYTHONPATH=python python benches/prove/bench.py --out /tmp/prove --seed 9001 --best 3 sync balanced
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from tailrace import experiment
from tailrace.advise import RefusedError, claims
from tailrace.advise.proving import Measured, Proof, ready
from tailrace.errors import TailraceError

EXPERIMENTS = Path(__file__).parents[2] / "experiments/testbed"
NOISE = 10
"""Two counts that differ by so few requests are the same within noise."""


def proven(name: str, folder: Path, changes: list[str], best: int) -> dict[str, Any]:
    """The measured pairs of one experiment, or why there are none."""
    proof = Proof(experiment.read(EXPERIMENTS / name, changes), folder)
    try:
        now, *others = proof.prove(claims.read(proof.advise(replications=3, seconds=30.0)), best)
    except RefusedError as refusal:
        return {"experiment": name, "refused": [*refusal.reasons]}
    except TailraceError as error:
        return {"experiment": name, "failed": str(error)}
    pairs = [row for row in others if row.found is not None]
    return {
        "experiment": name,
        "vlrt": now.found.vlrt if now.found else None,
        "pairs": [_pair(row) for row in pairs],
        "left_out": [{"change": row.claim.words, "why": row.why} for row in others if row.found is None],
        "best_is_best": _is_best(pairs),
    }


def _pair(row: Measured) -> dict[str, Any]:
    claim = row.claim
    measured = row.found.vlrt if row.found else None
    return {
        "change": claim.words,
        "predicted": [claim.mean, claim.low, claim.high],
        "measured": measured,
        "holds": row.holds,
    }


def _is_best(pairs: list[Measured]) -> bool | None:
    """Whether no other change left fewer than the one that is predicted to be the best, beyond noise."""
    left = [row.found.vlrt for row in pairs if row.found]
    return left[0] <= min(left) + NOISE if len(left) > 1 else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("experiments", nargs="*", metavar="NAME")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=9001)
    parser.add_argument("--best", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], dest="changes", metavar="KEY=VALUE")
    given = parser.parse_args()
    ready()
    names = given.experiments or sorted(path.name for path in EXPERIMENTS.iterdir() if path.is_dir())
    found = []
    for number, name in enumerate(names):
        changes = [f"seed={given.seed + number}", *given.changes]
        found.append(proven(name, given.out / name, changes, given.best))
        print(json.dumps(found[-1]), flush=True)
    pairs = [pair for one in found for pair in one.get("pairs", ())]
    decided = [one["best_is_best"] for one in found if one.get("best_is_best") is not None]
    held = sum(pair["holds"] is True for pair in pairs)
    print(
        f"{len(pairs)} pairs: {held} in the predicted interval; "
        f"the best of the prediction is the best in {sum(decided)} of {len(decided)}"
    )


if __name__ == "__main__":
    main()
