"""A CPU quota that runs out by itself: the twin learns it, or keeps the recorded time of throttling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tailrace import sim, twin
from tailrace.advise.changing import changed
from tailrace.advise.recordings import twin_of
from tailrace.dataset import Dataset
from tailrace.experiment import from_table
from tailrace.twin import Twin
from tailrace.units import MILLISECOND, parse_duration
from twins import assert_repeats_without

SURGES = {
    f"surge{at}": {"kind": "poisson", "rate": 500, "begin": f"{at} s", "end": f"{at + 1.5} s", "interaction": "page"}
    for at in (5, 11, 17)
}
STEADY = {"kind": "poisson", "rate": 250, "interaction": "page"}


def system(quota: dict[str, Any] | None, **others: Any) -> dict[str, Any]:
    app: dict[str, Any] = {"workers": 60} | ({"quota": quota} if quota else {})
    return {
        "duration": "22 s",
        "ramp": "1 s",
        "sampling": {"interval": "50 ms"},
        "kernel": {"syn": "linux-6.5"},
        "tiers": {"web": {"workers": 60, "backlog": 30, "calls": {"app": {"pool": 60}}}, "app": app},
        "interactions": {
            "page": {"at": {"web": {"compute": "100 us", "calls": {"part": 1}}}},
            "part": {"at": {"app": {"compute": "1100 us"}}},
        },
        "workloads": {"steady": STEADY, **SURGES},
    } | others


SYSTEM = system({"time": "45 ms"})


def recorded(table: dict[str, Any], folder: Path) -> Dataset:
    sim.simulate(from_table(table), folder / "run")
    return Dataset.open(folder / "run")


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> tuple[Dataset, Twin]:
    run = recorded(SYSTEM, tmp_path_factory.mktemp("quota"))
    return run, twin.learn(run)


@pytest.mark.parametrize(
    ("time", "period", "same"), [("45 ms", "100 ms", True), ("90 ms", "200 ms", True), ("9 ms", "20 ms", False)]
)
def test_the_quota_is_what_a_server_uses_while_it_is_throttled(
    time: str, period: str, same: bool, tmp_path: Path
) -> None:
    """Of periods shorter than the interval of samples, only the share of the CPU shows."""
    quota = twin.learn(recorded(system({"time": time, "period": period}), tmp_path)).quotas["app"]
    share = parse_duration(quota["time"]) / parse_duration(quota["period"])
    assert share == pytest.approx(0.45, rel=0.03)
    length = parse_duration(period) if same else 50 * MILLISECOND
    assert parse_duration(quota["period"]) == length


def test_a_twin_with_a_quota_loses_nothing_to_recorded_throttling_and_repeats_the_recording(
    learnt: tuple[Dataset, Twin],
) -> None:
    run, whole = learnt
    assert_repeats_without("cpu-quota", run, whole, whole.limited())


@pytest.mark.parametrize(
    "change",
    [
        {("tiers", "app", "quota"): None},
        {("tiers", "app", "quota", "time"): "55 ms"},
        {("tiers", "web", "backlog"): 200},
        {("tiers", "web", "workers"): 300},
        {("interactions", "part", "at", "app", "compute"): "900 us"},
    ],
)
def test_a_twin_with_a_quota_predicts_what_the_system_does(
    change: dict[tuple[str, ...], Any], learnt: tuple[Dataset, Twin]
) -> None:
    limited = learnt[1].limited()
    truth = sim.count(changed(from_table(SYSTEM), change)).over_1s
    if any(path[0] == "interactions" for path in change):  # in the twin, each kind of visits has its own work
        change = {("tiers", "app", "demand_factor"): limited.experiment.tiers["app"].demand_factor * 900 / 1100}
    assert sim.count(changed(limited.experiment, change)).over_1s == pytest.approx(truth, rel=0.2, abs=10)


def test_advice_uses_the_quota_and_says_so(learnt: tuple[Dataset, Twin], tmp_path: Path) -> None:
    planned = twin_of(learnt[0], tmp_path / "twin")
    assert planned.experiment.tiers["app"].quota
    assert [loss for loss in planned.experiment.losses if loss.cause == "cpu-quota"] == []
    assert [note for note in planned.facts.notes if note.startswith("app is throttled in the twin when it has used")]
    assert planned.facts.origins["tiers.app.quota"].startswith("inferred from samples")


def test_a_server_without_a_quota_has_none(tmp_path: Path) -> None:
    slow = [{"kind": "slow", "place": "app", "at": f"{at} s", "for": "900 ms", "left": 0.3} for at in (4, 9)]
    table = system(None, stalls=slow, workloads={"steady": STEADY}, duration="12 s")
    found = twin.learn(recorded(table, tmp_path))
    assert not found.quotas
    assert found.limited().table == found.table


def test_the_quota_of_a_real_server_is_learnt_in_cpus() -> None:
    """Its control group may use 20 ms of CPU time in each 100 ms; the recorder counts the use of a listener in CPUs."""
    real = Path(__file__).parents[1] / "golden/real/cfs-steady-quota"
    quota = twin.learn(real).quotas["node"]
    assert parse_duration(quota["time"]) == pytest.approx(20 * MILLISECOND, rel=0.02)
    assert quota["period"] == "100 ms"
