"""Compares with what the truth states directly: the servers that lost packets, and the places of stalls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import polars as pl

from tailrace.dataset import Dataset
from tailrace.score.figures import TIE
from tailrace.score.stalls import BURST, Stall


def right_droppers(run: Dataset, told: Mapping[str, Any]) -> int:
    """The number of very slow requests whose reported dropper is right. Each request is matched with one of the
    reported droppers that lost its packets, or with "no dropper" if nothing was lost."""
    left: Counter[str | None] = Counter()
    for row in (row for episode in told["episodes"] for row in episode["chains"]):
        left[row["dropper"]] += row["vlrt"]
    right = 0
    # Requests with the fewest right answers are matched first.
    for names, requests in sorted(_droppers(run, told["threshold_ns"]).items(), key=lambda item: len(item[0])):
        for name in names or (None,):
            taken = min(left[name], requests)
            left[name] -= taken
            requests -= taken
            right += taken
    return right


def _droppers(run: Dataset, threshold_ns: int) -> Counter[tuple[str, ...]]:
    lossy, server = (pl.col("drops") > 0) | (pl.col("data_drops") > 0), pl.col("server").cast(pl.String)
    slow = run.requests().filter(pl.col("end") - pl.col("sent") >= threshold_ns)
    entries = slow.filter(lossy).select("request", server).collect()
    deeper = run.visits().filter(lossy & pl.col("caller").is_not_null()).select("request", server).collect()
    names: dict[int, set[str]] = {request: set() for request in slow.select("request").collect()["request"].to_list()}
    for request, name in pl.concat([entries, deeper]).iter_rows():
        if request in names:
            names[request].add(name)
    return Counter(tuple(sorted(of)) for of in names.values())


def origins(told: Mapping[str, Any], stalls: tuple[Stall, ...]) -> tuple[int, int]:
    """The number of very slow requests for which the truth states the origin and one was reported, and the number for
    which it is right. The truth states neither which server a burst fills nor what balancers and limits do."""
    stated = right = 0
    for episode in told["episodes"]:
        for row in episode["chains"]:
            named = row["cause"].split(TIE)
            places = {
                origin
                for stall in stalls
                for origin in stall.origins
                if stall.kind != BURST and stall.begin <= episode["end"] and stall.causes & set(named)
            }
            if places and row["origin"] is not None:
                stated += row["vlrt"]
                right += row["vlrt"] * (row["origin"] in places)
    return stated, right
