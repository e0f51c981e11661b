"""Workers that hold their visits while these wait, from the rate at which they serve."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tailrace import sim, twin
from tailrace.dataset import Dataset
from tailrace.diagnosis import tables
from tailrace.diagnosis.view import View
from tailrace.experiment import from_table
from tailrace.topology import Topology
from tailrace.twin.demands import Demand, Demands
from tailrace.twin.inference import infer
from tailrace.twin.slots import find, waiting

WAITING = {"compute": "2 ms", "wait": "40 ms"}


def recorded(folder: Path, app: dict[str, Any], work: dict[str, str], **others: Any) -> View:
    """What a capture and samples show of bursts at app: no workers and no backlog."""
    table = {
        "duration": "20 s",
        "ramp": "1 s",
        "kernel": {"syn": "linux-6.5"},
        "tiers": {"web": {"kind": "async", "calls": {"app": {"kept": False}}}, "app": app},
        "interactions": {
            "page": {"at": {"web": {"compute": "200 us", "calls": {"work": 1}}}},
            "work": {"at": {"app": work}},
        },
        "workloads": {
            "users": {"kind": "poisson", "rate": 90.0, "interaction": "page"},
            "burst": {"kind": "batch", "size": 60, "every": "5 s", "interaction": "page"},
        },
    }
    sim.simulate(from_table(table | others), folder)
    run = Dataset.open(folder)
    seen = tables.look(run, twin.learning.WINDOW_NS)
    unknown = [
        server.model_copy(update={"workers": None, "backlog": None, "queue_max": None})
        for server in run.topology.servers
    ]
    plain: Topology = run.topology.model_copy(update={"servers": tuple(unknown)})
    return replace(seen, topology=plain)


@pytest.mark.parametrize("workers", [5, 6, 8])
def test_the_rate_and_the_time_alone_give_the_workers(tmp_path: Path, workers: int) -> None:
    view = recorded(tmp_path / "run", {"workers": workers, "backlog": 30}, WAITING)
    held = find(view)
    assert {name: slots.workers for name, slots in held.items()} == {"app": workers}
    assert abs(held["app"].alone_ns / 42e6 - 1) < 0.05
    app = infer(view, held).topology.server("app")
    assert app is not None
    assert app.workers == workers
    assert abs((app.backlog or 0) - 30) <= 1


@pytest.mark.parametrize(
    ("app", "work", "others"),
    [
        ({"workers": 6, "backlog": 30}, {"compute": "10 ms"}, {}),
        ({"workers": 6, "backlog": 30, "quota": {"time": "50 ms"}}, {"compute": "4 ms"}, {}),
        ({"workers": 500, "backlog": 30}, WAITING, {}),
        (
            {"workers": 6, "backlog": 60},
            {"compute": "2 ms"},
            {"stalls": [{"kind": "freeze", "place": "app", "at": "4 s", "for": "900 ms"}]},
        ),
    ],
    ids=["the CPU limits it", "a quota limits it", "nothing waits", "it is stalled"],
)
def test_where_something_else_limits_the_rate_nothing_is_inferred(
    tmp_path: Path, app: dict[str, Any], work: dict[str, str], others: dict[str, Any]
) -> None:
    assert find(recorded(tmp_path / "run", app, work, **others)) == {}


def test_waits_make_a_visit_take_as_long_as_it_takes_alone() -> None:
    kinds = {1: Demand("app", "a", 30, 2.0, 0.1, 4.0, 1.0), 2: Demand("app", "b", 10, 2.0, 0.1, 8.0, 1.0)}
    kinds[3] = Demand("web", "a", 40, 1.0, 0.1, 0.0, 1.0)
    found = waiting(Demands(kinds, {}), {"app": 42.0}).of_kind
    # 5 on average become 40, in proportion
    assert [found[number].wait_ns for number in (1, 2, 3)] == [32.0, 64.0, 0.0]
