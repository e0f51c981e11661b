"""Requests that clients sent again: because they had stopped waiting for the one before, or because it had failed, or a
second time while it was unanswered. They come when a server is slow, and can keep it slow when what began it is over
(a metastable failure, Bronson et al. 2021)."""

from __future__ import annotations

import numpy as np
import polars as pl

from tailrace.diagnosis.ledger.recorded import Recorded
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.view import View
from tailrace.units import MILLISECOND

CAUSE = "retries"
FAILED = r"^(abandoned|timeout|refused|reset|5\d\d)$"
PAUSE_NS = 1100 * MILLISECOND
"""RUBBoS's client repeats a page after 1 s. What comes later may be asked for anew."""


def repeated(view: View, recorded: Recorded) -> Times:
    """Which visits are such requests: the one before of the same client asked for the same and failed a moment ago, or
    was unanswered."""
    of_one = ("client", "interaction")
    failed = pl.col("status").cast(pl.String).str.contains(FAILED).shift(1).over(of_one)
    soon = pl.col("sent") - pl.col("end").shift(1).over(of_one) <= PAUSE_NS
    again = pl.col("client").is_not_null() & (pl.col("twice") | (failed & soon))
    found = view.requests.filter(again.fill_null(value=False))["request"].to_numpy()
    return np.flatnonzero((recorded.parent < 0) & np.isin(recorded.request, found))
