"""A server that speaks first, and whose kernel dropped the last packet of a handshake: its client waits for ever."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from builders import events
from plans import made
from systems import MS, Memory, S
from tailrace.diagnosis import Diagnosis, diagnose, unheard
from tailrace.diagnosis.ledger.recorded import record
from tailrace.diagnosis.tables import look
from tailrace.diagnosis.vlrt import find as vlrt_of

TABLE: dict[str, Any] = {
    "duration": "14 s",
    "ramp": "2 s",
    "sampling": {"interval": "50 ms"},
    "kernel": {"syn": "linux-6.5"},
    "tiers": {
        "web": {"kind": "async", "calls": ["app"]},
        "app": {"kind": "async", "calls": ["db"]},
        "db": {"workers": 20, "backlog": 60},
    },
    "interactions": {
        "page": {"at": {"web": {"compute": "100 us", "calls": {"part": 1}}}},
        "part": {"at": {"app": {"compute": "200 us", "calls": {"select": 1}}}},
        "select": {"at": {"db": {"compute": "1 ms"}}},
    },
    "workloads": {"users": {"kind": "poisson", "rate": 500.0, "interaction": "page"}},
    "stalls": [{"kind": "freeze", "place": "app", "at": "6 s", "for": "700 ms"}],
}
"""A stop of app: it then opens hundreds of connections to db at once, and the accept queue of db overflows."""
GIVEN_UP_NS = 40 * S
THRESHOLD_NS = 950 * MS


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    run = made(TABLE, Path(tmp_path_factory.mktemp("unheard")) / "run")
    names = ("requests", "visits", "samples", "events")
    return Memory(run.topology, {name: getattr(run, name)().collect() for name in names})


def lossy(memory: Memory) -> pl.DataFrame:
    """The visits to db whose first attempt was lost."""
    found = memory.tables["visits"].filter(pl.col("server").cast(pl.String) == "db", pl.col("drops") > 0)
    return found.sort("arrival")


def unanswered(memory: Memory, lost: pl.DataFrame, *, counted: bool = True) -> Memory:
    """The same recording, but db never spoke on these connections. `counted`: its kernel counted a drop for each."""
    tables, ids = dict(memory.tables), lost["request"].implode()
    end = int(tables["requests"]["end"].to_numpy().max()) + GIVEN_UP_NS
    for name, moment in (("requests", "end"), ("visits", "departure")):
        mine = pl.col("request").is_in(ids)
        of_entry = mine & (pl.col("server").cast(pl.String) == "web")
        rows = tables[name].with_columns(pl.col("status").cast(pl.String))
        given_up = (
            pl.when(of_entry).then(pl.lit(value)).otherwise(pl.col(column)).alias(column)
            for column, value in ((moment, end), ("status", "abandoned"))
        )
        tables[name] = rows.filter(~mine | of_entry).with_columns(*given_up)
    silent = events(
        *({"place": "db", "kind": "silent_server", "begin": begin, "end": end} for begin in lost["arrival"].to_list())
    )
    parts = [frame.with_columns(pl.col("place", "kind").cast(pl.String)) for frame in (tables["events"], silent)]
    tables["events"] = pl.concat(parts, how="diagonal_relaxed")
    found = replace(memory, tables=tables)
    return with_drops(found, lost["arrival"].to_numpy()) if counted else found


def with_drops(memory: Memory, times: np.ndarray) -> Memory:
    """The kernel of db counted one more drop at each of these times."""
    rows = memory.tables["samples"]
    its = (rows["metric"].cast(pl.String) == "listen_drops") & (rows["place"].cast(pl.String) == "db")
    ends, values = rows["time"].to_numpy(), rows["value"].to_numpy().copy()
    at = np.flatnonzero(its.to_numpy())
    at = at[np.argsort(ends[at])]
    np.add.at(values, at[np.searchsorted(ends[at], times)], 1)
    return replace(memory, tables={**memory.tables, "samples": rows.with_columns(value=pl.Series(values))})


def vlrt(found: Diagnosis) -> dict[tuple[str | None, str | None, str], int]:
    return {(row.dropper, row.origin, row.cause): row.vlrt for row in found.summary}


def assigned(sent: np.ndarray, ended: np.ndarray, groups: list[np.ndarray]) -> list[tuple[int, ...]]:
    rows, connections = unheard._assigned(sent, ended, groups)
    return [(row, *one) for row, one in zip(rows.tolist(), connections.tolist(), strict=True)]


def found_of(memory: Memory) -> unheard.Unheard:
    return unheard.find(look(memory, 50 * MS))


def test_their_requests_have_the_dropper_and_the_cause_of_the_others(answered: Memory) -> None:
    lost = lossy(answered)
    silent = lost.gather_every(2)
    assert len(silent) > 50
    before = diagnose(answered)
    assert set(vlrt(before)) == {("db", "app", "freeze")}, "the confusable system: all of them were answered"
    after = diagnose(unanswered(answered, silent))
    assert vlrt(after) == {("db", "app", "freeze"): before.vlrt}
    [episode] = after.episodes
    assert episode.findings[1].numbers["vlrt_unheard"] == len(silent)
    assert episode.ledger is not None
    assert episode.ledger.reproduced
    [line] = episode.ledger.lines
    assert (line.cause, line.server) == ("freeze", "app")
    assert line.vlrt_without < 0.1 * episode.vlrt, "they are answered in time without the stop"


def test_the_report_says_what_became_of_them(answered: Memory) -> None:
    silent = lossy(answered).gather_every(2)
    found = diagnose(unanswered(answered, silent))
    dropped = found.episodes[0].findings[1].sentence
    assert f"On {len(silent)} connections" in dropped
    assert "db dropped the last packet of the handshake, and nobody sent it again" in dropped
    assert "waited for a greeting that never came" in dropped
    assert f"{len(silent)} earlier attempts to open them had been lost, too" in dropped, "as they were in the recording"
    assert "listen drops" in dropped
    assert "or the client gave up" in found.episodes[0].findings[0].sentence
    assert f"except for the packets of {len(silent)} requests" in found.answer[0]


def test_only_a_packet_that_nobody_sent_again_is_named_if_no_other_was_lost(answered: Memory) -> None:
    found = diagnose(unanswered(answered, lossy(answered)))
    assert "because db dropped the last packet of their handshakes, which nobody sent again" in found.answer[0]
    assert vlrt(found)["db", "app", "freeze"] > 0.9 * found.vlrt, "no attempt was lost, but one can be"


def test_they_take_the_steps_of_others_unless_they_hold_workers(answered: Memory) -> None:
    silent = lossy(answered).gather_every(2)
    memory = unanswered(answered, silent)

    def like(its: Memory) -> np.ndarray:
        view = look(its, 50 * MS)
        found = record(view, vlrt_of(view, THRESHOLD_NS))
        assert found is not None
        lenders = found.like[found.like >= 0]
        assert (found.server[lenders] == found.server[found.like >= 0]).all()
        assert (found.like[lenders] < 0).all()
        return lenders

    assert len(like(memory)) == 3 * len(silent), "a visit of each to web, app and db"
    servers = tuple(
        one.model_copy(update={"kind": "sync", "workers": 800} if one.name == "app" else {})
        for one in memory.topology.servers
    )
    held = replace(memory, topology=memory.topology.model_copy(update={"servers": servers}))
    assert not len(like(held)), "others wait for the workers that they hold"


def test_a_kernel_that_counted_no_drop_did_not_drop_them(answered: Memory) -> None:
    """The server says nothing for another reason. The kernel counted the lost attempts of others only."""
    silent = lossy(answered).gather_every(2)
    memory = unanswered(answered, silent, counted=False)
    assert not len(found_of(memory).request)
    found = diagnose(memory)
    assert "vlrt_unheard" not in found.episodes[0].findings[1].numbers
    assert sum(row.vlrt for row in found.summary if row.dropper == "db") == len(lossy(answered)) - len(silent)


def test_a_server_that_stopped_for_good_did_not_drop_what_it_accepted(answered: Memory) -> None:
    """Its kernel accepts connections until the queue is full, and then counts drops. Nobody is answered any more."""
    silent = lossy(answered).gather_every(2)
    memory = unanswered(answered, silent)
    assert len(found_of(memory).request) == len(silent)
    later = memory.tables["visits"].filter(
        pl.col("server").cast(pl.String) == "db", pl.col("departure") >= int(silent["arrival"].min() or 0)
    )
    kept = memory.tables["visits"].join(later.select("visit"), on="visit", how="anti")
    stopped = replace(memory, tables={**memory.tables, "visits": kept})
    assert not len(found_of(stopped).request)


def test_without_a_counter_a_long_queue_shows_it(answered: Memory) -> None:
    silent = lossy(answered).gather_every(2)
    memory = unanswered(answered, silent)
    samples = memory.tables["samples"]
    unseen = samples.filter(pl.col("metric").cast(pl.String) != "listen_drops")
    found = found_of(replace(memory, tables={**memory.tables, "samples": unseen}))
    view = look(answered, 50 * MS)
    inside = view.stays["db"].queue(silent["arrival"].to_numpy())
    assert (len(found.request) > 0) == (float(np.median(inside)) >= 0.5 * view.stays["db"].longest)


def test_requests_wait_for_connections_in_their_order() -> None:
    sent, ended = np.array([1, 2, 3, 50, 60]), np.array([99, 99, 99, 99, 99])
    first, second = np.array([[10, 80], [11, 80], [12, 80]]), np.array([[70, 80], [71, 81]])
    found = assigned(sent, ended, [first, second])
    assert found == [(0, 10, 80), (1, 11, 80), (2, 12, 80), (3, 70, 80), (4, 71, 81)]


def test_requests_that_wait_for_something_else_leave_it_open_whose_connection_it_is() -> None:
    sent, ended = np.array([1, 2, 3, 50]), np.array([99, 99, 99, 99])
    assert assigned(sent, ended, [np.array([[10, 80], [11, 80]])]) == []
    assert assigned(sent, ended, [np.array([[10, 80], [11, 80]]), np.array([[60, 80], [61, 80]])]) == [
        (0, 10, 80),
        (1, 11, 80),
        (2, 60, 80),
        (3, 61, 80),
    ], "later as many of both wait"
    given_up = np.array([5, 99, 99, 99])
    assert [row for row, *_ in assigned(sent, given_up, [np.array([[10, 80], [11, 80]])])] == [1, 2]
    assert assigned(np.array([20]), np.array([99]), [np.array([[10, 80]])]) == [], "it came later"
