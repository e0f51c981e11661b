"""Step 5: the causes that the ledger confirms by taking them away, and what speaks for or against each other cause.

An episode has the cause with the largest share of its requests. If the replay is not a model of the episode, if what
the origin lacked was not recorded, or if most requests are as slow without all causes, the cause is unknown. Then the
finding names the datum that would settle it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tailrace.diagnosis import settle, tasks
from tailrace.diagnosis.constants import ACTS, ALIKE, STEP_NS
from tailrace.diagnosis.drops import Drops
from tailrace.diagnosis.finding import PACKET_LOSS, UNKNOWN, CauseEvidence, Finding, Number, Verdict
from tailrace.diagnosis.ledger import BALANCER, BURST, RETRIES, SAYS, Replayed, Share, is_told, taken_away
from tailrace.diagnosis.ledger.losses import CAUSES, freeze
from tailrace.diagnosis.ledger.losses import Cause as Line
from tailrace.diagnosis.ledger.losses.holding import COMPUTES
from tailrace.diagnosis.ledger.losses.lookup import CAUSE as DNS
from tailrace.diagnosis.ledger.reproduced import REPRODUCED
from tailrace.diagnosis.millibottleneck import Stall
from tailrace.diagnosis.overflow import Overflow
from tailrace.diagnosis.view import View
from tailrace.diagnosis.vlrt import Cluster
from tailrace.diagnosis.words import count, listing, share


@dataclass(frozen=True)
class Cause:
    name: str
    evidence: tuple[CauseEvidence, ...]
    finding: Finding


Explained = tuple[Overflow, Stall | None, Cause]


def explain(
    view: View,
    cluster: Cluster,
    lost: Drops,
    overflow: Overflow,
    stall_of: Callable[[Overflow], Stall | None],
    verdict: Replayed | None,
) -> Explained:
    """Return where the stall of an episode began, the stall, and its cause. It began at the server from which the
    largest cause took capacity; without such a cause, it began where a queue rose first."""
    shares = [one for one in by_size(verdict) if is_told(one, verdict)] if verdict and verdict.reproduced else []
    charged = sum(one.vlrt for one in shares)
    if charged < cluster.vlrt - charged:
        shares = []  # Most of it happens without all lines, too.
    known = {one.cause for one in shares} - {UNKNOWN, PACKET_LOSS}
    if not known and lost.astray and lost.strayed >= lost.unplaced:
        between = next((one.place for one in shares if one.cause == PACKET_LOSS), None)
        return overflow, stall_of(overflow), _lost_on_the_way(cluster, lost, between or "on the way")
    asked_again = bool(shares) and shares[0].cause == DNS
    slowed = _origin(shares[0], overflow, lost, verdict) if verdict is not None and shares and not asked_again else None
    overflow = overflow.at(slowed) if slowed else overflow
    stall = stall_of(overflow)
    # Packets that were lost on their way make no server the origin, and neither do queries without an answer.
    on_the_way = shares[0].server if shares and shares[0].cause in (PACKET_LOSS, DNS) else None
    origin = overflow.origin or on_the_way
    if verdict is None or origin is None:
        why = "no origin is known, so no resource can be examined"
        if overflow.finding.numbers.get("sent_slowly"):
            sentence = "Most of their time is what their clients took to send these requests."
            return overflow, stall, Cause(UNKNOWN, (), Finding("cause", "absent", sentence))
        if overflow.finding.numbers.get("slow_by_themselves"):
            why = "these requests are slow by themselves, and what they spend their time on was not recorded"
        nothing = Finding("cause", "unknown", f"The cause is unknown: {why}.", missing=overflow.finding.missing)
        return overflow, stall, Cause(UNKNOWN, (), nothing)
    evidence = _evidence(view, origin, stall, shares, verdict)
    if not shares or shares[0].cause == UNKNOWN:
        finding = _unknown(view, origin, stall, shares, verdict, evidence)
    else:
        finding = _found(origin, stall, shares, verdict, evidence)
    return overflow, stall, Cause(shares[0].cause if shares else UNKNOWN, evidence, finding)


def _origin(main: Share, overflow: Overflow, lost: Drops, verdict: Replayed) -> str | None:
    """Return the server that the main cause slowed down. Requests beyond the usual number slow down no server: they
    gather at the narrowest one."""
    slowed = None if main.cause == BALANCER else main.server
    narrowest = verdict.extract.narrowest(lost.first, dropper=lost.dropper) if main.cause == BURST else None
    # In an overload as long as the recording there is no calm time to compare with: the queues alone decide.
    return slowed or narrowest or overflow.origin or lost.dropper or verdict.extract.narrowest(lost.first, slowed=0.0)


def by_size(verdict: Replayed) -> list[Share]:
    """Return a share for each cause, over all servers that it slowed down, with the server and the place of its largest
    part. The largest share is first."""
    found: dict[str, Share] = {}
    for one in verdict.shares:
        before = found.get(one.cause)
        found[one.cause] = one if before is None else replace(before, vlrt=before.vlrt + one.vlrt)
    return sorted(found.values(), key=lambda one: -one.vlrt)


def at_servers(merged: Share, verdict: Replayed) -> list[Share]:
    """Return the shares that a cause has at each of the servers that it slowed down. The largest one is first, and it
    contains those that are too small to be told."""
    mine = sorted((one for one in verdict.shares if one.cause == merged.cause), key=lambda one: -one.vlrt)
    first, *others = mine
    told = [one for one in others if is_told(one, verdict)]
    return [replace(first, vlrt=merged.vlrt - sum(one.vlrt for one in told)), *told]


Acted = tuple[str, str | None]
"""It names a cause, and the server that it slowed down, if it slowed down one."""


def by_cause(total: int, verdict: Replayed) -> Counter[Acted]:
    """Divide the requests of an episode among causes by their shares; the rest is unknown (largest remainders)."""
    known = [one for one in by_size(verdict) if one.cause != UNKNOWN and is_told(one, verdict)]
    wanted = {_acted(one): one.vlrt / verdict.recorded * total for all_ in known for one in at_servers(all_, verdict)}
    rest = max(total - sum(wanted.values()), 0.0)
    # A rest this small is within the error of the replay.
    wanted = wanted if rest < ALIKE * total and wanted else wanted | {(UNKNOWN, None): rest}
    whole = sum(wanted.values())
    wanted = (
        {each: number / whole * total for each, number in wanted.items()} if whole > 0 else {(UNKNOWN, None): total}
    )
    found = Counter({each: int(number) for each, number in wanted.items()})
    by_rest = sorted(wanted, key=lambda each: found[each] - wanted[each])
    for each in by_rest[: total - found.total()]:
        found[each] += 1
    return +found


def _acted(one: Share) -> Acted:
    """A balancer slows down no server, and neither does what happens on the way to one."""
    return one.cause, None if one.cause in (BALANCER, PACKET_LOSS, DNS) else one.server


def _lost_on_the_way(cluster: Cluster, lost: Drops, where: str) -> Cause:
    of = "" if lost.strayed == cluster.vlrt else f" of {cluster.vlrt:,}"
    lost_by = "1 request" if lost.strayed == cluster.vlrt == 1 else f"{lost.strayed:,}{of} requests"
    sentence = f"Packets of {lost_by} were lost {where}, and sent again."
    return Cause(PACKET_LOSS, (), Finding("cause", "found", sentence, None, lost.first, lost.last, {"where": where}))


def _found(
    origin: str, stall: Stall | None, shares: list[Share], verdict: Replayed, evidence: tuple[CauseEvidence, ...]
) -> Finding:
    first = next(one for one in evidence if one.cause == shares[0].cause)
    sentence = _said(shares, evidence)
    made_worse = {one.cause for one in verdict.worse} - {one.cause for one in shares}
    worse = [one.sentence for one in evidence if one.cause in made_worse]
    sentence += f" It was worse because of others. {' '.join(worse)}" if worse else ""
    if verdict.alone >= ALIKE * verdict.recorded:
        sentence += f" Of these requests, {verdict.alone:,} held the places and took that long without a wait."
    begin = first.begin if first.begin is not None else stall.begin if stall is not None else None
    end = first.end if first.end is not None else stall.end if stall is not None else None
    numbers = {**first.numbers, **_numbers(shares, verdict)}
    return Finding("cause", "found", sentence, first.place or origin, begin, end, numbers)


def _said(shares: list[Share], evidence: tuple[CauseEvidence, ...]) -> str:
    charged = {one.cause for one in shares}
    return " ".join(one.sentence for one in evidence if one.cause in charged and one.verdict == "found")


def _numbers(shares: list[Share], verdict: Replayed) -> dict[str, Number]:
    """Return what the replay confirms: nothing where it charges no known cause."""
    if not any(one.cause != UNKNOWN for one in shares):
        return {}
    counts: dict[str, Number] = {"vlrt_recorded": verdict.recorded, "vlrt_replayed": verdict.replayed}
    return counts | {f"share_{one.cause.replace('-', '_')}": one.vlrt / verdict.recorded for one in shares}


def _unknown(
    view: View,
    origin: str,
    stall: Stall | None,
    shares: list[Share],
    verdict: Replayed,
    evidence: tuple[CauseEvidence, ...],
) -> Finding:
    """Return the finding where the ledger charges no known cause with most of the requests."""
    threads = _threads(view, origin, stall, verdict)
    wanted = [stall.finding.missing] if stall is not None and stall.finding.missing else []
    wanted += [one.missing for one in evidence if one.missing]
    if not verdict.reproduced:
        many = count(verdict.replayed, "very long request")
        why = f"the replay has {many} where {verdict.recorded:,} were recorded, so it is not a model of this episode"
        unlike = verdict.extract.unlike(*REPRODUCED)
        wanted += [f"the limits (workers, backlog, pools) of {listing(unlike[:3])} in a topology"] if unlike else []
    elif threads is not None and threads.slept:
        why = f"all threads of {origin} slept, so they waited for something that was not recorded"
        wanted = [f"what {origin} waited for: a capture of the calls that it makes, if it makes any, or its lock waits"]
    elif threads is not None and threads.waited and stall is not None and stall.has("frozen"):
        why = f"{origin} waited for a CPU, and no sample shows what took it"
        wanted = [f"cpu_busy of each process on the CPUs of {origin}, or cpu_steal of its node"]
    elif shares:
        why = f"{origin} lacked capacity, and nothing recorded accounts for it"
    elif any(is_told(one, verdict) for one in verdict.shares):
        why = "most of these requests are very slow without all recorded causes, too"
    else:
        why = "no recorded cause changes these requests when it is taken away"
    if stall is not None and stall.lasting:
        wanted = [settle.EARLIER, *wanted]
    wanted += verdict.kept
    sentence = f"The cause is unknown: {why}."
    begin, end = (stall.begin, stall.end) if stall is not None else (None, None)
    missing = "; ".join(dict.fromkeys(wanted)) or None
    said = _said(shares, evidence)
    sentence += f" A smaller part has a cause. {said}" if said else ""
    return Finding("cause", "unknown", sentence, origin, begin, end, _numbers(shares, verdict), missing)


def _threads(view: View, origin: str, stall: Stall | None, verdict: Replayed) -> tasks.Tasks | None:
    """Return what the threads of a server did that used less CPU than usual, unless recorded causes took most of what
    the server lacked."""
    if stall is None or verdict.extract.is_accounted(origin) or not (stall.has("frozen") or stall.has("cpu_withheld")):
        return None
    return tasks.of(view, origin, np.arange(stall.begin, stall.end, STEP_NS, dtype=np.int64))


def _evidence(
    view: View, origin: str, stall: Stall | None, shares: list[Share], verdict: Replayed
) -> tuple[CauseEvidence, ...]:
    """Return the evidence for each cause: first those that are charged, then those that made it worse."""
    has_rest = any(one.cause == UNKNOWN for one in shares)
    shares = [one for one in shares if one.cause != UNKNOWN]
    told = (*(one for all_ in shares for one in at_servers(all_, verdict)), *verdict.worse) if shares else ()
    charged = [_charged(view, one, origin, verdict) for one in told if one.cause != UNKNOWN]
    names = {one.cause for one in charged}
    of_clients = (name for name in (BURST, RETRIES, BALANCER) if name not in names)
    idle = (CauseEvidence(name, None, "absent", "It changes nothing when it is taken away.") for name in of_clients)
    lacks = not charged or has_rest
    return (
        *charged,
        *idle,
        *(_other(view, origin, stall, verdict, line, lacks) for line in CAUSES if line.name not in names),
    )


def _charged(view: View, one: Share, origin: str, verdict: Replayed) -> CauseEvidence:
    server = one.server or origin
    what, gone, part = taken_away(one, verdict)
    without = (
        f"Without {what}, {gone:,} of {count(verdict.replayed, 'very long request')} in the replay ({part}) do not "
        f"occur; {verdict.recorded:,} were recorded."
    )
    took, lacked, begin, end = verdict.extract.took(one.cause, server, ACTS)
    sentence = f"{without} {one.which}." if one.which else without
    numbers: dict[str, Number] = {"requests_of_burst": one.which} if one.which else {}
    numbers |= {"requests_alone": one.alone} if one.alone else {}
    coverage = took / lacked if took and lacked else None
    if coverage is not None:
        sentence = f"{without} It took {share(coverage)} of the capacity that {server} lacked."
        numbers |= {"taken_ns": took, "lacked_ns": lacked}
    if one.cause == freeze.CAUSE and begin is not None and end is not None and freeze.is_seen(view, server, begin, end):
        numbers["threads_stopped"] = True
    place, part_of_all = one.place or one.server, one.vlrt / verdict.recorded
    return CauseEvidence(one.cause, place, "found", sentence, part_of_all, coverage, begin, end, numbers)


def _other(view: View, origin: str, stall: Stall | None, verdict: Replayed, line: Line, lacks: bool) -> CauseEvidence:
    """Return why a cause is charged with nothing."""
    missing = line.missing(view, origin) if _is_possible(line, stall) and lacks else None
    took, lacked, begin, end = verdict.extract.took(line.name, origin, ACTS)
    said: Verdict = "unknown" if missing else "absent"
    coverage = took / lacked if took and lacked else None
    if missing:
        sentence = f"Whether it was {SAYS[line.name].format(server=origin, place='another place')} was not recorded."
    elif coverage is not None:
        sentence = f"It took {share(coverage)} of the capacity that {origin} lacked, which changes nothing."
    else:
        sentence = f"It took nothing that {origin} lacked."
    return CauseEvidence(line.name, None, said, sentence, None, coverage, begin, end, {}, missing)


def _is_possible(line: Line, stall: Stall | None) -> bool:
    """Return whether a cause that was not recorded is possible. If the server filled its CPU, what keeps a server from
    its CPU is not. If the server used less of a core than a thread that computes, what computes is not."""
    if stall is None or line.computes is None or stall.cpu is None:
        return True
    return stall.cpu >= COMPUTES if line.computes else not stall.has("cpu_busy")
