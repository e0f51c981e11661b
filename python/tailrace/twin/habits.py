"""What clients do without an answer: they send a request twice, stop waiting, and try again.

Requests that they sent for these reasons are left out: the twin's clients send them when they have the same reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tailrace.diagnosis.view import View
from tailrace.units import exact_duration

Keys = dict[str, Any]

LEAST = 5
"""So many at least show that clients do it on purpose …"""
SPREAD = 0.02
"""… after a constant time: so much of it is the spread of its middle 80 %."""
SHARE = 0.8
"""… which holds for so many of those that do it."""


@dataclass(frozen=True)
class Habits:
    keys: Mapping[str, Keys]
    """By the tier that clients reach: keys of its workload."""
    again: pl.Series
    """Requests that are not sent by themselves."""


def find(view: View, tiers: Mapping[str, str]) -> Habits:
    """What the clients of most requests to a tier do; `tiers` are those of the servers. Clients of one tier may repeat
    what those of another wait for. Clients that a recording does not distinguish have no habits."""
    columns = ("request", "client", "sent", "end", "twice", "given_up", "response_ns")
    tier = pl.col("server").cast(pl.String).replace_strict(dict(tiers), default=None, return_dtype=pl.String)
    rows = (
        view.requests.filter(pl.col("client").is_not_null())
        .select(*columns, name=pl.col("interaction"), tier=tier)
        .sort("client", "sent")
    )
    same = pl.col("client") == pl.col("client").shift(1)  # they are sorted: faster than `over`
    before = {name: pl.when(same).then(pl.col(name).shift(1)) for name in ("sent", "end", "name", "given_up")}
    rows = rows.with_columns(
        hedged_ns=pl.col("sent") - before["sent"],
        paused_ns=pl.col("sent") - before["end"],
        repeats=(before["given_up"] & (before["name"].eq_missing(pl.col("name"))) & ~pl.col("twice")).fill_null(False),
    )
    keys: dict[str, Keys] = {}
    again = [rows["request"].clear()]
    for (name,), own in rows.drop_nulls("tier").group_by("tier", maintain_order=True):
        keys[str(name)], repeated = _of_tier(own)
        again += repeated
    return Habits(keys, pl.concat(again))


def _of_tier(rows: pl.DataFrame) -> tuple[Keys, list[pl.Series]]:
    """What clients do, and the requests that they sent for that."""
    keys: Keys = {}
    again = []
    if hedge := _constant(rows, "twice", "hedged_ns"):
        keys["hedge"] = hedge
        again.append(rows.filter("twice")["request"])
    if timeout := _constant(rows.filter(~pl.col("twice")), "given_up", "response_ns"):
        keys["timeout"] = timeout
        if pause := _constant(rows, "repeats", "paused_ns"):
            keys |= {"retry_pause": pause, "retries": _most_in_a_row(rows)}
            again.append(rows.filter("repeats")["request"])
    return keys, again


def _constant(rows: pl.DataFrame, which: str, column: str) -> str | None:
    """How long those of `which` waited, if all waited equally long."""
    waited = rows.filter(which)[column].drop_nulls().to_numpy()
    if len(waited) < LEAST:
        return None
    middle = float(np.median(waited))
    constant = middle > 0 and float((np.abs(waited - middle) <= SPREAD * middle).mean()) >= SHARE
    return exact_duration(round(middle)) if constant else None


def _most_in_a_row(rows: pl.DataFrame) -> int:
    runs = rows["repeats"].rle().struct.unnest().filter("value")
    return int(runs["len"].to_numpy().max(initial=0))
