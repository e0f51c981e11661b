"""The part of a long recording that a change can matter in: the requests of its episodes alone, in their own time.

```text
recorded   ──────────▂█▂──────────────────────▂▂▂▂──────────▂█▂▂█▂───────────
cut          ······[  █    ]·············[busiest]····[     █  █     ]·········
```
An episode begins before its very slow requests, while the system is still calm, so that the queues of the twin fill as
they did. It ends after the system is calm again. Between episodes the twin is idle: no time is cut out, so the losses
of capacity stay where they are. The busiest calm seconds are kept, too, so that a change which harms them shows it.
The requests that are left out count as recorded: none of them is very slow.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from tailrace.dataset import Dataset
from tailrace.diagnosis.queues import Stays, Times
from tailrace.diagnosis.spans import Spans, inside, overlap, spans, union, where
from tailrace.diagnosis.unanswered import HOW
from tailrace.diagnosis.vlrt import THRESHOLD_NS
from tailrace.twin.model import Twin
from tailrace.units import MILLISECOND, SECOND

LARGE = 100_000
"""Requests. A twin with fewer is simulated as fast as its plan is written."""
MOST = 0.7
"""Where more of the requests belong to episodes, a cut saves little."""
BEFORE_NS = 2 * SECOND
RESPONSES = 20
"""Before an episode come at least so many usual response times, so that the queues become as they usually are."""
AFTER_NS = 3 * SECOND
"""After an episode comes at least this, and at least its own length: with a change, queues may empty later."""
APART_NS = 5 * SECOND
"""Episodes closer than this are one."""
CALM_NS = 10 * SECOND
"""How long the busiest calm stretch is."""
CROWDED = 2
"""The system is calm while it holds at most twice as many requests as usual, and `FEW` more."""
FEW = 10
LONG = 0.5
"""A queue that is half as long as the longest one was is near an episode: with a change or more load, it may be one."""
SHORT = 0.25
"""Servers with shorter queues, relative to the longest of all, hold no request for long (as in `gate`)."""
STEP_NS = 10 * MILLISECOND
_CLOSE_NS = SECOND


def cut(twin: Twin, run: Dataset) -> Twin:
    """The same twin with the requests of its episodes alone, or the twin itself where that saves little."""
    if sum(map(len, twin.arrivals.values())) < LARGE:
        return twin
    found = episodes(twin, run)
    if not len(found):
        return twin
    arrivals = {file: _of(rows, found) for file, rows in twin.arrivals.items()}
    rest = sum(len(rows) - len(arrivals[file]) for file, rows in twin.arrivals.items())
    left = sum(map(len, arrivals.values()))
    return replace(twin, arrivals=arrivals, kept=found, rest=rest) if left <= MOST * (left + rest) else twin


def episodes(twin: Twin, run: Dataset) -> Spans:
    """What is kept, ns since the begin of the twin; empty where nothing is very slow."""
    asked = (
        run.requests()
        .filter(pl.col("server").cast(pl.String).is_in(list(twin.entries)))
        .select(
            pl.col("sent") - twin.begin,
            end=pl.coalesce("end", pl.col("sent") + THRESHOLD_NS) - twin.begin,
            lost=pl.col("status").cast(pl.String).is_in(list(HOW)) | (pl.col("drops").fill_null(0) > 0),
        )
        .collect()
    )
    sent, end = asked["sent"].to_numpy(), asked["end"].to_numpy()
    slow = (end - sent >= THRESHOLD_NS) | asked["lost"].fill_null(False).to_numpy()
    if not slow.any():
        return spans([])
    trouble = union([spans(np.column_stack((sent, end))[slow]), *_queues(twin, run)])
    stays = Stays.of(sent, end)
    usual = float(np.median(stays.queue(np.arange(sent.min(), sent.max() + 1, STEP_NS))))
    crowded = _above(stays, CROWDED * usual + FEW)
    crowded = crowded[overlap(trouble, crowded[:, 0], crowded[:, 1]) > 0]
    rows = spans(union([trouble, crowded]), gap=_CLOSE_NS)
    before = max(BEFORE_NS, RESPONSES * int(np.median(end - sent)))
    after = np.maximum(rows[:, 1] - rows[:, 0], AFTER_NS)
    rows = spans(np.column_stack((np.maximum(rows[:, 0] - before, 0), rows[:, 1] + after)), gap=APART_NS)
    return spans(union([rows, _busiest(sent, rows)]), gap=APART_NS)


def _queues(twin: Twin, run: Dataset) -> list[Spans]:
    """When a server had a long queue."""
    visits = (
        run.visits()
        .select(pl.col("server").cast(pl.String), pl.col("arrival", "departure") - twin.begin)
        .filter(pl.col("departure") >= pl.col("arrival"))
        .collect()
    )
    stays = [
        Stays.of(rows["arrival"].to_numpy(), rows["departure"].to_numpy())
        for rows in visits.partition_by("server", include_key=False)
    ]
    most = max((one.longest for one in stays), default=0)
    return [_above(one, LONG * one.longest) for one in stays if one.longest >= max(SHORT * most, FEW)]


def _above(stays: Stays, level: float) -> Spans:
    """While more than this are inside."""
    times = np.concatenate((stays.arrivals, stays.departures))
    steps = np.repeat(np.array([1, -1]), (len(stays.arrivals), len(stays.departures)))
    order = np.argsort(times, kind="stable")
    times, inside = times[order], np.cumsum(steps[order])
    return where(times[:-1], times[1:], inside[:-1] > level)


def _busiest(sent: Times, taken: Spans) -> Spans:
    """The calm stretch with most requests."""
    edges = np.arange(0, int(sent.max()) + CALM_NS, CALM_NS)
    count, _ = np.histogram(sent, edges)
    begins, ends = edges[:-1], edges[1:]
    count = np.where(overlap(taken, begins, ends) > 0, -1, count)
    at = int(count.argmax())
    return spans([(int(begins[at]), int(ends[at]))]) if count[at] > 0 else spans([])


def _of(rows: pl.DataFrame, kept: Spans) -> pl.DataFrame:
    """The requests of the episodes. The first of each client in one is sent at its time: what it followed is not in
    it."""
    times = np.rint(rows["time"].to_numpy() * SECOND).astype(np.int64)
    episode = pl.Series("episode", inside(kept, times))
    found = rows.with_columns(episode).filter(pl.col("episode") >= 0)
    same = pl.col("episode") == pl.col("episode").shift(1).over("client")
    return found.with_columns(think=pl.when(same).then("think")).drop("episode")
