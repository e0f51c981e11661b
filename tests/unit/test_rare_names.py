"""A run with as many names of interactions as requests: what rare names cost is folded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tailrace import dataset
from tailrace.dataset import Dataset
from tailrace.diagnosis import diagnose
from tailrace.diagnosis.ledger import recorded
from tailrace.diagnosis.ledger.recorded import Names
from tailrace.experiment import from_table
from tailrace.report import render_html
from tailrace.sim import simulate

SYSTEM = {
    "duration": "20 s",
    "kernel": {"syn": "linux-3.3"},
    "sampling": {"interval": "50 ms"},
    "workloads": {"users": {"kind": "poisson", "rate": 200, "entry": "web", "mix": {"ask": 1}}},
    "interactions": {
        "ask": {"at": {"web": {"compute": "200 us", "calls": {"ask": 1}}, "app": {"compute": "500 us"}}},
    },
    "tiers": {"web": {"workers": 40, "backlog": 10, "calls": ["app"]}, "app": {"workers": 40, "backlog": 40}},
    "stalls": [{"kind": "freeze", "place": "app", "at": "8 s", "for": "700 ms"}],
}


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    out = tmp_path_factory.mktemp("names") / "run"
    simulate(from_table(SYSTEM), out)
    return Dataset.open(out)


def named(run: Dataset, names: int, out: Path) -> Dataset:
    """The same run with so many names of interactions."""
    of_request = pl.lit("/item/") + (pl.col("request") % names).cast(pl.String).str.zfill(12)
    with dataset.create(out) as writer:
        writer.topology = run.topology
        for table in ("requests", "visits"):
            rows = getattr(run, table)()
            writer.write_table(table, rows.with_columns(interaction=of_request.cast(pl.Categorical)))
        writer.write_table("samples", run.samples())
        writer.write_table("events", run.events())
    return Dataset.open(out)


def test_each_request_may_have_a_name_of_its_own(
    simulated: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "KINDS_MAX", 100)
    groups: list[int] = []

    def counted(server: recorded.Numbers, interaction: Names) -> tuple[int, recorded.Numbers]:
        found = original(server, interaction)
        groups.append(found[0])
        return found

    original = recorded._groups
    monkeypatch.setattr(recorded, "_groups", counted)
    few, many = (named(simulated, names, tmp_path / str(names)) for names in (3, 10**9))
    assert many.requests().select(pl.col("interaction").n_unique()).collect().item() > 3_000
    found = [diagnose(one) for one in (few, many)]
    assert groups == [6, 2]
    assert found[1].vlrt > 50
    causes = [[(episode.cause, episode.origin, episode.vlrt) for episode in one.episodes] for one in found]
    assert causes[0] == causes[1]
    assert {cause for cause, _, _ in causes[1]} == {"freeze"}
    sizes = [len(render_html(*pair)) for pair in zip((few, many), found, strict=True)]
    assert sizes[1] <= sizes[0] + 1_000


def test_frequent_kinds_stay_apart_and_rare_ones_are_folded_in_each_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "KINDS_MAX", 20)
    rare = [f"rare-{number}" for number in range(1_000)]
    names = ["often"] * 200 + rare + ["often"] * 100 + rare
    server = np.repeat(np.array([0, 1], dtype=np.uint32), [1_200, 1_100])
    count, group = recorded._groups(server, Names.of(pl.Series(names)))
    assert count == 4
    often = np.array(names) == "often"
    kinds = [set(group[(server == at) & mine].tolist()) for at in (0, 1) for mine in (often, ~often)]
    assert all(len(kind) == 1 for kind in kinds)
    assert len(set.union(*kinds)) == 4
