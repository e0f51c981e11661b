"""The page of a reproduction: the papers' numbers and drawings beside ours, in one file that needs no network."""

from __future__ import annotations

import shlex
from importlib import resources
from typing import Any

from markupsafe import Markup

from tailrace.report import page, picture
from tailrace.report.payload import payload
from tailrace.reproduce import tables
from tailrace.reproduce.drawings import Piece, Timelines, pieces
from tailrace.reproduce.expected import Run, changes
from tailrace.reproduce.notes import Anchors, linked, markdown
from tailrace.reproduce.outcome import Outcome
from tailrace.reproduce.reproduction import Reproduction, Sides


def html(reproduction: Reproduction) -> str:
    """The whole page; equal results give equal text. The page of a single figure has that figure alone."""
    timelines = Timelines()
    several = len(reproduction.outcomes) > 1
    others = linked([outcome.entry for outcome in reproduction.outcomes]) if several else []
    anchors = {entry.anchor for entry in (*(outcome.entry for outcome in reproduction.outcomes), *others)}
    both = enumerate(zip(reproduction.outcomes, reproduction.sides, strict=True))
    figures = [_figure(outcome, sides, f"f{at}", timelines, anchors) for at, (outcome, sides) in both]
    notes = [{"anchor": e.anchor, "name": e.title, "readme": markdown(e, anchors)} for e in others]
    numbers = reproduction.numbers.items() if several else ()
    chosen = [{"anchor": f"{paper}-numbers", "paper": paper, "rows": rows} for paper, rows in numbers if rows]
    return page.render(
        _text("reproduce.html.j2"),
        title=f"Tailrace reproduces {', '.join(reproduction.papers)}",
        numbers=payload(timelines.recording(), timelines.groups),
        css=page.asset("page/plots.css") + _text("reproduce.css"),
        sections=[
            ("answer", "Summary"),
            *((section["anchor"], section["name"]) for section in (*figures, *notes)),
            *((one["anchor"], f"Numbers of {one['paper']}") for one in chosen),
        ],
        papers=reproduction.papers,
        headline=_headline(reproduction),
        numbers_of=_numbers_of(reproduction),
        figures=figures,
        notes=notes,
        chosen=chosen,
        several=several,
        sided=any(reproduction.sides),
        timed=bool(timelines.groups),
    )


def _text(name: str) -> str:
    return resources.files("tailrace.reproduce").joinpath(f"page/{name}").read_text(encoding="utf-8")


def _headline(reproduction: Reproduction) -> str:
    held, claims = reproduction.claims
    close, cells = reproduction.close()
    open_ones = f" ({reproduction.undecided} undecided)" if reproduction.undecided else ""
    parts = [f"{held} of {claims} claims hold{open_ones}"] if claims else []
    parts += [f"{close} of {cells} numbers are within a quarter of the paper's"] if cells else []
    found, diagnosed = reproduction.diagnosed
    parts += [f"the diagnosis finds the paper's cause in {found} of {diagnosed} runs"] if diagnosed else []
    if any(reproduction.sides):
        measured, tried = reproduction.claims_measured
        parts += [f"on real servers {measured} of {tried} claims hold"]
    return "; ".join(parts) or "Nothing to compare"


def _numbers_of(reproduction: Reproduction) -> list[dict[str, str]]:
    held, claims = reproduction.claims
    predicted, fitted = reproduction.close(calibrated=False), reproduction.close(calibrated=True)
    seeds = sorted({count for outcome in reproduction.outcomes for count in outcome.seeds})
    stated, close = "directions and numbers that the papers state", "within a quarter of the paper's"
    found = [{"label": "Claims that hold", "value": f"{held} of {claims}", "note": stated}]
    if predicted[1]:
        found.append({"label": "Predicted numbers", "value": _of(*predicted), "note": close})
    if fitted[1]:
        found.append({"label": "Calibrated numbers", "value": _of(*fitted), "note": "something was fitted to them"})
    found.append(
        {
            "label": "Replications",
            "value": str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}",
            "note": "of a run; intervals are 95 %",
        }
    )
    return found + (_numbers_measured(reproduction) if any(reproduction.sides) else [])


