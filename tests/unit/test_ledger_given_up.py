"""Visits that their callers gave up, and calls that were sent again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from builders import T0, events
from ledgers import drawn_up
from systems import Memory, Slow, at, system
from tailrace.diagnosis.ledger import retries
from tailrace.diagnosis.ledger.given_up import AGAIN, AT_ONCE, locked, may_repeat
from tailrace.diagnosis.ledger.steps import NEVER

MS = 1_000_000
PATIENCE_NS = 300 * MS


def impatient() -> Memory:
    """web gives each call that takes long up after 300 ms; app, which stands still, answers nobody later."""
    memory = system(Slow("app", 4.0, 4.6))
    visits = memory.tables["visits"].with_columns(until=pl.col("departure"))
    late = (pl.col("server").cast(pl.String) == "app") & (pl.col("departure") - pl.col("sent") > PATIENCE_NS)
    visits = visits.with_columns(
        departure=pl.when(late).then(pl.col("sent") + PATIENCE_NS).otherwise("departure"),
        status=pl.when(late).then(pl.lit("abandoned")).otherwise(pl.col("status").cast(pl.String)),
    )
    visits = visits.with_columns(arrival=pl.min_horizontal("arrival", "departure"))
    gone = visits.filter(pl.col("status") == "abandoned")
    rows = [
        {"place": "app", "kind": "late_answer", "begin": begin, "end": end}
        for begin, end in gone.select("departure", "until").rows()
    ]
    return replace(memory, tables={**memory.tables, "visits": visits.drop("until"), "events": events(*rows)})


def test_a_server_works_on_what_its_caller_gave_up() -> None:
    memory = impatient()
    seen, recorded, _ = drawn_up(memory)
    gave_up = recorded.gives_up < NEVER
    assert gave_up.sum() > 20
    assert (recorded.gives_up[gave_up] == PATIENCE_NS).all()
    assert (recorded.departure >= recorded.back).all()
    assert (recorded.departure > recorded.back)[gave_up].mean() > 0.9
    assert (recorded.back[~gave_up] == recorded.departure[~gave_up]).all()
    inside = seen.view.stays["app"].queue(np.array([at(4.55)]))
    assert inside[0] > 50, "they are inside until the server is done with them"


def test_a_caller_repeats_what_failed() -> None:
    statuses = ["ok", "404", "abandoned", "timeout", "503", "500", "refused", "error-1213", "error-1045"]
    rows = pl.DataFrame({"status": [*statuses, None]}, {"status": pl.Categorical})
    assert may_repeat(rows).tolist() == [0, 0, AGAIN, AGAIN, AT_ONCE, AGAIN, AT_ONCE, 0, 0, 0]
    assert locked(rows).tolist() == [False] * 7 + [True, False, False]


@pytest.mark.parametrize(("pause", "again"), [(50, True), (-20, False), (2000, False)])
def test_a_call_of_one_name_soon_after_one_that_failed_is_sent_again(pause: int, *, again: bool) -> None:
    """A visit calls twice; the first call is given up after 300 ms."""
    _, recorded, _ = drawn_up(system(Slow("app", 4.0, 4.6)))
    parent = int(np.flatnonzero(recorded.parent < 0)[0])
    first, second = np.flatnonzero(recorded.parent >= 0)[:2].tolist()
    columns = {name: getattr(recorded, name).copy() for name in ("parent", "sent", "departure", "gives_up", "again")}
    columns["parent"][:] = -1
    columns["parent"][[first, second]] = parent
    columns["sent"][first], columns["gives_up"][first], columns["again"][first] = T0 % MS, PATIENCE_NS, AGAIN
    columns["departure"][first] = columns["sent"][first] + 2 * PATIENCE_NS
    columns["sent"][second] = columns["sent"][first] + PATIENCE_NS + pause * MS
    names = replace(recorded.names, number=np.zeros_like(recorded.names.number))
    found = retries.calls(replace(recorded, names=names, **columns))
    assert found.visits.tolist() == ([second] if again else [])
    assert found.first.tolist() == found.previous.tolist() == ([first] if again else [])
    assert found.patience.tolist() == ([PATIENCE_NS] if again else [])
