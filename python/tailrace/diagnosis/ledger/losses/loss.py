"""This module defines what all losses share: the recording as they see it, and their result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.constants import ACTS, MOSTLY, STEP_NS
from tailrace.diagnosis.ledger.delays import Delays
from tailrace.diagnosis.ledger.places import Held
from tailrace.diagnosis.ledger.recorded import Recorded
from tailrace.diagnosis.ledger.steps import Shares, Steps
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.series import Series
from tailrace.diagnosis.spans import Spans, union
from tailrace.diagnosis.view import View
from tailrace.diagnosis.vlrt import Slow
from tailrace.units import SECOND

WITHHELD = 0.2
"""A server that was stopped uses no CPU. Samples at the edges also contain what it used before and after."""


@dataclass(frozen=True)
class Loss:
    """`blur` is the number of steps by which a value may be early or late: samples show the time of a loss only to a
    sampling interval."""

    share: Shares
    blur: int = 1
    place: str | None = None
    """This place, or these visits in words, took the share, if it was not the server itself."""
    visits: Times | None = None
    """These rows of the recording held places. Without the loss, their requests are not sent."""
    delays: Delays | None = None
    """These visits were held up, and took no capacity."""
    in_places: Times | None = None
    """These rows were inside when those of `delays` began to wait, and left when they went on, several each time. One
    visit holds a lock, and several hold places."""

    @property
    def took(self) -> bool:
        return self.visits is not None or self.delays is not None or bool(self.share.any())


@dataclass(frozen=True)
class Seen:
    view: View
    slow: Slow
    steps: Steps
    held: Mapping[str, Held] = field(default_factory=dict)
    """This maps each server to the visits that held its places."""
    recorded_visits: Recorded | None = None
    """These are the visits that are replayed, as they were recorded."""
    called: Times | None = None
    """For each visit, this is when its caller wanted to call it: when it was sent, or since when the caller waited for
    a connection."""
    lost: Mapping[str, Shares] = field(default_factory=dict)
    """This maps each server to the largest share that any cause shows in each step. Only causes that look at times in
    which nothing was lost have it."""

    def at(self, series: Series) -> Shares:
        """Return the value of each step, and NaN where nothing was sampled."""
        return series.at(self.steps.middles)

    def beyond(self, series: Series) -> Shares:
        """Return what a share of the time took beyond the usual, as a share of what the usual left. Capacity is
        measured in calm time, when the usual part was taken, too. Where nothing was sampled, it took nothing that is
        known."""
        return _beyond(np.nan_to_num(self.at(series)), self.slow.usual(series))

    @cached_property
    def calm(self) -> NDArray[np.bool_]:
        """Return which steps are calm."""
        return np.asarray(self.steps.covered(self.slow.calm) > MOSTLY)

    def beyond_usual(self, share: Shares) -> Shares:
        """Return the same for a share that is known for each step."""
        return _beyond(share, float(share[self.calm].mean()) if self.calm.any() else 0.0)

    def sampled(self, server: str, metric: str) -> Loss | None:
        """Return the largest share that samples of the server, or of its node, show."""
        found = self.view.series(server, metric)
        if not found:
            return None
        most = np.maximum.reduce([self.beyond(series) for series in found])
        return Loss(most, max(blur(series) for series in found))

    def of_processes(self, server: str, metric: str) -> Loss | None:
        """Return the part of the processes of a server that samples show in a state. One of several processes starts
        the others and serves nobody."""
        states, number = (self.view.series(server, name)[:1] for name in (metric, "processes"))
        for one, processes in zip(states, number, strict=False):
            serving = np.maximum(np.nan_to_num(self.at(processes)) - 1.0, 1.0)
            share = np.minimum(np.nan_to_num(self.at(one)) / serving, 1.0)
            return Loss(self.beyond_usual(share), blur(one))
        return None

    def more_than_usual(self, server: str, metric: str, least_per_second: float) -> NDArray[np.bool_] | None:
        """Return the steps in which a count was high and higher than usual, at the server or on its host."""
        counts = self.nearest(server, metric)
        return None if counts is None else np.asarray(self.at(counts) >= self.unusual(counts, least_per_second))

    def nearest(self, server: str, metric: str) -> Series | None:
        """Return a metric of the server, or of its host if the server has none."""
        return next(iter((*self.view.series(server, metric), *self.view.elsewhere(metric))), None)

    def unusual(self, counts: Series, least_per_second: float) -> float:
        """Return the value from which a count is high, and most of it is more than usual."""
        return max(self.slow.usual(counts) / MOSTLY, least_per_second * counts.interval_ns / SECOND)

    def recorded(self, server: str, *kinds: str) -> Loss | None:
        """Return the events at the server. If there are none, use those of a place that the topology does not know."""
        events = self.view.events_of(*kinds)
        own = [table for place, table in events if self.view.means(place, server)]
        stray = [table for place, table in events if not self.view.is_known(place)]
        return Loss(self.covered(own or stray)) if own or stray else None

    def unused(self, own: Series) -> NDArray[np.bool_]:
        """Return the steps in which a server used hardly any of the CPU that it usually uses."""
        return np.asarray(self.at(own) <= WITHHELD * self.slow.usual(own))

    def covered(self, tables: list[Spans]) -> Shares:
        return self.steps.covered(union(tables))


def _beyond(share: Shares, usual: float) -> Shares:
    """Return what a share takes beyond the usual, as a share of what that left. If the usual leaves hardly anything,
    nothing can be taken beyond it."""
    left = 1.0 - usual
    return np.clip((share - usual) / left, 0.0, 1.0) if left >= ACTS else np.zeros(len(share))


def blur(series: Series) -> int:
    return max(-(-series.interval_ns // STEP_NS), 1)


def most(*losses: Loss | None) -> Loss | None:
    """Return the largest of the known losses in each step."""
    known = [loss for loss in losses if loss is not None]
    if not known:
        return None
    largest = max(known, key=lambda loss: float(loss.share.sum()))
    return Loss(np.maximum.reduce([loss.share for loss in known]), max(loss.blur for loss in known), largest.place)
