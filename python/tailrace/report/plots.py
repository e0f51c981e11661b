"""Static drawings as SVG: bars and lines over any axis. They need no script and print at any size.

Geometry runs from 0 to 1 in both directions; page/plots.html.j2 scales it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

SLOTS = 8
"""Colours of the palette (report.css)."""
LEAST = 0.012
"""Height of the lowest bar above 0, which must be visible."""


@dataclass(frozen=True)
class Tick:
    at: float
    label: str


@dataclass(frozen=True)
class Bar:
    left: float
    width: float
    height: float
    words: str
    slot: int
    mark: float | None = None
    """Height of the mark for the paper's number."""
    low: float | None = None
    high: float | None = None
    """Ends of its interval."""


@dataclass(frozen=True)
class Point:
    x: float
    y: float
    words: str
    low: float | None = None
    high: float | None = None
    """Ends of its interval."""


@dataclass(frozen=True)
class Curve:
    label: str
    slot: int
    points: tuple[Point, ...]
    marks: tuple[tuple[float, float, str], ...] = ()
    """The paper's numbers: x, y, words."""
    dots: bool = True
    """Whether each point is marked."""


@dataclass(frozen=True)
class Plot:
    title: str
    x_label: str
    y_label: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    bars: tuple[Bar, ...] = ()
    curves: tuple[Curve, ...] = ()
    legend: tuple[tuple[str, int], ...] = ()
    """Label and colour of groups of bars."""
    marked: bool = False
    """Whether the paper's numbers are marked."""
    width: int = 1000
    height: int = 250
    """Size of the drawing, in px at the full width of the page."""
    said: str = ""
    """Its content in words, where single points say little."""

    @property
    def summary(self) -> str:
        """The content in words, for readers who cannot see it."""
        if self.said:
            return f"{self.title}: {self.said}"
        said = [bar.words for bar in self.bars] or [point.words for curve in self.curves for point in curve.points]
        shown = "; ".join(said[:SUMMARY_MAX])
        return f"{self.title}. {shown}" + (" …" if len(said) > SUMMARY_MAX else "")


SUMMARY_MAX = 12


@dataclass(frozen=True)
class Scale:
    """Maps numbers to positions on an axis, linear or logarithmic."""

    low: float
    high: float
    log: bool
    ticks: tuple[Tick, ...] = field(default=())

    def at(self, value: float) -> float:
        if not self.log:
            return (value - self.low) / (self.high - self.low)
        return math.log10(max(value, self.low) / self.low) / math.log10(self.high / self.low)


def scale(values: Sequence[float], log: bool = False, from_zero: bool = True) -> Scale:
    """An axis that contains the values."""
    known = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    if log:
        above = [value for value in known if value > 0] or [1.0]
        low = 10.0 ** math.floor(math.log10(min(above)) + 1e-9)
        high = 10.0 ** math.ceil(math.log10(max(above)) - 1e-9)
        high = high if high > low else low * 10
        decades = round(math.log10(high / low))
        ticks = tuple(Tick(k / decades, _label(low * 10**k)) for k in range(decades + 1))
        return Scale(low, high, True, ticks)
    low = min(0.0, *known) if from_zero else min(known)
    high = max(known)
    high = high if high > low else low + 1.0
    step = nice((high - low) / 5)
    low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    count = round((high - low) / step)
    return Scale(low, high, False, tuple(Tick(k / count, _label(low + k * step)) for k in range(count + 1)))


def point(x: float, mean: float, interval: tuple[float | None, float | None], words: str, y: Scale) -> Point:
    """A point with the ends of its interval, which are cut at the edges of the drawing."""
    low, high = (None if end is None else min(1.0, max(0.0, y.at(end))) for end in interval)
    return Point(x, y.at(mean), words, low, high)


def counted(values: Sequence[float]) -> Scale:
    """A logarithmic axis for counts. It begins at a half, so a bar of 1 is visible."""
    decades = max(1, math.ceil(math.log10(max([1.0, *values])) + 0.05))
    whole = Scale(0.5, 10.0**decades, True)
    return Scale(0.5, whole.high, True, tuple(Tick(whole.at(10**k), _label(10.0**k)) for k in range(decades + 1)))


def nice(size: float) -> float:
    """1, 2 or 5 times a power of ten, at least `size`."""
    power = 10.0 ** math.floor(math.log10(size)) if size > 0 else 1.0
    return next(power * step for step in (1, 2, 5, 10) if power * step >= size * (1 - 1e-9))


def number(value: float) -> str:
    """A number as a label: four digits, with separators of thousands."""
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _label(value: float) -> str:
    """The label of a tick, short enough for an axis."""
    return f"{value / 1e6:g}M" if abs(value) >= 1e6 else number(value)


def two_digits(value: float) -> str:
    """The half width of an interval, with two digits."""
    return to_the_place_of(value, value)


def to_the_place_of(value: float, half: float) -> str:
    """A mean to the second digit of its interval's half width: digits beyond that say nothing."""
    place = 1 - math.floor(math.log10(half))
    return f"{round(value, place):,.{max(0, place)}f}"
