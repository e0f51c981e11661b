"""This module compares a cause that was found with the ledger, which confirms it, refutes it or finds another one.

The ledger replays the recording without each cause (`diagnosis.ledger`). If the replay is no model of an episode, or
has no line for what was found, nothing changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from tailrace.diagnosis.causes import UNKNOWN, Cause
from tailrace.diagnosis.causes.freeze import CAUSE as FREEZE
from tailrace.diagnosis.finding import CauseEvidence, Number
from tailrace.diagnosis.ledger import BALANCER, BURST, RETRIES, SAYS, TOLD, Replayed, Share, is_told, taken_away
from tailrace.diagnosis.ledger.losses import own_work, places
from tailrace.diagnosis.millibottleneck import Stall
from tailrace.diagnosis.overflow import Overflow
from tailrace.diagnosis.sustained import Explained
from tailrace.diagnosis.words import count, listing

HALF = 0.5
"""If causes account for less than half of an episode, they do not explain it."""
SURE = 0.3
"""Smaller shares do not add up to an explanation: a replay may have an error of this size and still be a model."""

_LAST = {BALANCER: 1, RETRIES: 2}
_HOLDING = {places.CAUSE, own_work.CAUSE}
"""A replay without one of these lines does not send some requests, as a replay without a burst. The lines show what
held a server, but not why so many requests came."""


def confirm(explained: Explained, verdict: Replayed | None, stall_of: Callable[[Overflow], Stall | None]) -> Explained:
    """Return the causes without which most of these requests do not occur in the replay. The chain then begins at the
    server that the largest cause slowed down, if its queue rose. Return what was found before if it is among these
    causes, or if the replay cannot test it: it is no model of the episode, or has no line for that cause."""
    overflow, stall, cause = explained
    claimed = set(cause.name.split(" or "))
    untested = claimed - verdict.tested - {BURST, UNKNOWN} if verdict is not None else claimed
    # A server that seems to stand still may be held. Then another line is the evidence, and a freeze needs no line.
    if verdict is None or not verdict.reproduced or untested - {FREEZE} or _lasts(overflow):
        return explained
    shares = by_size(verdict)
    main = _main(verdict)
    known = next((one.cause for one in shares if one.cause != BALANCER), UNKNOWN)
    # The fact that a server stood still does not show why. But no burst stops a server.
    why = claimed if BURST in claimed else claimed | {FREEZE}
    agrees = known in claimed or _part(shares, why, verdict) >= HALF
    agrees |= BURST in claimed and main in _HOLDING
    if (main in claimed or (cause.name != UNKNOWN and agrees)) and not _tells_apart(claimed, shares, verdict):
        return explained
    sure = {one.cause for one in shares if one.vlrt >= SURE * verdict.recorded}
    if main == UNKNOWN or _part(shares, sure, verdict) < HALF:
        # If no line explains a replay, not even the unknown part, it is no evidence against a cause.
        refutes = (
            cause.name != UNKNOWN
            and not untested
            and sum(one.vlrt for one in verdict.shares) >= HALF * verdict.recorded
        )
        return (overflow, stall, _refuted(cause, verdict)) if refutes else explained
    others = {one.origin: one for one in overflow.others} if shares[0].server != overflow.origin else {}
    if shares[0].server in others:
        overflow = others[shares[0].server]
        explained = overflow, stall_of(overflow), cause
    return *explained[:2], _confirmed(cause, shares, verdict)


def _main(verdict: Replayed) -> str:
    """Return the cause with the largest share. A balancer only makes more requests wait for a candidate that stalls, so
    it is the cause only if there is no other. Requests that are sent again only keep up what something else began."""
    told = [one.cause for one in by_size(verdict, known=False) if is_told(one, verdict)]
    return told[0] if told and told[0] != RETRIES else UNKNOWN


def _tells_apart(claimed: set[str], shares: list[Share], verdict: Replayed) -> bool:
    """Return whether several causes that the detectors could not distinguish have a share each. If only one of them has
    a share, this share may include what the others took."""
    return sum(one.cause in claimed and is_told(one, verdict) for one in shares) > 1


def _lasts(overflow: Overflow) -> bool:
    """Return whether there was no calm time for a comparison."""
    return "lasting_overload" in overflow.finding.numbers


def _part(shares: list[Share], causes: set[str], verdict: Replayed) -> float:
    return sum(one.vlrt for one in shares if one.cause in causes) / verdict.recorded


def _refuted(cause: Cause, verdict: Replayed) -> Cause:
    claimed = cause.name.split(" or ")
    names = listing([SAYS[name].format(server="the server", place="others") for name in claimed])
    sentence = f"The cause is unknown: without {names} most of these requests are very slow in the replay, too."
    evidence = tuple(replace(one, verdict="absent") if one.cause in claimed else one for one in cause.evidence)
    finding = replace(cause.finding, verdict="unknown", sentence=sentence, place=None, numbers={}, missing=None)
    return Cause(UNKNOWN, evidence, finding)


def by_size(verdict: Replayed, known: bool = True) -> list[Share]:
    """Return a share for each cause, over all servers that it slowed down. If the cause must be `known`, the unknown
    part has no share. The largest share is first, and causes that start nothing are last."""
    found: dict[str, Share] = {}
    for one in verdict.shares:
        if one.cause != UNKNOWN or not known:
            before = found.get(one.cause)
            found[one.cause] = one if before is None else replace(before, vlrt=before.vlrt + one.vlrt)
    return sorted(found.values(), key=lambda one: (_LAST.get(one.cause, 0), -one.vlrt))


def by_cause(total: int, verdict: Replayed) -> Counter[str]:
    """Divide the requests of an episode among causes by their shares; the rest is unknown (largest remainders)."""
    wanted = {one.cause: one.vlrt / verdict.recorded * total for one in by_size(verdict) if is_told(one, verdict)}
    # Requests that are sent again only keep up what something else began.
    wanted = wanted if wanted.keys() - {RETRIES} else {}
    rest = max(total - sum(wanted.values()), 0.0)
    # A rest this small is within the error of the replay.
    wanted = wanted if rest < TOLD * total and wanted else wanted | {UNKNOWN: rest}
    whole = sum(wanted.values())
    wanted = {name: number / whole * total for name, number in wanted.items()} if whole > 0 else {UNKNOWN: total}
    found = Counter({name: int(number) for name, number in wanted.items()})
    by_rest = sorted(wanted, key=lambda name: found[name] - wanted[name])
    for name in by_rest[: total - found.total()]:
        found[name] += 1
    return +found


def _confirmed(cause: Cause, shares: list[Share], verdict: Replayed) -> Cause:
    main = shares[0]
    told = [one for one in shares if is_told(one, verdict)]
    numbers: dict[str, Number] = {"vlrt_recorded": verdict.recorded, "vlrt_replayed": verdict.replayed}
    numbers |= {f"share_{one.cause.replace('-', '_')}": one.vlrt / verdict.recorded for one in told}
    known = {one.cause: one for one in cause.evidence if one.verdict == "found"}
    seen = {name: each.sentence for name, each in known.items()}
    found = [known.get(one.cause) or _evidence(one, verdict) for one in told]
    names = {one.cause for one in told}
    evidence = (*found, *(each for each in cause.evidence if each.cause not in names))
    sentence = " ".join(f"{seen.get(one.cause, '')} {_sentence(one, verdict)}".strip() for one in told)
    first = found[0]
    finding = replace(
        cause.finding,
        verdict="found",
        sentence=sentence,
        place=first.place,
        begin=cause.finding.begin if first.begin is None else first.begin,
        end=cause.finding.end if first.end is None else first.end,
        numbers={**first.numbers, **numbers},
        missing=None,
    )
    return Cause(main.cause, evidence, finding)


def _evidence(one: Share, verdict: Replayed) -> CauseEvidence:
    return CauseEvidence(one.cause, one.place or one.server, "found", _sentence(one, verdict))


def _sentence(one: Share, verdict: Replayed) -> str:
    what, gone, part = taken_away(one, verdict)
    return (
        f"Without {what}, {gone:,} of {count(verdict.replayed, 'very long request')} in the replay ({part}) do not "
        f"occur; {verdict.recorded:,} were recorded."
    )
