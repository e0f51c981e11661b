"""What clients that wait for answers would send after the recording ended.

A change makes answers faster, so such clients send their requests earlier, and more of them before the end. A twin that
had the recorded requests alone would be idle in its last seconds. Each client thinks for at least as long as it did
until the last request of the recording was sent. Then it repeats its own requests, with what they need and how long it
thought before them. Where nothing is changed, these requests come after the end, and none of them is sent.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

MOST = 4
"""Of a client's recorded requests: a client that thinks for no time would send any number."""

Seconds = NDArray[np.float64]


def continued(rows: pl.DataFrame, answered: Seconds, end: float) -> pl.DataFrame:
    """`rows` and the further requests of their clients. `rows` are in order of time; `answered` is when each got its
    answer, and `end` is when the last recorded request was sent, s since the begin of the recording."""
    client, think, time = (rows[name].cast(pl.Float64).to_numpy() for name in ("client", "think", "time"))
    order = np.argsort(client, kind="stable")  # NaN, without a client, comes last
    order = order[: int(np.isfinite(client).sum())]
    if not len(order):
        return rows
    again, thinks, times = [], [], []
    for mine in np.split(order, np.flatnonzero(np.diff(client[order])) + 1):
        further = _further(mine[1:], think, float((answered - time)[mine].sum()))
        if not len(further):
            continue
        pauses = think[further]
        pauses[0] += max(end - float(answered[mine].max()), 0.0)
        again.append(further)
        thinks.append(pauses)
        times.append(end + np.cumsum(think[further]))
    if not again:
        return rows
    more = rows[np.concatenate(again)].with_columns(
        time=pl.Series(np.concatenate(times)), think=pl.Series(np.concatenate(thinks))
    )
    return pl.concat((rows, more)).sort("time", maintain_order=True)


def _further(cycle: NDArray[np.int64], think: Seconds, waited: float) -> NDArray[np.int64]:
    """Those of a client's requests that it repeats: it saves no more time than it `waited` for answers, so it needs no
    more of them. A client that did not wait before each of these, or whose answers are not known, has none."""
    lasts = think[cycle]
    if not len(cycle) or not np.isfinite(lasts).all() or not np.isfinite(waited):
        return cycle[:0]
    repeated = np.tile(cycle, MOST)
    return repeated[: int(np.searchsorted(np.cumsum(think[repeated]), waited)) + 1]
