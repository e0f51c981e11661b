"""The service demand of requests: a request that keeps a server busy for long has a higher demand than one that hardly
comes to it.

The weight of a request is the server's own time that other requests of its interaction take. This time is measured in
calm time and without the server's calls. Its unit is the mean request. Other work on the same processor lengthens this
time in proportion to the request's own work. It therefore makes no difference to the weight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace.diagnosis.queues import Times, is_more
from tailrace.diagnosis.spans import Spans, contains, length
from tailrace.units import SECOND

SEEN = 1000
"""Of so many requests at least one comes to a server, unless fewer than one in 200 do (p = 0.7 %)."""
WEIGHED = 100
"""Up to this number of interactions, `SEEN` requests of each are weighed. If there are more interactions, fewer
requests of each are weighed, because there may be as many addresses as requests."""
CROWDS = 10
"""At most this many interactions that come at no calm time are weighed: those with the most requests."""
LEAST_BESIDE = 10
"""The mean time of so many requests is accurate to a third (for exponential times: 1 / √10)."""

OwnTimes = Callable[[pl.DataFrame], pl.DataFrame]
Costs = dict[str, dict[str, float]]
"""This maps server → interaction → the server's own time that one request takes, on average. It is 0 where no request
came to the server."""


@dataclass(frozen=True)
class Demand:
    """This is the service demand of the requests that may come to a server."""

    names: tuple[str, ...]
    """These are the names of the interactions. Requests without an interaction have the number after the last one."""
    sent: Times
    kind: NDArray[np.int64]
    """This is, for each request, the number of its interaction."""
    twice: NDArray[np.bool_]
    """This says for each request whether its client had sent it before and still had no answer."""
    weight: NDArray[np.float64]
    """This is the weight of each interaction, in requests of the mean."""
    usual: NDArray[np.float64]
    """These are the requests of each interaction per second, in calm time."""
    calm_ns: int
    """This is the length of the calm time."""

    def came(self, edges: Times) -> NDArray[np.float64]:
        """Return the work that was requested from each edge to the next, in requests of the mean."""
        return np.diff(self._asked_before[np.searchsorted(self.sent, edges)])

    def more(self, begin: int, end: int) -> list[tuple[str, int, float]]:
        """Return the interactions of which more requests were sent than usual. The interaction that adds the most work
        comes first. Each row has the name, the number and the usual number."""
        first, last = np.searchsorted(self.sent, (begin, end))
        once = self.kind[first:last][~self.twice[first:last]]
        counts = np.bincount(once, minlength=len(self.usual))
        expected = self.usual * (end - begin) / SECOND
        heaviest = np.argsort(-(counts - expected) * self.weight, kind="stable").tolist()
        rows = [(self.names[i], int(counts[i]), float(expected[i])) for i in heaviest if i < len(self.names)]
        part = (end - begin) / self.calm_ns if self.calm_ns else 0.0
        return [row for row in rows if is_more(row[1], row[2], part)]

    @cached_property
    def _asked_before(self) -> NDArray[np.float64]:
        return np.concatenate(([0.0], np.cumsum(self.weight[self.kind])))


def demand(requests: pl.DataFrame, costs: Mapping[str, float], calm: Spans) -> Demand:
    """Compute the demand of requests in the order of `sent`. `costs` gives how much of the server's time one request of
    each interaction takes. A request of unknown demand counts as one of the mean."""
    names = requests["interaction"].cast(pl.String)
    known = names.drop_nulls().unique().sort()
    kind = names.cast(pl.Enum(known)).to_physical().fill_null(len(known)).to_numpy().astype(np.int64)
    sent = requests["sent"].to_numpy()
    twice = requests["twice"].to_numpy()
    counts = np.bincount(kind[contains(calm, sent) & ~twice], minlength=len(known) + 1).astype(np.float64)
    cost = np.array([*(costs.get(name, np.nan) for name in known), np.nan])
    told = ~np.isnan(cost)
    usual = told & (counts > 0)
    mean = float(np.average(cost[usual], weights=counts[usual])) if usual.any() else 0.0
    weight = np.where(told, cost / mean, 1.0) if mean > 0 else np.ones_like(cost)
    calm_ns = length(calm)
    return Demand(tuple(known), sent, kind, twice, weight, counts / max(calm_ns / SECOND, 1e-9), calm_ns)


def costs_of(requests: pl.DataFrame, own_times: OwnTimes, calm: Spans, window_ns: int) -> Costs:
    """Compute the costs from the first requests of each interaction that were sent in calm time. `own_times` returns
    what visits of requests take."""
    known = requests.filter(pl.col("interaction").is_not_null()).with_columns(pl.col("interaction").cast(pl.String))
    names = known["interaction"].value_counts().sort("count", "interaction", descending=[True, False])
    if len(names) < 2:
        return {}
    each = max(min(SEEN, SEEN * WEIGHED // len(names)), LEAST_BESIDE)
    calm_ones = known.filter(pl.Series(contains(calm, known["sent"].to_numpy())))
    first = calm_ones.group_by("interaction").head(each).select("request", "interaction")
    counts = dict(first["interaction"].value_counts().iter_rows())
    spent = own_times(first).join(first, on="request").group_by("server", "interaction")
    costs: Costs = {}
    for server, interaction, own in spent.agg(pl.col("own").clip(0).sum()).iter_rows():
        costs.setdefault(server, dict.fromkeys(counts, 0.0))[interaction] = own / counts[interaction]
    for name in names.filter(~pl.col("interaction").is_in(list(counts)))["interaction"].head(CROWDS):
        _add_beside(costs, known, own_times, window_ns, name)
    return costs


def _add_beside(costs: Costs, known: pl.DataFrame, own_times: OwnTimes, window_ns: int, name: str) -> None:
    """Add the cost of an interaction that comes at no calm time. Its own time is compared with that of other requests
    that were sent in the same window, because requests that share a processor are slowed down equally."""
    rows = known.filter(pl.col("drops") == 0).with_columns(window=pl.col("sent") // window_ns)
    crowd = rows.filter(pl.col("interaction") == name).head(SEEN)
    others = rows.filter(pl.col("interaction") != name).join(crowd.select("window").unique(), on="window", how="semi")
    if crowd.is_empty() or len(others) < LEAST_BESIDE:
        return
    own, beside = (
        dict(own_times(part).group_by("server").agg(pl.col("own").clip(0).sum()).iter_rows())
        for part in (crowd, others)
    )
    came = others["interaction"].value_counts().rows()
    for server, each in costs.items():
        alone = sum(each.get(other, 0.0) * count for other, count in came)
        if alone > 0 and beside.get(server, 0) > 0:
            each[name] = own.get(server, 0) / len(crowd) * alone / beside[server]
