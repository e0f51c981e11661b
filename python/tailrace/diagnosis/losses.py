"""This module finds which VLRT requests lost a packet, at which server, and how much time that cost each of them.

Direct evidence is a repeated connection attempt or segment. It belongs to the request itself or to a visit that the
request caused further down. A lost connection attempt costs the time until the connection was established. Events of
kind `data_drop` give the cost of lost data. Without them, the cost may be all of the time that the visit took. A lost
packet that nobody repeats costs all of the time for which a connection was silent (`unheard`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace.diagnosis import answers, unheard
from tailrace.diagnosis.constants import ALIKE, MOSTLY
from tailrace.diagnosis.spans import overlap, union
from tailrace.diagnosis.view import View
from tailrace.diagnosis.vlrt import Slow

NOWHERE = ""
"""This is the server of a request that lost nothing, or nothing that explains it."""


@dataclass(frozen=True)
class Losses:
    """These are the losses of each VLRT request, in the order of the requests."""

    server: NDArray[np.str_]
    """The request lost a packet at this server, if that explains the request."""
    sent: NDArray[np.int64]
    """That packet was first sent at this time."""
    cost: NDArray[np.int64]
    """The request waited this long until lost packets were sent again, even if that is too short to explain it."""
    unanswered: NDArray[np.bool_]
    """This shows whether the lost packet was a connection attempt without an answer. In other cases, the handshake
    shows that the server, or its kernel, was there."""
    unheard: NDArray[np.bool_]
    """This shows whether the lost packet was the last one of a handshake, and nobody repeated it."""
    before: NDArray[np.bool_]
    """This shows whether the first attempt to open that connection was lost, too."""


def find(view: View, slow: Slow) -> Losses:
    rows = slow.requests
    response = rows["response_ns"].to_numpy()
    entry = rows["server"].cast(pl.String).to_numpy().astype(np.str_)
    attempts, data = rows["drops"].to_numpy() > 0, rows["data_drops"].to_numpy() > 0
    cost = _own_cost(view, rows)
    own = (attempts | data) & ((cost >= MOSTLY * response) | (cost >= slow.threshold_ns))
    server = np.where(own, entry, NOWHERE).astype(object)
    sent, unanswered = rows["sent"].to_numpy().copy(), attempts.copy()
    # Of several visits that lost packets, the one that lost the most time made the request slow.
    deeper = _behind(view).filter(pl.col("request").is_not_null()).sort("cost").group_by("request").last()
    joined = rows.select("request").join(deeper, on="request", how="left", maintain_order="left")
    columns = (joined[name].to_list() for name in ("server", "cost", "sent", "unanswered"))
    for i, (name, lost, first, silent) in enumerate(zip(*columns, strict=True)):
        if name is not None and (not own[i] or name != entry[i]):
            cost[i] = max(cost[i], min(lost, response[i]))
            if lost >= MOSTLY * response[i]:
                server[i], sent[i], unanswered[i] = name, first, silent
    found = Losses(server, sent, cost, unanswered, *np.zeros((2, len(rows)), dtype=bool))
    _unheard(view, rows, found)
    _unlinked(view, rows, found)
    return replace(found, server=server.astype(np.str_))


def _unheard(view: View, rows: pl.DataFrame, found: Losses) -> None:
    """Assign the packets that nobody repeated to the requests that waited for the answer."""
    silent = unheard.find(view)
    of = {request: i for i, request in enumerate(silent.request.tolist())}
    for row, request in enumerate(rows["request"].to_list()):
        if (i := of.get(request)) is None:
            continue
        end = min(int(silent.end[i]), int(rows["end"][row]))
        found.server[row], found.sent[row] = silent.server[i], silent.begin[i]
        found.cost[row] = min(end - int(silent.first[i]), int(rows["response_ns"][row]))
        found.unanswered[row], found.unheard[row] = False, True
        found.before[row] = silent.first[i] < silent.begin[i]


def _own_cost(view: View, rows: pl.DataFrame) -> NDArray[np.int64]:
    """Return the cost of packets that were lost between the client and the server at the entry."""
    sent, end = rows["sent"].to_numpy(), rows["end"].to_numpy()
    connected = rows["connected"].fill_null(rows["end"]).to_numpy()
    known = rows["connected"].is_not_null().to_numpy()
    attempts, data = rows["drops"].to_numpy() > 0, rows["data_drops"].to_numpy() > 0
    cost = np.where(attempts | (data & known), connected - sent, 0)
    begin = np.where(known, connected, sent)
    for name, here in _by_server(rows, data).items():
        cost[here] += _repeated(view, name, begin[here], end[here])
    least: NDArray[np.int64] = np.minimum(cost, end - sent)
    return least


def _behind(view: View) -> pl.DataFrame:
    """Return the visits that lost packets, with the time that this cost them."""
    queries = [known.name for known in view.topology.servers if view.is_asked_for_names(known.name)]
    rows = view.lossy.filter(~pl.col("server").is_in(queries))  # A resolver repeats these, and no kernel.
    data = rows["data_drops"].to_numpy() > 0
    cost = (rows["arrival"] - rows["sent"]).fill_null(0).to_numpy(writable=True)
    for name, here in _by_server(rows, data).items():
        cost[here] += _repeated(view, name, rows["arrival"].to_numpy()[here], rows["departure"].to_numpy()[here])
    return rows.with_columns(cost=pl.Series(cost, dtype=pl.Int64), unanswered=pl.col("drops") > 0)


def _by_server(rows: pl.DataFrame, which: NDArray[np.bool_]) -> dict[str, NDArray[np.int64]]:
    names = rows["server"].cast(pl.String).to_numpy().astype(np.str_)
    return {str(name): np.flatnonzero(which & (names == name)) for name in np.unique(names[which])}


def _repeated(view: View, server: str, begin: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how much of each of these times passed while data sent to a server, or its SYN-ACK, was lost and not yet
    sent again. Other connections lose packets, too, so the result is an upper limit."""
    told = [when for place, when in view.events_of("data_drop", answers.REPEATED) if view.means(place, server)]
    if not told:
        return end - begin
    return overlap(union(told), begin, end)


def _unlinked(view: View, rows: pl.DataFrame, found: Losses) -> None:
    """Assign the losses of visits that could not be linked to a request. Each loss goes to the request that it fits
    most tightly, among requests without a loss, if it explains that request. Links may be swapped, so the loss need not
    lie wholly within the request: a twentieth may lie outside."""
    lossy = _behind(view).filter(pl.col("request").is_null())
    if len(lossy) == 0:
        return
    sent, end = rows["sent"].to_numpy(), rows["end"].to_numpy()
    open_ = found.server == NOWHERE
    columns = ("server", "sent", "departure", "cost", "unanswered")
    for server, first, departure, cost, unanswered in lossy.select(columns).iter_rows():
        out = np.maximum(sent - first, 0) + np.maximum(departure - end, 0)
        fits = np.flatnonzero(open_ & (out <= ALIKE * cost) & (cost >= MOSTLY * (end - sent)))
        if len(fits):
            best = int(fits[np.argmin((end - sent + out)[fits])])
            found.server[best], found.sent[best], found.unanswered[best], open_[best] = server, first, unanswered, False
            found.cost[best] = min(max(cost, found.cost[best]), int((end - sent)[best]))
