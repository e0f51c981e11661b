"""This module finds requests that were never answered because a server does not know of their connection.

The last packet of a handshake meets a full accept queue, and the kernel of the server drops it. The client considers
itself connected. If it waits for the server to speak first, as the clients of many databases do, it repeats nothing. If
the handshake used SYN cookies, the kernel of the server forgot the connection, and it repeats nothing either. So the
client waits until it, or its own client, gives up.

A silent connection is such a connection if two things hold. The server served visits that came later, so it was not
stopped. And its kernel counted a drop for it; or no counter of its kernel was recorded, and its queue was long.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace.diagnosis.constants import LONG_NS, NEARLY
from tailrace.diagnosis.crowds import crowd
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.series import Series
from tailrace.diagnosis.tables import LOST, UNHEARD
from tailrace.diagnosis.view import View
from tailrace.diagnosis.vlrt import GAP_NS

EMPTY = np.empty((0, 2), dtype=np.int64)
TIMES = ("begin", "end", "first")


@dataclass(frozen=True)
class Unheard:
    """These requests wait for such a connection. Each array has a value for each of them."""

    request: NDArray[np.uint64]
    server: NDArray[np.str_]
    """This server does not know of the connection."""
    begin: Times
    """The client had the connection from then on: it had sent the packet that was dropped."""
    end: Times
    """The connection ended, or the recording did."""
    first: Times
    """The client sent its first attempt to connect then, if that was lost, too. Otherwise it is `begin`."""


def find(view: View) -> Unheard:
    """Return the requests whose connections were dropped in this way, each request once."""
    servers = [server for server in view.servers if view.callers_of(server)] if view.events_of(UNHEARD) else []
    parts = [_of_server(view, server) for server in servers]
    rows = [part for part in parts if not part.is_empty()]
    if not rows:
        none = np.empty(0, dtype=np.int64)
        return Unheard(none.astype(np.uint64), none.astype(np.str_), none, none, none)
    found = pl.concat(rows).unique("request", keep="first", maintain_order=True)
    request, server, *times = (found[name].to_numpy() for name in ("request", "server", *TIMES))
    return Unheard(request, server.astype(np.str_), *times)


def _of_server(view: View, server: str) -> pl.DataFrame:
    silent = _events(view, server, UNHEARD)
    waiting = view.asking(server).filter("given_up")
    if not len(silent) or waiting.is_empty():
        return pl.DataFrame()
    silent = silent[np.lexsort((silent[:, 1], silent[:, 0]))]
    silent = np.column_stack((silent, _first_attempts(view, server, silent[:, 0])))
    groups = np.split(silent, np.flatnonzero(np.diff(silent[:, 0]) > GAP_NS) + 1)
    dropped = [group for group in groups if _is_dropped(view, server, group)]
    sent, ended = waiting["sent"].to_numpy(), waiting["end"].to_numpy()
    rows, connections = _assigned(sent, ended, dropped)
    if not len(rows):
        return pl.DataFrame()
    times = {name: pl.Series(its) for name, its in zip(TIMES, connections.T, strict=True)}
    return waiting[rows].select("request", server=pl.lit(server)).with_columns(**times)


def _events(view: View, server: str, kind: str) -> Times:
    each = [times for place, times in view.events_of(kind) if view.means(place, server)]
    return np.concatenate([EMPTY, *each])


def _is_dropped(view: View, server: str, silent: Times) -> bool:
    """Return whether the kernel of the server dropped the last packets of these connections, which began close
    together."""
    begin, end = silent[:, 0], silent[:, 1]
    stays = view.stays[server]
    # More visits left than had been inside, so the server served some that came later.
    since = np.array([begin[-1], np.median(end)], dtype=np.int64)
    if int(stays.departed(since).sum()) <= int(stays.queue(since[:1])[0]):
        return False
    counted = [known for known in (_counted(view, server, one, begin) for one in view.refusals_of(server)) if known]
    if not counted:
        return crowd(view, server, begin).long
    # A kernel counts lost attempts, too.
    return any(drops - attempts >= NEARLY * len(silent) for drops, attempts in counted)


def _counted(view: View, server: str, series: Series, begin: Times) -> tuple[float, int] | None:
    """Return how many drops a kernel counted around these times, and how many attempts to connect were lost in the time
    of these samples. Return None where nothing was sampled."""
    near = series.around(int(begin.min()), int(begin.max()))
    drops = series.value[near]
    if not len(drops):
        return None
    first, last = int(series.begin[near][0]), int(series.end[near][-1])
    attempts = _events(view, server, LOST)[:, 0]
    lossy = view.lossy.filter(pl.col("server") == server, pl.col("sent").is_between(first, last))
    lost = max(int(((attempts >= first) & (attempts <= last)).sum()), int(lossy["drops"].cast(pl.Int64).sum()))
    return float(drops.sum()), lost


def _first_attempts(view: View, server: str, begin: Times) -> Times:
    """Return when the first attempt was sent for each of these connections. A lost attempt that belongs to no visit was
    sent again shortly before such a connection began. `begin` is in order."""
    visited = view.lossy.filter(pl.col("server") == server)["sent"].to_numpy()
    lost = _events(view, server, LOST)
    lost = lost[~np.isin(lost[:, 0], visited)]
    lost = lost[np.argsort(lost[:, 1], kind="stable")]
    found, at = begin.copy(), 0
    for number, moment in enumerate(begin.tolist()):
        at = max(at, int(np.searchsorted(lost[:, 1], moment - LONG_NS)))
        if at < len(lost) and lost[at, 1] <= moment:
            found[number], at = lost[at, 0], at + 1
    return found


def _assigned(sent: Times, ended: Times, groups: list[Times]) -> tuple[Times, Times]:
    """Return the numbers of requests, and the silent connections for which they wait. Requests and connections are
    assigned in their order wherever as many of both wait. A request came before its connection, and was not given up
    before. `sent` is in order, and so are the groups. The first column of a group has the begins of its connections."""
    found: list[tuple[Times, Times]] = []
    first, waiting = 0, np.empty(0, dtype=np.int64)
    silent: list[Times] = []
    for group in groups:
        until = int(np.searchsorted(sent, group[-1, 0], "right"))
        silent.append(group)
        waiting = np.concatenate((waiting, np.arange(first, until)))
        waiting = waiting[ended[waiting] > group[0, 0]]
        first = until
        open_ = np.concatenate(silent)
        if len(waiting) == len(open_) and (sent[waiting] <= open_[:, 0]).all():
            found.append((waiting, open_))
            waiting, silent = waiting[:0], []
    rows, connections = ([one[at] for one in found] for at in (0, 1))
    return (np.concatenate(rows), np.concatenate(connections)) if found else (waiting[:0], EMPTY)
