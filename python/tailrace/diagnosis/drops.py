"""Step 2: which VLRT requests lost a packet, and which server dropped it.

Direct evidence is a repeated connection attempt or segment of the request itself or of a visit it caused further down;
the kernel's own counters (`listen_drops`, `accept_queue`) confirm it. Where neither is recorded, two signs remain:
response times that cluster at the sender's retransmission times, and a request that its client sent one such time
before the server saw it arrive.

A server whose kernel was asked and refused nothing has dropped nothing: those packets were lost on their way to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace.diagnosis.finding import Finding, Number
from tailrace.diagnosis.series import Series
from tailrace.diagnosis.view import View
from tailrace.diagnosis.vlrt import SCHEDULES, Cluster, Slow
from tailrace.diagnosis.words import clock, count, duration, listing
from tailrace.units import MILLISECOND, SECOND

QUEUED = ""
"""The dropper of a request that lost nothing."""


@dataclass(frozen=True)
class Drops:
    """What one cluster of VLRT requests lost."""

    dropper: str | None
    """The server that dropped packets of most of them; None where nothing was dropped or nothing is known."""
    by_server: dict[str, int]
    """Server → VLRT requests it dropped a packet of."""
    queued: int
    """VLRT requests that no server is known to have dropped a packet of."""
    first: int | None
    """When the first of the lost packets was sent."""
    last: int | None
    finding: Finding
    strayed: int = 0
    """Of the `queued`, those whose packets were lost on their way."""

    def mostly_strayed(self) -> bool:
        return self.strayed * 2 > self.queued + sum(self.by_server.values())


def find(view: View, slow: Slow) -> tuple[Drops, ...]:
    droppers, lost_at = attribute(view, slow)
    return tuple(of_cluster(view, slow, cluster, droppers, lost_at) for cluster in slow.clusters)


def attribute(view: View, slow: Slow) -> tuple[NDArray[np.str_], NDArray[np.int64]]:
    """For each VLRT request the server that dropped its packet (`QUEUED` where none did), and when that was sent."""
    rows = slow.requests
    own = (rows["drops"].to_numpy() > 0) | (rows["data_drops"].to_numpy() > 0)
    entry = rows["server"].cast(pl.String).to_numpy().astype(np.str_)
    droppers = np.where(own, entry, QUEUED).astype(object)
    lost_at = rows["sent"].to_numpy().copy()
    # Of several visits that lost packets, the one that lost the most time made the request slow.
    deeper = (
        view.lossy.filter(pl.col("request").is_not_null())
        .with_columns(wait=_wait())
        .sort("wait")
        .group_by("request")
        .last()
    )
    joined = rows.select("request").join(deeper, on="request", how="left", maintain_order="left")
    server, wait, sent = joined["server"].to_list(), joined["wait"].to_list(), joined["sent"].to_list()
    for i, name in enumerate(server):
        if name is not None and (not own[i] or name != entry[i]) and _explains(wait[i], rows["response_ns"][i], own[i]):
            droppers[i] = name
            lost_at[i] = sent[i]
    _unlinked(view, rows, droppers, lost_at)
    return droppers.astype(np.str_), lost_at


def _unlinked(view: View, rows: pl.DataFrame, droppers: NDArray[np.object_], lost_at: NDArray[np.int64]) -> None:
    """Losses of visits that could not be linked to a request: each goes to the request without a loss that it fits most
    tightly, if it explains it. Where links were swapped it need not lie wholly within: a twentieth may stick out."""
    lossy = view.lossy.filter(pl.col("request").is_null()).with_columns(wait=_wait())
    if len(lossy) == 0:
        return
    sent, end = rows["sent"].to_numpy(), rows["end"].to_numpy()
    open_ = droppers == QUEUED
    for server, first, departure, wait in lossy.select("server", "sent", "departure", "wait").iter_rows():
        out = np.maximum(sent - first, 0) + np.maximum(departure - end, 0)
        fits = np.flatnonzero(open_ & (out * 20 <= wait) & (wait * 4 >= end - sent))
        if len(fits):
            best = int(fits[np.argmin((end - sent + out)[fits])])
            droppers[best], lost_at[best], open_[best] = server, first, False


def _wait() -> pl.Expr:
    """Time that a visit lost: until its connection was accepted, or, for lost data, until its departure."""
    connecting = pl.col("arrival") - pl.col("sent")
    return pl.when(pl.col("drops") > 0).then(connecting).otherwise(pl.col("departure") - pl.col("sent"))


def _explains(wait: int, response: int, own: bool) -> bool:
    """A loss further down explains a request that it made wait for a quarter of its time (a half, where the request
    also lost a packet at its entry)."""
    return wait * (2 if own else 4) >= response


def of_cluster(
    view: View, slow: Slow, cluster: Cluster, droppers: NDArray[np.str_], lost_at: NDArray[np.int64]
) -> Drops:
    part = cluster.rows
    names, counts = np.unique(droppers[part], return_counts=True)
    by_server = {str(n): int(c) for n, c in zip(names, counts, strict=True) if n != QUEUED}
    queued = cluster.vlrt - sum(by_server.values())
    if by_server:
        times = {name: lost_at[part][droppers[part] == name] for name in by_server}
        strayed = {name: n for name, n in by_server.items() if _refused_none(view, name, times[name])}
        by_server = {name: n for name, n in by_server.items() if name not in strayed}
        lost = np.concatenate([times[name] for name in by_server or strayed])
        span = int(lost.min()), int(lost.max())
        if not by_server:
            return _strayed(view, cluster, strayed, queued, span)
        return _direct(view, slow, cluster, by_server, queued, strayed, span)
    # A counter tells of losses that are not recorded, and not of those of other requests that are.
    near = (lost_at >= cluster.begin - MARGIN_NS) & (lost_at <= cluster.end + MARGIN_NS)
    recorded = set(droppers[near].tolist())
    counted = {server: dropped for server, dropped in _counted(view, cluster).items() if server not in recorded}
    if counted and max(counted.values()) * 20 >= cluster.vlrt:
        place, dropped = max(counted.items(), key=lambda item: item[1])
        return _by_counter(cluster, place, dropped)
    return _indirect(view, slow, cluster)


MARGIN_NS = 200 * MILLISECOND
"""A kernel counts a drop some time after its packet was sent, and a sample is told at its end."""


def _refused_none(view: View, server: str, lost_at: NDArray[np.int64]) -> bool:
    """Whether the server's kernel was asked how many connections it refused meanwhile, and says: none."""
    asked = [series.during(*_around(series, lost_at)) for series in _refusals(view, server)]
    return any(len(counted) for counted in asked) and not any(counted.any() for counted in asked)


