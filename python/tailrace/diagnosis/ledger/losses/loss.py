"""What all losses share: the recording as they see it, and what they return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tailrace.diagnosis.ledger.places import Held
from tailrace.diagnosis.ledger.steps import STEP_NS, Shares, Steps
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.series import Series
from tailrace.diagnosis.spans import Spans, union
from tailrace.diagnosis.view import View
from tailrace.diagnosis.vlrt import Slow


@dataclass(frozen=True)
class Loss:
    """`blur` is how many steps a value may be early or late by: half a sampling interval hides when it happened."""

    share: Shares
    blur: int = 1
    place: str | None = None
    """Who took it, where it is not the server itself: a place, or visits in words."""
    visits: Times | None = None
    """Rows of the recording that held places: without the loss their requests are not sent."""

    @property
    def took(self) -> bool:
        return self.visits is not None or bool(self.share.any())


@dataclass(frozen=True)
class Seen:
    view: View
    slow: Slow
    steps: Steps
    held: Mapping[str, Held] = field(default_factory=dict)
    """Server → the visits that held its places."""

    def at(self, series: Series) -> Shares:
        return series.at(self.steps.middles)

    def beyond(self, series: Series) -> Shares:
        """Of a share of the time: what it took beyond the usual, of what that left. Capacity is measured in calm time,
        in which the usual was taken, too."""
        usual = min(self.slow.usual(series), 1.0 - 1e-6)
        return np.clip((self.at(series) - usual) / (1.0 - usual), 0.0, 1.0)

    def beyond_usual(self, share: Shares) -> Shares:
        """The same of a share that is known for each step."""
        calm = self.steps.covered(self.slow.calm) > 0.5
        usual = min(float(share[calm].mean()), 1.0 - 1e-6) if calm.any() else 0.0
        return np.clip((share - usual) / (1.0 - usual), 0.0, 1.0)

    def sampled(self, server: str, metric: str) -> Loss | None:
        """The largest of what samples of the server, or of its node, show."""
        found = self.view.series(server, metric)
        if not found:
            return None
        most = np.maximum.reduce([self.beyond(series) for series in found])
        return Loss(most, max(blur(series) for series in found))

    def recorded(self, server: str, *kinds: str) -> Loss | None:
        """Events at the server; where there are none, those of a place that the topology does not know."""
        events = self.view.events_of(*kinds)
        own = [table for place, table in events if self.view.means(place, server)]
        stray = [table for place, table in events if not self.view.is_known(place)]
        return Loss(self.covered(own or stray)) if own or stray else None

    def covered(self, tables: list[Spans]) -> Shares:
        return self.steps.covered(union(tables))


def blur(series: Series) -> int:
    return max(-(-series.interval_ns // STEP_NS), 1)


def most(*losses: Loss | None) -> Loss | None:
    """In each step the largest of those that are known."""
    known = [loss for loss in losses if loss is not None]
    if not known:
        return None
    largest = max(known, key=lambda loss: float(loss.share.sum()))
    return Loss(np.maximum.reduce([loss.share for loss in known]), max(loss.blur for loss in known), largest.place)
