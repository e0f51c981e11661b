"""Compares the causes of a diagnosis with the very slow requests (VLRT) for which each may be reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tailrace.score.stalls import NONE

TIE = " or "
COUNTED = ("told", "credit", "right")
NOT_TOLD = "not reported"


@dataclass(frozen=True)
class Score:
    requests: int
    vlrt: int
    right: int
    """VLRT whose reported cause is right."""
    removable: int
    """VLRT that the removal of some recorded trouble removes, or that a stall covers."""
    named: int
    """Removable VLRT for which a cause other than `unknown` was reported."""
    wrong: int
    """VLRT whose reported cause is wrong; `unknown` does not count as wrong."""
    causes_told: int
    """Causes other than `unknown` that were reported."""
    causes_false: int
    """Reported causes whose removal removes nothing."""
    right_dropper: int
    origins_stated: int
    """VLRT with a reported origin, where the truth states the origin."""
    right_origin: int
    causes: dict[str, dict[str, int]]
    """For each cause, the VLRT for which it was reported (`told`), may be reported (`credit`), and is `right`."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def causes_of(episodes: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Cause → the VLRT for which it was reported."""
    found: Counter[str] = Counter()
    for row in (row for episode in episodes for row in episode["chains"]):
        found[row["cause"]] += row["vlrt"]
    return found


def compare(
    requests: int,
    vlrt: int,
    judged: Iterable[tuple[Counter[str], Mapping[str, int]]],
    right_dropper: int,
    origins: tuple[int, int],
) -> Score:
    """`judged` holds, for the whole run or for each part of it, the VLRT for which each cause was reported and may
    be."""
    causes: dict[str, Counter[str]] = {}
    parts = list(judged)
    for told, credit in parts:
        for cause in told.keys() | credit.keys():
            may = may_be_told(cause, credit)
            counts = {"told": told[cause], "credit": may, "right": min(told[cause], may)}
            causes.setdefault(cause, Counter()).update(counts)
    removable = vlrt - sum(min(credit.get(NONE, 0), vlrt) for _, credit in parts)
    named = {cause: counts for cause, counts in causes.items() if cause != NONE and counts["told"]}
    told_in_all = sum(counts["told"] for counts in causes.values())
    if told_in_all < vlrt:
        causes[NOT_TOLD] = Counter(told=vlrt - told_in_all)
    return Score(
        requests=requests,
        vlrt=vlrt,
        right=min(sum(counts["right"] for counts in causes.values()), vlrt),
        removable=max(removable, 0),
        named=max(min(sum(counts["told"] for counts in named.values()), removable), 0),
        wrong=sum(counts["told"] - counts["right"] for counts in named.values()),
        causes_told=len(named),
        causes_false=sum(not counts["credit"] for counts in named.values()),
        right_dropper=right_dropper,
        origins_stated=origins[0],
        right_origin=origins[1],
        causes={cause: {key: causes[cause][key] for key in COUNTED} for cause in sorted(causes)},
    )


def may_be_told(cause: str, credit: Mapping[str, int]) -> int:
    """Every part of a tie must be right. A trouble that the recording cannot distinguish from another may have either
    name."""

    def of(part: str) -> int:
        return max((n for trouble, n in credit.items() if part in trouble.split(TIE)), default=0)

    return min(of(part) for part in cause.split(TIE))
