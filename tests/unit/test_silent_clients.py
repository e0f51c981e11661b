"""Clients that connect and send nothing hold workers: in the simulator, in its recording, and in the twin of one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from tailrace import sim, twin
from tailrace.advise.changing import possible
from tailrace.advise.remedies import asynchronous, silence
from tailrace.advise.software.steps import steps
from tailrace.dataset import Dataset
from tailrace.experiment import from_table

SILENT: dict[str, Any] = {
    "duration": "12 s",
    "ramp": "0 s",
    "sampling": {"interval": "50 ms"},
    "kernel": {"syn": "linux-6.5"},
    "tiers": {"web": {"workers": 8, "backlog": 16}},
    "interactions": {
        "page": {"at": {"web": {"compute": "3 ms"}}},
        "early": {"silent": True, "at": {"web": {"wait": "1500 ms"}}},
    },
    "workloads": {
        "users": {"kind": "poisson", "rate": 150.0, "interaction": "page"},
        "browsers": {"kind": "batch", "size": 8, "every": "4 s", "first": "2 s", "interaction": "early"},
    },
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    path = tmp_path_factory.mktemp("silent") / "run"
    sim.simulate(from_table(SILENT), path)
    return Dataset.open(path)


def test_silent_clients_are_events_and_no_requests(run: Dataset) -> None:
    assert set(run.requests().collect()["interaction"].cast(pl.String)) == {"page"}
    events = run.events().filter(pl.col("kind").cast(pl.String) == "silent_client").collect()
    assert len(events) == 24
    assert set(events["place"].cast(pl.String)) == {"web"}
    lasted = (events["end"] - events["begin"]).to_numpy() / 1e9
    assert lasted.min() == pytest.approx(1.5, abs=0.001)


def test_they_make_others_wait(run: Dataset) -> None:
    """Eight of them hold all eight workers for 1.5 s; without them nothing is slow."""
    calm = from_table(SILENT | {"workloads": {"users": SILENT["workloads"]["users"]}})
    assert sim.count(calm).over_1s == 0
    assert sim.count(from_table(SILENT)).over_1s > 100


def test_the_twin_has_them_too(run: Dataset) -> None:
    learnt = twin.learn(run)
    silent = [one for one in learnt.table["interactions"].values() if one.get("silent")]
    assert silent
    checked = twin.gate(learnt, run)
    assert checked.passed, checked.off
    waits = {one["at"]["web"]["wait"] for one in silent}
    assert waits == {"1500 ms"}
    [(file, rows)] = learnt.arrivals.items()
    named = pl.col("interaction").str.starts_with("clients that sent nothing")
    assert len(rows.filter(named)) == 24
    assert learnt.table["losses"] == []
    calm = replace(learnt, arrivals={file: rows.filter(~named)})
    assert sim.count(calm.experiment).over_1s == 0


def test_advice_cuts_them_off_or_lets_nobody_wait_for_them() -> None:
    base = from_table(SILENT)
    made = {
        option.words(option.sizes[-1]): possible(base, option.changes(option.sizes[-1]))
        for remedy in (silence.REMEDY, asynchronous.REMEDY)
        for option in remedy.options(base)
    }
    assert list(made) == [
        "let web close connections on which clients send nothing for 200 ms",
        "make web asynchronous",
    ]
    now = sim.count(base).over_1s
    for changed in made.values():
        assert changed is not None
        assert sim.count(changed).over_1s < 0.05 * now
    cut_off, events = made.values()
    assert [step.what for step in steps(base, cut_off)] == ["silence"]
    assert [step.what for step in steps(base, events)] == ["kind"]
