"""Advice on real servers: what a remedy is predicted to leave, from one recording of the testbed alone, against what
the same servers leave with it.

Each experiment of `experiments/testbed` runs as it is, advice is given on that recording, and the best changes are
applied to the servers and measured with the same requests. Needs root and the servers of the testbed. Each measured run
and each finished experiment is kept in the folder of --out, so a bench that was killed continues with the same command.

    PYTHONPATH=python python benches/prove/bench.py --out /var/tmp/prove --seeds 40001 40002 --best 4
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tailrace import experiment, whole
from tailrace.advise import RefusedError, claims
from tailrace.advise.proving import Measured, Proof, ready
from tailrace.errors import TailraceError
from tailrace.testbed.ledger import InUseError

EXPERIMENTS = Path(__file__).parents[2] / "experiments/testbed"
SIMULATED = ("measured", "closed")
"""Files whose names end so are for the simulator, or for others to extend."""
NOISE = 10
"""Two counts that differ by so few requests are the same within noise."""
AGAIN_S = 5.0
"""Only one testbed runs at a time: the bench looks so often whether another has ended."""

Row = dict[str, Any]


def names() -> list[str]:
    """`sync`, and `sync/stalls` for another file of the same folder."""
    files = (file for file in EXPERIMENTS.glob("*/*.toml") if not file.stem.endswith(SIMULATED))
    return sorted(file.parent.name + f"/{file.stem}".removesuffix("/experiment") for file in files)


def proven(name: str, seed: int, folder: Path, changes: Sequence[str], best: int, budget: float) -> Row:
    """The measured pairs of one experiment, or why there are none."""
    file = EXPERIMENTS / name
    read = experiment.read(file if file.is_dir() else file.with_suffix(".toml"), [f"seed={seed}", *changes])
    row: Row = {"experiment": name, "seed": seed, "load": round(os.getloadavg()[0], 1)}
    proof = Proof(read, folder)
    try:
        now, *others = proof.prove(claims.read(proof.advise(replications=3, seconds=budget)), best)
    except RefusedError as refusal:
        return row | {"refused": [*refusal.reasons]}
    except InUseError:
        raise
    except TailraceError as error:
        return row | {"failed": str(error)}
    pairs = [one for one in others if one.found is not None]
    return row | {
        "vlrt": now.found.vlrt if now.found else None,
        "pairs": [_pair(one) for one in pairs],
        "left_out": [{"change": one.claim.words, "why": one.why} for one in others if one.found is None],
        "best_is_best": _is_best(pairs),
    }


def _pair(row: Measured) -> Row:
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


def patiently(name: str, seed: int, folder: Path, changes: Sequence[str], best: int, budget: float) -> Row:
    while True:
        try:
            return proven(name, seed, folder, changes, best, budget)
        except InUseError:
            time.sleep(AGAIN_S)


def summary(rows: Sequence[Row]) -> str:
    pairs = [pair for row in rows for pair in row.get("pairs", ())]
    decided = [row["best_is_best"] for row in rows if row.get("best_is_best") is not None]
    held = sum(pair["holds"] is True for pair in pairs)
    refused = sum("refused" in row for row in rows)
    return (
        f"{len(rows)} recordings, of which {refused} were refused; {len(pairs)} pairs, of which {held} are in the "
        f"predicted interval; the predicted best is the best within {NOISE} requests in {sum(decided)} of "
        f"{len(decided)}."
    )


def table(rows: Sequence[Row]) -> str:
    """In Markdown: a line for each pair, and one for each recording without any."""
    head = ["experiment", "seed", "load", "recorded", "change", "predicted (90 %)", "measured", "in it"]
    lines = [head, ["---"] * len(head), *(cells for row in rows for cells in _cells(row))]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n{summary(rows)}\n"


def _cells(row: Row) -> Iterator[list[str]]:
    first = [row["experiment"], str(row["seed"]), str(row["load"]), str(row.get("vlrt", ""))]
    for pair in row.get("pairs", ()):
        mean, low, high = pair["predicted"]
        counts = f"{mean:,.0f} ({low:,.0f} to {high:,.0f})"
        yield [*first, pair["change"], counts, f"{pair['measured']:,}", "yes" if pair["holds"] else "no"]
    if not row.get("pairs"):
        why = row.get("failed") or "; ".join(row.get("refused", ())) or "no change helps"
        yield [*first, f"none: {why}", "", "", ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("experiments", nargs="*", metavar="NAME", help="such as sync or balanced/nginx; default: all")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[40001])
    parser.add_argument("--best", type=int, default=4)
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of simulation for each advice")
    parser.add_argument("--set", action="append", default=[], dest="changes", metavar="KEY=VALUE")
    given = parser.parse_args()
    ready()
    file = given.out / "rows.json"
    rows: list[Row] = json.loads(file.read_text()) if file.exists() else []
    done = {(row["experiment"], row["seed"]) for row in rows if "failed" not in row}
    given.out.mkdir(parents=True, exist_ok=True)
    for seed in given.seeds:
        for name in given.experiments or names():
            if (name, seed) in done:
                continue
            folder = given.out / f"{name.replace('/', '-')}-{seed}"
            row = patiently(name, seed, folder, given.changes, given.best, given.budget)
            rows = [one for one in rows if (one["experiment"], one["seed"]) != (name, seed)] + [row]
            whole.write(file, (json.dumps(rows, indent=1) + "\n").encode())
            whole.write(given.out / "table.md", table(rows).encode())
            print(json.dumps(row), flush=True)
    print(summary(rows))


if __name__ == "__main__":
    main()
