"""A fit finds the values that made the numbers, stays within its bounds, and predicts the other figures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from numpy.typing import NDArray
from typer.testing import CliRunner

from builders import SMALL
from tailrace.cli.commands import app
from tailrace.errors import InputError
from tailrace.reproduce import calibration
from tailrace.reproduce.calibration import Parameter, least_squares


def parameter(**keys: Any) -> Parameter:
    return Parameter.model_validate({"key": "a", "file": "b", "start": 1.0, "least": 0.01, "most": 100.0} | keys)


@pytest.mark.parametrize(("a", "b"), [(3.0, 0.2), (0.05, 40.0)])
def test_the_fit_finds_the_values_that_made_the_numbers(a: float, b: float) -> None:
    def errors(points: Sequence[tuple[float, ...]]) -> list[NDArray[np.float64]]:
        return [np.array([x / a - 1, x * y / (a * b) - 1, y**2 / b**2 - 1]) for x, y in points]

    values, rounds = least_squares(errors, [parameter(), parameter()], 50)
    assert values == pytest.approx((a, b), rel=0.01)
    assert rounds < 50


def test_a_value_stays_within_its_bounds_and_one_without_effect_stays() -> None:
    def errors(points: Sequence[tuple[float, ...]]) -> list[NDArray[np.float64]]:
        return [np.array([x / 500 - 1]) for x, _ in points]

    values, _ = least_squares(errors, [parameter(), parameter(start=7.0)], 50)
    assert values == pytest.approx((100.0, 7.0))


def paper(folder: Path, **changes: Any) -> Path:
    """The rate of figure 1 needs 40 clients; figure 2 has the same experiment."""
    figure = {
        **{"paper": "p", "title": "t", "shows": "s", "seeds": 1, "runs": [{"name": "r"}]},
        "values": [{"name": "rate", "measure": "throughput", "unit": "req/s", "paper": 40.0}],
        "claims": [{"says": "It is busy.", "less": [30, "rate"]}],
    }
    for name in ("base", "figure-1", "figure-2"):
        (folder / "p" / name).mkdir(parents=True)
        (folder / "p" / name / "experiment.toml").write_text('extends = "../base/experiment.toml"\n')
        if name != "base":
            (folder / "p" / name / "expected.toml").write_text(tomli_w.dumps(figure))
    (folder / "p/base/experiment.toml").write_text(tomli_w.dumps({**SMALL, "duration": "60 s"}))
    think = {
        "key": "workloads.w.think",
        "file": "base/experiment.toml",
        "unit": "s",
        "start": 1,
        "least": 0.1,
        "most": 2,
    }
    fit = {"figures": ["figure-1"], "parameters": [think], **changes}
    (folder / "p/base/calibration.toml").write_text(tomli_w.dumps(fit))
    return folder


def told(*words: object) -> Any:
    found = CliRunner().invoke(app, ["calibrate", *map(str, words), "-q", "-j", "1"])
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout) if "--json" in words else found.stdout


def test_the_command_fits_one_figure_and_predicts_the_other(tmp_path: Path) -> None:
    words = ("p", "--experiments", paper(tmp_path / "experiments"), "-o", tmp_path / "out", "--seeds", 1)
    found = told(*words, "--json")
    [think] = found["values"]
    assert think == pytest.approx(0.5, rel=0.15), "20 clients make 40 requests a second"
    assert (found["fitted"]["figures"], found["predicted"]["figures"]) == (["figure-1"], ["figure-2"])
    assert found["fitted"]["error"] < 0.1
    assert found["predicted"]["error"] == pytest.approx(found["fitted"]["error"]), "it has the same experiment"
    text = told(*words, "--predict", "figure-2")
    assert "  workloads.w.think = " in text
    assert "predicted: figure-2: 1 of 1 numbers within a quarter" in text
    assert CliRunner().invoke(app, ["calibrate", *map(str, words), "--predict", "figure-1"]).exit_code != 0


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"figures": ["figure-3"]}, "figures must be the name of a figure or table of the paper"),
        ({"parameters": []}, "parameters"),
        (
            {"parameters": [{"key": "duration", "file": "base/no.toml", "start": 1, "least": 1, "most": 1}]},
            "base/no.toml does not exist",
        ),
        (
            {"parameters": [{"key": "duration", "file": "base/experiment.toml", "start": 3, "least": 1, "most": 2}]},
            "must start between least and most",
        ),
    ],
)
def test_a_wrong_calibration_is_named(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    folder = paper(tmp_path, **changes) / "p"
    with pytest.raises(InputError, match=sentence):
        calibration.read(folder, ["figure-1", "figure-2"])


def test_a_paper_without_one_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="it does not exist") as raised:
        calibration.read(tmp_path, [])
    assert raised.value.advice == "see docs/how-to/calibrate.md"
