"""Requests that their clients sent slowly have names of their own."""

from __future__ import annotations

import polars as pl

from builders import T0, events, requests, visits
from systems import Memory, S
from tailrace.diagnosis import slowly
from tailrace.topology import Topology


def recorded(until: int, **root: object) -> Memory:
    """A request that lasts for two seconds, and whose last part came `until` then; another one is quick."""
    page = {"request": 1, "interaction": "POST /", "departure": T0 + 2 * S, **root}
    tables = {
        "requests": requests(
            {"interaction": "POST /", "end": T0 + 2 * S}, {"interaction": "POST /", "sent": T0 + S, "end": T0 + S + 9}
        ),
        "visits": visits(page, {"request": 2, "interaction": "POST /", "sent": T0 + S, "arrival": T0 + S}),
        "events": events({"place": "web", "kind": "slow_request", "begin": T0, "end": T0 + until}),
    }
    return Memory(Topology(), tables)


def names(memory: Memory) -> tuple[list[str], list[str]]:
    found = slowly.named_apart(memory)
    both = (frame.collect()["interaction"].cast(pl.String).to_list() for frame in (found.requests(), found.visits()))
    requests_, visits_ = both
    return requests_, visits_


def test_a_request_and_its_visit_are_named_apart() -> None:
    both = ["slowly sent POST /", "POST /"]
    assert names(recorded(int(1.5 * S))) == (both, both)


def test_one_that_mostly_waited_for_its_server_keeps_its_name() -> None:
    assert names(recorded(S // 2)) == (["POST /"] * 2, ["POST /"] * 2)


def test_a_call_keeps_its_name() -> None:
    assert names(recorded(int(1.5 * S), parent=2))[0] == ["POST /"] * 2
