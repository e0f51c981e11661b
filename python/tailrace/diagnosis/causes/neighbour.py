"""Something else took the CPU: a co-located neighbour, or the hypervisor on behalf of another guest.

What it looks for
    A place that is not on the request's way becomes busy when the origin stalls. Meanwhile the origin gets less than
    all of a CPU although its queue is full (`lightning` 3.3; `rpc-vs-async` figure 3). `cpu_steal` or events of kind
    `neighbour_burst` are signs, too.
Evidence needed
    The detector needs `cpu_busy` of the origin and of whatever shares its CPU, or `cpu_steal` of the origin. It never
    assumes a neighbour without samples: the cause then stays unknown.
What it is confused with
    A place can be busy at the same time on another CPU. The origin is then not short of CPU. The detector ignores a
    place that the topology puts on another machine. It also ignores a place that may use none of the origin's CPUs
    (`cpus` of the topology).
    The origin's own work can fill a CPU. Guests that do not know of each other count the time they waited as busy time.
    Both together then seem to use more than their machine has.
    Another node of the same host may be pinned to CPUs of its own. It is a neighbour if both filled the only CPUs that
    they may use, or if the origin waited for a CPU (`psi_cpu`). Without `psi_cpu`, it is a neighbour if the host had no
    CPU to spare; otherwise this is unknown.
    The use of a core or a host can contain the origin's own use. Such a place is at least as busy as the origin at
    nearly all times. A busy neighbour of a small origin is as busy, too. The place is a neighbour if its use
    without the origin's own use rose.
    A quota or a frozen process also withholds CPU. The detector matches only if a neighbour is busy. The origin and all
    its possible neighbours together must also fill a core, or all servers of its machine together must fill that
    machine. Where the origin's own `psi_cpu` was sampled, it must show that the origin waited for a CPU.
Thresholds and where they come from
    The neighbour uses at least a tenth of a core more than usual, because less does not starve a server at moderate
    use. A place contains the origin if it is at least as busy in 95 % of the samples, within the 0.15 by which coarse
    ticks jitter.
"""

from __future__ import annotations

import numpy as np

from tailrace.diagnosis.causes.case import Case, Sign
from tailrace.diagnosis.finding import CauseEvidence
from tailrace.diagnosis.millibottleneck import LIMITS
from tailrace.diagnosis.series import AT_WORK, Series
from tailrace.diagnosis.spans import spans
from tailrace.diagnosis.words import clock, duration, share
from tailrace.topology import Node
from tailrace.units import MILLISECOND

CAUSE = "neighbour"
LEAST = 0.1
JITTER = 0.15


def detect(case: Case) -> CauseEvidence:
    # The origin's lack of CPU is part of the evidence: without its samples, any busy place could be the origin.
    sampled = bool(case.view.series(case.origin, "cpu_busy"))
    candidates = _candidates(case) if sampled else []
    near = (series for series in candidates if not _is_apart(case, series.place))
    others = sum(case.inside(series) for series in near)
    busy = [_busy(case, series, others) for series in candidates]
    found = busy + _stolen(case) + _told(case)
    if found:
        return max(found, key=lambda e: (e.verdict == "found", e.coverage or 0.0, e.lift or 0.0))
    return case.unknown(
        CAUSE,
        f"cpu_busy of what shares the CPUs of {case.origin} (other cgroups, guests), or cpu_steal of its node",
    )


def _candidates(case: Case) -> list[Series]:
    """Return the CPU use of places that are not the origin, not a server on the requests' way, and do not contain the
    origin."""
    way = case.view.chain_of(case.origin) & set(case.view.stays)
    own = case.view.series(case.origin, "cpu_busy")
    host = case.view.of_host(case.origin, "cpu_busy")
    return [
        series
        for (place, metric), series in case.view.samples.items()
        if metric == "cpu_busy"
        and series is not host
        and not any(case.view.means(place, server) for server in way)
        and not _is_elsewhere(case, place)
        and not (own and _is_its_own(case, series, own[0]))
        and series.resolves(case.stall.begin, case.stall.end)
    ]


def _is_elsewhere(case: Case, place: str) -> bool:
    """Return whether the topology puts the place on another machine, from which it cannot take CPU."""
    there, here = _node(case, place), _node(case, case.origin)
    return None not in (there, here) and there != here and not _is_beside(case, place)


def _is_beside(case: Case, place: str) -> bool:
    """Return whether the place is another node of the same host. It takes CPU where both use the same CPUs."""
    there, here = _node(case, place), _node(case, case.origin)
    return there is not None and here is not None and there != here and there.host == here.host is not None


def _node(case: Case, place: str) -> Node | None:
    topology = case.view.topology
    server = topology.place_to_server(place)
    return topology.node(server.node) if server and server.node else topology.place_to_node(place)


def _is_apart(case: Case, place: str) -> bool:
    """Return whether the place may use none of the origin's CPUs."""
    here, there = case.cpus_of(case.origin), case.cpus_of(place)
    return bool(here and there) and not here & there


