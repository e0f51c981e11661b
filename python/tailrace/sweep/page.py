"""The page of a sweep: the papers' kinds of plots against the varied keys, in one file that needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import Any

from tailrace.report import page
from tailrace.report.plots import SLOTS, Curve, Plot, Point, Scale, Tick, number, point, scale, two_digits
from tailrace.study.intervals import Interval
from tailrace.study.measures import dimension
from tailrace.sweep.table import Sweep
from tailrace.sweep.varying import combinations

SHOWN: dict[str, tuple[str, float]] = {
    "rate": ("1/s", 1.0),
    "share": ("%", 100.0),
    "ns": ("ms", 1e-6),
    "count": ("", 1.0),
    "bytes": ("MB", 1e-6),
    "hertz": ("GHz", 1e-9),
}
"""By dimension of a measure: the unit on the page, and how many of it make one of the measure's own."""

TITLES = {
    "throughput": "Throughput",
    "response_mean": "Mean response time",
    "response_percentile": "Response time by percentile",
    "share_over": "Very long requests",
    "share_under": "Requests under 10 ms",
    "utilisation": "CPU utilisation",
    "drops": "Lost connection attempts",
}
SERIES_MAX = SLOTS
"""Lines for the values of other keys; more colours are hard to distinguish."""


def html(found: Sweep) -> str:
    """The whole page; equal tables give equal text."""
    plots = _plots(found) if found.varied else []
    over = f"over {' and '.join(one.name for one in found.varied)}" if found.varied else "of one configuration"
    sections = [("answer", "Sweep"), *([("plots", "Plots")] if plots else []), ("table", "Table")]
    return page.render(
        resources.files("tailrace.sweep").joinpath("page/sweep.html.j2").read_text(encoding="utf-8"),
        title=f"Tailrace sweep of {found.varied[0].key if found.varied else found.experiment}",
        numbers={"begin_ms": 0, "length": 1, "window": 1, "axes": [], "lines": [], "groups": {}},
        css=page.asset("page/plots.css"),
        sections=sections,
        experiment=found.experiment,
        headline=f"{found.frame.height} runs {over}",
        varied=[(one.key, ", ".join(one.values)) for one in found.varied],
        seeds=found.seeds,
        plots=plots,
        columns=[(name, SHOWN[dimension(*found.columns[name])][0]) for name in found.columns],
        keys=[one.name for one in found.varied],
        rows=_rows(found),
    )


def _plots(found: Sweep) -> list[Plot]:
    """One plot for each measure, with all its columns: utilisations of all tiers share one."""
    by_measure: dict[str, list[str]] = {}
    for name, (measure, _) in found.columns.items():
        by_measure.setdefault(measure, []).append(name)
    return [_plot(found, measure, names) for measure, names in by_measure.items()]


def _plot(found: Sweep, measure: str, names: Sequence[str]) -> Plot:
    unit, factor = SHOWN[dimension(*found.columns[names[0]])]
    first, others = found.varied[0], list(found.varied[1:])
    places = [first.number(value) for value in first.values]
    known = [place for place in places if place is not None]
    numeric = len(known) == len(places)
    x = scale(known, from_zero=False) if numeric else None
    beside = combinations(others)
    several = [(name, rest) for rest in beside for name in names][:SERIES_MAX]
    lines = [
        (_label(name, names, rest, len(beside) > 1), [found.interval(name, (value, *rest)) for value in first.values])
        for name, rest in several
    ]
    y = scale([0.0, *(one.mean * factor for _, along in lines for one in along)])
    step = 1 / max(1, len(first.values) - 1)
    at = [x.at(place) if x and place is not None else k * step for k, place in enumerate(places)]
    curves = [
        Curve(label, slot, tuple(_point(one, factor, label, at[k], y) for k, one in enumerate(along)))
        for slot, (label, along) in enumerate(lines)
    ]
    ticks = x.ticks if x else tuple(Tick(k * step, value) for k, value in enumerate(first.values))
    return Plot(
        title=TITLES.get(measure, measure.replace("_", " ").capitalize()),
        x_label=f"{first.name} ({first.unit})" if first.unit else first.name,
        y_label=unit,
        x_ticks=ticks,
        y_ticks=y.ticks,
        curves=tuple(curves),
        width=560,
    )


def _point(one: Interval, factor: float, label: str, x: float, y: Scale) -> Point:
    low, high = (None if end is None else end * factor for end in (one.low, one.high))
    return point(x, one.mean * factor, (low, high), f"{label}: {number(one.mean * factor)}", y)


def _label(name: str, names: Sequence[str], rest: Sequence[str], several: bool) -> str:
    parts = [name.replace("_", " ")] if len(names) > 1 or not several else []
    return ", ".join([*parts, *(rest if several else ())])


def _rows(found: Sweep) -> list[dict[str, Any]]:
    """Means and half widths of every combination."""
    factors = {name: SHOWN[dimension(*found.columns[name])][1] for name in found.columns}
    return [
        {
            "values": values,
            "cells": [_cell(found.interval(name, values), factor) for name, factor in factors.items()],
        }
        for values in combinations(list(found.varied))
    ]


def _cell(one: Interval, factor: float) -> str:
    half = one.half
    return number(one.mean * factor) + (f" ± {two_digits(half * factor)}" if half else "")
