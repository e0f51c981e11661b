"""How often two things come together: a server and an interaction, a caller and the server that it calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Pair = tuple[int, int]


class Pairs:
    """How often each pair is there; at most `most` pairs, and those beyond are counted together."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.counts = Counter[Pair]()
        self.beyond = 0

    def add(self, first: NDArray[np.uint32], second: NDArray[np.uint32]) -> None:
        self.add_counted(counted(first, second))

    def add_counted(self, counts: Mapping[Pair, int]) -> None:
        """Add pairs with how often each is there."""
        for pair, count in counts.items():
            if len(self.counts) < self._most or pair in self.counts:
                self.counts[pair] += count
            else:
                self.beyond += count


def counted(first: NDArray[np.uint32], second: NDArray[np.uint32]) -> Counter[Pair]:
    """How often each pair is there."""
    pairs, counts = np.unique((first.astype(np.uint64) << np.uint64(32)) | second, return_counts=True)
    both = ((pair >> 32, pair & 0xFFFFFFFF) for pair in pairs.tolist())
    return Counter(dict(zip(both, counts.tolist(), strict=True)))
