"""This module finds requests that clients sent again: because they had stopped waiting for the one before, or because
it had failed, or a second time while it was unanswered. Such requests come when a server is slow. They can keep it slow
when the first cause is over (a metastable failure, Bronson et al. 2021)."""

from __future__ import annotations

import numpy as np
import polars as pl

from tailrace.diagnosis.ledger.recorded import Recorded
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.view import View
from tailrace.units import MILLISECOND

CAUSE = "retries"
SAYS = "the requests that clients sent again"
PLAIN = "clients sent requests again that were slow, which kept {origin} overloaded"
FAILED = r"^(abandoned|timeout|refused|reset|5\d\d)$"
PAUSE_NS = 1100 * MILLISECOND
"""RUBBoS's client repeats a page after 1 s. A later request may be a new one."""


def repeated(view: View, recorded: Recorded) -> tuple[Times, Times]:
    """Return the visits that are such requests, and the visit of the first attempt of each. The request before, of the
    same client for the same interaction, had failed a moment ago or was unanswered."""
    of_one = ("client", "interaction")
    has_failed = pl.col("status").cast(pl.String).str.contains(FAILED)
    # Without a failed request or a second one, a client sent none again.
    some = view.requests.filter(pl.col("client").is_not_null(), pl.col("twice") | has_failed).select(of_one).unique()
    requests = view.requests.join(some, on=of_one, how="semi", nulls_equal=True, maintain_order="left")
    failed = has_failed.shift(1).over(of_one)
    soon = pl.col("sent") - pl.col("end").shift(1).over(of_one) <= PAUSE_NS
    again = pl.col("twice") | (failed & soon)
    marked = requests.with_columns(again=again.fill_null(value=False))
    first = pl.when(~pl.col("again")).then("request").forward_fill().over(of_one)
    found = marked.with_columns(first=first).filter("again").select("request", "first")
    visits = pl.DataFrame({"request": recorded.request, "visit": np.arange(len(recorded.request))})
    known = pl.concat((found["request"], found["first"])).unique().drop_nulls()
    visits = visits.filter(pl.Series(recorded.parent < 0), pl.col("request").is_in(known.implode()))
    visits = visits.unique("request", keep="first", maintain_order=True)
    attempts = found.join(visits, on="request").join(visits, left_on="first", right_on="request", suffix="_first")
    return attempts["visit"].to_numpy(), attempts["visit_first"].to_numpy()
