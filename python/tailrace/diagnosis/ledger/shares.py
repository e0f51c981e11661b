"""This module divides very slow requests among causes by what is left without them (Shapley 1953)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from math import factorial

from tailrace.diagnosis.constants import ALIKE

Left = Callable[[frozenset[str]], int]
"""It returns how many requests are very slow without these causes."""


def needed(causes: Sequence[str], left: Left, least: float) -> list[str]:
    """Return the causes that are needed to explain what all of them together explain.

    These are the causes each of which would be enough alone, then those that add the most to the causes before. A cause
    that adds nothing is left out, because the others made what it did. It is kept if it removes as many requests
    alone as the best cause does: then neither would have been harmful without the other.
    """
    everything = frozenset(causes)
    as_it_was, none = left(frozenset()), left(everything)
    found = [name for name in causes if left(everything - {name}) - none >= least]
    others = [name for name in causes if name not in found]
    while others and left(frozenset(found)) - none >= least:
        best = min(others, key=lambda name: left(frozenset((*found, name))))
        if left(frozenset(found)) - left(frozenset((*found, best))) < least:
            break
        found.append(best)
        others.remove(best)
    alone = {name: as_it_was - left(frozenset({name})) for name in causes}
    most = max(alone.values(), default=0)
    return found + [name for name in others if alone[name] >= max((1.0 - ALIKE) * most, least)]


def at_most(worth: Mapping[str, float], left: Left) -> dict[str, float]:
    """Limit what each cause is charged with to what its removal removes, from everything or from what the charged
    causes make. Shapley's value is a mean over all orders. In some of them a removal that makes things worse comes
    first, and what comes next seems to remove much."""
    charged = frozenset(name for name, value in worth.items() if value > 0.0)
    as_it_was, none = left(frozenset()), left(charged)
    found = {}
    for name in (name for name in worth if name in charged):  # in their order, which decides between equal shares
        removes = max(as_it_was - left(frozenset({name})), left(charged - {name}) - none)
        found[name] = min(worth[name], float(removes))
    return found


def shapley(players: Sequence[str], left: Left) -> dict[str, float]:
    """Return Shapley's value (1953) of each player. It is the mean, over all orders, of what disappears when the player
    is taken away."""
    n = len(players)
    value = dict.fromkeys(players, 0.0)
    for size in range(n):
        weight = factorial(size) * factorial(n - size - 1) / factorial(n)
        for gone in combinations(players, size):
            before = left(frozenset(gone))
            for player in set(players) - set(gone):
                value[player] += weight * (before - left(frozenset((*gone, player))))
    return value