def _refusals(view: View, server: str) -> tuple[Series, ...]:
    """Counts of connections that the server's kernel refused because a queue was full; where those are not told apart,
    of all that it dropped (Linux counts one that it cannot answer for want of a route among them)."""
    return view.series(server, "listen_overflows") or view.series(server, "listen_drops")


def _around(series: Series, times: NDArray[np.int64]) -> tuple[int, int]:
    margin = max(series.interval_ns, MARGIN_NS)
    return int(times.min()) - margin, int(times.max()) + margin


def _strayed(view: View, cluster: Cluster, strayed: dict[str, int], queued: int, span: tuple[int, int]) -> Drops:
    number = sum(strayed.values())
    parts = [f"{n:,} lost packets on their way to {name}" for name, n in strayed.items()]
    sentence = (
        f"Of {cluster.vlrt:,} VLRT requests, {listing(parts)}, from {clock(view, span[0])} to {clock(view, span[1])}: "
        f"{_AND_YET}."
    )
    if queued:
        sentence += f" {queued:,} lost nothing and were slow by waiting."
    numbers: dict[str, Number] = {"vlrt_strayed": number, "vlrt_without_loss": queued, "listen_drops": 0}
    finding = Finding("drops", "found", sentence, None, *span, numbers)
    return Drops(None, {}, queued + number, *span, finding, number)


_AND_YET = "the kernel there counted no listen drops meanwhile, so no accept queue refused them"


def _direct(
    view: View,
    slow: Slow,
    cluster: Cluster,
    by_server: dict[str, int],
    queued: int,
    strayed: dict[str, int],
    span: tuple[int, int],
) -> Drops:
    first, last = span
    rows = slow.requests[cluster.rows]
    dropper = max(by_server, key=lambda name: by_server[name])
    attempts = int(rows["drops"].sum()) + int(rows["data_drops"].sum())
    lossy = view.lost_between(first, last).filter(pl.col("server") == dropper)
    attempts = max(attempts, int(lossy["drops"].sum()) + int(lossy["data_drops"].sum()))
    waits = (lossy if len(lossy) else rows).filter(pl.col("drops") > 0)
    accepted = "arrival" if len(lossy) else "connected"
    wait = _whole((waits[accepted] - waits["sent"]).median()) if len(waits) else None
    numbers: dict[str, Number] = {"vlrt_with_loss": sum(by_server.values())}
    numbers |= {"packets_lost": attempts, "vlrt_without_loss": queued, "retransmission_ns_p50": wait}
    counted = _counted(view, cluster).get(dropper)
    if counted is not None:
        numbers["listen_drops"] = counted
    parts = [f"{name} dropped packets of {n:,}" for name, n in by_server.items()]
    sentence = f"Of {cluster.vlrt:,} VLRT requests, {listing(parts)}: {attempts:,} connection attempts or segments"
    if wait is not None:
        sentence += f", accepted only when sent again, {duration(wait)} later (median)"
    sentence += f", from {clock(view, first)} to {clock(view, last)}."
    if counted is not None:
        sentence += f" The kernel of {dropper} counted {counted:,} listen drops."
    if queued:
        sentence += f" {queued:,} lost nothing and were slow by waiting."
    for name, n in strayed.items():
        sentence += f" {n:,} lost packets on their way to {name}: {_AND_YET}."
    finding = Finding("drops", "found", sentence, dropper, first, last, numbers)
    elsewhere = sum(strayed.values())
    return Drops(dropper, by_server, queued + elsewhere, first, last, finding, elsewhere)


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) else None


