"""Calls whose parent a recording does not show: their server counts, and a visit that lacks a call gets one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from systems import SYNC, Memory, Slow, system
from tailrace._core import rejoined
from tailrace.diagnosis import diagnose, tables, vlrt
from tailrace.diagnosis.ledger import limits, orphans, recorded
from tailrace.topology import Pool

MS = 1_000_000


@pytest.fixture(scope="module")
def stopped() -> Memory:
    """db stands still and uses no CPU, 4.0 to 4.6 s; app has a pool of connections to it."""
    found = system(Slow("db", 4.0, 4.6), tiers=SYNC)
    pool = Pool(name="app to db", caller="app", callee="db", size=50)
    return replace(found, topology=found.topology.model_copy(update={"pools": (pool,)}))


def without_parents(memory: Memory, server: str, share: float) -> Memory:
    """A decoder found no parent for this share of the calls to a server, and shows the address of their caller."""
    visits = memory.tables["visits"]
    lost = pl.Series(np.random.default_rng(1).random(len(visits)) < share) & (visits["server"] == server)
    none = pl.lit(None, pl.UInt64)
    changed = visits.with_columns(
        parent=pl.when(lost).then(none).otherwise("parent"),
        request=pl.when(lost).then(none).otherwise("request"),
    )
    return replace(memory, tables=memory.tables | {"visits": changed})


def drawn(memory: Memory) -> tuple[recorded.Recorded, recorded.Recorded]:
    """The recording of a system, and the same without some parents."""
    views = tables.look(memory, 50 * MS), tables.look(without_parents(memory, "db", 0.05), 50 * MS)
    both = [recorded.record(view, vlrt.find(view, None)) for view in views]
    assert both[0] is not None
    assert both[1] is not None
    return both[0], both[1]


def test_visits_that_lack_a_call_get_one_back(stopped: Memory) -> None:
    whole, found = drawn(stopped)
    assert (found.parent >= 0).sum() == (whole.parent >= 0).sum()
    assert (found.caller == whole.caller).all()
    assert (found.asked == whole.asked).all()


def test_calls_without_a_parent_take_connections(stopped: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphans, "joined", lambda found: found)
    view = tables.look(without_parents(stopped, "db", 0.05), 50 * MS)
    found = recorded.record(view, vlrt.find(view, None))
    assert found is not None
    calls = found.server == found.number["db"]
    assert (found.parent[calls] < 0).any()
    assert (limits.pools(view, found, ()).pool[calls] == 0).all()


@pytest.mark.parametrize("joined", [True, False], ids=["with new parents", "without parents"])
def test_the_cause_is_the_same_without_some_parents(
    stopped: Memory, joined: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not joined:
        monkeypatch.setattr(orphans, "joined", lambda found: found)
    whole, found = diagnose(stopped), diagnose(without_parents(stopped, "db", 0.05))
    causes = [{(row.origin, row.cause): row.vlrt for row in one.summary} for one in (whole, found)]
    assert causes[0] == causes[1]
    assert ("db", "freeze") in causes[0]


def test_a_call_is_handed_on_until_a_visit_that_lacks_one_has_it() -> None:
    begin, end = np.array([0, 20, 40]), np.array([100, 90, 95])
    sent, departure = np.array([10, 50, 60]), np.array([50, 80, 85])
    assert rejoined(begin, end, sent, departure, np.array([-1, 1, 0])) == [0, 1, 2]
    with pytest.raises(ValueError, match="unequal"):
        rejoined(begin, end[:2], sent, departure, np.array([-1, 1, 0]))
