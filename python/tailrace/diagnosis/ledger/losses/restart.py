"""The processes of the server ended, and new ones had to begin: a worker reached its limit of requests, a container was
restarted, or the kernel killed it for its memory. The server answers nothing from the end of its processes until the
new ones answer. Meanwhile, its kernel refuses connections, and callers may wait before they try again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace.diagnosis.constants import MOSTLY
from tailrace.diagnosis.in_vain import FIRST, NAMES, REFUSED
from tailrace.diagnosis.ledger.delays import Delays
from tailrace.diagnosis.ledger.losses.loss import Loss, Seen, blur, most
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.series import Series
from tailrace.diagnosis.spans import Spans, spans
from tailrace.diagnosis.view import View
from tailrace.units import SECOND

CAUSE = "restart"
SAYS = "the restart of {server}"
PLAIN = "the restart of its processes kept {origin} from answering"
METRICS = ("processes_ended", "processes")
EVENTS = ("k8s OOMKilled", "k8s Error", "k8s Completed", "k8s Terminated")
"""The reader of pods names the end of a container by its reason."""
COMPUTES = None


def find(seen: Seen, server: str) -> Loss | None:
    ended, processes = (seen.view.series(server, metric)[:1] for metric in METRICS)
    losses = [
        Loss(seen.covered([_away(seen, server, _ends(seen, server, one, number))]), blur(one))
        for one, number in zip(ended, processes, strict=False)
    ]
    pods = [table for place, table in seen.view.events_of(*EVENTS) if seen.view.means(place, server)]
    if pods:
        moments = np.concatenate([table[:, 0] for table in pods])
        around = np.column_stack((moments, moments + SECOND))  # The moments of pods are whole seconds.
        losses.append(Loss(seen.covered([_away(seen, server, around)])))
    refused = _refused(seen, server) if any(loss.took for loss in losses) or not ended else None
    if refused is None:
        return most(*losses)
    return replace(most(*losses) or Loss(np.zeros(len(seen.steps))), delays=refused)


def _refused(seen: Seen, server: str) -> Delays | None:
    """Return the calls to the server that it refused, as one without a process does. Where its processes were sampled,
    they show whether it had none: a full queue or a firewall may refuse a call, too."""
    recorded = seen.recorded_visits
    if recorded is None:
        return None
    mine = (recorded.server == recorded.number[server]) & recorded.names.are(NAMES[REFUSED])
    refused = np.flatnonzero(mine)
    return Delays.paused(refused, (recorded.departure - recorded.sent)[refused]) if len(refused) else None


def _ends(seen: Seen, server: str, ended: Series, processes: Series) -> Spans:
    """Return the samples in which at least half of the processes that serve ended, or in which none of these was left.
    One of several processes only looks after the others. PostgreSQL has a process for each connection, which ends with
    it: there, all have to be gone."""
    usual = seen.slow.usual(processes)
    none = np.rint(processes.value) <= (usual > 1.0)
    gone = np.column_stack((processes.begin[none], processes.end[none]))
    known = seen.view.topology.server(server)
    if known is not None and "postgres" in (known.protocol, known.software):
        return gone
    many: NDArray[np.bool_] = np.rint(ended.value) >= max(MOSTLY * (usual - 1.0), 1.0)
    return np.concatenate((np.column_stack((ended.begin[many], ended.end[many])), gone))


def _away(seen: Seen, server: str, ends: Spans) -> Spans:
    """Return the times from these ends until the server answered again."""
    left = _answers(seen.view, server)
    again = np.append(left, ends[-1:, 1])
    until = again[np.minimum(np.searchsorted(left, ends[:, 1], "right"), len(again) - 1)]
    return spans(np.column_stack((ends[:, 0], np.maximum(until, ends[:, 1]))))


def _answers(view: View, server: str) -> Times:
    """Return when visits left that the server did not refuse."""
    if not view.events_of(REFUSED):
        return view.stays[server].departures
    mine = (pl.col("server").cast(pl.String) == server) & (pl.col("visit") < FIRST)
    return np.sort(view.visits.filter(mine).select("departure").collect()["departure"].to_numpy())


def missing(view: View, server: str) -> str | None:
    known = view.series(server, METRICS[0]) or view.series(server, "cpu_busy")
    return None if known else f"processes_ended of {server}"
