"""This module infers how many workers a server has, and when one of them took a visit, if neither was recorded."""

from __future__ import annotations

import heapq

import numpy as np
import polars as pl

from tailrace.diagnosis import unheard
from tailrace.diagnosis.constants import HARDLY_ANY, LEAST_LIMIT, LONG_NS, SEVERAL
from tailrace.diagnosis.queues import Stays, Times, held_from, plateau
from tailrace.diagnosis.view import View


def workers(view: View) -> dict[str, int]:
    """Return the number of workers of each server, or 0 where it is not known."""
    return {server: workers_of(view, server) for server in view.servers}


def workers_of(view: View, server: str) -> int:
    """Return the number of workers in the topology. Otherwise, infer it from the number of open calls, because each
    worker waited for its call. That number must have been the same whenever an attempt was lost. Or it must have stayed
    the same while visits waited for long before their first call. If both show a number, the second counts, unless the
    first is large enough to be sure. The result is 0 if the number is not known."""
    known = view.topology.server(server)
    if known is not None and (known.workers or known.kind == "async"):
        return known.workers or 0
    calls = [stays for callee, stays in view.calls.get(server, {}).items() if callee != server]
    if not calls:
        return 0
    lost, few = lost_at(view, server), 0
    if len(lost) >= LEAST_LIMIT:
        opened = np.sum([stays.queue(lost) for stays in calls], axis=0)
        few = _few(opened)
        low, middle, high = np.percentile(opened, (10, 50, 90)).tolist()
        if middle >= LEAST_LIMIT:
            return int(middle) if low >= held_from(high) else 0
    waited = _waited_at(view, server)
    opened = np.sum([stays.queue(waited) for stays in calls], axis=0)
    number = _few(opened)
    return plateau(opened) or (number and _without_others(view, server, calls, number)) or few


def _without_others(view: View, server: str, calls: list[Stays], number: int) -> int:
    """Return the number of workers, or 0 if requests of a kind that calls nobody were answered while so many calls were
    open: then the calls share a pool, and these requests need none of it."""
    calling = view.visits.select(visit="parent", calls=True).drop_nulls().unique("visit")
    mine = view.visits.filter(pl.col("server").cast(pl.String) == server).join(calling, on="visit", how="left")
    of_kind = pl.col("calls").is_not_null().mean().over("interaction")
    left = (
        mine.filter(of_kind <= HARDLY_ANY, pl.col("parent").is_null(), pl.col("request").is_not_null())
        .select("departure")
        .collect()["departure"]
        .to_numpy()
    )
    opened = np.sum([stays.queue(left) for stays in calls], axis=0)
    return number if int((opened >= number).sum()) < SEVERAL else 0


def _few(opened: Times) -> int:
    """Return a limit below `LEAST_LIMIT`. One call more or less is a large part of it, so exactly that number must have
    been open at most of these times, and never more. A server that serves in turn has a limit of one."""
    if len(opened) < 2 * LEAST_LIMIT:
        return 0
    highest = int(opened.max())
    return highest if 1 < highest < LEAST_LIMIT and float(np.median(opened)) == highest else 0


def lost_at(view: View, server: str) -> Times:
    """Return when the server may have refused attempts to reach it, or the last packets of handshakes with it."""
    attempts = view.lossy.filter((pl.col("server") == server) & (pl.col("drops") > 0))["sent"].to_numpy()
    attempts = attempts[view.may_refuse(server, attempts, attempts)]
    silent = unheard.find(view)
    return np.sort(np.concatenate((attempts, silent.begin[silent.server == server])))


def _waited_at(view: View, server: str) -> Times:
    """For visits with a long time between their arrival and their first call, return the middle of that time."""
    long = pl.col("departure") - pl.col("arrival") >= LONG_NS
    visits = view.visits.filter(pl.col("server").cast(pl.String) == server, long).select("visit", "arrival").collect()
    first = (
        view.visits.filter(pl.col("parent").is_in(visits["visit"].implode()))
        .group_by(visit="parent")
        .agg(pl.col("sent").min())
        .collect()
    )
    waits = visits.join(first, on="visit").filter(pl.col("sent") - pl.col("arrival") >= LONG_NS)
    return np.sort(waits.select((pl.col("arrival") + pl.col("sent")) // 2)["arrival"].to_numpy())


def taken(arrival: Times, departure: Times, count: int, recorded: Times) -> Times:
    """Return when one of `count` workers could take each visit. `recorded` is when one took it, and later than
    `departure` where that is not known. The latest possible time is when the visit left.

    Workers take visits in the recorded order, or else in the order of arrival. A server that takes no visit
    although it has a free worker stands still, so a worker may be free earlier than recorded."""
    order = np.argsort(np.where(recorded <= departure, recorded, arrival), kind="stable")
    return np.minimum(turns(arrival, departure, count, order), np.minimum(recorded, departure))


def turns(arrival: Times, departure: Times, count: int, order: Times | None = None) -> Times:
    """Return when one of `count` workers was free for each visit, if they take visits in this order, which is that of
    their arrivals if it is not given. A single worker took them in the order in which they left."""
    start = arrival.copy()
    if Stays.of(arrival, departure).longest <= count:  # no visit waits
        return start
    if count == 1:
        order = np.argsort(departure, kind="stable")
        start[order[1:]] = np.maximum(arrival[order[1:]], departure[order[:-1]])
        return start
    busy: list[int] = []
    order = np.argsort(arrival, kind="stable") if order is None else order
    for i in order.tolist():
        if len(busy) >= count:
            start[i] = max(int(arrival[i]), heapq.heappop(busy))
        heapq.heappush(busy, int(departure[i]))
    return start
