"""A diagnosis held against the truth, request by request.

The diagnosis explains episodes (requests sent from … to …) and says how many of each were dropped by whom, so each very
slow request is given one of its episode's chains (dropper, origin, cause, kind), no chain more often than it was told.
Requests get chains that are right where there are any: what counts is what was told, not to whom.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tailrace.score.blame import Blame
from tailrace.score.busy import Record
from tailrace.score.stalls import BALANCER, NONE, SOFT, Stall
from tailrace.topology import Topology
from tailrace.units import SECOND

NEAR_NS = SECOND
"""A claimed cause is no false alarm if such a stall happened within this of the episode (whether it explains the
requests is judged request by request), or if it is right of one of its requests, however long before it began."""


@dataclass(frozen=True)
class Chain:
    dropper: str | None
    origin: str | None
    cause: str
    ctqo: str


MISSED = Chain(None, None, "not told", "none")


@dataclass(frozen=True)
class Score:
    requests: int
    vlrt: int
    right: int
    """VLRT whose dropper, origin and cause are right …"""
    right_with_kind: int
    """… and the kind of overflow, too."""
    right_dropper: int
    right_origin: int
    right_cause: int
    episodes: int
    claims: int
    """Episodes of which a cause was told."""
    false_alarms: int
    """Of these, those where nothing of that kind happened."""
    confusion: dict[str, dict[str, int]]
    """True cause → cause told → VLRT."""
    mistakes: tuple[Mapping[str, Any], ...]
    """What was told wrongly, the most requests first: told, true, vlrt, and when the first was sent."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def compare(
    record: Record, topology: Topology, blames: tuple[Blame, ...], stalls: tuple[Stall, ...], told: Mapping[str, Any]
) -> Score:
    """`told` is a diagnosis.json, read."""
    counts: Counter[str] = Counter()
    confusion: dict[str, Counter[str]] = {}
    wrong: dict[tuple[Chain, Any, Any], list[int]] = {}
    for request, chain in _given(blames, told["episodes"]):
        dropper = chain != MISSED and chain.dropper in request.droppers
        stall = _matching(request, chain)
        origin = not request.stalls or request.overloaded or any(chain.origin in s.origins for s in request.stalls)
        cause = _is_one_of(chain.cause, _causes(request))
        none = chain.cause == NONE and (request.overloaded or not request.stalls)
        right = dropper and (stall or none)
        kind = right and chain.ctqo in _kinds(record, topology, chain)
        counts.update(dropper=dropper, origin=origin and chain != MISSED, cause=cause, right=right, kind=kind)
        true = chain.cause if cause else _label(request)
        confusion.setdefault(true, Counter())[chain.cause] += 1
        if not kind:
            truth = tuple(sorted({(_text(s.causes), _text(s.origins)) for s in request.stalls}))
            wrong.setdefault((chain, _text(request.droppers), truth), []).append(request.sent)
    happened = {*stalls, *(stall for request in blames for stall in request.stalls)}
    claimed = [e for e in told["episodes"] if e["cause"] != NONE]
    return Score(
        requests=len(record.requests),
        vlrt=len(blames),
        right=counts["right"],
        right_with_kind=counts["kind"],
        right_dropper=counts["dropper"],
        right_origin=counts["origin"],
        right_cause=counts["cause"],
        episodes=len(told["episodes"]),
        claims=len(claimed),
        false_alarms=sum(not (_happened(e, happened) or _is_right_of_one(e, blames)) for e in claimed),
        confusion={true: dict(told_as) for true, told_as in sorted(confusion.items())},
        mistakes=_mistakes(wrong),
    )


