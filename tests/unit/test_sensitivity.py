"""Numbers that a paper does not give, changed by a quarter: which runs get them, and which claims change."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import tomli_w

from builders import SMALL
from doors import told
from tailrace.reproduce import sensitivity, shelf
from tailrace.reproduce.outcome import Seeds
from tailrace.reproduce.varied import varied

GIVEN = ("duration", "ramp", "interactions.page.at.web.compute", "workloads.w.think")


@pytest.mark.parametrize(
    ("value", "factor", "changed"),
    [
        ("0.74 ms", 1.25, "0.925 ms"),
        ("700 us", 0.75, "525 us"),
        ("2.65", 0.75, "1.9875"),
        ("100", 1.25, "125"),
        ("2", 0.75, "1"),
        ("2", 1.25, "3"),
        ("1", 0.75, ""),
        ("jvm15", 1.25, ""),
        ("[0, 0.25]", 1.25, ""),
        ("true", 1.25, ""),
        ("1.2.3", 1.25, ""),
        (".", 1.25, ""),
        ("9" * 5000, 1.25, ""),
        ("²", 1.25, ""),
    ],
)
def test_a_number_keeps_its_unit_and_a_whole_one_stays_whole(value: str, factor: float, changed: str) -> None:
    assert sensitivity.scaled(value, factor) == changed


def figure(folder: Path) -> Path:
    """20 clients that ask once a second are a chosen number of the base; the second run has its own."""
    table = {
        **{"paper": "p", "title": "t", "shows": "s", "seeds": 1},
        "runs": [{"name": "low"}, {"name": "own", "set": {"workloads.w.clients": 40}}],
        "values": [{"name": "rate", "measure": "throughput", "unit": "req/s"}],
        "claims": [
            {"says": "It is busy.", "less": [18, "rate @ low"]},
            {"says": "It is so by itself.", "less": [18, "rate @ own"]},
        ],
    }
    for name in ("base", "figure-1"):
        (folder / "p" / name).mkdir(parents=True)
    (folder / "p/base/experiment.toml").write_text(tomli_w.dumps(SMALL))
    knob = {"key": "workloads.w.clients", "file": "base/experiment.toml", "kind": "chosen", "from": "A guess."}
    given = {**dict.fromkeys(GIVEN, "I"), "workloads.w.clients": "II"}
    (folder / "p/base/knobs.toml").write_text(tomli_w.dumps({"knobs": [knob], "given": given}))
    (folder / "p/figure-1/experiment.toml").write_text('extends = "../base/experiment.toml"\n')
    (folder / "p/figure-1/expected.toml").write_text(tomli_w.dumps(table))
    return folder


def test_only_claims_about_runs_that_use_the_number_can_change(tmp_path: Path) -> None:
    entries = shelf.find(figure(tmp_path / "experiments"), "p")
    fewer, more = sensitivity.vary(entries, tmp_path / "out", Seeds(), workers=1)
    assert (fewer.value, fewer.claims, fewer.changes) == ("15", 2, (("It is busy.", "holds", "fails"),))
    assert (more.value, more.changes) == ("25", ())


def test_a_value_that_the_experiment_refuses_is_not_tried(tmp_path: Path) -> None:
    folder, up = figure(tmp_path / "experiments") / "p", "nodes.web.governor.up"
    governed = SMALL | {"nodes": {"web": {"governor": {"up": 0.99, "down": 0.9}}}}
    (folder / "base/experiment.toml").write_text(tomli_w.dumps(governed))
    knobs = tomllib.loads((folder / "base/knobs.toml").read_text())
    knobs["knobs"].append({"key": up, "kind": "chosen", "from": "A guess."})
    knobs["given"]["nodes.web.governor.down"] = "III"
    (folder / "base/knobs.toml").write_text(tomli_w.dumps(knobs))
    found = sensitivity.vary(shelf.find(tmp_path / "experiments", "p"), tmp_path / "out", Seeds(), workers=1)
    assert [one.number.key for one in found] == ["workloads.w.clients", "workloads.w.clients"]


def test_nothing_is_run_for_a_cell_or_a_drawing_that_no_claim_compares(tmp_path: Path) -> None:
    """The second run has a cell, and the third is between two that a claim about a crossing needs."""
    folder = figure(tmp_path / "experiments") / "p/figure-1"
    table = tomllib.loads((folder / "expected.toml").read_text())
    table["runs"] += [{"name": "high", "set": {"workloads.w.clients": 60}}, {"name": "idle"}]
    table["crossings"] = [{"name": "busy", "value": "rate", "reaches": 30, "runs": ["low", "high"]}]
    table["values"][0]["run"] = ["low", "own", "high", "idle"]
    table["values"].append({"name": "mean", "measure": "response_mean", "unit": "s", "run": ["busy"]})
    table["claims"] = [{"says": "It is quick then.", "less": ["mean @ busy", 1]}]
    table["panels"] = [{"form": "frequency", "title": "t", "top": "1 s"}]
    (folder / "expected.toml").write_text(tomli_w.dumps(table))
    [entry] = shelf.find(tmp_path / "experiments", "p")
    found = sensitivity.compared(entry.read())
    assert {run.name for run in found.runs for value in found.values if run.name in found.asked_in(value)} == {
        "low",
        "high",
    }
    assert not found.panels


def test_the_nearest_file_decides(tmp_path: Path) -> None:
    folder = figure(tmp_path)
    [entry] = shelf.find(folder, "p")
    base, key = folder / "p/base/experiment.toml", "workloads.w.clients"
    found = varied(entry, entry.read(), key, base, "30")
    assert found is not None
    assert [run.set for run in found.runs] == [{key: 30}, {key: 40}]
    (folder / "p/figure-1/experiment.toml").write_text(
        'extends = ["../base/experiment.toml"]\n[workloads.w]\nclients = 9\n'
    )
    assert varied(entry, entry.read(), key, base, "30") is None


def test_the_command_writes_the_table(tmp_path: Path) -> None:
    folder = figure(tmp_path / "experiments")
    assert told("reproduce", "p", "--knobs", "--experiments", folder, "-o", tmp_path / "out", "-j", "1", "-q") == 0
    text = (tmp_path / "out" / "knobs.md").read_text()
    assert "| workloads.w.clients | 20 | base/experiment.toml | 1 of 2 (15) | 0 of 2 (25) |" in text
    assert "- workloads.w.clients = 15, Figure 1: It is busy. holds → fails" in text
