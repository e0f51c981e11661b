"""How much runs of a twin differ: a recording is one run of the real system, and may be off by as much.

A twin sends the recorded requests with the recorded work. Its runs differ nevertheless: some balancers draw, a packet
may be lost or not, and a queue that comes close to a limit reaches it or not. Demands are known to about one percent.
The replications of a twin therefore have other seeds, and slightly less or more demand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations
from typing import TypeVar

NUDGE = 0.01
REPLICATIONS = ((0, 0.0), (0, -NUDGE), (0, NUDGE), (1, -NUDGE / 2), (2, NUDGE / 2))
"""What is added to the seed, and the relative change of the demand. The first is the twin itself."""
HALF = 0.5
"""Where two runs of the twin have less in common, they show nothing about the recording."""

Run = TypeVar("Run")


def needed(found: Sequence[Run], alike: Callable[[Run, Run], float], enough: float) -> float:
    """How alike the recording must be: `enough`, or as little as two runs of the twin are; at least half of it."""
    return max(min(enough, *(alike(one, other) for one, other in permutations(found, 2))), HALF)
