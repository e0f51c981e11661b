"""A clock rate that follows the load: the twin learns its governor, or keeps the recorded rates."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tailrace import sim, twin
from tailrace.advise.changing import changed
from tailrace.dataset import Dataset
from tailrace.diagnosis.series import Series
from tailrace.errors import TailraceError
from tailrace.experiment import from_table
from tailrace.twin import Twin, governors
from tailrace.units import MILLISECOND, parse_duration
from twins import assert_repeats_without

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
    assert_repeats_without("frequency-step", run, whole, whole.governed())


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


def sampled(**damage: Any) -> Any:
    """A view of a server whose clock rate follows its load every 500 ms, sampled every 50 ms for 20 s."""
    end = 50 * MILLISECOND * np.arange(1, 401)
    fast = (end - 1) // (500 * MILLISECOND) % 4 >= 2
    known = {"cpu_hz": np.where(fast, 2e9, 1e9), "cpu_busy": np.where(np.roll(fast, -10), 0.95, 0.3)}
    known["cpu_hz_max"] = np.full(len(end), 2e9)
    series = {}
    for metric, value in known.items():
        times = end.copy()
        for at, wrong in damage.get(metric, {}).items():
            value[at] = wrong
        if metric == "cpu_hz":
            times[-1] = damage.get("last", times[-1])
        series[metric] = (Series("app", metric, times - 50 * MILLISECOND, times, value),)
    return SimpleNamespace(
        begin=0,
        end=int(end[-1]),
        series=lambda server, metric: series[metric],
        around=lambda server, metric: (),
        is_own=lambda place, server: True,
    )


@pytest.mark.parametrize(
    "damage",
    [
        {"cpu_hz": {100: 0.0}},
        {"cpu_hz": {100: -1e9}},
        {"cpu_hz": {100: np.inf}},
        {"cpu_busy": {100: np.inf}},
        {"cpu_hz_max": {100: np.inf}},
        {"cpu_hz_max": {100: 1e300}},
        {"last": 10**18},
    ],
)
def test_damaged_samples_show_no_governor(damage: dict[str, Any]) -> None:
    assert governors.find(sampled(), ("app",)) is not None
    assert governors.find(sampled(**damage), ("app",)) is None


def test_the_period_is_known_better_with_more_changes() -> None:
    """A day has tens of thousands of them. Each is off by up to 10 ms."""
    random = np.random.default_rng(7)
    number = np.cumsum(random.integers(1, 4, 30_000))
    middle = 500 * MILLISECOND * number + random.integers(-10, 11, 30_000) * MILLISECOND
    within = np.column_stack((middle - 25 * MILLISECOND, middle + 25 * MILLISECOND))
    for count, off in ((10, 0.01), (100, 0.001), (30_000, 0.000_01)):
        period, _ = next(governors._periods(within[:count], 50 * MILLISECOND, 1))
        assert period == pytest.approx(500 * MILLISECOND, rel=off)
