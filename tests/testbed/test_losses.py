"""Recorded losses on the testbed: what is done to control groups, and when."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, cast

import pytest

from tailrace import experiment
from tailrace.errors import UsageError
from tailrace.experiment import Experiment, truth
from tailrace.experiment.losses import NEIGHBOUR, changes
from tailrace.experiment.tiers import Quota
from tailrace.testbed import cgroup, nodes, refusals
from tailrace.testbed.epoch import Epoch
from tailrace.testbed.stalls.losing import Losing
from tailrace.units import MILLISECOND, SECOND

SYNC = Path(__file__).parents[2] / "experiments/testbed/sync"


class Group(cgroup.Group):
    """It notes what is done to a control group."""

    def __init__(self, done: list[Any], name: str = "") -> None:
        self.done, self.name = done, name

    def _note(self, *what: Any) -> None:
        self.done.append((self.name, *what) if self.name else what)

    def share(self, cpus: float | None) -> None:
        self._note("share", cpus if cpus is None else round(cpus, 3))

    def limit(self, time_ns: int | None, period_ns: int = 0) -> None:
        self._note("limit", time_ns)

    def weigh(self, weight: float) -> None:
        self._note("weigh", round(weight, 3))

    def freeze(self) -> None:
        self._note("freeze")

    def thaw(self) -> None:
        self._note("thaw")


class Over:
    """An event that is set once a mechanism waits for it without a time limit."""

    def wait(self, timeout: float | None = None) -> bool:
        return timeout is None


def taken(
    series: dict[str, list[tuple[int, float]]], quota: Quota | None = None
) -> tuple[list[tuple[Any, ...]], list[truth.Stall]]:
    """What is done to the group of a server and to that of its neighbour, and the stalls. All times have passed."""
    done: list[tuple[Any, ...]] = []
    beside = cast(Any, Group(done, "beside")) if NEIGHBOUR in series else None
    steps = list(changes(list(series.values())))
    losing = Losing("app", tuple(series), steps, cast(Any, Group(done)), 0.8, quota, beside, 2.0, Epoch(0))
    return done, losing.run(time.monotonic_ns() - 100 * SECOND, cast(Any, Over()))


def test_nothing_left_is_a_frozen_group_and_a_part_is_a_quota() -> None:
    done, found = taken({"freeze": [(1, 1.0), (2, 0.5), (3, 0.0)]})
    assert done == [("freeze",), ("share", 0.4), ("thaw",), ("limit", None), ("thaw",), ("limit", None), ("thaw",)]
    [stall] = found
    assert (stall.kind, stall.place) == ("freeze", "app")
    assert stall.begin < stall.end


def test_losses_of_one_server_add_up_and_each_is_a_stall_of_its_own() -> None:
    done, found = taken({"cpu-quota": [(1, 0.25), (3, 0.0)], "unknown": [(2, 0.5), (3, 0.0)]})
    assert done[:4] == [("share", 0.6), ("thaw",), ("share", 0.2), ("thaw",)]
    assert [stall.kind for stall in found] == ["cpu-quota", "unknown"]
    assert found[0].begin <= found[1].begin < found[0].end == found[1].end


def test_a_server_keeps_its_own_quota() -> None:
    quota = Quota.model_validate({"time": "20 ms", "period": "100 ms"})
    done, _ = taken({"unknown": [(1, 0.5), (2, 0.0)]}, quota)
    assert done[:3] == [("share", 0.1), ("thaw",), ("limit", 20 * MILLISECOND)]


def test_a_neighbour_takes_its_part_by_weight() -> None:
    """Against a server of weight 2 it gets three quarters with a weight of 6."""
    done, found = taken({NEIGHBOUR: [(1, 0.75), (2, 0.0)]})
    assert done[:2] == [("beside", "weigh", 6.0), ("beside", "thaw")]
    assert ("share", 0.2) not in done
    assert ("beside", "freeze") in done
    assert [stall.kind for stall in found] == [NEIGHBOUR]
    done, _ = taken({NEIGHBOUR: [(1, 0.5)], "unknown": [(1, 0.25)]})
    assert done[:3] == [("beside", "weigh", 2.0), ("beside", "thaw"), ("share", 0.2)]


def test_the_last_loss_holds_to_the_end_and_is_undone_then() -> None:
    done, found = taken({"freeze": [(1, 1.0)]})
    assert done == [("freeze",), ("limit", None), ("thaw",)]
    assert len(found) == 1


def with_loss(folder: Path, cause: str, changed: tuple[str, ...] = ()) -> Experiment:
    (folder / "lost.csv").write_text("time,lost\n1,1\n1.5,0\n")
    loss = f"losses=[{{place='app', cause='{cause}', file='{folder}/lost.csv'}}]"
    return experiment.read(SYNC, ["stalls=[]", loss, *changed])


@pytest.mark.parametrize(
    ("cause", "changed", "said"),
    [
        ("log-flush", (), "losses[0].cause = log-flush: real waiting needs a busy disk: use nodes.NAME.disk"),
        ("lock", (), "losses[0].cause = lock: visits wait for it, and the server loses no capacity"),
        ("sunspots", (), "losses[0].cause = sunspots: it takes capacity as freeze, garbage-collection, "),
        (NEIGHBOUR, ("tiers.db.node=app",), "losses[0]: a neighbour on the node would take as much from db"),
    ],
)
def test_what_no_control_group_can_take_is_refused_by_name(
    cause: str, changed: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as refused:
        refusals.refuse(with_loss(tmp_path, cause, changed))
    assert said in str(refused.value)


@pytest.mark.parametrize("cause", refusals.TAKEN)
def test_what_a_kernel_can_take_is_accepted_and_notes_say_how(cause: str, tmp_path: Path) -> None:
    found = with_loss(tmp_path, cause)
    refusals.refuse(found)
    noted = f"app: what it lost to {cause} is withheld by a CPU quota, which samples show" in refusals.notes(found)
    assert noted == (cause not in ("cpu-quota", NEIGHBOUR))


def test_the_node_on_which_a_neighbour_takes_cpu_time_has_a_cpu_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "lost.csv").write_text("time,lost\n1,0.5\n")
    loss = f"losses=[{{place='db', cause='neighbour', file='{tmp_path}/lost.csv'}}]"
    assert nodes.pinned(experiment.read(SYNC, ["stalls=[]"]), [0, 1])["app-node"] == "1"
    assert nodes.pinned(experiment.read(SYNC, ["stalls=[]", loss]), [0, 1])["db-node"] == "1"
