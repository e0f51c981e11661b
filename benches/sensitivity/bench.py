"""How much the score of the diagnosis depends on each of its constants: each is halved and doubled.

Simulates random systems once, with and without each trouble, and keeps the systems that have very slow requests. Then
it diagnoses them again for each constant of the diagnosis, and prints how the mean shares `right` and `wrong` move. An
int stays an int of at least 1; of a tuple, all numbers change. Of a constant that others are computed from, only its
own value changes. Each row has the date and the shares as they were, because a later run of some constants replaces
only their rows.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import pkgutil
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

RESULTS = Path(__file__).parents[1] / "results" / "sensitivity.json"
TABLE = Path(__file__).with_name("table.md")
HEAD = "| constant | value | right, halved | right, doubled | wrong, halved | wrong, doubled | measured |"
SHOWN = ("_MAX", "_ALL", "NONE", "NEVER", "FIRST", "VERSION")
"""What limits only how much is shown, stands for nothing, or numbers something decides nothing."""
FACTORS = (0.5, 2.0)
LEAST_VLRT = 10
AS_IT_IS, TROUBLES = "as it is", "troubles"

Constant = tuple[str, str]
"""Module and name."""


def prepare(folder: Path, seed: int, systems: str) -> Path | None:
    """The run of a seed, or None where it has few very slow requests. Beside it are the response times of the same
    system without each trouble, so that requests can be counted from any threshold on."""
    from tailrace.diagnosis.vlrt import THRESHOLD_NS
    from tailrace.score import removing, sweep

    run, stored = folder / f"{systems}-{seed}", folder / f"{systems}-{seed}.npz"
    if not stored.exists():
        table = removing.complete(sweep.draw(seed, systems))
        found = {AS_IT_IS: simulated(table, run)}
        if (found[AS_IT_IS] >= THRESHOLD_NS).sum() >= LEAST_VLRT:
            found[TROUBLES] = np.array(removing.troubles(table))
            with TemporaryDirectory(dir=folder) as there:
                for gone in removals(removing.troubles(table)):
                    found[key(gone)] = simulated(removing.without(table, gone), Path(there) / "run")
        half = stored.with_suffix(".half.npz")
        np.savez_compressed(half, **found)
        half.replace(stored)
    with np.load(stored) as known:
        return run if TROUBLES in known else None


def simulated(table: Any, run: Path) -> NDArray[Any]:
    """The response times of a system, in nanoseconds."""
    from tailrace import sim
    from tailrace.dataset import Dataset
    from tailrace.experiment import from_table

    sim.simulate(from_table(table), run, overwrite=True)
    took = pl.col("end") - pl.col("sent")
    return Dataset.open(run).requests().select(took).collect().to_series().to_numpy()


def removals(troubles: tuple[str, ...]) -> list[frozenset[str]]:
    """What the judge takes away if every cause was reported."""
    from tailrace.score import removing, without

    asked: dict[frozenset[str], int] = {}
    without.shared_out(1, troubles, set(removing.SHAPES), lambda gone: asked.setdefault(gone, 0))
    return list(asked)


def key(gone: frozenset[str]) -> str:
    return "+".join(sorted(gone)) or AS_IT_IS


def scored(run: Path) -> Any:
    """The score of the diagnosis of a run: the judge counts from the threshold of the diagnosis on."""
    from tailrace.dataset import Dataset
    from tailrace.diagnosis import diagnose
    from tailrace.diagnosis.serialise import as_dict
    from tailrace.score import figures, without

    diagnosis = as_dict(diagnose(Dataset.open(run)))
    told = figures.causes_of(diagnosis["episodes"])
    with np.load(run.with_suffix(".npz")) as known:
        troubles = known[TROUBLES].tolist()
        counts = {name: int((known[name] >= diagnosis["threshold_ns"]).sum()) for name in known if name != TROUBLES}
    vlrt = counts[AS_IT_IS]
    credit = without.shared_out(vlrt, troubles, set(told), lambda gone: counts[key(gone)]) if vlrt else {}
    return figures.compare(0, vlrt, [(told, credit)], 0, (0, 0))


def shares(runs: list[Path]) -> dict[str, float]:
    """Means over the runs that have very slow requests by their own threshold."""
    found = [one for one in map(scored, runs) if one.vlrt]
    return {
        name: sum(getattr(one, name) / one.vlrt for one in found) / max(len(found), 1) for name in ("right", "wrong")
    }


def modules() -> list[ModuleType]:
    """All of the diagnosis."""
    import tailrace.diagnosis as package

    names = (one.name for one in pkgutil.walk_packages(package.__path__, "tailrace.diagnosis."))
    return [package, *(importlib.import_module(name) for name in names)]


def constants() -> list[Constant]:
    return [(module.__name__, name) for module in modules() for name in named(module)]


def named(module: ModuleType) -> Iterator[str]:
    """The constants that a module defines, and that are numbers."""
    for node in ast.parse(Path(str(module.__file__)).read_text()).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            name = target.id if isinstance(target, ast.Name) and target.id.isupper() else ""
            if name and not name.endswith(SHOWN) and are_numbers(getattr(module, name)):
                yield name


def are_numbers(value: object) -> bool:
    parts = value if isinstance(value, tuple) and value else (value,)
    return all(type(part) in (int, float) for part in parts)


def scaled(value: Any, factor: float) -> Any:
    if isinstance(value, tuple):
        return tuple(scaled(part, factor) for part in value)
    return max(int(value * factor), 1) if isinstance(value, int) else value * factor


@contextmanager
def changed(constant: Constant, factor: float) -> Iterator[None]:
    """Wherever a module of the diagnosis has it under its name with its value."""
    name, value = constant[1], getattr(importlib.import_module(constant[0]), constant[1])
    other = scaled(value, factor)
    holders = [module for module in modules() if vars(module).get(name) is value]
    for module in holders:
        setattr(module, name, other)
    try:
        yield
    finally:
        for module in holders:
            setattr(module, name, value)


def called(constant: Constant) -> str:
    return f"{constant[0].removeprefix('tailrace.diagnosis.')}.{constant[1]}"


def moved(constant: Constant, runs: list[Path], base: dict[str, float]) -> dict[str, Any]:
    row: dict[str, Any] = {"constant": called(constant), "measured": f"{datetime.now(UTC):%Y-%m-%d}", "base": base}
    row["value"] = getattr(importlib.import_module(constant[0]), constant[1])
    for factor in FACTORS:
        try:
            with changed(constant, factor):
                row[str(factor)] = shares(runs)
        except Exception as error:  # a constant that cannot have that value is a finding, too
            row[str(factor)] = {"failed": f"{type(error).__name__}: {error}"[:100]}
    return row


def line(row: dict[str, Any]) -> str:
    cells = []
    for key in ("right", "wrong"):
        for factor in map(str, FACTORS):
            found = row[factor]
            cells.append(f"{100 * (found[key] - row['base'][key]):+.1f}" if key in found else "fails")
    return f"| `{row['constant']}` | {row['value']} | {' | '.join(cells)} | {row['measured']} |"


def stored(systems: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The rows of the stored result, if it is about the same systems."""
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return {row["constant"]: row for row in found["rows"]} if found.get("systems") == systems else {}


