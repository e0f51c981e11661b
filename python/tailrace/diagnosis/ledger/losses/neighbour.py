"""Someone else took the CPU: what others used of it beyond the usual while the server had less than all of it,
`cpu_steal`, or events of kind `neighbour_burst`."""

from __future__ import annotations

import numpy as np

from tailrace.diagnosis.ledger.losses.loss import Loss, Seen, blur, most
from tailrace.diagnosis.series import AT_WORK, Series

CAUSE = "neighbour"
SAYS = "what {place} took of the CPU of {server}"
JITTER = 0.15
"""By so much coarse ticks make a core's use appear to differ from the sum of those who use it."""
CONTAINED = 0.95
"""A place that is at least as busy as the server in so much of the time contains it: a core, the host."""


def find(seen: Seen, server: str) -> Loss | None:
    stolen = [Loss(seen.beyond(s), blur(s), s.place) for s in seen.view.series(server, "cpu_steal")]
    stolen += [Loss(seen.beyond(s), blur(s), s.place) for s in seen.view.elsewhere("cpu_steal")]
    own = seen.view.series(server, "cpu_busy")[:1]
    busy = [_took(seen, own[0], other) for other in _others(seen, server, own[0])] if own else []
    return most(seen.recorded(server, "neighbour_burst"), *stolen, *busy)


def _took(seen: Seen, own: Series, other: Series) -> Loss:
    """It can have taken what the server lacked, but no more than it used beyond its usual, where both filled the
    CPU."""
    used, got = seen.at(other), seen.at(own)
    more = np.clip(used - seen.slow.usual(other), 0.0, None)
    lacked = np.clip(own.capacity - got, 0.0, None)
    filled = used + got >= AT_WORK * own.capacity
    share = np.where(filled, np.minimum(more, lacked) / own.capacity, 0.0)
    return Loss(np.clip(share, 0.0, 1.0), max(blur(other), blur(own)), other.place)


def _others(seen: Seen, server: str, own: Series) -> list[Series]:
    """CPU use of who may share its CPUs, and is neither on the way of its requests nor contains it."""
    view = seen.view
    way = view.chain_of(server) & set(view.stays)
    return [
        series
        for (place, metric), series in view.samples.items()
        if metric == "cpu_busy"
        and not any(view.means(place, one) for one in way)
        and not _is_elsewhere(seen, place, server)
        and not _contains(series, own)
    ]


def _is_elsewhere(seen: Seen, place: str, server: str) -> bool:
    """Whether the topology puts it on another machine, or on other CPUs of the same one."""
    topology = seen.view.topology
    here, other = topology.node_of(server), topology.place_to_server(place)
    there = topology.node_of(other.name) if other is not None else topology.place_to_node(place)
    if here is None or there is None:
        return False
    if here == there:
        mine, its = topology.cpus.get(server, ()), topology.cpus.get(place, ())
        return bool(mine and its) and not set(mine) & set(its)
    return there.host is None or there.host != here.host


def _contains(whole: Series, part: Series) -> bool:
    return bool(np.mean(whole.at(part.end) >= part.value - JITTER) >= CONTAINED)