def _counted(view: View, cluster: Cluster) -> dict[str, int]:
    """Server → connection attempts its kernel counted as dropped while the cluster was sent."""
    found = {}
    for server in view.stays:
        for series in _refusals(view, server):
            margin = max(series.interval_ns, MARGIN_NS)
            dropped = int(series.during(cluster.begin - margin, cluster.end + margin).sum())
            if dropped > 0:
                found[server] = dropped
    return found


def _by_counter(cluster: Cluster, server: str, dropped: int) -> Drops:
    vlrt = min(dropped, cluster.vlrt)
    sentence = (
        f"The kernel of {server} counted {count(dropped, 'dropped connection attempt')} while these "
        f"{cluster.vlrt:,} requests were sent; which of them lost one was not recorded."
    )
    numbers: dict[str, Number] = {"listen_drops": dropped, "vlrt_without_loss": cluster.vlrt - vlrt}
    finding = Finding("drops", "found", sentence, server, cluster.begin, cluster.end, numbers)
    return Drops(server, {server: vlrt}, cluster.vlrt - vlrt, cluster.begin, cluster.end, finding)


def _indirect(view: View, slow: Slow, cluster: Cluster) -> Drops:
    """No loss was recorded: does the shape of the response times say that there was one?"""
    response = slow.requests["response_ns"].to_numpy()[cluster.rows]
    queued = Drops(None, {}, cluster.vlrt, None, None, _absent(view, cluster))
    if saw_connections(view):
        return queued
    for name, times in SCHEDULES.items():
        at = np.zeros(len(response), dtype=bool)
        for time in times:
            at |= (response >= time * 0.98) & (response <= time * 1.15)
        # The schedule's shape: nearly all at its times, and empty just below the first (the 15 % window alone would
        # hold 15 % of a smooth tail).
        below = int(np.count_nonzero((response > times[0] * 0.5) & (response < times[0] * 0.95)))
        if times[0] >= SECOND and at.mean() >= 0.9 and below == 0 and len(response) >= 5:
            return _clustered(view, cluster, name, int(at.sum()))
    missing = "whether connection attempts were repeated (a capture, `connected` times, or listen_drops samples)"
    sentence = "Nothing recorded shows or excludes lost packets, and the response times fit no retransmission schedule."
    finding = Finding("drops", "unknown", sentence, None, cluster.begin, cluster.end, {}, missing)
    return Drops(None, {}, cluster.vlrt, None, None, finding)


def saw_connections(view: View) -> bool:
    """Whether the recording could have seen a lost connection attempt: it saw others, or when connections opened, or
    kernels counted."""
    if len(view.lossy) or bool((view.requests["drops"] > 0).any()):
        return True
    if any(metric == "listen_drops" for _, metric in view.samples):
        return True
    return bool(view.requests["connected"].is_not_null().any())


def _clustered(view: View, cluster: Cluster, schedule: str, requests: int) -> Drops:
    entries = [name for name in view.servers if view.depth[name] == 1]
    dropper = entries[0] if len(entries) == 1 else None
    sentence = (
        f"Indirect: {requests:,} of {cluster.vlrt:,} response times lie at the retransmission times of a sender "
        f"({schedule}) and none just below them: packets were lost"
        + (f", at the entry {dropper} as far as can be told." if dropper else "; which server dropped them is unknown.")
    )
    numbers: dict[str, Number] = {"vlrt_at_schedule": requests, "schedule": schedule}
    by_server = {dropper: requests} if dropper else {}
    missing = "repeated connection attempts (a capture) or listen_drops samples"
    finding = Finding("drops", "found", sentence, dropper, cluster.begin, cluster.end, numbers, missing)
    return Drops(dropper, by_server, cluster.vlrt - sum(by_server.values()), cluster.begin, cluster.end, finding)


def _absent(view: View, cluster: Cluster) -> Finding:
    kernels = sum(1 for _, metric in view.samples if metric == "listen_drops")
    sentence = f"None of these {cluster.vlrt:,} requests lost a connection attempt or a segment" + (
        f", and {count(kernels, 'kernel')} counted no listen drops: they were slow by waiting."
        if kernels
        else ": they were slow by waiting."
    )
    numbers: dict[str, Number] = {"packets_lost": 0, "vlrt_without_loss": cluster.vlrt}
    return Finding("drops", "absent", sentence, None, cluster.begin, cluster.end, numbers)
