"""The requests of a recording as they come: when each was sent, or how long its client thought before, and what it
needs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace.diagnosis.ledger.recorded import Recorded
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.view import View
from tailrace.twin.continuing import continued
from tailrace.twin.demands import Demands, Works
from tailrace.twin.structure import Structure
from tailrace.twin.tree import Tree
from tailrace.units import SECOND

DIGITS = 5
"""Of a factor: a relative error of 0.001 %."""


def arrivals(
    view: View,
    recorded: Recorded,
    structure: Structure,
    tree: Tree,
    demands: Demands,
    roots: Times,
    *,
    whole: bool,
) -> dict[str, pl.DataFrame]:
    """Entry tier → its requests, in the form of `experiment.traces`. Those of a `whole` recording go on after it."""
    label = np.array([tree.label[number] for number in tree.stands[roots].tolist()], dtype=object)
    entry = np.array([structure.tier[name] for name in recorded.servers], dtype=object)[recorded.server[roots]]
    client, think = _clients(view, recorded.request[roots])
    factors = {name: np.round(values, DIGITS) for name, values in unusual(demands.factor).items()}
    table = pl.DataFrame(
        {
            "time": (recorded.steps.lengthened(recorded.sent[roots]) - view.begin) / SECOND,
            "interaction": pl.Series(label.tolist(), dtype=pl.String),
            "client": client,
            "think": think,
            "entry": pl.Series(entry.tolist(), dtype=pl.String),
            **factors,
        }
    )
    if whole:
        answered = (recorded.steps.lengthened(recorded.back[roots]) - view.begin) / SECOND
        sent = table["time"].to_numpy()
        order = np.argsort(sent, kind="stable")
        table = continued(table[order], answered[order], float(sent.max(initial=0.0)))
    parts = table.sort("time", maintain_order=True).partition_by("entry", as_dict=True, maintain_order=True)
    return {str(name): rows.drop("entry") for (name,), rows in parts.items()}


def unusual(factor: Mapping[str, Works]) -> dict[str, Works]:
    """The factors of tiers in which any is not 1. A request without a factor for its work before the first call has
    that of the rest there, so all columns of a tier are kept, or none."""
    kept = {name.partition(".")[2] for name, values in factor.items() if not np.allclose(values, 1.0)}
    return {name: values for name, values in factor.items() if name.partition(".")[2] in kept}


def _clients(view: View, requests: NDArray[np.uint64]) -> tuple[pl.Series, pl.Series]:
    """Of each request its client, and how many seconds that thought after the answer to its previous one; null where
    it did not wait for that answer."""
    known = (
        view.requests.filter(pl.col("client").is_not_null())
        .sort("client", "sent")
        .select(
            "request",
            "client",
            pause=(pl.col("sent") - pl.col("end").cum_max().shift(1).over("client")) / SECOND,
        )
        .with_columns(think=pl.when(pl.col("pause") >= 0.0).then(pl.col("pause")))
        .unique("request", maintain_order=True)
    )
    asked = pl.DataFrame({"request": requests}).join(known, on="request", how="left", maintain_order="left")
    return asked["client"].cast(pl.Int64), asked["think"]