def _given(blames: tuple[Blame, ...], episodes: list[Mapping[str, Any]]) -> list[tuple[Blame, Chain]]:
    left = {
        (number, _chain(row)): int(row["vlrt"]) for number, episode in enumerate(episodes) for row in episode["chains"]
    }
    given: list[tuple[Blame, Chain]] = []
    # Those with the fewest answers that are right choose first.
    for request in sorted(blames, key=lambda b: len(b.droppers)):
        free = [
            (number, chain)
            for (number, chain), rest in left.items()
            if rest > 0 and episodes[number]["begin"] <= request.sent <= episodes[number]["end"]
        ]
        # Of chains that are as right, the one that is over first: the others are there for later requests, too.
        best = max(
            free,
            key=lambda f: (f[1].dropper in request.droppers, _matching(request, f[1]), -int(episodes[f[0]]["end"])),
            default=None,
        )
        if best is not None:
            left[best] -= 1
        given.append((request, MISSED if best is None else best[1]))
    return given


def _chain(row: Mapping[str, Any]) -> Chain:
    return Chain(row["dropper"], row["origin"], row["cause"], row["ctqo"])


def _causes(request: Blame) -> frozenset[str]:
    found = frozenset(cause for s in request.stalls for cause in s.causes)
    return found | {NONE} if request.overloaded or not found else found


def _matching(request: Blame, chain: Chain) -> bool:
    causes = frozenset(cause for s in request.stalls if chain.origin in s.origins for cause in s.causes)
    return _is_one_of(chain.cause, causes)


def _is_one_of(told: str, causes: frozenset[str]) -> bool:
    """Of causes that are told as a tie, all must be true."""
    return told in causes or all(part in causes for part in told.split(" or "))


def _label(request: Blame) -> str:
    """The true cause: of several, that of the longest stall that something made. What a balancer or a limit does lasts
    as long as the queue that the stall left, and is the true cause only where nothing else is."""
    longest = max(request.stalls, key=lambda s: (not s.causes <= {BALANCER, SOFT}, s.end - s.begin), default=None)
    return min(longest.causes) if longest else NONE


def _kinds(record: Record, topology: Topology, chain: Chain) -> tuple[str, ...]:
    """The kind of overflow, from where the dropper stands to the origin in the call graph."""
    if chain.cause == SOFT:
        return (SOFT,)
    if chain.dropper is None:
        return ("none",)
    if chain.origin is None or chain.cause == NONE:
        return ("none", "unknown", "local", "upstream", "downstream")
    if chain.origin in record.below(chain.dropper):
        return ("upstream",)
    if chain.dropper in record.below(chain.origin):
        return ("downstream",)
    callers = [topology.server(caller) for caller, callee in record.calls if callee == chain.dropper]
    kinds = {caller.kind if caller is not None else None for caller in callers}
    if None in kinds:  # nobody says whether the caller blocks
        return ("downstream", "local")
    return ("downstream",) if "async" in kinds else ("local",)


def _is_right_of_one(episode: Mapping[str, Any], blames: tuple[Blame, ...]) -> bool:
    chains = [_chain(row) for row in episode["chains"]]
    inside = (request for request in blames if episode["begin"] <= request.sent <= episode["end"])
    return any(_matching(request, chain) for request in inside for chain in chains if chain.cause != NONE)


def _happened(episode: Mapping[str, Any], stalls: Iterable[Stall]) -> bool:
    """Whether a stall of the claimed kind lies near the episode, from the time its origin rose on."""
    begins = [f["begin"] for f in episode["findings"] if f["begin"] is not None]
    first, last = min([episode["begin"], *begins]), max(episode["end"], *(f["end"] or 0 for f in episode["findings"]))
    near = [s for s in stalls if s.begin <= last + NEAR_NS and s.end >= first - NEAR_NS]
    return _is_one_of(episode["cause"], frozenset(cause for s in near for cause in s.causes))


def _mistakes(wrong: dict[tuple[Chain, Any, Any], list[int]]) -> tuple[Mapping[str, Any], ...]:
    rows = [
        {"told": asdict(chain), "droppers": droppers, "stalls": truth, "vlrt": len(sent), "first_sent": min(sent)}
        for (chain, droppers, truth), sent in wrong.items()
    ]
    return tuple(sorted(rows, key=lambda row: -int(str(row["vlrt"]))))


def _text(names: frozenset[Any]) -> tuple[str, ...]:
    return tuple(sorted("nobody" if name is None else str(name) for name in names))
