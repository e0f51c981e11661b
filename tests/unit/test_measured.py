"""A run as measures see it."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tailrace import experiment, sim
from tailrace.dataset import Dataset
from tailrace.study.measured import Measured


def test_a_page_and_what_it_embeds_are_one_request(tmp_path: Path) -> None:
    """An object is fetched when what was before it has come, so that the times add up exactly."""
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


def test_what_was_sampled_of_a_node_alone_is_told_of_its_servers(tmp_path: Path) -> None:
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
