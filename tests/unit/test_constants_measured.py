"""The table of the sensitivity benchmark has each constant of the diagnosis."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parents[2] / "benches" / "sensitivity"


def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sensitivity_bench", FOLDER / "bench.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_constant_of_the_diagnosis_was_halved_and_doubled() -> None:
    of = bench()
    measured = [row["constant"] for row in json.loads(of.RESULTS.read_text())["rows"]]
    assert measured == [of.called(one) for one in of.constants()], "run bench.py --runs 24 --missing"
    assert [line.split("`")[1] for line in of.TABLE.read_text().splitlines() if line.startswith("| `")] == measured
