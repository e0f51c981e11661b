"""A mean over replications and its 95 % confidence interval (Student's t), and the same for paired differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

SHIFT = 3 / 8
"""Of Anscombe's transform, √(x + 3/8): on its scale counts of any size vary alike (Biometrika 35, 1948)."""
NORMAL_975 = 1.959964
T_975 = (
    *(12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281),
    *(2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860),
    *(2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423),
)
"""0.975 quantiles of Student's t for 1 to 30 degrees of freedom."""
NORMAL_95 = 1.644854
T_95 = (
    *(6.3138, 2.9200, 2.3534, 2.1318, 2.0150, 1.9432, 1.8946, 1.8595, 1.8331, 1.8125),
    *(1.7959, 1.7823, 1.7709, 1.7613, 1.7531, 1.7459, 1.7396, 1.7341, 1.7291, 1.7247),
    *(1.7207, 1.7171, 1.7139, 1.7109, 1.7081, 1.7056, 1.7033, 1.7011, 1.6991, 1.6973),
)
"""The same for 0.95: the ends of an interval that holds 90 %."""


@dataclass(frozen=True)
class Interval:
    """`low` and `high` are None for a single replication, which has no spread."""

    mean: float
    low: float | None
    high: float | None
    replications: tuple[float, ...]

    @property
    def half(self) -> float | None:
        return None if self.high is None else self.high - self.mean


def interval(values: Sequence[float]) -> Interval:
    """Raises ValueError without values."""
    n = len(values)
    if n == 0:
        raise ValueError("an interval needs at least one replication")
    mean = math.fsum(values) / n
    if n == 1:
        return Interval(mean, None, None, tuple(values))
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    half = t_975(n - 1) * math.sqrt(variance / n)
    return Interval(mean, mean - half, mean + half, tuple(values))


def anscombe(count: float) -> float:
    return math.sqrt(count + SHIFT)


def of_one_more(counts: Sequence[float], least: float = 0.0) -> tuple[float, float]:
    """The interval in which one more count lies in 90 of 100 cases: Student's prediction interval for one more value,
    mean ± t · s · √(1 + 1/n), on Anscombe's scale, with s at least `least`. A single count has no spread."""
    n = len(counts)
    if n == 1:
        return counts[0], counts[0]
    scaled = [anscombe(count) for count in counts]
    middle = math.fsum(scaled) / n
    deviation = math.sqrt(math.fsum((value - middle) ** 2 for value in scaled) / (n - 1))
    half = t_95(n - 1) * max(deviation, least) * math.sqrt(1 + 1 / n)
    low, high = (max(0.0, max(0.0, middle + step) ** 2 - SHIFT) for step in (-half, half))
    return low, high


def t_975(degrees: int) -> float:
    return _quantile(T_975, NORMAL_975, degrees)


def t_95(degrees: int) -> float:
    return _quantile(T_95, NORMAL_95, degrees)


def _quantile(table: Sequence[float], z: float, degrees: int) -> float:
    """Above 30 degrees by Fisher's expansion (Abramowitz and Stegun 26.7.5), accurate to 0.0001 there."""
    if degrees <= len(table):
        return table[degrees - 1]
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)


def above(values: Sequence[float], others: Sequence[float]) -> bool | None:
    """Whether `values` are above `others`, paired by replication (common random numbers).

    None: the interval of the differences contains 0, so these replications cannot decide.
    """
    difference = interval([a - b for a, b in zip(values, others, strict=True)])
    low = difference.mean if difference.low is None else difference.low
    high = difference.mean if difference.high is None else difference.high
    if low > 0:
        return True
    return False if high < 0 or (low == 0 and high == 0) else None
