"""The result of a sweep in a terminal: a line for each combination, with means and half of their 95 % intervals."""

from __future__ import annotations

from tailrace.report.plots import number, two_digits
from tailrace.study.measures import dimension
from tailrace.sweep.page import SHOWN
from tailrace.sweep.table import DEFAULT, Sweep
from tailrace.sweep.varying import combinations

TOLD = ("throughput", "response_mean", "response_p99", "share_over_1s", "drops")
"""Columns that every sweep has; the file and the page have all."""
LINES_MAX = 40


def lines(found: Sweep) -> list[str]:
    """Aligned columns, with the units in the header."""
    others = {*DEFAULT, *(name for name, (measure, _) in found.columns.items() if measure == "utilisation")}
    names = [name for name in found.columns if name in TOLD or name not in others]
    shown = {name: SHOWN[dimension(*found.columns[name])] for name in names}
    head = [one.name for one in found.varied] + [f"{name} {unit}".rstrip() for name, (unit, _) in shown.items()]
    chosen = combinations(list(found.varied))
    rows = [head] + [
        [*values, *(_mean(found, name, values, factor) for name, (_, factor) in shown.items())]
        for values in chosen[:LINES_MAX]
    ]
    widths = [max(len(row[place]) for row in rows) for place in range(len(head))]
    told = ["  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) for row in rows]
    return told + [f"and {len(chosen) - LINES_MAX} more combinations"] * (len(chosen) > LINES_MAX)


def _mean(found: Sweep, name: str, values: tuple[str, ...], factor: float) -> str:
    one = found.interval(name, values)
    return number(one.mean * factor) + (f" ± {two_digits(one.half * factor)}" if one.half else "")