def table_of(found: dict[str, Any]) -> str:
    """The page with all rows. They were measured on these dates, with these shares as they were."""
    bases = {(row["measured"], *(100 * row["base"][key] for key in ("right", "wrong"))) for row in found["rows"]}
    were = "; ".join(f"on {date} right {right:.1f} %, wrong {wrong:.1f} %" for date, right, wrong in sorted(bases))
    told = f"{found['runs']} runs: {were}. The shares move by so many points:"
    rows = "\n".join(line(row) for row in found["rows"])
    return f"# How much the score moves with each constant\n\n{told}\n\n{HEAD}\n|---|---|---|---|---|---|---|\n{rows}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=74_000_000)
    parser.add_argument("--systems", default="both")
    parser.add_argument("--folder", type=Path, default=Path("/tmp/tailrace-bench/sensitivity"))
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--only", help="constants whose names contain this", default="")
    parser.add_argument("--missing", help="constants that the stored result lacks", action="store_true")
    arguments = parser.parse_args()
    os.environ["POLARS_MAX_THREADS"] = "1"
    arguments.folder.mkdir(parents=True, exist_ok=True)
    seeds = range(arguments.seed, arguments.seed + arguments.runs)
    systems = {"drawn": arguments.systems, "seed": arguments.seed, "seeds": arguments.runs}
    with ProcessPoolExecutor(arguments.processes, get_context("spawn")) as pool:
        made = pool.map(prepare, [arguments.folder] * len(seeds), seeds, [arguments.systems] * len(seeds))
        runs = [run for run in made if run is not None]
        print(f"{len(runs)} runs with very slow requests", file=sys.stderr)
        base = pool.submit(shares, runs).result()
        rows = stored(systems)
        every = constants()
        known = rows if arguments.missing else ()
        wanted = [one for one in every if arguments.only in called(one) and called(one) not in known]
        for row in pool.map(moved, wanted, [runs] * len(wanted), [base] * len(wanted)):
            rows[row["constant"]] = row
            print(line(row), file=sys.stderr, flush=True)
            measured = [rows[called(one)] for one in every if called(one) in rows]
            save({"command": sys.argv, "systems": systems, "runs": len(runs), "rows": measured})


def save(found: dict[str, Any]) -> None:
    """Write the result and its table. This is done after each row, because all of them take long."""
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    TABLE.write_text(table_of(found))


if __name__ == "__main__":
    main()
