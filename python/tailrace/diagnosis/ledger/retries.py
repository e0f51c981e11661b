"""This module finds requests and calls that were sent again: because the sender had stopped waiting for the one before,
or because it had failed; requests also a second time while the first was unanswered. They come when a server is slow.
They can keep it slow when the first cause is over (a metastable failure, Bronson et al. 2021)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tailrace.diagnosis.ledger.given_up import AT_ONCE, REFUSED, RETRIED
from tailrace.diagnosis.ledger.recorded import Recorded
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.view import View
from tailrace.units import MILLISECOND

CAUSE = "retries"
SAYS = "the requests that were sent again"
PLAIN = "requests that were slow were sent again, which kept {origin} overloaded"
PAUSE_NS = 1100 * MILLISECOND
"""RUBBoS's client repeats a page after 1 s. A later request may be a new one."""


@dataclass(frozen=True)
class Repeated:
    """These visits are such requests."""

    visits: Times
    first: Times
    """This is the visit of the first attempt of each."""
    previous: Times
    """This is the visit of the attempt before each."""
    patience: Times
    """The sender waited so many nanoseconds for that attempt. It is 0 where it sent this one because a server had
    refused that attempt: then it does not matter how long the attempt takes."""

    def instead(self, recorded: Recorded) -> tuple[Times, Times]:
        """Return the first attempts that no server took, and for each of them the next attempt that one took. What the
        request needs is known only of that one."""
        taken = recorded.departure > recorded.arrival
        known = np.flatnonzero(taken[self.visits] & ~taken[self.first])
        known = known[np.lexsort((recorded.sent[self.visits[known]], self.first[known]))]
        first, at = np.unique(self.first[known], return_index=True)
        return first, self.visits[known][at]


def repeated(view: View, recorded: Recorded) -> Repeated:
    """Return the repeated requests. The request before, of the same client for the same interaction, had failed a
    moment ago or was unanswered."""
    of_one = ("client", "interaction")
    has_failed = pl.col("status").cast(pl.String).str.contains(RETRIED)
    # Without a failed request or a second one, a client sent none again.
    some = view.requests.filter(pl.col("client").is_not_null(), pl.col("twice") | has_failed).select(of_one).unique()
    if some.is_empty():
        return Repeated(*(np.empty(0, dtype=np.int64) for _ in range(4)))
    requests = view.requests.join(some, on=of_one, how="semi", nulls_equal=True, maintain_order="left")
    # The second of two attempts did not fail if the first one was answered.
    needless = pl.col("twice") & ~has_failed.shift(1).over(of_one).fill_null(value=False)
    requests = requests.with_columns(failed=has_failed & ~needless)
    failed = pl.col("failed").shift(1).over(of_one)
    soon = pl.col("sent") - pl.col("end").shift(1).over(of_one) <= PAUSE_NS
    again = pl.col("twice") | (failed & soon)
    marked = requests.with_columns(again=again.fill_null(value=False))
    first = pl.when(~pl.col("again")).then("request").forward_fill().over(of_one)
    before = [pl.col(name).shift(1).over(of_one) for name in ("request", "sent", "end")]
    refused = pl.col("status").cast(pl.String).str.contains(REFUSED).shift(1).over(of_one)
    patience = pl.when(refused & ~pl.col("twice")).then(0).otherwise(pl.min_horizontal("sent", before[2]) - before[1])
    found = marked.with_columns(first=first, previous=before[0], patience=patience).filter("again")
    found = found.select("request", "first", "previous", "patience").drop_nulls()
    visits = pl.DataFrame({"request": recorded.request, "visit": np.arange(len(recorded.request))})
    known = pl.concat((found["request"], found["first"], found["previous"])).unique()
    visits = visits.filter(pl.Series(recorded.parent < 0), pl.col("request").is_in(known.implode()))
    visits = visits.unique("request", keep="first", maintain_order=True)
    attempts = found.join(visits, on="request")
    for name in ("first", "previous"):
        attempts = attempts.join(visits, left_on=name, right_on="request", suffix=f"_{name}")
    columns = (attempts[name].to_numpy() for name in ("visit", "visit_first", "visit_previous", "patience"))
    return Repeated(*columns)


def calls(recorded: Recorded) -> Repeated:
    """Return the calls that were sent again for the same visit, because the call before had failed a moment ago."""
    made = np.flatnonzero(recorded.parent >= 0)
    made = made[np.isin(recorded.parent[made], recorded.parent[made[recorded.again[made] > 0]])]
    made = made[np.lexsort((recorded.sent[made], recorded.names.number[made], recorded.parent[made]))]
    before, after = made[:-1], made[1:]
    alike = (recorded.parent[before] == recorded.parent[after]) & (
        recorded.names.number[before] == recorded.names.number[after]
    )
    pause = recorded.sent[after] - recorded.back[before]
    again = alike & (recorded.again[before] > 0) & (pause >= 0) & (pause <= PAUSE_NS)
    patience = np.where(recorded.again[before] == AT_ONCE, 0, recorded.back[before] - recorded.sent[before])
    # The first attempt of each is the last one before it that is no repetition.
    firsts = np.append(True, ~again)
    first = made[np.maximum.accumulate(np.where(firsts, np.arange(len(firsts)), 0))[1:]] if len(made) else made
    return Repeated(after[again], first[again], before[again], patience[again])
