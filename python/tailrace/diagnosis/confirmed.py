"""The causes of episodes that no detector explains: those without which most of the requests are not slow.

The ledger replays the recording without each cause (`diagnosis.ledger`). Where the replay is no model of an episode,
its cause stays unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from tailrace.diagnosis.causes import UNKNOWN, Cause
from tailrace.diagnosis.finding import CauseEvidence, Number
from tailrace.diagnosis.ledger import SAYS, Replayed, Share
from tailrace.diagnosis.millibottleneck import Stall
from tailrace.diagnosis.overflow import Overflow
from tailrace.diagnosis.sustained import Explained
from tailrace.diagnosis.words import count, share

HALF = 0.5
"""Causes that account for less than half of an episode do not explain it."""
TOLD = 0.05
"""A smaller share is within what the replay is off by."""


def confirm(explained: Explained, verdict: Replayed | None, stall_of: Callable[[Overflow], Stall | None]) -> Explained:
    """What was found before; or, if that is no cause, the causes that the replay confirms, and the chain from the
    server that the largest of them slowed down, if its queue rose."""
    overflow, _, cause = explained
    if verdict is None or not verdict.reproduced or cause.name != UNKNOWN:
        return explained
    shares = by_size(verdict)
    if sum(one.vlrt for one in shares) < HALF * verdict.recorded:
        return explained
    others = {one.origin: one for one in overflow.others} if shares[0].server != overflow.origin else {}
    if shares[0].server in others:
        overflow = others[shares[0].server]
        explained = overflow, stall_of(overflow), cause
    return *explained[:2], _confirmed(cause, shares, verdict)


def by_size(verdict: Replayed) -> list[Share]:
    """A share for each cause, of all servers that it slowed down together, the largest first."""
    found: dict[str, Share] = {}
    for one in verdict.shares:
        if one.cause != UNKNOWN:
            before = found.get(one.cause)
            found[one.cause] = one if before is None else replace(before, vlrt=before.vlrt + one.vlrt)
    return sorted(found.values(), key=lambda one: -one.vlrt)


def by_cause(total: int, verdict: Replayed) -> Counter[str]:
    """So many requests of an episode by cause: each cause its share, the rest unknown (largest remainders)."""
    wanted = {one.cause: one.vlrt / verdict.recorded * total for one in by_size(verdict) if _is_told(one, verdict)}
    wanted[UNKNOWN] = max(total - sum(wanted.values()), 0.0)
    found = Counter({name: int(number) for name, number in wanted.items()})
    by_rest = sorted(wanted, key=lambda name: found[name] - wanted[name])
    for name in by_rest[: total - found.total()]:
        found[name] += 1
    return +found


def _is_told(one: Share, verdict: Replayed) -> bool:
    return one.vlrt >= TOLD * verdict.recorded


def _confirmed(cause: Cause, shares: list[Share], verdict: Replayed) -> Cause:
    main = shares[0]
    told = [one for one in shares if _is_told(one, verdict)]
    numbers: dict[str, Number] = {"vlrt_recorded": verdict.recorded, "vlrt_replayed": verdict.replayed}
    numbers |= {f"share_{one.cause.replace('-', '_')}": one.vlrt / verdict.recorded for one in told}
    place = main.place or main.server
    sentence = " ".join(_sentence(one, verdict) for one in told)
    finding = replace(cause.finding, verdict="found", sentence=sentence, place=place, numbers=numbers, missing=None)
    found = [CauseEvidence(one.cause, one.place or one.server, "found", _sentence(one, verdict)) for one in told]
    names = {one.cause for one in told}
    return Cause(main.cause, (*found, *(each for each in cause.evidence if each.cause not in names)), finding)


def _sentence(one: Share, verdict: Replayed) -> str:
    gone = max(verdict.replayed - one.without, 0)
    what = SAYS[one.cause].format(server=one.server, place=one.place or "others")
    part = share(gone / verdict.replayed) if verdict.replayed else "0 %"
    return (
        f"Without {what}, {gone:,} of {count(verdict.replayed, 'very long request')} in the replay ({part}) do not "
        f"occur; {verdict.recorded:,} were recorded."
    )
