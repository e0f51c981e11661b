"""The part of a long recording that a change can matter in: the requests of its episodes alone, in their own time. The
twin is learnt from this part and a little more on either side of it.

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

from collections.abc import Collection
from dataclasses import replace

import numpy as np
import polars as pl

from tailrace.diagnosis.constants import STEP_NS
from tailrace.diagnosis.ledger.recorded import Recorded
from tailrace.diagnosis.queues import Stays, Times
from tailrace.diagnosis.spans import Spans, inside, overlap, spans, union, where
from tailrace.diagnosis.unanswered import HOW
from tailrace.diagnosis.view import View
from tailrace.diagnosis.vlrt import THRESHOLD_NS
from tailrace.twin import clients
from tailrace.twin.demands import Demands
from tailrace.twin.structure import Structure
from tailrace.twin.tree import Tree
from tailrace.units import SECOND

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
BESIDE_NS = 5 * SECOND
"""So much calm time on either side of an episode is learnt from, too. It shows what is usual."""
_CLOSE_NS = SECOND


def episodes(view: View, entries: Collection[str]) -> Spans | None:
    """What is kept, ns since the begin of the view; None: all, because it is short, or a cut would save little, or
    nothing is very slow. `entries` are the servers that clients send requests to."""
    asked = view.requests.filter(pl.col("server").cast(pl.String).is_in(list(entries)))
    if len(asked) < LARGE:
        return None
    lost = pl.col("status").cast(pl.String).is_in(list(HOW)) | (pl.col("drops").fill_null(0) > 0)
    slow = asked.select((pl.col("response_ns") >= THRESHOLD_NS) | lost.fill_null(False)).to_series().to_numpy()
    if not slow.any():
        return None
    sent, end = (asked[name].to_numpy() - view.begin for name in ("sent", "end"))
    kept = _kept(sent, end, union([spans(np.column_stack((sent, end))[slow]), *_queues(view)]))
    return kept if (inside(kept, sent) >= 0).sum() <= MOST * len(sent) else None


def learnt_from(view: View, kept: Spans | None) -> Spans:
    """The stretches of the view that the twin is learnt from. Their steps are those of the whole view."""
    whole = spans([(view.begin, view.end + 1)])
    if kept is None:
        return whole
    wider = spans(np.maximum(kept + np.array([-BESIDE_NS, BESIDE_NS]), 0), gap=SECOND)
    wider[:, 0] -= wider[:, 0] % STEP_NS
    return spans(np.clip(wider + view.begin, view.begin, view.end + 1))


def arrivals(
    view: View,
    recorded: Recorded,
    structure: Structure,
    tree: Tree,
    demands: Demands,
    roots: Times,
    kept: Spans | None,
) -> dict[str, pl.DataFrame]:
    """The requests that the twin sends, by the tier that they enter."""
    if kept is None:
        return clients.arrivals(view, recorded, structure, tree, demands, roots, whole=True)
    near = view.requests.filter(inside(recorded.steps.stretches, view.requests["sent"].to_numpy()) >= 0)
    near_view = replace(view, requests=near)
    found = clients.arrivals(near_view, recorded, structure, tree, demands, roots, whole=False)
    return {entry: _of(rows, kept) for entry, rows in found.items()}


def rest(view: View, entries: Collection[str], again: pl.Series, kept: Spans) -> int:
    """How many requests of clients are not kept, without those in `again`, which no client sends by itself."""
    asked = view.requests.filter(
        pl.col("server").cast(pl.String).is_in(list(entries)), ~pl.col("request").is_in(again.implode())
    )
    return int((inside(kept, asked["sent"].to_numpy() - view.begin) < 0).sum())


def _kept(sent: Times, end: Times, trouble: Spans) -> Spans:
    stays = Stays.of(sent, end)
    usual = float(np.median(stays.queue(np.arange(sent.min(), sent.max() + 1, STEP_NS))))
    crowded = _above(stays, CROWDED * usual + FEW)
    crowded = crowded[overlap(trouble, crowded[:, 0], crowded[:, 1]) > 0]
    rows = spans(union([trouble, crowded]), gap=_CLOSE_NS)
    before = max(BEFORE_NS, RESPONSES * int(np.median(end - sent)))
    after = np.maximum(rows[:, 1] - rows[:, 0], AFTER_NS)
    rows = spans(np.column_stack((np.maximum(rows[:, 0] - before, 0), rows[:, 1] + after)), gap=APART_NS)
    return spans(union([rows, _busiest(sent, rows)]), gap=APART_NS)


def _queues(view: View) -> list[Spans]:
    """When a server had a long queue, since the begin of the view."""
    most = max((one.longest for one in view.stays.values()), default=0)
    long = (one for one in view.stays.values() if one.longest >= max(SHORT * most, FEW))
    return [_above(one, LONG * one.longest) - view.begin for one in long]


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
