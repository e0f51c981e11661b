"""Our results beside the paper's; for what real servers can run, also the simulator beside the testbed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tailrace import foreign
from tailrace.engines import Mapping as Workers
from tailrace.errors import UsageError
from tailrace.reproduce import knobs, scaled
from tailrace.reproduce.diagnoses import Diagnosed
from tailrace.reproduce.expected import GUIDE, WITHIN
from tailrace.reproduce.knobs import Number
from tailrace.reproduce.outcome import Cell, Outcome, Seeds, outcome, plan
from tailrace.reproduce.shelf import Entry
from tailrace.study.engines import SIMULATOR, Engine, Progress
from tailrace.study.runs import Runs


@dataclass(frozen=True)
class Dropper:
    """The tiers that lost connection attempts in a run, with their mean number over repetitions; the largest first."""

    run: str
    simulator: dict[str, float]
    testbed: dict[str, float]

    @property
    def same(self) -> bool:
        """Whether the same tier lost most, or none lost any."""
        return next(iter(self.simulator), None) == next(iter(self.testbed), None)


@dataclass(frozen=True)
class Sides:
    """One figure at the scale of real servers, by both engines: the same seeds, values and claims."""

    simulator: Outcome
    testbed: Outcome

    def pairs(self) -> list[tuple[Cell, Cell]]:
        return list(zip(self.simulator.cells, self.testbed.cells, strict=True))

    def ratio(self, predicted: Cell, measured: Cell) -> float | None:
        """The ratio of the testbed's to the simulator's; None if that is 0."""
        return measured.ours.interval.mean / predicted.ours.interval.mean if predicted.ours.interval.mean else None

    def close(self, predicted: Cell, measured: Cell) -> bool:
        """Within a quarter of what the simulator predicted."""
        mean = predicted.ours.interval.mean
        return abs(measured.ours.interval.mean - mean) <= WITHIN * abs(mean)

    def droppers(self) -> list[Dropper]:
        """Of each run."""
        runs = [run.name for run in self.simulator.expected.runs]
        return [Dropper(run, _lost(self.simulator, run), _lost(self.testbed, run)) for run in runs]


@dataclass(frozen=True)
class Reproduction:
    """All requested figures and tables."""

    outcomes: tuple[Outcome, ...]
    sides: tuple[Sides | None, ...]
    """The scaled pair of each outcome; None if it was not requested or does not exist."""
    numbers: Mapping[str, tuple[Number, ...]] = field(default_factory=dict)
    """By paper, the numbers of its experiment files that it does not give."""

    @property
    def papers(self) -> list[str]:
        """The papers of the figures, each once."""
        return list(dict.fromkeys(outcome.entry.paper for outcome in self.outcomes))

    @property
    def claims(self) -> tuple[int, int]:
        """The number of claims that hold, and of all."""
        return _held(self.outcomes)

    @property
    def undecided(self) -> int:
        """Claims whose interval contains 0."""
        return sum(claim.verdict == "undecided" for outcome in self.outcomes for claim in outcome.claims)

    @property
    def claims_measured(self) -> tuple[int, int]:
        """The number of claims that hold on real servers, and of all."""
        return _held([sides.testbed for sides in self.sides if sides])

    @property
    def diagnosed(self) -> tuple[int, int]:
        """The number of runs in which the diagnosis finds what the paper names, and of all in which it could."""
        verdicts = [found.verdict for outcome in self.outcomes for found in outcome.diagnoses]
        return verdicts.count("holds"), len(verdicts) - verdicts.count(None)

    def close(self, calibrated: bool | None = None) -> tuple[int, int]:
        """The number of cells within a quarter of the paper's number, and of all that have one; only calibrated or
        predicted ones."""
        cells = [cell for outcome in self.outcomes for cell in outcome.cells]
        found = [cell.ours.close for cell in cells if calibrated is None or cell.calibrated == calibrated]
        return found.count(True), len(found) - found.count(None)

    def close_measured(self) -> tuple[int, int]:
        """Cells of the testbed within a quarter of what the simulator predicted."""
        found = [sides.close(*pair) for sides in self.sides if sides for pair in sides.pairs()]
        return sum(found), len(found)

    def dropper(self) -> tuple[int, int]:
        """The number of runs in which the same tier lost most connection attempts on both sides, and of all."""
        rows = [dropper for sides in self.sides if sides for dropper in sides.droppers()]
        return sum(dropper.same for dropper in rows), len(rows)


def reproduce(
    entries: Sequence[Entry],
    out: Path,
    seeds: int | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
    testbed: Engine | None = None,
    diagnosed: int = 0,
    at_most: int | None = None,
    cluster: Workers | None = None,
    first_seed: int | None = None,
) -> Reproduction:
    """Make the runs that are missing (kept in `out`/runs) and compare. A run gets as many replications as its figure
    says, or `seeds`, and never more than `at_most`; the first has `first_seed` instead of the experiment's own. So many
    of each run of the papers' own experiments are also `diagnosed`. A `cluster`'s workers simulate instead of this
    machine.

    With a testbed, figures with a scaled form are run by the simulator and then on real servers; `progress` starts
    again with the testbed. Raises UsageError if no figure has one.
    """
    papers = {entry.paper: entry.folder.parent for entry in entries}
    numbers = {paper: knobs.read(folder) for paper, folder in papers.items()}
    simulated, measured = Runs(out / "runs"), Runs(out / "runs", testbed or SIMULATOR)
    counts = Seeds(seeds, at_most, first_seed)
    plans = [plan(entry, entry.read(), simulated, counts, diagnosed) for entry in entries]
    forms = [scaled.read(entry.folder) if testbed else None for entry in entries]
    if testbed and not any(forms):
        names = " and ".join(f"{entry.paper} {entry.name}" for entry in entries)
        raise UsageError(
            f"{names}: there is no {scaled.FILE}, nothing that real servers could run", advice=f"see {GUIDE}"
        )
    pairs = [
        (plan(entry, form.simulator, simulated, counts), plan(entry, form.testbed, measured, counts)) if form else None
        for entry, form in zip(entries, forms, strict=True)
    ]
    simulated.make(workers, progress, cluster)
    measured.make(workers, progress)
    return Reproduction(
        tuple(outcome(plan) for plan in plans),
        tuple(Sides(outcome(pair[0]), outcome(pair[1])) if pair else None for pair in pairs),
        numbers,
    )


def as_dict(reproduction: Reproduction) -> dict[str, Any]:
    """The content of `reproduced/*.json`."""
    held, claims = reproduction.claims
    close, cells = reproduction.close()
    found, tried = reproduction.diagnosed
    return {
        "format": 1,
        "summary": {
            **{"claims_held": held, "claims": claims, "cells_close": close, "cells": cells},
            **({"diagnoses_held": found, "diagnoses": tried} if tried else {}),
        },
        "knobs": {paper: [_number_json(one) for one in numbers] for paper, numbers in reproduction.numbers.items()},
        "figures": [
            {
                "paper": outcome.entry.paper,
                "name": outcome.entry.name,
                "title": outcome.expected.title,
                "seeds": outcome.seeds[-1],
                "cells": [_cell_json(cell) for cell in outcome.cells],
                "claims": [asdict(claim) for claim in outcome.claims],
                **({"diagnoses": [_diagnosed_json(one) for one in outcome.diagnoses]} if outcome.diagnoses else {}),
                **({"scaled": _sides_json(sides)} if sides else {}),
            }
            for outcome, sides in zip(reproduction.outcomes, reproduction.sides, strict=True)
        ],
    }


def to_json(reproduction: Reproduction) -> str:
    return foreign.json_text(as_dict(reproduction)) + "\n"


def _number_json(number: Number) -> dict[str, Any]:
    knob = number.knob
    found = {"key": number.key, "value": number.value, "file": number.file, "kind": knob.kind}
    return {**found, "from": knob.source, "view": list(knob.view)}


def _cell_json(cell: Cell) -> dict[str, Any]:
    return {**asdict(cell), "ours": {"sim": _ours_json(cell)}}


def _ours_json(cell: Cell) -> dict[str, Any]:
    return {**asdict(cell.ours.interval), "ratio": cell.ours.ratio, "close": cell.ours.close}


def _diagnosed_json(one: Diagnosed) -> dict[str, Any]:
    return {**asdict(one), "verdict": one.verdict}


def _sides_json(sides: Sides) -> dict[str, Any]:
    claims = zip(sides.simulator.claims, sides.testbed.claims, strict=True)
    return {
        "seeds": sides.testbed.seeds[-1],
        "cells": [
            {
                **{key: getattr(measured, key) for key in ("value", "run", "measure", "unit", "note")},
                "sim": asdict(predicted.ours.interval),
                "testbed": asdict(measured.ours.interval),
                "ratio": sides.ratio(predicted, measured),
                "close": sides.close(predicted, measured),
            }
            for predicted, measured in sides.pairs()
        ],
        "claims": [{"says": a.says, "sim": a.verdict, "testbed": b.verdict, "why": b.why} for a, b in claims],
        "droppers": [{"run": one.run, "sim": one.simulator, "testbed": one.testbed} for one in sides.droppers()],
    }


def _held(outcomes: Sequence[Outcome]) -> tuple[int, int]:
    verdicts = [claim.verdict for outcome in outcomes for claim in outcome.claims]
    return verdicts.count("holds"), len(verdicts)


def _lost(outcome: Outcome, run: str) -> dict[str, float]:
    lost = {
        cell.value.removeprefix(scaled.DROPS): cell.ours.interval.mean
        for cell in outcome.cells
        if cell.run == run and cell.value.startswith(scaled.DROPS)
    }
    return {tier: lost[tier] for tier in sorted(lost, key=lambda tier: -lost[tier]) if lost[tier]}
