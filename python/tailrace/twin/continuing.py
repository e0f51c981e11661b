"""What clients that wait for answers would send after the recording ended.

A change makes answers faster, so such clients send their requests earlier, and more of them before the end. A twin that
had the recorded requests alone would be idle in its last seconds. Each client thinks for longer than it did until the
last request of the recording was sent. Then it repeats its own requests, with what they need and how long it thought
before them. Where nothing is changed, these requests come after the end, and none of them is sent.
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
        rest = max(end - float(answered[mine].max()), 0.0)
        further, pauses = _further(mine[1:], think[mine[1:]], rest, float((answered - time)[mine].sum()))
        again.append(further)
        thinks.append(pauses)
        times.append(end + np.cumsum(pauses) - rest)
    more = rows[np.concatenate(again)].with_columns(
        time=pl.Series(np.concatenate(times)), think=pl.Series(np.concatenate(thinks))
    )
    return pl.concat((rows, more)).sort("time", maintain_order=True)


def _further(cycle: NDArray[np.int64], think: Seconds, rest: float, waited: float) -> tuple[NDArray[np.int64], Seconds]:
    """Those of a client's requests that it repeats, and how long it thinks before each. It begins with one before which
    it thought for longer than the `rest` of the recording; if it never did, it thinks for twice as long as that. It
    saves no more time than it `waited` for answers, so it needs no more of them. A client that did not wait before each
    of its requests, or whose answers are not known, has none."""
    if not len(cycle) or not np.isfinite(think).all() or not np.isfinite(rest + waited):
        return cycle[:0], think[:0]
    longer = np.flatnonzero(think > rest)
    first = int(longer[0]) if len(longer) else 0
    repeated = np.tile(np.roll(cycle, -first), MOST)
    pauses = np.tile(np.roll(think, -first), MOST)
    pauses[0] = pauses[0] if len(longer) else 2.0 * rest
    count = int(np.searchsorted(np.cumsum(pauses), waited + rest)) + 1
    return repeated[:count], pauses[:count]
