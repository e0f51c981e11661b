"""The page of a reproduction: the papers' numbers and drawings beside ours, in one file that needs no network."""

from __future__ import annotations

import shlex
from importlib import resources
from typing import Any

from tailrace.report import page
from tailrace.report.payload import payload
from tailrace.report.plots import number, two_digits
from tailrace.reproduce.drawings import Piece, Timelines, pieces
from tailrace.reproduce.notes import Anchors, linked, markdown
from tailrace.reproduce.outcome import Cell, Engine, Ours, Outcome, Reproduction, changes

ENGINES: dict[Engine, str] = {"sim": "Simulator", "testbed": "Testbed"}


def html(reproduction: Reproduction) -> str:
    """The whole page; equal results give equal text."""
    timelines = Timelines()
    others = linked([outcome.entry for outcome in reproduction.outcomes])
    anchors = {entry.anchor for entry in (*(outcome.entry for outcome in reproduction.outcomes), *others)}
    figures = [_figure(outcome, f"f{at}", timelines, anchors) for at, outcome in enumerate(reproduction.outcomes)]
    notes = [{"anchor": e.anchor, "name": e.title, "readme": markdown(e, anchors)} for e in others]
    held, claims = reproduction.claims
    close, cells = reproduction.close()
    papers = list(dict.fromkeys(outcome.entry.paper for outcome in reproduction.outcomes))
    return page.render(
        _text("reproduce.html.j2"),
        title=f"Tailrace reproduces {', '.join(papers)}",
        numbers=payload(timelines.recording(), timelines.groups),
        css=page.asset("page/plots.css") + _text("reproduce.css"),
        sections=[("answer", "Summary"), *((section["anchor"], section["name"]) for section in (*figures, *notes))],
        papers=papers,
        headline=_headline(held, claims, close, cells),
        numbers_of=_numbers_of(reproduction),
        figures=figures,
        notes=notes,
        timed=bool(timelines.groups),
    )


def _text(name: str) -> str:
    return resources.files("tailrace.reproduce").joinpath(f"page/{name}").read_text(encoding="utf-8")


def _headline(held: int, claims: int, close: int, cells: int) -> str:
    parts = [f"{held} of {claims} claims hold"] if claims else []
    parts += [f"{close} of {cells} numbers are within a quarter of the paper's"] if cells else []
    return "; ".join(parts) or "Nothing to compare"


def _numbers_of(reproduction: Reproduction) -> list[dict[str, str]]:
    held, claims = reproduction.claims
    predicted, fitted = reproduction.close(calibrated=False), reproduction.close(calibrated=True)
    seeds = sorted({outcome.seeds for outcome in reproduction.outcomes})
    return [
        {"label": "Claims that hold", "value": f"{held} of {claims}", "note": "directions that the papers state"},
        {
            "label": "Predicted numbers",
            "value": f"{predicted[0]} of {predicted[1]}",
            "note": "within a quarter of the paper's",
        },
        {"label": "Calibrated numbers", "value": f"{fitted[0]} of {fitted[1]}", "note": "something was fitted to them"},
        {
            "label": "Replications",
            "value": str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}",
            "note": "of every run; intervals are 95 %",
        },
    ]


def _figure(outcome: Outcome, key: str, timelines: Timelines, anchors: Anchors) -> dict[str, Any]:
    engines: list[Engine] = [engine for engine in ENGINES if any(engine in cell.ours for cell in outcome.cells)]
    claims = [claim.verdict == "holds" for claim in outcome.claims]
    numbers = [ours.close for cell in outcome.cells for ours in cell.ours.values() if ours.close is not None]
    return {
        "anchor": outcome.entry.anchor,
        "name": outcome.entry.title,
        "paper": outcome.entry.paper,
        "title": outcome.expected.title,
        "shows": outcome.expected.shows,
        "seeds": outcome.seeds,
        "claims_held": f"{sum(claims)} of {len(claims)}" if claims else "–",
        "all_held": all(claims),
        "cells_close": f"{sum(numbers)} of {len(numbers)}" if numbers else "–",
        "pieces": [_piece(piece) for piece in pieces(outcome, key, timelines)],
        "engines": [ENGINES[engine] for engine in engines],
        "groups": _rows(outcome, engines),
        "claims": [vars(claim) for claim in outcome.claims],
        "readme": markdown(outcome.entry, anchors),
        "commands": _commands(outcome),
    }


def _piece(piece: Piece) -> dict[str, Any]:
    return {"plots": piece.plots, "group": piece.group, "charts": [page.chart_context(chart) for chart in piece.charts]}


def _rows(outcome: Outcome, engines: list[Engine]) -> list[dict[str, Any]]:
    """Cells by value, in the order of the file."""
    groups: dict[str, list[Cell]] = {}
    for cell in outcome.cells:
        groups.setdefault(cell.value, []).append(cell)
    return [
        {
            "value": value,
            "unit": cells[0].unit,
            "cells": [_cell(cell, engines) for cell in cells],
            "one_note": len({cell.note for cell in cells}) == 1,
        }
        for value, cells in groups.items()
    ]


def _cell(cell: Cell, engines: list[Engine]) -> dict[str, Any]:
    return {
        "run": cell.run,
        "paper": "–" if cell.paper is None else number(cell.paper),
        "kind": "" if cell.paper is None else "calibrated" if cell.calibrated else "predicted",
        "note": cell.note,
        "ours": [_ours(cell.ours.get(engine)) for engine in engines],
    }


def _ours(ours: Ours | None) -> dict[str, Any]:
    if ours is None:
        return {"mean": "–", "half": "", "ratio": "", "close": None}
    half = ours.interval.half
    return {
        "mean": number(ours.interval.mean),
        "half": f"± {two_digits(half)}" if half else "",
        "ratio": "" if ours.ratio is None else f"{ours.ratio:.2f}",
        "close": ours.close,
    }


def _commands(outcome: Outcome) -> list[tuple[str, str]]:
    """How to make it again: the comparison, and each run for itself."""
    whole = f"tailrace reproduce {outcome.entry.paper} {outcome.entry.name} --seeds {outcome.seeds}"
    found = [("This comparison", whole)]
    for run in outcome.expected.runs:
        file = outcome.entry.folder / run.experiment
        folder = file.parent if file.name == "experiment.toml" else file
        sets = " ".join(f"--set {shlex.quote(change)}" for change in changes(run))
        name = "".join(letter if letter.isalnum() else "-" for letter in run.name).strip("-").lower()
        found.append((run.name, " ".join(f"tailrace run {folder} {sets} -o {name}".split())))
    return found
