"""What the ledger makes of the causes that samples and events show: each is charged with the very slow requests that
disappear without it.

Where the replay is no model of an episode, its cause rests on samples and events alone, and a note says so. What the
ledger has no line for (a limit of a pool, an overhead, lost packets) stays as it was found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from tailrace.diagnosis.causes import UNKNOWN, Cause
from tailrace.diagnosis.finding import CauseEvidence, Finding, Number
from tailrace.diagnosis.ledger import BALANCER, BURST, CAUSES, Share, Verdict
from tailrace.diagnosis.millibottleneck import Stall
from tailrace.diagnosis.overflow import Overflow
from tailrace.diagnosis.sustained import Explained
from tailrace.diagnosis.words import count, share

SAYS = {cause.name: cause.says for cause in CAUSES} | {
    BURST: "the requests beyond the usual number",
    BALANCER: "the choices of {server} (its candidates take turns instead)",
}
HALF = 0.5
"""Causes that account for less than half of an episode do not explain it."""
TOLD = 0.05
"""A smaller share is within what the replay is off by."""


def confirm(explained: Explained, verdict: Verdict | None, stall_of: Callable[[Overflow], Stall | None]) -> Explained:
    """The same chain, with the cause whose removal removes most of its requests, and from the server that it slowed
    down, if its queue rose."""
    overflow, stall, cause = explained
    if verdict is None or not verdict.reproduced:
        return explained
    shares = named(verdict, overflow.origin, cause.name)
    if sum(one.vlrt for one in shares) >= HALF * verdict.recorded:
        server = shares[0].server
        other = next((one for one in overflow.others if one.origin == server), None) if server else None
        if other is not None:
            overflow, stall = other, stall_of(other)
        return overflow, stall, _confirmed(cause, shares, verdict)
    return overflow, stall, _refuted(cause, verdict) if cause.name in SAYS else cause


def named(verdict: Verdict, origin: str | None, cause: str) -> list[Share]:
    """A share for each cause, the largest first. What the origin lacked and no line accounts for has the name of the
    cause that samples show there."""
    found: dict[str, Share] = {}
    for one in verdict.shares:
        name = cause if one.cause == UNKNOWN and one.server == origin else one.cause
        if name != UNKNOWN:
            before = found.get(name)
            found[name] = replace(before or one, cause=name, vlrt=one.vlrt + (before.vlrt if before else 0.0))
    return sorted(found.values(), key=lambda one: -one.vlrt)


def by_cause(total: int, shares: list[Share], recorded: int) -> Counter[str]:
    """So many requests of an episode by cause: each cause its share, the rest unknown (largest remainders)."""
    wanted = {one.cause: min(one.vlrt / recorded, 1.0) * total for one in shares if one.vlrt >= TOLD * recorded}
    wanted[UNKNOWN] = max(total - sum(wanted.values()), 0.0)
    found = Counter({name: int(number) for name, number in wanted.items()})
    by_rest = sorted(wanted, key=lambda name: found[name] - wanted[name])
    for name in by_rest[: total - found.total()]:
        found[name] += 1
    return +found


def _confirmed(cause: Cause, shares: list[Share], verdict: Verdict) -> Cause:
    main = shares[0]
    told = [one for one in shares if one.vlrt >= TOLD * verdict.recorded]
    numbers: dict[str, Number] = {"vlrt_recorded": verdict.recorded, "vlrt_replayed": verdict.replayed}
    numbers |= {f"share_{one.cause.replace('-', '_')}": one.vlrt / verdict.recorded for one in told}
    before = next((e for e in cause.evidence if e.cause == main.cause), None)
    seen = f"{before.sentence} " if before is not None and before.verdict == "found" else ""
    sentence = seen + " ".join(_sentence(one, verdict) for one in told)
    place = main.place or main.server
    finding = replace(cause.finding, verdict="found", sentence=sentence, place=place, numbers=numbers, missing=None)
    winners = {one.cause: one for one in told if one.vlrt >= HALF * main.vlrt}
    evidence = tuple(_weighed(each, winners.get(each.cause), verdict) for each in cause.evidence)
    new = [_new(one, verdict) for name, one in winners.items() if all(each.cause != name for each in cause.evidence)]
    ordered = sorted((*new, *evidence), key=lambda each: (each.cause != main.cause, each.verdict != "found"))
    return Cause(main.cause, tuple(ordered), finding)


def _sentence(one: Share, verdict: Verdict) -> str:
    gone = max(verdict.replayed - one.without, 0)
    what = SAYS.get(one.cause, one.cause).format(server=one.server, place=one.place or "others")
    part = share(gone / verdict.replayed) if verdict.replayed else "0 %"
    return (
        f"Without {what}, {gone:,} of {count(verdict.replayed, 'very long request')} in the replay ({part}) do not "
        f"occur; {verdict.recorded:,} were recorded."
    )


def _weighed(each: CauseEvidence, winner: Share | None, verdict: Verdict) -> CauseEvidence:
    """A cause with a line is what the ledger says, whatever samples alone suggest."""
    if winner is not None:
        place = winner.place or winner.server or each.place
        return replace(each, verdict="found", place=place, sentence=_sentence(winner, verdict), missing=None)
    if each.verdict == "found" and each.cause in SAYS:
        return replace(each, verdict="absent", sentence=f"{each.sentence} Without it as many requests are very slow.")
    return each


def _new(one: Share, verdict: Verdict) -> CauseEvidence:
    return CauseEvidence(one.cause, one.place or one.server, "found", _sentence(one, verdict))


def _refuted(cause: Cause, verdict: Verdict) -> Cause:
    """What samples suggest, but without which as many requests are very slow."""
    sentence = (
        f"The cause is unknown: {verdict.left:,} of {count(verdict.replayed, 'very long request')} are left in the "
        "replay without all that samples and events show."
    )
    finding = Finding("cause", "unknown", sentence, cause.finding.place, cause.finding.begin, cause.finding.end)
    evidence = tuple(_weighed(each, None, verdict) for each in cause.evidence)
    return Cause(UNKNOWN, evidence, finding)