def _shares_cpus(case: Case, place: str, used: float) -> bool | None:
    """Return whether the origin waited for a CPU that another node of its host may have had. One of three signs shows
    this: both together `used` all CPUs that they may use, the origin's CPU pressure was high, or, without samples of
    this pressure, the host had no CPU to spare. A host with CPUs to spare shows nothing, because both may be pinned to
    the same ones."""
    stall, view = case.stall, case.view
    here, there = case.cpus_of(case.origin), case.cpus_of(place)
    if here and there and used >= AT_WORK * len(here | there):
        return True
    for series in view.series(case.origin, "psi_cpu")[:1]:
        return case.inside(series) >= LIMITS["psi_cpu"]
    whole = view.of_host(case.origin, "cpu_busy")
    most = whole.median(stall.begin, stall.end) if whole is not None else None
    return True if most is not None and most >= AT_WORK else None


def _is_its_own(case: Case, whole: Series, own: Series) -> bool:
    """Return whether a place contains the origin, and the rest of the place was no busier than usual. A place that is
    always busier than a small origin seems to contain it, too."""
    others = case.inside(whole) - case.inside(own)
    usual = case.usual(whole) - case.usual(own)
    return others < usual + LEAST and contains(case, whole, own)


def contains(case: Case, whole: Series, part: Series) -> bool:
    """Return whether a place's use includes another's. The answer is the same for every stall, so it is computed
    once."""
    key = CAUSE, whole.place, part.place
    if key not in case.known:
        case.known[key] = includes(whole, part)
    return case.known[key]


def includes(whole: Series, part: Series) -> bool:
    return bool(np.mean(whole.at(part.end) >= part.value - JITTER) >= 0.95)


def _busy(case: Case, series: Series, others: float) -> CauseEvidence:
    """Weigh one candidate. `others` is what all candidates together used in the stall."""
    stall = case.stall
    inside, usual = case.inside(series), case.usual(series)
    evidence = case.standing_out(series, usual + LEAST) if inside >= usual + LEAST else spans([])
    name = case.called(series.place)
    what = f"{name} used {share(inside)} of a core (usually {share(usual)})"
    numbers: dict[str, float] = {"neighbour_cpu_busy": inside, "neighbour_cpu_busy_calm": usual}
    but = None if inside >= usual + LEAST else f"{name} was no busier than usual"
    if but is None and _is_apart(case, series.place):
        but = f"{name} may use none of the CPUs of {case.origin}"
    for own in case.view.series(case.origin, "cpu_busy"):
        got, before = case.inside(own), case.usual(own)
        numbers |= {"cpu_busy": got, "cpu_busy_calm": before}
        what += f" while {case.origin} got {share(got)} (usually {share(before)})"
        if got >= 0.9 * own.capacity and but is None and not _both_cannot_be(case, series.place, got + inside):
            but = f"{case.origin} was not short of CPU"
        if got + others < AT_WORK and but is None and not _is_full(case):
            but = f"together they did not fill a core ({share(got + others)})"
    waited = case.waited_for_cpu
    if but is None and waited is not None and waited < LIMITS["psi_cpu"]:
        but = f"{case.origin} waited for a CPU only {share(waited)} of the time"
    if but is None and _is_beside(case, series.place):
        shares = _shares_cpus(case, series.place, inside + numbers.get("cpu_busy", 0.0))
        if shares is None:
            return case.unknown(CAUSE, f"psi_cpu of {case.origin}, which shows whether it waited for a CPU")
        but = None if shares else f"{case.origin} did not wait for a CPU that others had"
    if but is None:
        own_span = evidence[(evidence[:, 1] > stall.begin) & (evidence[:, 0] < stall.end)]
        if len(own_span):
            lasted = int(own_span[-1, 1] - own_span[0, 0])
            what += f" from {clock(case.view, int(own_span[0, 0]))} for {duration(lasted)}"
    return case.weigh(CAUSE, Sign(evidence, series.interval_ns, what, numbers=numbers, place=series.place, but=but))


def _both_cannot_be(case: Case, place: str, used: float) -> bool:
    """Return whether both report that they used more than their machine has, by more than each of them jitters. Guests
    that know of no others count the time they waited for each other as busy time."""
    there, here = _node(case, place), _node(case, case.origin)
    return here is not None and there == here and here.cores is not None and used > here.cores + 2 * JITTER


def _is_full(case: Case) -> bool:
    """Return whether all servers of its node filled its CPU together. Servers on the requests' way use it, too."""
    return any(cpu.at_work(case.stall.begin, case.stall.end) for cpu in case.view.shared_cpu(case.origin))


def _stolen(case: Case) -> list[CauseEvidence]:
    found = []
    for series in case.view.series(case.origin, "cpu_steal") + case.view.elsewhere("cpu_steal"):
        inside = case.inside(series)
        if inside < LIMITS["cpu_steal"]:
            # Steal that was sampled and stayed low excludes guests of the hypervisor. It does not exclude cgroups.
            continue
        what = f"The hypervisor took {share(inside)} of the CPU time of {series.place}"
        what += f" (usually {share(case.usual(series))})"
        evidence = case.standing_out(series, LIMITS["cpu_steal"])
        numbers = {"cpu_steal": inside}
        found.append(case.weigh(CAUSE, Sign(evidence, series.interval_ns, what, numbers=numbers, place=series.place)))
    return found


def _told(case: Case) -> list[CauseEvidence]:
    return [
        case.weigh(CAUSE, Sign(table, MILLISECOND, f"A burst of {place} is recorded", place=place))
        for place, table in case.view.events_of("neighbour_burst")
    ]
