"""The response-time histogram in the papers' form: time in seconds, requests on a logarithmic axis, marked modes.

It is drawn as SVG, so it needs no scripts and prints at any size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tailrace.diagnosis.finding import Diagnosis, Mode
from tailrace.report import words
from tailrace.report.recording import Recording

BARS_MAX = 160
"""The number of bars that a reader can distinguish on the width of a phone, about."""
NICE = (1, 2, 5)
LABEL = 0.34
"""Width of a mode's label as a share of the axis."""


@dataclass(frozen=True)
class Bar:
    low: int
    high: int
    requests: int


@dataclass(frozen=True)
class Tick:
    at: float
    label: str


@dataclass(frozen=True)
class Flag:
    """A mode's mark: its position from 0 to 1 along the axis, and the row of its label."""

    at: float
    row: int
    align: str
    label: str
    detail: str


@dataclass(frozen=True)
class Histogram:
    """Geometry from 0 to 1 in both directions; the template scales it."""

    bars: tuple[tuple[float, float, float, str, bool], ...]
    """Left edge, width, height, words, and whether the bar is beyond the VLRT threshold."""
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    flags: tuple[Flag, ...]
    ticks: tuple[tuple[float, str], ...]
    """Position and words of each mode without a label."""
    rows: int
    threshold: float | None
    width_ns: int
    table: tuple[Bar, ...]


def histogram(recording: Recording, diagnosis: Diagnosis) -> Histogram | None:
    """The drawing of all response times, from the recording's equal bins where it has them; None without response
    times."""
    bins = recording.responses or diagnosis.histogram
    if not bins:
        return None
    top = max(high for _, high, _ in bins)
    bars = rebin(bins, top)
    width = bars[0].high - bars[0].low
    top = max(top, bars[-1].high)
    decades = max(1, math.ceil(math.log10(max(b.requests for b in bars)) + 0.05))
    drawn = tuple(
        (
            b.low / top,
            width / top,
            max(0.012, math.log10(b.requests * 2) / (decades + math.log10(2))),
            f"{words.duration(b.low)} to {words.duration(b.high)}: {words.plural(b.requests, 'request')}",
            b.low >= diagnosis.threshold_ns,
        )
        for b in bars
    )
    # A bar of one request must be visible, so the axis starts at a half.
    y_ticks = tuple(
        Tick(math.log10(10**k * 2) / (decades + math.log10(2)), words.count(10**k)) for k in range(decades + 1)
    )
    modes = sorted(diagnosis.modes, key=lambda m: m.centre_ns)
    labelled = [m for m in modes if m.retransmission_ns is not None or m is modes[0]]
    flags = _flags(tuple(labelled), top)
    return Histogram(
        bars=drawn,
        x_ticks=tuple(Tick(t / top, _axis_label(t, top)) for t in _ticks(top)),
        y_ticks=y_ticks,
        flags=flags,
        ticks=tuple((min(1.0, m.centre_ns / top), " · ".join(describe(m, False))) for m in modes if m not in labelled),
        rows=1 + max((f.row for f in flags), default=0),
        threshold=diagnosis.threshold_ns / top if diagnosis.threshold_ns < top else None,
        width_ns=width,
        table=bars,
    )


def rebin(bins: tuple[tuple[int, int, int], ...], top: int) -> tuple[Bar, ...]:
    """Put log-linear bins into equal bins, each completely into the bin that holds its middle.

    Equal bins are at least as wide as the widest given bin. Otherwise, gaps between wide bins would look like modes.
    """
    width = nice(max(top / BARS_MAX, max(high - low for low, high, _ in bins)))
    sums: dict[int, int] = {}
    for low, high, requests in bins:
        index = (low + high) // 2 // width
        sums[index] = sums.get(index, 0) + requests
    return tuple(Bar(i * width, (i + 1) * width, n) for i, n in sorted(sums.items()) if n)


def nice(size: float) -> int:
    power = 10 ** math.floor(math.log10(max(size, 1)))
    return int(next(power * n for n in (*NICE, 10) if power * n >= size))


def _ticks(top: int) -> list[int]:
    step = nice(top / 8)
    return list(range(0, top + 1, step))


def _axis_label(ns: int, top: int) -> str:
    if ns == 0:
        return "0"
    unit, per = ("s", 1e9) if top >= 1e9 else ("ms", 1e6) if top >= 1e6 else ("µs", 1e3)
    return f"{ns / per:g} {unit}"


def _flags(modes: tuple[Mode, ...], top: int) -> tuple[Flag, ...]:
    """Labels of these modes, placed so that no label overlaps another."""
    flags = []
    ends: list[float] = []
    for mode in modes:
        at = min(1.0, mode.centre_ns / top)
        right = at > 1 - LABEL
        left_edge = at - LABEL if right else at
        row = next((r for r, end in enumerate(ends) if left_edge > end), len(ends))
        if row == len(ends):
            ends.append(0.0)
        ends[row] = left_edge + LABEL
        label, detail = describe(mode, mode is modes[0])
        flags.append(Flag(at, row, "end" if right else "start", label, detail))
    return tuple(flags)


def describe(mode: Mode, main: bool) -> tuple[str, str]:
    """A mode in words: its position, and the reason for it."""
    label = f"{words.duration(mode.centre_ns)} · {words.plural(mode.requests, 'request')}"
    if mode.retransmission_ns is None:
        return label, "main mode" if main else "no retransmission time fits"
    lost = f", {words.plural(mode.attempts_lost, 'attempt')} lost" if mode.attempts_lost else ""
    return label, f"retransmission after {words.duration(mode.retransmission_ns)}{lost}"
