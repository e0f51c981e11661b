"""This module finds visits that their callers gave up, and the time at which the servers were done with them.

    caller   ├─ waits ─┤ gives up
    server   ├──────────────────────┤ answers nobody

The caller goes on when it gives up. The server may not know that, and its worker is busy until it is done.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace.diagnosis.ledger.steps import NEVER, Steps
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.tables import LATE, until
from tailrace.diagnosis.view import View

ABANDONED = "^abandoned$"
RETRIED = r"^(abandoned|timeout|refused|reset|5\d\d)$"
"""A caller may repeat what has such a status."""
REFUSED = r"^(refused|reset|502|503)$"
"""Other failures come when a time has passed, or are no refusal."""
LOCKED = r"^error-(40P01|55P03|1205|1213)$"
"""A database reports a deadlock, or that a lock was not free in time (PostgreSQL; MySQL and MariaDB)."""
AGAIN, AT_ONCE = 1, 2
"""A caller may repeat a visit because it was not answered in time, or because a server refused it."""


def joined(view: View, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the visits with the departure at which their servers were done with them, and with `back`, the time at
    which their callers gave them up, or null."""
    abandoned, asked = _are(rows, ABANDONED), view.requests.filter("given_up").select("request", "end")
    if not abandoned.any() and asked.is_empty():
        return rows.with_columns(back=pl.lit(None, pl.Int64))
    late = [
        pl.DataFrame({"server": place, "departure": table[:, 0], "until": table[:, 1]})
        for place, table in view.events_of(LATE)
    ]
    none = pl.DataFrame(schema={"server": pl.String, "departure": pl.Int64, "until": pl.Int64})
    found = rows.join(asked, on="request", how="left", maintain_order="left")
    found = found.join(until(pl.concat([none, *late])), on=("server", "departure"), how="left", maintain_order="left")
    # A request ends when its client gives it up. Its visits last longer where the makers of the recording saw that.
    of_request = pl.when(pl.col("parent").is_null() & (pl.col("end") < pl.col("departure"))).then("end")
    back = pl.coalesce(of_request, pl.when(abandoned).then("departure"))
    left = pl.when(abandoned).then(pl.max_horizontal("departure", "until")).otherwise("departure")
    return found.with_columns(back=back, departure=left).drop("end", "until")


def _are(rows: pl.DataFrame, status: str) -> pl.Series:
    """Return which visits have a status of this pattern. Each different status is looked at once."""
    known = rows["status"].unique().drop_nulls()
    wanted = known.filter(known.cast(pl.String).str.contains(status))
    if wanted.is_empty():
        return pl.repeat(False, len(rows), eager=True)
    return rows["status"].is_in(wanted.implode()).fill_null(False)


def gives_up(rows: pl.DataFrame, steps: Steps) -> Times:
    """Return how long after it was sent each visit was given up, or `NEVER`."""
    found = np.full(len(rows), NEVER)
    given_up = np.flatnonzero(rows["back"].is_not_null().to_numpy())
    sent, back = (steps.shortened(rows[name].gather(given_up).to_numpy()) for name in ("sent", "back"))
    found[given_up] = np.maximum(back - sent, 0)
    return found


def locked(rows: pl.DataFrame) -> NDArray[np.bool_]:
    """Return which visits failed because they waited for a lock."""
    return _are(rows, LOCKED).to_numpy()


def may_repeat(rows: pl.DataFrame) -> NDArray[np.uint8]:
    """Return why a caller may repeat each visit: 0, `AGAIN` or `AT_ONCE`."""
    again, at_once = (_are(rows, pattern).to_numpy() for pattern in (RETRIED, REFUSED))
    return np.select([at_once, again], [AT_ONCE, AGAIN], 0).astype(np.uint8)
