"""Whether two quantities grow together (rank correlation, Spearman 1904)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tailrace.diagnosis.constants import MANY

RELATED = 0.7
"""A rank correlation of so much explains half of the variance of the ranks."""


def grow_together(one: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    """Return whether one of these values is the larger, the larger the other one beside it is."""
    if len(one) < MANY or not np.ptp(one) or not np.ptp(other):
        return False
    ranks = [np.argsort(np.argsort(values, kind="stable"), kind="stable").astype(np.float64) for values in (one, other)]
    return bool(np.corrcoef(ranks[0], ranks[1])[0, 1] >= RELATED)
