"""A run in the form that measures use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tailrace import experiment, sim
from tailrace.dataset import Dataset
from tailrace.study.measured import Measured
from tailrace.units import SECOND


def test_a_page_and_what_it_embeds_are_one_request(tmp_path: Path) -> None:
    """An object is fetched when the previous one has arrived, so that the times add up exactly."""
    found = experiment.from_table(
        {
            "duration": "5 s",
            "ramp": "0 s",
            "tiers": {"web": {"workers": 2, "backlog": 1}},
            "interactions": {name: {"at": {"web": {"compute": "8 ms"}}} for name in ("page", "image")},
            "workloads": {"w": {"clients": 20, "think": "0.1 s", "interaction": "page", "embedded": ["image"] * 2}},
        }
    )
    sim.simulate(found, tmp_path / "run")
    run = Measured(Dataset.open(tmp_path / "run"), found, sim.EPOCH, sim.EPOCH + found.duration)
    rows = run.dataset.requests().with_columns(pl.col("interaction").cast(pl.String)).collect()
    pages = run.requests()
    assert pages["interaction"].unique().to_list() == ["page"]
    assert pages.height == rows.filter(pl.col("interaction") == "page").height < rows.height
    assert pages["response"].sum() == (rows["end"] - rows["sent"]).sum()
    assert pages["drops"].sum() == rows["drops"].sum() > 0


def test_what_is_apart_takes_its_time_and_is_not_counted(tmp_path: Path) -> None:
    """Requests and visits are those of the pages, although clients send the next request when the images have
    arrived."""
    table = {
        "duration": "5 s",
        "ramp": "1 s",
        "tiers": {"web": {"workers": 2, "backlog": 1}},
        "interactions": {name: {"at": {"web": {"compute": "8 ms"}}} for name in ("page", "image")},
        "workloads": {"w": {"clients": 20, "think": "0.1 s", "interaction": "page", "embedded": ["image"]}},
    }
    whole = experiment.from_table(table)
    table["workloads"]["w"]["embedded_apart"] = True
    apart = experiment.from_table(table)
    sim.simulate(whole, tmp_path / "whole")
    outcome = sim.simulate(apart, tmp_path / "apart")
    begin = sim.EPOCH + SECOND
    counted, run = (
        Measured(Dataset.open(tmp_path / name), found, begin, begin + found.duration, outcome.early)
        for name, found in (("whole", whole), ("apart", apart))
    )
    assert run.dataset.requests().collect().equals(counted.dataset.requests().collect())
    rows = (
        run.dataset.requests()
        .filter(pl.col("interaction").cast(pl.String) == "page", pl.col("sent") >= begin)
        .collect()
    )
    assert run.requests()["response"].sum() == (rows["end"] - rows["sent"]).sum()
    assert run.visits("web").collect()["interaction"].cast(pl.String).unique().to_list() == ["page"]
    assert counted.visits("web").collect().height > 1.8 * run.visits("web").collect().height


@pytest.mark.parametrize(
    "more",
    [{}, {"embedded": ["image"] * 2}, {"embedded": ["image"] * 2, "embedded_apart": True}, {"hedge": "20 ms"}],
    ids=["plain", "pages", "apart", "hedges"],
)
def test_a_run_counts_as_its_measures_do(more: dict[str, Any], tmp_path: Path) -> None:
    """Pages whose objects fail, hedges that win, and clients that give up and repeat."""
    found = experiment.from_table(
        {
            "duration": "20 s",
            "ramp": "2 s",
            "tiers": {"web": {"workers": 2, "backlog": 3}},
            "kernel": {"syn": ["0.3 s"], "give_up": "0.5 s"},
            "interactions": {name: {"at": {"web": {"compute": "8 ms"}}} for name in ("page", "image")},
            "workloads": {
                "w": {"clients": 20, "think": "0.1 s", "interaction": "page", "timeout": "0.7 s", "retries": 1, **more}
            },
        }
    )
    outcome = sim.simulate(found, tmp_path / "run")
    begin = sim.EPOCH + found.ramp
    run = Measured(Dataset.open(tmp_path / "run"), found, begin, begin + found.duration, outcome.early)
    ok = run.requests().filter("ok")
    assert outcome.failed > 0
    assert run.requests().height == outcome.requests
    assert outcome.failed == outcome.requests - ok.height
    assert ok["response"].mean() == pytest.approx(outcome.response_ns_mean)
    assert ok.filter(ok["response"] >= SECOND).height == outcome.over_1s
    assert run.answered() == outcome.answered
    if "hedge" in more:
        assert run.dataset.requests().collect().height > 1.1 * outcome.requests


def test_what_is_answered_counts_within_the_interval_whenever_it_was_sent(tmp_path: Path) -> None:
    """1.5 times the load that a server of 100/s can serve: it answers 100/s, whatever waits at the begin and the
    end."""
    found = experiment.from_table(
        {
            "duration": "20 s",
            "ramp": "10 s",
            "tiers": {"web": {"workers": 1, "backlog": 100_000}},
            "interactions": {"page": {"at": {"web": {"compute": "10 ms", "scv": 0}}}},
            "workloads": {"w": {"kind": "poisson", "rate": 150, "interaction": "page"}},
        }
    )
    outcome = sim.simulate(found, tmp_path / "run")
    begin = sim.EPOCH + found.ramp
    run = Measured(Dataset.open(tmp_path / "run"), found, begin, begin + found.duration, outcome.early)
    assert outcome.early["web"] > 200
    assert run.answered() / 20 == pytest.approx(100, abs=0.1)
    assert outcome.requests / 20 > 140


def test_samples_of_a_node_count_for_its_servers(tmp_path: Path) -> None:
    """A node that two servers share has a name of its own, and the clock rate is the node's."""
    found = experiment.from_table(
        {
            "duration": "1 s",
            "ramp": "0 s",
            "nodes": {"box": {"governor": {}}},
            "tiers": {name: {"workers": 2, "node": "box"} for name in ("web", "beside")},
            "interactions": {"page": {"at": {"web": {"compute": "8 ms"}}}},
            "workloads": {"w": {"entry": "web", "clients": 20, "think": "0.1 s", "interaction": "page"}},
        }
    )
    sim.simulate(found, tmp_path / "run")
    run = Measured(Dataset.open(tmp_path / "run"), found, sim.EPOCH, sim.EPOCH + found.duration)
    clock = run.samples("web", "cpu_hz")
    assert set(clock["place"]) == {"box"}
    assert clock.equals(run.samples("box", "cpu_hz"))
    assert set(run.samples("web", "cpu_busy")["place"]) == {"web"}
