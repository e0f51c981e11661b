"""The tables of a figure on the page: claims, numbers, diagnoses and droppers, with a column for each engine."""

from __future__ import annotations

from typing import Any

from tailrace.report.plots import number, to_the_place_of, two_digits
from tailrace.reproduce.outcome import Cell, Outcome
from tailrace.reproduce.reproduction import Sides
from tailrace.study.intervals import Interval
from tailrace.units import format_share

SIMULATOR, SCALED, TESTBED = "Simulator", "Simulator, scaled", "Testbed"
Pair = tuple[Cell, Cell]
Shown = dict[str, str]
"""The content of a column: `text`, the interval's `half`, and the `mark` of a ratio."""
NOTHING: Shown = {"text": "–", "half": "", "mark": ""}
EMPTY: Shown = {"text": "", "half": "", "mark": ""}


def headings(sides: Sides | None) -> list[tuple[str, str]]:
    """The columns of numbers after the paper's, each with its meaning."""
    own = [(SIMULATOR, "of the paper's own experiment"), ("Ratio", "ours divided by the paper's")]
    beside = [
        (SCALED, "of what real servers run"),
        (TESTBED, "real servers"),
        ("Ratio", "the testbed's divided by the simulator's, of the same experiment"),
    ]
    return [*own, *beside] if sides else own


def numbers(outcome: Outcome, sides: Sides | None) -> list[dict[str, Any]]:
    """Cells by value: first those of the paper's own experiment in the order of its file, then those that only the
    scaled one has."""
    papers = {(cell.value, cell.run): cell for cell in outcome.cells}
    pairs = {(pair[0].value, pair[0].run): pair for pair in sides.pairs()} if sides else {}
    groups: dict[str, list[dict[str, Any]]] = {}
    units: dict[str, str] = {}
    for value, run in dict.fromkeys((*papers, *pairs)):
        cell, pair = papers.get((value, run)), pairs.get((value, run))
        units[value] = cell.unit if cell else pair[0].unit if pair else ""
        columns = [*_of_paper(cell), *(_of_pair(sides, pair) if sides else ())]
        groups.setdefault(value, []).append({"run": run, **_known(cell), "note": _note(cell, pair), "columns": columns})
    return [
        {"value": value, "unit": units[value], "cells": cells, "one_note": len({cell["note"] for cell in cells}) == 1}
        for value, cells in groups.items()
    ]


def claims(outcome: Outcome, sides: Sides | None) -> list[dict[str, Any]]:
    """Each claim with a verdict for each column (None if it was not tried), and what was compared."""
    columns = {SIMULATOR: outcome.claims}
    if sides:
        columns |= {SCALED: sides.simulator.claims, TESTBED: sides.testbed.claims}
    by_says = {name: {claim.says: claim for claim in found} for name, found in columns.items()}
    return [
        {
            "says": says,
            "verdicts": [found[says].verdict if says in found else None for found in by_says.values()],
            "whys": [(name, found[says].why) for name, found in by_says.items() if says in found],
        }
        for says in dict.fromkeys(says for found in by_says.values() for says in found)
    ]


def droppers(sides: Sides | None) -> list[dict[str, Any]]:
    return [
        {"run": one.run, "simulator": _tiers(one.simulator), "testbed": _tiers(one.testbed), "same": one.same}
        for one in (sides.droppers() if sides else ())
    ]


def diagnoses(outcome: Outcome) -> list[dict[str, Any]]:
    """What the diagnosis reports of each run that has VLRT."""
    return [
        {
            "run": one.run,
            "vlrt": f"{one.vlrt:,}",
            "paper": one.named or "–",
            "as_paper": format_share(one.share(one.as_paper)) if one.cause else "–",
            "at_origin": format_share(one.share(one.at_origin)) if one.origin else "–",
            "right": format_share(one.share(one.right)),
            "gone": one.gone_share or "–",
            "reported": one.shares,
            "verdict": one.verdict,
        }
        for one in outcome.diagnoses
        if one.vlrt
    ]


def _tiers(lost: dict[str, float]) -> str:
    return ", ".join(f"{tier} ({number(count)})" for tier, count in lost.items()) or "none"


def _known(cell: Cell | None) -> dict[str, str]:
    """The paper's number, and whether ours was fitted to it."""
    if cell is None or cell.paper is None:
        return {"paper": "–", "kind": ""}
    return {"paper": number(cell.paper), "kind": "calibrated" if cell.calibrated else "predicted"}


def _note(cell: Cell | None, pair: Pair | None) -> str:
    own, real = cell.note if cell else "", pair[1].note if pair else ""
    return " ".join(filter(None, (own, real and f"{TESTBED}: {real}")))


def _of_paper(cell: Cell | None) -> list[Shown]:
    if cell is None:
        return [NOTHING, EMPTY]
    return [_mean(cell.ours.interval), _mark(cell.ours.ratio, cell.ours.close)]


def _of_pair(sides: Sides, pair: Pair | None) -> list[Shown]:
    if pair is None:
        return [NOTHING, NOTHING, EMPTY]
    means = [_mean(cell.ours.interval) for cell in pair]
    return [*means, _mark(sides.ratio(*pair), sides.close(*pair))]


def mean_and_half(interval: Interval) -> tuple[str, str]:
    """The mean, and half the width as "± 2.0"; empty if the interval has none."""
    if not interval.half:
        return number(interval.mean), ""
    return to_the_place_of(interval.mean, interval.half), f"± {two_digits(interval.half)}"


def _mean(interval: Interval) -> Shown:
    mean, half = mean_and_half(interval)
    return {**NOTHING, "text": mean, "half": half}


def _mark(ratio: float | None, close: bool | None) -> Shown:
    if close is None:
        return EMPTY
    return {
        **NOTHING,
        "text": f"{ratio:.2f}" if ratio else "0" if close else "off",
        "mark": "holds" if close else "fails",
    }
