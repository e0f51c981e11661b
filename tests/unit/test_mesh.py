"""A mesh of services like published call graphs: it is the same each time, it can be simulated, and it is explained."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import tomllib
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tailrace import sim
from tailrace.dataset import Dataset
from tailrace.diagnosis import diagnose
from tailrace.experiment import from_table
from tailrace.report import write_html

SCRIPT = Path(__file__).parents[2] / "experiments" / "scale" / "mesh.py"
SERVICES = 200


@pytest.fixture(scope="module")
def mesh() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mesh", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there for the names of types
    spec.loader.exec_module(module)
    return module


def text(mesh: ModuleType, services: int, seed: int = 1, seconds: int = 25) -> str:
    made: str = mesh.experiment(services, 1, seed, seconds, mesh.SAMPLED)
    return made


def table(mesh: ModuleType, services: int, seed: int = 1, seconds: int = 25) -> dict[str, Any]:
    return tomllib.loads(text(mesh, services, seed, seconds))


def test_a_mesh_is_the_same_each_time_and_has_every_service(mesh: ModuleType) -> None:
    assert text(mesh, SERVICES) == text(mesh, SERVICES)
    assert table(mesh, SERVICES) != table(mesh, SERVICES, seed=2)
    found = table(mesh, SERVICES)
    assert len(found["tiers"]) == SERVICES
    called = {callee for tier in found["tiers"].values() for callee in tier["calls"]}
    assert called == found["tiers"].keys() - {"gateway"}


def test_few_services_receive_most_calls_and_most_trees_are_small(mesh: ModuleType) -> None:
    found, kinds = mesh.mesh(1_000, 1)
    calls = Counter(found.called)
    hot = sum(count for _, count in calls.most_common(100)) / calls.total()
    assert hot > 0.3
    sizes = sorted(len(re.findall(rf"{kind}\.", " ".join(found.interactions))) for kind in kinds)
    assert sizes[len(sizes) // 2] < 10 < 40 < sizes[-1]


def test_the_diagnosis_names_the_service_that_stood_still_and_the_report_folds_the_others(
    mesh: ModuleType, tmp_path: Path
) -> None:
    system = table(mesh, SERVICES)
    sim.simulate(from_table(system), tmp_path / "run")
    run = Dataset.open(tmp_path / "run")
    answer = diagnose(run)
    [found] = answer.summary
    assert (found.origin, found.cause, found.vlrt) == (system["stalls"][0]["place"], "freeze", answer.vlrt)
    write_html(run, answer, tmp_path / "report.html", [])
    page = (tmp_path / "report.html").read_text()
    shown = set(re.findall(r"\bs\d{4}\b", page))
    assert found.origin in shown
    assert len(shown) < SERVICES / 3, json.dumps(sorted(shown))
