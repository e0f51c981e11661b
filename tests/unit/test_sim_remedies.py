"""Keys of experiments that remedies need: what the simulator does with them, and which values are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from builders import SMALL
from tailrace import sim
from tailrace.dataset import Dataset
from tailrace.errors import InputError
from tailrace.experiment import from_table
from tailrace.study.measured import Measured

FROZEN: dict[str, Any] = SMALL | {
    "duration": "4 s",
    "ramp": "0 s",
    "tiers": {"web": {"workers": 8, "backlog": 64}},
    "stalls": [{"kind": "freeze", "place": "web", "at": "1 s", "for": "1 s"}],
}
RETRIED = {"timeout": "300 ms", "retries": 5, "retry_pause": "10 ms"}


def load(**keys: Any) -> dict[str, Any]:
    return {"workloads": {"w": {"clients": 20, "think": "500 ms", "interaction": "page", **keys}}}


def web(**keys: Any) -> dict[str, Any]:
    return {"tiers": {"web": keys}}


@pytest.mark.parametrize("as_one", [False, True])
def test_the_tables_and_the_count_agree_on_what_is_one_request(tmp_path: Path, as_one: bool) -> None:
    experiment = from_table(FROZEN | load(**RETRIED, retried_as_one=as_one))
    counted = sim.count(experiment)
    sim.simulate(experiment, tmp_path / "run")
    run = Dataset.open(tmp_path / "run")
    rows = Measured(run, experiment, sim.EPOCH, sim.EPOCH + experiment.duration).requests()
    assert rows.height == counted.requests
    assert rows.filter(~rows["ok"]).height == counted.failed
    assert rows.filter(rows["ok"] & (rows["response"] >= 10**9)).height == counted.over_1s


def test_counted_as_one_a_request_that_is_answered_in_the_end_does_not_fail() -> None:
    apart, as_one = (sim.count(from_table(FROZEN | load(**RETRIED, retried_as_one=flag))) for flag in (False, True))
    assert apart.failed > 20
    assert as_one.failed == 0
    assert as_one.over_1s > 0
    assert apart.over_1s == 0


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"tiers": {"web": {"quota": {"time": "10 ms", "burst": "20 ms"}}}},
            r"tiers\.web\.quota\.burst must be at most",
        ),
        (
            {"tiers": {"web": {"limit": {"initial": 10}}}},
            r"tiers\.web\.limit\.initial must be from min to max, 20 to 200",
        ),
        (load(retried_as_one=True, embedded=["page"]), r"workloads\.w\.retried_as_one must be false"),
        (load(retry_budget=1.5), r"workloads\.w\.retry_budget"),
    ],
)
def test_contradictions_are_refused_by_name(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        from_table(SMALL | changes)
