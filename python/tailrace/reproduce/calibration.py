"""`tailrace calibrate`: a few numbers of a paper's files are fitted to few figures, and the others are predicted.

```text
base/calibration.toml: figures, parameters ─▶ runs with these values ─▶ ours / paper - 1 of each number ─┐
              ▲ values of the least sum of squares: Gauss and Newton, the same seeds in every step ◀──────────┘
the figures that were fitted, and all others, never looked at ─▶ both scores, apart
```
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from tailrace import toml
from tailrace.errors import InputError
from tailrace.reproduce.expected import Expected
from tailrace.reproduce.knobs import CALIBRATION
from tailrace.reproduce.outcome import Outcome, Plan, Seeds, outcome, plan
from tailrace.reproduce.panels import Names
from tailrace.reproduce.shelf import Entry
from tailrace.reproduce.varied import varied
from tailrace.study.engines import Progress
from tailrace.study.runs import Runs
from tailrace.toml import Name, Table, wrong_name

GUIDE = "docs/how-to/calibrate.md"
STEP = 1.1
"""The factor of a parameter in a difference quotient: large beside the noise of equal seeds, small beside a curve."""
HALVES = (1.0, 0.5, 0.25)
"""Parts of a step that are tried, until one is better."""
ENOUGH = 0.005
"""A step that changes no parameter by more than half a per cent is the last one."""
Point = tuple[float, ...]
Bound = Annotated[float, Field(gt=0)]
Errors = Callable[[Sequence[Point]], list[NDArray[np.float64]]]
"""The relative errors of all fitted numbers, for each of some points."""


class Parameter(Table):
    """A number that is fitted."""

    key: Name
    """As in `--set`: rubbos.app."""
    file: Name
    """The experiment file, relative to the paper's folder: runs that extend it get the value."""
    unit: str = ""
    start: Bound
    least: Bound
    most: Bound

    def text(self, value: float) -> str:
        """The value with its unit."""
        return f"{value:.4g}{' ' + self.unit if self.unit else ''}"


class Calibration(Table):
    figures: Names = Field(min_length=1)
    """The folders of the figures whose numbers are fitted. All others are predicted."""
    parameters: tuple[Parameter, ...] = Field(min_length=1)


@dataclass(frozen=True)
class Score:
    """How near the numbers of some figures are to the paper's, and what became of their claims."""

    figures: tuple[str, ...]
    close: int
    """Numbers within a quarter of the paper's."""
    numbers: int
    error: float
    """The root of the mean square of ours / paper - 1."""
    held: int
    claims: int


@dataclass(frozen=True)
class Calibrated:
    calibration: Calibration
    values: Point
    rounds: int
    fitted: Score
    predicted: Score | None
    """None if no other figure was requested."""


def read(paper: Path, known: Sequence[str]) -> Calibration:
    """Raises InputError if the file is missing or names a figure that the paper does not have."""
    file = paper / CALIBRATION
    if not file.is_file():
        raise InputError(file, "it does not exist, so that nothing says what is fitted to what", f"see {GUIDE}")
    found = toml.check(Calibration, toml.read(file, GUIDE), file)
    for name in found.figures:
        if name not in known:
            raise InputError(file, wrong_name("figures", name, known, "figure or table of the paper"), f"see {GUIDE}")
    for one in found.parameters:
        if not (paper / one.file).is_file():
            raise InputError(file, f"{one.file} does not exist", f"see {GUIDE}")
        if not one.least <= one.start <= one.most:
            problem = f"{one.key} must start between least and most, got {one.start:g}"
            raise InputError(file, problem, f"see {GUIDE}")
    return found


class Fit:
    """The figures of a paper with any values of the parameters."""

    def __init__(
        self, calibration: Calibration, out: Path, seeds: Seeds, workers: int | None, progress: Progress | None
    ):
        self.calibration, self.seeds = calibration, seeds
        self._runs, self._workers, self._progress = Runs(out / "runs"), workers, progress

    def outcomes(self, entries: Sequence[Entry], points: Sequence[Point]) -> list[list[Outcome]]:
        """Of each point, the outcome of each figure. All runs that are missing are made together."""
        plans = [[self._plan(entry, point) for entry in entries] for point in points]
        self._runs.make(self._workers, self._progress)
        return [[outcome(one) for one in of_point] for of_point in plans]

    def _plan(self, entry: Entry, point: Point) -> Plan:
        expected: Expected = entry.read()
        for parameter, value in zip(self.calibration.parameters, point, strict=True):
            file = entry.folder.parent / parameter.file
            expected = varied(entry, expected, parameter.key, file, parameter.text(value)) or expected
        return plan(entry, expected, self._runs, self.seeds)


def calibrate(entries: Sequence[Entry], predicted: Sequence[Entry], fit: Fit, rounds: int) -> Calibrated:
    """Fit to the `entries`, in at most so many rounds, and then predict the others."""
    parameters = fit.calibration.parameters
    values, made = least_squares(lambda points: _errors_of(fit.outcomes(entries, points)), parameters, rounds)
    [own], [others] = fit.outcomes(entries, [values]), fit.outcomes(predicted, [values])
    return Calibrated(fit.calibration, values, made, score(own), score(others) if others else None)


def least_squares(errors: Errors, parameters: Sequence[Parameter], rounds: int) -> tuple[Point, int]:
    """The values whose errors have the least sum of squares, and the number of rounds (Gauss and Newton, in the
    logarithms of the values; Nocedal and Wright, Numerical Optimization, 10.3)."""
    point: Point = tuple(one.start for one in parameters)
    [now] = errors([point])
    for number in range(rounds):
        moved = [_moved(point, at) for at in range(len(point))]
        slopes = np.column_stack([(found - now) / math.log(STEP) for found in errors(moved)])
        step = np.linalg.lstsq(slopes, -now, rcond=None)[0]
        for part in HALVES:
            tried = _inside(parameters, point, [part * change for change in step.tolist()])
            [found] = errors([tried])
            if found @ found < now @ now:
                break
        else:
            return point, number
        changed = max(abs(math.log(new / old)) for new, old in zip(tried, point, strict=True))
        point, now = tried, found
        if changed < ENOUGH:
            return point, number + 1
    return point, rounds


def _moved(point: Point, at: int) -> Point:
    return tuple(value * STEP if number == at else value for number, value in enumerate(point))


def _inside(parameters: Sequence[Parameter], point: Point, step: Sequence[float]) -> Point:
    moved = (value * math.exp(part) for value, part in zip(point, step, strict=True))
    return tuple(min(max(value, one.least), one.most) for value, one in zip(moved, parameters, strict=True))


def _errors_of(points: Sequence[Sequence[Outcome]]) -> list[NDArray[np.float64]]:
    return [np.array([error for figure in figures for error in _errors(figure)]) for figures in points]


def _errors(figure: Outcome) -> list[float]:
    """Of each number that the paper gives and that is not 0."""
    return [(cell.ours.interval.mean - cell.paper) / cell.paper for cell in figure.cells if cell.paper]


def score(figures: Sequence[Outcome]) -> Score:
    errors = [error for figure in figures for error in _errors(figure)]
    close = [cell.ours.close for figure in figures for cell in figure.cells]
    verdicts = [claim.verdict for figure in figures for claim in figure.claims]
    return Score(
        figures=tuple(figure.entry.name for figure in figures),
        close=close.count(True),
        numbers=len(close) - close.count(None),
        error=math.sqrt(sum(error * error for error in errors) / len(errors)) if errors else 0.0,
        held=verdicts.count("holds"),
        claims=len(verdicts),
    )
