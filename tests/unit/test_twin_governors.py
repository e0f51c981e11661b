"""A clock rate that follows the load: the twin learns its governor, or keeps the recorded rates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tailrace import sim, twin
from tailrace.advise.changing import changed
from tailrace.dataset import Dataset
from tailrace.errors import TailraceError
from tailrace.experiment import from_table
from tailrace.twin import Twin
from tailrace.units import MILLISECOND, parse_duration

GOVERNOR = {"period": "430 ms", "frequencies": ["1 GHz", "1.5 GHz", "2 GHz"], "up": 0.85, "down": 0.55}
SURGES = {
    f"surge{at}": {"kind": "poisson", "rate": 700, "begin": f"{at} s", "end": f"{at + 2} s", "interaction": "page"}
    for at in (5, 11, 17, 23)
}
SYSTEM: dict[str, Any] = {
    "duration": "28 s",
    "ramp": "1 s",
    "sampling": {"interval": "50 ms"},
    "kernel": {"syn": "linux-6.5"},
    "nodes": {"app": {"governor": GOVERNOR}},
    "tiers": {"web": {"workers": 60, "backlog": 30, "calls": {"app": {"pool": 60}}}, "app": {"workers": 60}},
    "interactions": {
        "page": {"at": {"web": {"compute": "100 us", "calls": {"part": 1}}}},
        "part": {"at": {"app": {"compute": "1100 us"}}},
    },
    "workloads": {"steady": {"kind": "poisson", "rate": 250, "interaction": "page"}, **SURGES},
}


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> tuple[Dataset, Twin]:
    folder = tmp_path_factory.mktemp("governed") / "run"
    sim.simulate(from_table(SYSTEM), folder)
    return Dataset.open(folder), twin.learn(folder)


def test_the_governor_is_learnt_from_when_the_rate_changed(learnt: tuple[Dataset, Twin]) -> None:
    governor = learnt[1].governors["app"]
    assert parse_duration(governor["period"]) == pytest.approx(430 * MILLISECOND, rel=0.01)
    assert governor["frequencies"] == ["1000000000 Hz", "1500000000 Hz", "2000000000 Hz"]
    assert governor["up"] == pytest.approx(0.85, abs=0.08)
    assert governor["down"] == pytest.approx(0.55, abs=0.08)
    assert not governor["up_at_once"]


def test_a_twin_that_is_governed_loses_nothing_to_the_recorded_rate_and_repeats_the_recording(
    learnt: tuple[Dataset, Twin],
) -> None:
    run, whole = learnt
    governed = whole.governed()
    assert "frequency-step" in {line["cause"] for line in whole.table["losses"]}
    assert "frequency-step" not in {line["cause"] for line in governed.table["losses"]}
    checked = twin.gate(governed, run)
    assert len(checked.recorded.vlrt) > 50
    assert checked.passed, checked.off


@pytest.mark.parametrize(
    "change",
    [
        {("tiers", "web", "backlog"): 200},
        {("tiers", "web", "workers"): 300},
        {("nodes", "app", "governor"): None},
    ],
)
def test_the_governed_twin_predicts_what_the_system_does(
    change: dict[tuple[str, ...], Any], learnt: tuple[Dataset, Twin]
) -> None:
    governed = learnt[1].governed()
    truth = sim.count(changed(from_table(SYSTEM), change)).over_1s
    assert sim.count(changed(governed.experiment, change)).over_1s == pytest.approx(truth, rel=0.2, abs=10)


def test_rates_that_change_at_any_time_show_no_governor(tmp_path: Path) -> None:
    slow = [{"kind": "slow", "place": "app", "at": f"{at} s", "for": "700 ms", "left": 0.5} for at in (3.1, 6.7, 9.2)]
    table = {name: value for name, value in SYSTEM.items() if name != "nodes"} | {"stalls": slow, "duration": "14 s"}
    sim.simulate(from_table(table | {"workloads": {"steady": SYSTEM["workloads"]["steady"]}}), tmp_path / "run")
    found = twin.learn(tmp_path / "run")
    assert not found.governors
    assert found.governed().table == found.table


@pytest.mark.parametrize("wrong", [{"start": "3 GHz"}, {"first": "0 s"}])
def test_a_start_that_is_no_rate_and_a_first_reading_at_once_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(TailraceError):
        from_table({**SYSTEM, "nodes": {"app": {"governor": GOVERNOR | wrong}}})
