"""This module finds clients that had a connection, sent nothing or only a part of a request, and held a worker of the
server meanwhile.

A server with one worker for each connection reads from it until the request is complete. So a browser that opens a
connection in advance, a client that stops before it sends, or one that keeps its connection after an answer, holds a
worker. The other visits wait.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from tailrace.diagnosis.constants import ALIKE
from tailrace.diagnosis.spans import Spans, overlap
from tailrace.diagnosis.tables import KEPT, SILENT
from tailrace.diagnosis.view import View

NAME = "clients that sent nothing"
UNFINISHED = "408"
"""The status of a request whose rest did not come in time (RFC 9110)."""
FIRST = 2**62
"""The numbers of these connections begin here. Visits have smaller numbers."""


def joined(view: View, stretches: Spans, visits: pl.DataFrame) -> pl.DataFrame:
    """Return the visits together with the silences in these stretches that held a worker. Each silence replaces the
    request that its client never completed, if there is one."""
    silent = _rows(view, stretches, pl.Schema({**visits.schema, "asked": pl.Int64()}))
    slack = ((pl.col("until") - pl.col("since")) * ALIKE).cast(pl.Int64)
    given_up = visits.filter(pl.col("request").is_in(view.requests.filter("given_up")["request"].implode()))
    unfinished = given_up.join(silent.select("server", since="asked", until="departure"), on="server").filter(
        (pl.col("arrival") - pl.col("since")).abs() <= slack, (pl.col("departure") - pl.col("until")).abs() <= slack
    )
    # A server that waited in vain for the rest of a request says so.
    in_vain = pl.col("status").cast(pl.String) == UNFINISHED
    named = pl.when(in_vain).then(pl.lit(NAME)).otherwise(pl.col("interaction").cast(pl.String)).cast(pl.Categorical)
    found = pl.concat([visits.join(unfinished, on="visit", how="anti"), silent.drop("asked")]).sort("visit")
    return found.with_columns(interaction=named) if found.select(in_vain.any()).item() else found


def _rows(view: View, stretches: Spans, schema: pl.Schema) -> pl.DataFrame:
    """Return these silences as visits that nobody answered. The column `asked` has when the client last sent a part of
    its request. A server that clients do not reach is left out: those that were silent are its callers, and the account
    of the callers shows why."""
    found = ((server, _holding(view, server)) for server in view.servers if server in view.direct)
    inside = [
        (server, *one)
        for server, table in found
        for one in table[overlap(stretches, table[:, 0], table[:, 1]) > 0].tolist()
    ]
    moments = {"server": pl.String, "begin": pl.Int64, "end": pl.Int64, "asked": pl.Int64}
    frame = pl.DataFrame(inside, schema=moments, orient="row").with_row_index("number")
    columns = {
        "visit": FIRST + pl.col("number"),
        "server": pl.col("server"),
        "interaction": pl.lit(NAME),
        "sent": pl.col("begin"),
        "arrival": pl.col("begin"),
        "departure": pl.col("end"),
        "drops": pl.lit(0),
        "bytes": pl.lit(0),
        "asked": pl.col("asked"),
    }
    return frame.select(columns.get(name, pl.lit(None)).cast(kind).alias(name) for name, kind in schema.items())


def _holding(view: View, server: str) -> Spans:
    """Return the silences that held a worker, in three columns: when each began and ended, and when the client last
    sent a part of its request. A silence holds a worker if no visit left after its first half, although visits waited,
    until the client spoke or left."""
    events = (one for kind in (SILENT, KEPT) for one in view.events_of(kind))
    each = [spans for place, spans in events if view.means(place, server)]
    if not each:
        return np.empty((0, 3), dtype=np.int64)
    silences, stays = np.concatenate(each), view.stays[server]
    begin, end = silences[:, 0], silences[:, 1]
    # A worker that becomes free answers soon, if others have waited for long.
    slack = ((end - begin) * ALIKE).astype(np.int64)
    edges = np.column_stack((begin + (end - begin) // 2, end - slack, end + slack))
    left, after = stays.departed(edges).T
    blocked = (left == 0) & (stays.queue(end - slack) > 0)
    return _since_blocked(silences[blocked & (after > 0)], silences[blocked & (after == 0)])


def _since_blocked(held: Spans, before: Spans) -> Spans:
    """Return these silences since the server answered nobody. The client may have sent parts of its request meanwhile:
    a silence ends when the next one on its connection begins. Only this time tells the connections apart, so where a
    capture rounds its times, a silence may be taken for that of another client."""
    earlier = dict(before[:, ::-1].tolist())
    since = held[:, 0].copy()
    for at, begin in enumerate(since.tolist()):
        while begin in earlier:
            begin = earlier.pop(begin)
        since[at] = begin
    return np.column_stack((since, held[:, 1], held[:, 0]))
