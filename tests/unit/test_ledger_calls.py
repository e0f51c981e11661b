"""Calls beyond the usual number of their visits, such as those of a cache whose value has expired."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tailrace.diagnosis.constants import STEP_NS
from tailrace.diagnosis.ledger import calls
from tailrace.diagnosis.ledger.recorded import Names
from tailrace.diagnosis.ledger.steps import NEVER
from tailrace.topology import Server, Topology
from tailrace.units import MILLISECOND as MS

PAGES = np.arange(1000) * 20 * MS
STAMPEDE = (PAGES >= 10_000 * MS) & (PAGES < 11_000 * MS)


def recorded(calling: np.ndarray, servers: tuple[str, ...] = ("app", "db"), callee: np.ndarray | None = None) -> Any:
    """Pages of app, of which these call db."""
    parent = np.flatnonzero(calling)
    every = len(PAGES) + len(parent)
    number = np.concatenate((np.zeros(len(PAGES), dtype=np.int64), np.ones(len(parent)) if callee is None else callee))
    made = {server: np.flatnonzero(number == i) for i, server in enumerate(servers) if i}
    return SimpleNamespace(
        servers=servers,
        number={server: i for i, server in enumerate(servers)},
        server=number.astype(np.int64),
        parent=np.concatenate((np.full(len(PAGES), -1), parent)),
        arrival=np.concatenate((PAGES, PAGES[parent])),
        sent=np.concatenate((PAGES, PAGES[parent])),
        orphan=np.zeros(every, dtype=bool),
        gives_up=np.full(every, NEVER),
        group=np.zeros(every, dtype=np.int64),
        groups=1,
        names=Names(np.array(["page"]), np.zeros(every, dtype=np.uint32)),
        ways={("app", server): its for server, its in made.items()},
        steps=_Steps(2000),
    )


class _Steps:
    def __init__(self, number: int) -> None:
        self._number = number

    def __len__(self) -> int:
        return self._number

    def at(self, times: np.ndarray) -> np.ndarray:
        return times // STEP_NS


def beyond(
    of: Any, calm: np.ndarray, repeated: tuple[int, ...] = (), topology: Topology | None = None
) -> dict[str, int]:
    found = calls.beyond(of, calm, np.array(repeated, dtype=np.int64), topology or Topology())
    return {server: len(its) for server, its in found.items()}


CALM = np.arange(2000) < 1000
RARELY = np.arange(1000) % 50 == 0


def test_calls_of_an_expired_value_come_beyond_their_usual_number() -> None:
    found = beyond(recorded(RARELY | STAMPEDE), CALM)
    assert found.keys() == {"db"}
    assert 40 <= found["db"] <= 51


@pytest.mark.parametrize("calling", [RARELY, np.arange(1000) % 2 == 0, np.ones(1000, dtype=bool)])
def test_calls_at_the_usual_number_are_none(calling: np.ndarray) -> None:
    assert beyond(recorded(calling), CALM) == {}


def test_more_visits_make_more_calls_without_being_beyond_the_number_of_each() -> None:
    of = recorded(np.ones(1000, dtype=bool))
    of.arrival = np.where(of.arrival > 10_000 * MS, 10_000 * MS, of.arrival)
    assert beyond(of, CALM) == {}


def test_calls_that_were_sent_again_do_not_count() -> None:
    of = recorded(RARELY | STAMPEDE)
    again = np.flatnonzero((of.parent >= 0) & STAMPEDE[np.maximum(of.parent, 0)])
    assert beyond(of, CALM, tuple(again.tolist())) == {}


def test_a_candidate_that_is_chosen_more_often_gets_no_more_calls_than_its_service() -> None:
    """While db2 is down, db1 gets its calls."""
    calling = np.ones(1000, dtype=bool)
    callee = np.where((np.arange(1000) % 2 == 0) | (PAGES >= 10_000 * MS), 1, 2)
    of = recorded(calling, ("app", "db1", "db2"), callee)
    group = Topology(
        servers=tuple(Server(name=name, group=of_) for name, of_ in (("app", None), ("db1", "db"), ("db2", "db")))
    )
    assert beyond(of, CALM, topology=group) == {}
    assert beyond(of, CALM).keys() == {"db1"}


@pytest.mark.parametrize(("given_up", "found"), [(False, {"db": 40}), (True, {})], ids=["answered", "given up"])
def test_calls_without_a_known_parent_come_beyond_the_usual_number(given_up: bool, found: dict[str, int]) -> None:
    """A rare page makes 40 calls at once. Attempts that were given up may be repetitions."""
    of = recorded(RARELY)
    batch, alone = 10_500 * MS, np.arange(len(of.sent), len(of.sent) + 40)
    more = {"sent": batch, "arrival": batch, "parent": -1, "server": 1, "group": 0, "orphan": True}
    for name, value in more.items():
        setattr(of, name, np.append(getattr(of, name), np.full(40, value)))
    of.gives_up = np.append(of.gives_up, np.full(40, MS if given_up else NEVER))
    of.names = Names(np.array(["page"]), np.zeros(len(of.sent), dtype=np.uint32))
    of.ways = {("app", "db"): np.append(of.ways["app", "db"], alone)}
    assert {server: its for server, its in beyond(of, CALM).items() if its > 1} == found
