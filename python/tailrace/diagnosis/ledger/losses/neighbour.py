"""Another process took the CPU. The loss is what others used of it beyond the usual while the server had less than all
of it, `cpu_steal`, or events of kind `neighbour_burst`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tailrace.diagnosis.constants import HARDLY_ANY, MOSTLY, RARE
from tailrace.diagnosis.ledger.losses.loss import Loss, Seen, blur, most
from tailrace.diagnosis.ledger.steps import Shares
from tailrace.diagnosis.series import AT_WORK, LIMITS, Series
from tailrace.diagnosis.view import View

CAUSE = "neighbour"
SAYS = "what {place} took of the CPU of {server}"
PLAIN = "{place} took the CPU that {origin} needed"
METRICS, EVENTS = ("cpu_busy", "cpu_steal"), ("neighbour_burst",)
COMPUTES = False
PROCESS = "process "
"""The recorder and the readers of traces of tasks name a group of processes so; `join` puts `HOST/` before it."""
UNSEEN = "processes without samples"


def find(seen: Seen, server: str) -> Loss | None:
    steal = (*seen.view.series(server, "cpu_steal"), *seen.view.elsewhere("cpu_steal"))
    had_work = _had_work(seen, server)
    stolen = [Loss(seen.beyond(s) * had_work, blur(s), s.place) for s in steal]
    own = seen.view.series(server, "cpu_busy")[:1]
    others = (*_others(seen, server, own[0]), *_unseen(seen, server, own[0])) if own else ()
    most_of_processes = _of_processes(seen, server)
    busy = [_took(seen, server, own[0], other, most_of_processes) for other in others]
    return most(seen.recorded(server, "neighbour_burst"), *stolen, *busy)


def _had_work(seen: Seen, server: str) -> Shares | float:
    """Return the part of each step in which a thread of the server ran or waited for a CPU. It is 1 where that was not
    sampled. A server whose threads all sleep needs no CPU."""
    for runnable in seen.view.series(server, "tasks_runnable")[:1]:
        return np.clip(np.nan_to_num(seen.at(runnable), nan=1.0), 0.0, 1.0)
    return 1.0


def _took(seen: Seen, server: str, own: Series, other: Series, of_processes: Shares | float) -> Loss:
    """Return the loss to another place, where both filled the CPU, with the servers of the same node. The other place
    can have taken what the server lacked, but no more than it used beyond its usual, and a process no more than
    `of_processes`."""
    used, got = seen.at(other), seen.at(own)
    more = np.minimum(_more(seen, [other]), of_processes if _are_processes(other.place) else np.inf)
    lacked = np.maximum(np.clip(own.capacity - got, 0.0, None), _twice(seen, server, other, used + got))
    beside = (one for one in seen.view.beside(server) if one.place not in (own.place, other.place))
    whole = used + got + sum(seen.at(one) for one in beside)
    mine, its = _cpus(seen, server), _cpus(seen, other.place)
    filled = whole >= AT_WORK * (len(mine | its) if mine and its else own.capacity)
    waited = _waited(seen, server, other, own)
    if waited is not None and seen.view.series(server, "psi_cpu"):
        filled = filled | (waited >= MOSTLY)
    share = np.where(filled, np.minimum(more, lacked) / own.capacity, 0.0) * (1.0 if waited is None else waited)
    return Loss(np.clip(np.nan_to_num(share), 0.0, 1.0), max(blur(other), blur(own)), other.place)


def _of_processes(seen: Seen, server: str) -> Shares | float:
    """Return the most that processes of the same machine took. While the machine is full, some use more when others use
    less. So they took what all together used beyond their usual."""
    host = seen.view.of_host(server, "cpu_busy")
    if host is None:
        return np.inf
    places = [one for one in seen.view.near(server, "cpu_busy") if _are_processes(one.place)]
    mine = [one for one in places if not _is_elsewhere(seen, one.place, server)]
    return np.where(seen.at(host) >= AT_WORK, _more(seen, mine), np.inf)


def _more(seen: Seen, places: list[Series]) -> Shares:
    """Return what these places together used beyond their usual, as far as they were sampled."""
    more = (np.nan_to_num(seen.at(one) - seen.slow.usual(one)) for one in places)
    return np.asarray(np.clip(sum(more, np.zeros(len(seen.steps))), 0.0, None))


def _unseen(seen: Seen, server: str, own: Series) -> list[Series]:
    """Return what the host used beyond all places that were sampled, in cores, by processes that nobody found in time.
    A tenth of the host may be the jitter of the samples. The result is empty where processes were not sampled, or not
    those of each server on the host."""
    view, node = seen.view, seen.view.node_of_place(server)
    host = view.of_host(server, "cpu_busy")
    if node is None or not node.cores or host is None or host.capacity > 1.0 or node.host != node.name:
        return []
    mates = [one for one in view.topology.servers_on(node.name) if one.name in view.stays]
    apart = [s for one in mates for s in view.series(one.name, "cpu_busy")[:1] if view.is_own(s.place, one.name)]
    others = [s for s in view.near(server, "cpu_busy") if _are_processes(s.place)]
    if not others or len(apart) < len(mates):
        return []
    used = np.sum([np.nan_to_num(s.at(own.end)) for s in (*apart, *others)], axis=0)
    left = np.clip(host.at(own.end) * node.cores - used - HARDLY_ANY * node.cores, 0.0, None)
    return [replace(own, place=UNSEEN, value=left)]


def _are_processes(place: str) -> bool:
    return f"/{PROCESS}" in f"/{place}"


def _twice(seen: Seen, server: str, other: Series, both: Shares) -> Shares | float:
    """Return what both seem to have used beyond the cores of their node. Guests that know of no others count the time
    in which they waited for each other as busy time."""
    here, there = seen.view.node_of_place(server), seen.view.node_of_place(other.place)
    if here is None or here != there or not here.cores:
        return 0.0
    return np.asarray(np.clip(both - here.cores, 0.0, None))


def around(seen: Seen, server: str) -> list[Series]:
    """Return the CPU use of places that may contain the server: they were always at least as busy. Places that are
    usually full show nothing."""
    own = seen.view.series(server, "cpu_busy")[:1]
    return [
        series
        for series in seen.view.elsewhere("cpu_busy")
        if own and includes(series, own[0]) and seen.slow.usual(series) < AT_WORK * series.capacity
    ]


def _others(seen: Seen, server: str, own: Series) -> list[Series]:
    """Return the CPU use of places that may share its CPUs, are not on the path of its requests,
    and do not contain it."""
    view = seen.view
    way, host = view.chain_of(server) & set(view.stays), view.of_host(server, "cpu_busy")
    return [
        series
        for series in view.near(server, "cpu_busy")
        if series is not host
        and not _is_elsewhere(seen, series.place, server)
        and not any(view.means(series.place, one) for one in way)
        and not includes(series, own)
    ]


def _is_elsewhere(seen: Seen, place: str, server: str) -> bool:
    """Return whether the topology puts it on another machine, or on other CPUs of the same one."""
    here, there = seen.view.node_of_place(server), seen.view.node_of_place(place)
    mine, its = _cpus(seen, server), _cpus(seen, place)
    if mine and its and not mine & its:
        return True
    return None not in (here, there) and here != there and not _is_beside(seen, place, server)


def _is_beside(seen: Seen, place: str, server: str) -> bool:
    """Return whether it is another node of the same host."""
    here, there = seen.view.node_of_place(server), seen.view.node_of_place(place)
    return here is not None and there is not None and here != there and here.host == there.host is not None


def _cpus(seen: Seen, place: str) -> frozenset[int]:
    """Return the CPUs that a place may use. The set is empty where they are not known."""
    own = seen.view.series(place, "cpu_busy") if place in seen.view.stays else ()
    cpus = seen.view.topology.cpus
    return frozenset(cpus.get(own[0].place if own else place, ()) or cpus.get(place, ()))


def _waited(seen: Seen, server: str, other: Series, own: Series) -> Shares | None:
    """Return for each step whether (1) the server can have waited for the other place. Its own samples show it. Without
    these, for another node or a process of the same host, it can have waited in steps in which both filled all the CPUs
    that they may use, or the host had none to spare. None stands for all steps in which both were busy."""
    if (waited := waited_for_cpu(seen, server)) is not None:
        return waited
    if not (_is_beside(seen, other.place, server) or _are_processes(other.place)):
        return None
    mine, its = _cpus(seen, server), _cpus(seen, other.place)
    if mine and its:
        return (seen.at(other) + seen.at(own) >= AT_WORK * len(mine | its)).astype(np.float64)
    host = seen.view.of_host(server, "cpu_busy")
    full = np.zeros(len(seen.steps)) if host is None else seen.at(host) >= AT_WORK
    return full.astype(np.float64)


def waited_for_cpu(seen: Seen, server: str) -> Shares | None:
    """Return for each step whether a thread of the server can have waited for a CPU (1), as `psi_cpu` and
    `tasks_runnable` show. If only the pressure of its machine was sampled, others may have waited there, and if it was
    low, nobody did. Runnable threads run or wait, so those that may have run do not count. Return None where
    neither was sampled."""
    pressure = [seen.at(one) >= LIMITS["psi_cpu"] for one in seen.view.series(server, "psi_cpu")[:1]]
    runnable = [np.nan_to_num(seen.at(one)) for one in seen.view.series(server, "tasks_runnable")[:1]]
    ran = sum(np.nan_to_num(seen.at(own)) for own in seen.view.series(server, "cpu_busy")[:1])
    shown = [*pressure, *(np.clip(one - ran, 0.0, 1.0) for one in runnable)]
    return np.min(np.array(shown, dtype=np.float64), axis=0) if shown else None


def missing(view: View, server: str) -> str | None:
    if view.series(server, "cpu_steal") or view.events_of(*EVENTS):
        return None
    way = view.chain_of(server)
    others = (place for place, metric in view.samples if metric == "cpu_busy")
    beside = any(not any(view.means(place, name) for name in way) for place in others)
    wanted = f"cpu_busy of what shares the CPUs of {server} (other cgroups, guests), or cpu_steal of its node"
    if not beside or not view.series(server, "cpu_busy"):
        return wanted
    waits = view.series(server, "psi_cpu") or view.series(server, "tasks_runnable")
    return None if waits else f"psi_cpu of {server}, which shows whether it waited for a CPU"


def includes(whole: Series, part: Series) -> bool:
    """Return whether the use of one place contains that of the other. A group of processes contains no server. Samples
    of two places that cover the same time differ by up to a tenth of a core."""
    if _are_processes(whole.place):
        return False
    same = whole.at(part.end)
    known = ~np.isnan(same)
    return bool(known.any() and np.mean(same[known] >= part.value[known] - HARDLY_ANY) >= 1.0 - RARE)
