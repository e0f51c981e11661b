"""Calls that no server answered: which visit waited for each, and for how long."""

from __future__ import annotations

import polars as pl
import pytest

from builders import T0, events, requests, visits
from systems import MS, Memory, S
from tailrace.diagnosis import in_vain
from tailrace.topology import Call, Server, Topology

TWO = Topology(
    servers=(Server(name="web"), Server(name="app")), calls=(Call(caller="web", callee="app", visits_mean=1.0),)
)


def recorded(*rows: dict[str, object], kind: str, begin: int = MS, end: int = MS) -> pl.DataFrame:
    """The visits of a recording with these visits and an attempt of web to call app, in milliseconds after T0."""
    attempt = events({"place": "app", "kind": kind, "begin": T0 + begin, "end": T0 + end})
    tables = {"requests": requests({}), "visits": visits(*rows), "events": attempt}
    found = in_vain.added(Memory(TWO, tables)).visits().collect()
    return found.with_columns(pl.col("sent", "arrival", "departure") - T0)


PAGE = {"request": 7, "departure": T0 + 2 * S}
CALL = {"parent": 1, "request": 7, "server": "app", "sent": T0 + S, "arrival": T0 + S, "departure": T0 + S + MS}


SERVED = {"server": "app", "sent": T0 + 5 * S, "arrival": T0 + 5 * S, "departure": T0 + 6 * S}


@pytest.mark.parametrize(
    ("kind", "arrival", "lost"),
    [("refused_call", MS, 0), ("unanswered_call", S - 1, 1), ("unacknowledged", S - 1, 1)],
)
def test_a_visit_waits_until_its_next_call(kind: str, arrival: int, lost: int) -> None:
    [call] = recorded(PAGE, CALL, kind=kind).filter(pl.col("visit") >= in_vain.FIRST).to_dicts()
    assert (call["parent"], call["request"], call["server"]) == (1, 7, "app")
    assert (call["sent"], call["arrival"], call["departure"]) == (MS, arrival, S - 1)
    assert call["data_drops"] == lost


def test_it_waits_to_its_end_if_it_calls_nobody_else() -> None:
    [call] = recorded(PAGE, SERVED, kind="unanswered_call").filter(pl.col("visit") >= in_vain.FIRST).to_dicts()
    assert call["departure"] == 2 * S - 1


def test_the_visit_that_was_free_for_the_shortest_time_called() -> None:
    later = PAGE | {"sent": T0 + MS // 2, "arrival": T0 + MS // 2}
    ended = PAGE | {"sent": T0 + MS * 3 // 4, "arrival": T0 + MS * 3 // 4, "departure": T0 + MS * 4 // 5}
    found = recorded(PAGE, later, ended, SERVED, kind="refused_call")
    assert found.filter(pl.col("visit") >= in_vain.FIRST)["parent"].to_list() == [2]


def test_bytes_that_are_acknowledged_in_the_end_arrive_then() -> None:
    late = CALL | {"sent": T0 + MS, "arrival": T0 + MS}
    found = recorded(PAGE, late, kind="unacknowledged", end=900 * MS)
    assert found["visit"].to_list() == [1, 2]
    assert found.row(1, named=True)["arrival"] == 900 * MS
    assert found["data_drops"].to_list() == [0, 1]


def test_nothing_changes_without_such_events() -> None:
    memory = Memory(TWO, {"visits": visits(PAGE, CALL), "events": events({"place": "app", "kind": "gc"})})
    assert in_vain.added(memory) is memory


def test_an_attempt_outside_all_visits_is_of_nobody() -> None:
    found = recorded(PAGE, kind="refused_call", begin=3 * S, end=3 * S)
    assert found["visit"].to_list() == [1]


def test_no_call_is_added_to_a_server_that_answered_nobody() -> None:
    assert recorded(PAGE, kind="refused_call")["visit"].to_list() == [1]


def test_a_visit_with_a_call_open_is_not_free() -> None:
    second = CALL | {"sent": T0 + 10 * MS, "arrival": T0 + 10 * MS, "departure": T0 + 20 * MS}
    whole = CALL | {"sent": T0 + 5 * MS, "arrival": T0 + 5 * MS, "departure": T0 + S}
    found = recorded(PAGE, whole, second, kind="refused_call", begin=500 * MS, end=500 * MS)
    assert found["visit"].to_list() == [1, 2, 3]


def test_one_event_at_two_places_of_a_server_is_one() -> None:
    late = CALL | {"sent": T0 + MS, "arrival": T0 + MS}
    rows = [
        {"place": place, "kind": "unacknowledged", "begin": T0 + MS, "end": T0 + end * MS}
        for place, end in (("app", 300), ("10.0.0.2:80", 900))
    ]
    tables = {"requests": requests({}), "visits": visits(PAGE, late), "events": events(*rows)}
    app = Server(name="app", address="10.0.0.2:80")
    memory = Memory(Topology(servers=(Server(name="web"), app), calls=TWO.calls), tables)
    found = in_vain.added(memory).visits().collect()
    assert found["visit"].to_list() == [1, 2]
    assert found["arrival"].to_list() == [T0, T0 + 900 * MS]