def _numbers_measured(reproduction: Reproduction) -> list[dict[str, str]]:
    close = "within a quarter of the simulator's, of the same experiments"
    return [
        {"label": "Claims on real servers", "value": _of(*reproduction.claims_measured), "note": "that hold"},
        {"label": "Numbers on real servers", "value": _of(*reproduction.close_measured()), "note": close},
        {"label": "Who drops", "value": _of(*reproduction.dropper()), "note": "runs in which both name the same tier"},
    ]


def _figure(outcome: Outcome, sides: Sides | None, key: str, timelines: Timelines, anchors: Anchors) -> dict[str, Any]:
    held = [claim.verdict == "holds" for claim in outcome.claims]
    close = [cell.ours.close for cell in outcome.cells if cell.ours.close is not None]
    drawn = [("", outcome, key)]
    if sides:
        drawn += [(tables.SCALED, sides.simulator, f"{key}s"), (tables.TESTBED, sides.testbed, f"{key}t")]
    return {
        "anchor": outcome.entry.anchor,
        "name": outcome.entry.title,
        "paper": outcome.entry.paper,
        "title": outcome.expected.title,
        "shows": outcome.expected.shows,
        "claims_held": _of(sum(held), len(held)),
        "cells_close": _of(sum(close), len(close)),
        "claims_measured": _of(*_held(sides)) if sides else "–",
        "drawn": [
            {"by": by, "pieces": [_piece(piece) for piece in pieces(one, name, timelines)]} for by, one, name in drawn
        ],
        "columns": tables.headings(sides),
        "judges": [tables.SIMULATOR, tables.SCALED, tables.TESTBED] if sides else [tables.SIMULATOR],
        "repetitions": sides.testbed.seeds[-1] if sides else 0,
        "groups": tables.numbers(outcome, sides),
        "claims": tables.claims(outcome, sides),
        "droppers": tables.droppers(sides),
        "diagnoses": tables.diagnoses(outcome),
        "diagnosed_seeds": outcome.diagnosed,
        "readme": markdown(outcome.entry, anchors),
        "systems": [(one.runs, Markup(picture.svg(one.topology, one.runs, one.servers))) for one in outcome.systems],
        "commands": _commands(outcome, sides),
    }


def _piece(piece: Piece) -> dict[str, Any]:
    return {"plots": piece.plots, "group": piece.group, "charts": [page.chart_context(chart) for chart in piece.charts]}


def _held(sides: Sides) -> tuple[int, int]:
    verdicts = [claim.verdict for claim in sides.testbed.claims]
    return verdicts.count("holds"), len(verdicts)


def _of(count: int, whole: int) -> str:
    return f"{count} of {whole}" if whole else "–"


def _commands(outcome: Outcome, sides: Sides | None) -> list[tuple[str, str]]:
    """The commands that make it again: the comparison, and each single run."""
    whole = f"tailrace reproduce {outcome.entry.paper} {outcome.entry.name}"
    whole += outcome.wanted.options
    whole += " --diagnose" if outcome.diagnosed else ""
    whole += f" --diagnosed {outcome.diagnosed}" if outcome.diagnosed > 1 else ""
    found = [("This comparison", f"{whole} --engine testbed" if sides else whole)]
    found += [_command(outcome, run, "") for run in outcome.expected.runs]
    if sides:
        found += [_command(outcome, run, "--engine testbed") for run in sides.testbed.expected.runs]
    return found


def _command(outcome: Outcome, run: Run, engine: str) -> tuple[str, str]:
    file = outcome.entry.folder / run.experiment
    folder = file.parent if file.name == "experiment.toml" else file
    sets = " ".join(f"--set {shlex.quote(change)}" for change in changes(run))
    name = "".join(letter if letter.isalnum() else "-" for letter in run.name).strip("-").lower()
    command = " ".join(f"tailrace run {folder} {sets} {engine} -o {name}".split())
    return f"{run.name}, on real servers" if engine else run.name, command
