"""The advice beside a diagnosis, and what an advice says that its time budget left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from builders import SMALL
from doors import HTTP
from tailrace import diagnose, sim
from tailrace.advise import RefusedError, undone
from tailrace.advise.beside import Beside, beside
from tailrace.advise.undone import Undone
from tailrace.cli.commands import app
from tailrace.dataset import Dataset
from tailrace.experiment import from_table
from tailrace.report import render_html

STALLED = SMALL | {
    "kernel": {"syn": "linux-3.3"},
    "duration": "6 s",
    "ramp": "0 s",
    "tiers": {"web": {"workers": 4, "backlog": 4}},
    "workloads": {"w": {"kind": "poisson", "rate": 100.0, "interaction": "page"}},
    "stalls": [{"kind": "freeze", "place": "web", "at": "2 s", "for": "300 ms"}],
}


def test_what_more_time_would_bring_names_changes() -> None:
    left = [
        Undone("try {}", ("a", "b", "c", "d", "e")),
        Undone("simulate all replications of {}", ("f",)),
    ]
    assert undone.sentence(left) == (
        "With more time, it would try 5 changes (a; b; c; d; 1 more), and simulate all replications of 1 change (f)."
    )
    assert undone.sentence([]) == ""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("beside") / "run"
    sim.simulate(from_table(STALLED), folder)
    return folder


def test_the_report_has_the_advice_and_what_the_budget_left_out(recorded: Path) -> None:
    run = Dataset.open(recorded)
    found = beside(run, seconds=1e-9)
    assert found.advice is not None
    assert not found.advice.complete
    tried = [one.changes for one in found.advice.undone if one.work == "try {}"]
    assert any("raise the backlog of web" in change for changes in tried for change in changes)
    text = render_html(run, diagnose(run), [found.section()])
    assert '<section id="advice"' in text
    assert '<a href="#advice"' in text
    assert "With more time, it would try" in text
    assert '<section id="advice"' not in render_html(run, diagnose(run))


def test_names_in_the_reasons_are_escaped() -> None:
    refused = Beside(None, ("There is no advice: <b>it</b>.",), ("longest queue of <i>\u202e: 1 recorded",))
    assert refused.section().body.count("&lt;") == 3
    assert "\u202e" not in refused.section().body
    assert refused.to_json() == {"refused": refused.sentences[0], "reasons": list(refused.reasons)}


def test_a_recording_that_allows_no_advice_still_has_its_diagnosis(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RefusedError(
            "its twin does not repeat it", where="run", reasons=("throughput: 9 recorded, 3 reproduced",)
        )

    monkeypatch.setattr("tailrace.advise.beside.advise", refuse)
    words = ["diagnose", str(HTTP), "--advise", "--quiet"]
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0
    assert "There is no advice: its twin does not repeat it.\n  throughput: 9 recorded" in shown.stdout
    plain = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert plain["advice"]["reasons"] == ["throughput: 9 recorded, 3 reproduced"]
    assert plain["requests"] > 0
