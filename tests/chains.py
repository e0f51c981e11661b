"""Markov chains, solved state by state."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

import numpy as np

State = TypeVar("State", bound=Hashable)


def stationary(start: State, moves: Callable[[State], Iterable[tuple[State, float]]]) -> dict[State, float]:
    """The share of the time in each reachable state; `moves` are the next states and their rates a second."""
    states = [start]
    number = {start: 0}
    rates: list[tuple[int, int, float]] = []
    for state in states:  # grows during the loop
        for to, rate in moves(state):
            if to not in number:
                number[to] = len(states)
                states.append(to)
            rates.append((number[state], number[to], rate))
    balance = np.zeros((len(states), len(states)))
    for here, there, rate in rates:
        balance[there, here] += rate
        balance[here, here] -= rate
    balance[-1] = 1.0
    shares = np.linalg.solve(balance, np.eye(len(states))[-1])
    return dict(zip(states, shares.tolist(), strict=True))
