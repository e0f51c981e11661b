"""How much the score of the diagnosis depends on each of its constants: each is halved and doubled.

Simulates random systems once, counts for how many requests each cause may be reported, and keeps the systems that have
very slow requests. Then it diagnoses them again for each constant of the diagnosis, and prints how the mean shares
`right` and `wrong` move. An int stays an int of at least 1; of a tuple, all numbers change. Of a constant that others
are computed from, only its own value changes. Each row has the date and the shares as they were, because a later run of
some constants replaces only their rows.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import pkgutil
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any

RESULTS = Path(__file__).parents[1] / "results" / "sensitivity.json"
TABLE = Path(__file__).with_name("table.md")
HEAD = "| constant | value | right, halved | right, doubled | wrong, halved | wrong, doubled | measured |"
SHOWN = ("_MAX", "_ALL", "NONE", "NEVER")
"""What limits only how much is shown, or stands for nothing, decides nothing."""
FACTORS = (0.5, 2.0)
LEAST_VLRT = 10

Constant = tuple[str, str]
"""Module and name."""


def prepare(folder: Path, seed: int, systems: str) -> Path | None:
    """The run of a seed, and for how many very slow requests each cause may be reported; None where there are few."""
    from tailrace import sim
    from tailrace.dataset import Dataset
    from tailrace.diagnosis.vlrt import THRESHOLD_NS
    from tailrace.experiment import from_table
    from tailrace.score import removing, sweep, without

    run = folder / f"{systems}-{seed}"
    credit = folder / f"{systems}-{seed}.json"
    if not credit.exists():
        table = removing.complete(sweep.draw(seed, systems))
        sim.simulate(from_table(table), run, overwrite=True)
        n = without.count(Dataset.open(run), THRESHOLD_NS)
        found = without.credit(table, n, removing.SHAPES, THRESHOLD_NS) if n >= LEAST_VLRT else {}
        credit.write_text(json.dumps({"vlrt": n, "credit": found}))
    return run if json.loads(credit.read_text())["credit"] else None


def shares(runs: list[Path]) -> dict[str, float]:
    """Means over the runs."""
    from tailrace.dataset import Dataset
    from tailrace.diagnosis import diagnose
    from tailrace.diagnosis.serialise import as_dict
    from tailrace.score import figures

    sums: Counter[str] = Counter()
    for run in runs:
        known = json.loads(run.with_suffix(".json").read_text())
        told = figures.causes_of(as_dict(diagnose(Dataset.open(run)))["episodes"])
        found = figures.compare(0, known["vlrt"], [(told, known["credit"])], 0, (0, 0))
        for key in ("right", "wrong"):
            sums[key] += getattr(found, key) / found.vlrt / len(runs)
    return dict(sums)


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
        known = rows if arguments.missing else ()
        wanted = [one for one in constants() if arguments.only in called(one) and called(one) not in known]
        for row in pool.map(moved, wanted, [runs] * len(wanted), [base] * len(wanted)):
            rows[row["constant"]] = row
            print(line(row), file=sys.stderr, flush=True)
    every = [rows[called(one)] for one in constants() if called(one) in rows]
    found = {"command": sys.argv, "systems": systems, "runs": len(runs), "rows": every}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    TABLE.write_text(table_of(found))
    print(table_of(found))


if __name__ == "__main__":
    main()
