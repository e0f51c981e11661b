"""`score` simulates the experiment in the truth.toml of a run, which a stranger may have made: it has bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders import SMALL
from tailrace import sim
from tailrace.dataset import Dataset
from tailrace.diagnosis import diagnose
from tailrace.diagnosis.serialise import as_dict
from tailrace.errors import InputError, UsageError
from tailrace.experiment import from_table
from tailrace.score import judging, removing, without

MADE = {**SMALL, "duration": "4 s"}


def test_an_experiment_that_lasts_far_longer_than_its_run_is_refused(tmp_path: Path) -> None:
    sim.simulate(from_table(MADE), tmp_path / "run")
    run = Dataset.open(tmp_path / "run")
    told = as_dict(diagnose(run))
    judging.score(run, told)
    truth = run.path / "truth.toml"
    text = truth.read_text()
    assert 'duration = "4 s"' in text
    truth.write_text(text.replace('duration = "4 s"', 'duration = "99 h"'))
    with pytest.raises(InputError, match=r"its experiment lasts 5940 min, and the run \d"):
        judging.score(run, told)


def test_a_system_whose_tables_grow_too_large_is_refused() -> None:
    table = removing.complete(
        {**MADE, "duration": "60 s", "workloads": {"w": {"clients": 2000, "think": "100 ms", "interaction": "page"}}}
    )
    assert without.vlrt_of(removing.complete(MADE), 950_000_000) == 0
    with pytest.raises(UsageError, match="the tables of its experiment have more than"):
        without.vlrt_of(table, 950_000_000, most=1)


def test_a_large_run_may_be_simulated_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sim.simulate(from_table(MADE), tmp_path / "run")
    run = Dataset.open(tmp_path / "run")
    told = {**as_dict(diagnose(run)), "threshold_ns": 1}
    monkeypatch.setattr(judging, "SCORED_BYTES", 1)
    assert without.held(run.path) > 0
    assert judging.score(run, told).vlrt > 0


def test_a_file_that_claims_to_be_long_allows_no_large_simulation(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    assert without.held(tmp_path) < 1 << 20
