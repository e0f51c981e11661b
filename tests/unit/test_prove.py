"""Predicted beside measured. The simulator stands in for real servers; tests/testbed/test_prove.py has those."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from builders import SMALL
from tailrace import advise, experiment, sim
from tailrace.advise import claims
from tailrace.advise.claims import Claim
from tailrace.advise.proving import Proof, applied
from tailrace.cli.commands import app
from tailrace.errors import InputError
from tailrace.experiment import Experiment, from_table
from tailrace.sim.refusals import refuse
from tailrace.study.engines import SIMULATOR

STALLED: dict[str, Any] = SMALL | {
    "kernel": {"syn": "linux-3.3"},
    "duration": "4 s",
    "ramp": "0 s",
    "tiers": {"web": {"workers": 4, "backlog": 4}},
    "workloads": {"w": {"kind": "poisson", "rate": 100.0, "interaction": "page"}},
    "stalls": [{"kind": "freeze", "place": "web", "at": "1 s", "for": "300 ms"}],
}
BACKLOG = {("tiers", "web", "backlog"): 256}


def proof(folder: Path, experiment: Experiment | None = None) -> Proof:
    return Proof(experiment or from_table(STALLED), folder, SIMULATOR, refuse)


def test_the_claims_are_those_of_the_advice(tmp_path: Path) -> None:
    found = advise.advise(from_table(STALLED), replications=2)
    advise.write(found, tmp_path)
    now, best, *_ = claims.read(tmp_path)
    assert (now.changes, now.mean) == ({}, found.base.vlrt.mean)
    assert found.best is not None
    assert (best.words, best.changes) == (found.best.words, found.best.changes)
    assert best.holds(0)
    assert not best.holds(10_000)


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"now": 1}', '{"now": {"vlrt": {"mean": 1, "low": 0, "high": 1e999}}, "ranked": []}', "[" * 10**5],
)
def test_a_damaged_advice_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "advice.json").write_text(text)
    with pytest.raises(InputError, match=r"advice\.json: it is "):
        claims.read(tmp_path)


def test_what_can_be_applied_is_measured_beside_its_prediction(tmp_path: Path) -> None:
    seen = sim.count(from_table(STALLED)).over_1s
    told = [
        Claim("nothing", {}, seen, seen, seen),
        Claim("change a tier that is elsewhere", {("tiers", "db", "backlog"): 9}, 0, 0, 0),
        Claim("raise the backlog", BACKLOG, 50, 40, 60),
        Claim("never reached", BACKLOG, 0, 0, 0),
    ]
    now, elsewhere, raised = proof(tmp_path).prove(told, best=1)
    assert now.found is not None
    assert (now.found.vlrt, now.holds) == (seen, True)
    assert (elsewhere.found, elsewhere.holds, elsewhere.why) == (None, None, "the experiment has no tiers.db")
    assert raised.found is not None
    assert (raised.found.vlrt, raised.holds) == (0, False)


def test_what_a_recording_lacked_is_not_put_onto_servers_that_lack_it_themselves(tmp_path: Path) -> None:
    """The other losses of a twin are recorded; the experiment makes its own."""
    seen = sim.count(from_table(STALLED)).over_1s
    told = [Claim("nothing", {}, seen, seen, seen), Claim("without the flush", {("losses",): []}, 0, 0, 0)]
    _, relieved = proof(tmp_path).prove(told, best=1)
    assert relieved.found is None
    assert relieved.why.startswith("it takes away what the recording lacked")


def test_the_advice_of_an_experiment_is_that_on_its_recording(tmp_path: Path) -> None:
    kept = replace(proof(tmp_path), engine=replace(SIMULATOR, measures=True))
    folder = kept.advise(replications=2, seconds=1e-9)
    now, *_ = claims.read(folder)
    assert now.mean == sim.count(experiment.read(folder / "twin/experiment.toml")).over_1s
    assert json.loads((folder / "advice.json").read_text())["twin"] != []


def test_changes_of_a_twin_are_put_into_the_terms_of_the_experiment() -> None:
    real = from_table(
        STALLED
        | {"tiers": {"web": {"software": "apache", "calls": ["app"]}, "app": {"software": "tomcat"}}, "stalls": []}
    )
    twin = {
        ("workloads", "web", "kept"): True,
        ("tiers", "web", "software"): None,
        ("tiers", "web", "kind"): "async",
        ("tiers", "app", "backlog"): 9,
    }
    assert applied(twin, real) == {
        ("workloads", "w", "kept"): True,
        ("tiers", "web", "software"): "nginx",
        ("tiers", "web", "kind"): None,
        ("tiers", "web", "calls", "app", "policy"): None,
        ("tiers", "app", "backlog"): 9,
    }


def test_an_advice_needs_the_experiment_that_it_is_about(tmp_path: Path) -> None:
    (tmp_path / "advice.json").write_text("{}")
    for words in (["prove", str(tmp_path)], ["prove", str(tmp_path / "none"), "--of", str(tmp_path)]):
        assert CliRunner().invoke(app, words).exception is not None
