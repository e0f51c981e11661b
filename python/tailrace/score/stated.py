"""What the truth states directly, of simulated runs and recordings: where packets were lost and where stalls were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import polars as pl

from tailrace.dataset import Dataset
from tailrace.score.figures import TIE
from tailrace.score.stalls import BURST, Stall


def right_droppers(run: Dataset, told: Mapping[str, Any]) -> int:
    """Of how many very slow requests the reported dropper is right: each request takes one of the servers that lost its
    packets from those that were reported, or "nobody" if nothing was lost."""
    left: Counter[str | None] = Counter()
    for row in (row for episode in told["episodes"] for row in episode["chains"]):
        left[row["dropper"]] += row["vlrt"]
    right = 0
    # Requests with the fewest answers that are right choose first.
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
    """For how many very slow requests an origin was reported that the truth states, and for how many it is right. The
    truth does not state which server a burst fills, nor what balancers and limits do."""
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
