"""`expected.toml`: what a paper reports of a figure or table, and how to judge whether ours agrees."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from tailrace import toml
from tailrace.diagnosis.answer import PLAIN
from tailrace.errors import InputError
from tailrace.experiment.quantities import Above0, Duration, Number, Positive
from tailrace.reproduce.crossings import Crossing
from tailrace.reproduce.panels import Lines, Names, Panel, Timeline
from tailrace.study import drawn, runs
from tailrace.study.measures import Statistic, dimension
from tailrace.toml import Count, Name, Table, wrong_name

FILE = "expected.toml"
GUIDE = "docs/how-to/add-a-reproduction.md"
WITHIN = 0.25
"""A cell is close if ours differs from the paper's by at most this share of it."""

UNITS: dict[str, dict[str, float]] = {
    "rate": {"req/s": 1.0, "1/s": 1.0, "": 1.0},
    "share": {"%": 100.0, "": 1.0},
    "ns": {"s": 1e-9, "ms": 1e-6, "us": 1e-3, "min": 1e-9 / 60},
    "bytes": {"MB": 1e-6, "MiB": 2.0**-20, "GB": 1e-9},
    "hertz": {"GHz": 1e-9},
    "count": {},
}
"""By dimension of a measure, its possible units, and how many of each make one of its own; a count takes any unit."""


class Run(Table):
    name: Name
    """In the paper's words: "WL 7000"."""
    experiment: Name = "experiment.toml"
    """The experiment file, relative to this folder."""
    set: dict[Name, Any] = Field(default_factory=dict)
    """Changes to it, as in `tailrace run --set`: { "workloads.steady.clients" = 7000 }."""
    seeds: Count | None = None
    """Replications, if it needs more or fewer than the other runs."""
    cause: Names | None = None
    """The cause of this run's VLRT, instead of the figure's; [] if the paper names none."""
    origin: Name | None = None
    """The tier or server in which they began, instead of the figure's."""


class When(Table):
    """The times in which a series of a timeline is high, or an event lasts."""

    series: Name
    """A series of timelines, or the kind of an event: gc, drop."""
    place: Name
    least: float | None = None
    """The value from which it is high, in the series' own unit. Default: 1 of what is counted, 0.95 of a share."""
    most: float | None = None
    """The highest value: for a series that is low."""
    over: Duration | None = None
    """Of vlrt: the response time from which a request is very slow. Default: 1 s."""
    window: Positive | None = None
    gap: Duration | None = None
    """Episodes that are closer than this are one."""
    lasts: Duration | None = None
    """Shorter episodes do not count."""


class Value(Table):
    """One measure in some runs: a column of a table, or a single number. A cell is named "VALUE @ RUN"."""

    name: Name
    measure: Name
    """A measure of docs/reference/measures.md; the keys from `place` to `each` are its values."""
    place: Name | None = None
    server: Name | None = None
    interaction: Name | None = None
    metric: Name | None = None
    series: Name | None = None
    statistic: Statistic | None = None
    percentile: Annotated[float, Field(gt=0, le=100)] | None = None
    over: Duration | None = None
    under: Duration | None = None
    window: Positive | None = None
    begin: Duration | None = None
    end: Duration | None = None
    when: When | None = None
    meets: When | None = None
    near: Duration | None = None
    per: Positive | None = None
    demand: Positive | None = None
    least: Number | None = None
    each: Number | None = None
    run: Names = ()
    """Its runs or crossings. Default: all runs."""
    unit: str = ""
    """Unit of the paper's numbers and of ours on the page: req/s, %, ms, s, GHz, or what is counted."""
    paper: float | dict[Name, float] | None = None
    """The paper's number, or one for each run { "WL 4000" = 572 }. Without it ours is shown, and claims may use it."""
    calibrated: bool | Names = False
    """Whether (or in which runs) something was fitted to this number; the others are predicted."""
    note: str | dict[Name, str] = ""
    """Why ours differs, or why for each run. Required if a cell is more than a quarter off."""

    @property
    def values(self) -> dict[str, Any]:
        """The values of the measure."""
        return self.model_dump(include=set(ARGUMENTS), exclude_none=True)

    @property
    def scale(self) -> float:
        return UNITS[dimension(self.measure, self.values)].get(self.unit, 1.0)

    def paper_of(self, run: str) -> float | None:
        return self.paper.get(run) if isinstance(self.paper, dict) else self.paper

    def note_of(self, run: str) -> str:
        return self.note.get(run, "") if isinstance(self.note, dict) else self.note

    def calibrated_in(self, run: str) -> bool:
        return self.calibrated if isinstance(self.calibrated, bool) else run in self.calibrated


ARGUMENTS = (
    *("place", "server", "interaction", "metric", "series", "statistic", "percentile"),
    *("over", "under", "window", "begin", "end", "when", "meets", "near", "per"),
    *("demand", "least", "each"),
)
Operand = float | Name
"""A number in the value's unit, or a cell: "VALUE @ RUN", or VALUE alone if it has one run."""


class Claim(Table):
    """A direction that the paper claims; exactly one of `less`, `near` and `zero`."""

    says: Name
    """The claim in a sentence."""
    less: tuple[Operand, ...] = ()
    """Each is below the next."""
    by: Above0 = 1.0
    """For less: each, times this factor, is below the next."""
    near: tuple[Operand, ...] = ()
    """The largest is at most (1 + within) times the smallest."""
    within: Number = WITHIN
    zero: tuple[Name, ...] = ()
    """Each is 0 in every replication; a VALUE alone means all its cells."""
    note: str = ""
    """Why it does not hold in ours, or needs many seeds. It is judged and shown like the others, but the tests do not
    require it."""


class Expected(Table):
    paper: Name
    """Short name: rpc-vs-async, lightning, balancers, average."""
    title: Name
    """The name of the figure or table."""
    shows: Name
    """What it shows, in a sentence."""
    seeds: Count = 5
    """Default number of replications: more for rare events."""
    slow: bool = False
    """It takes too long for `make test`; `tailrace reproduce` still runs it."""
    cause: Names = ()
    """What the paper names as the cause of the VLRT, as diagnosis.json calls it. Several: any of them."""
    origin: Name | None = None
    """The tier or server in which the paper says that they began."""
    runs: tuple[Run, ...] = Field(min_length=1)
    crossings: tuple[Crossing, ...] = ()
    values: tuple[Value, ...] = ()
    claims: tuple[Claim, ...] = ()
    panels: tuple[Panel, ...] = ()
    """The drawing in the figure's own form, from top to bottom; a table needs none."""

    def cause_of(self, run: Run) -> tuple[str, ...]:
        return self.cause if run.cause is None else run.cause

    def origin_of(self, run: Run) -> str | None:
        return run.origin or self.origin

    def run(self, name: str) -> Run:
        return next(run for run in self.runs if run.name == name)

    def value(self, name: str) -> Value:
        return next(value for value in self.values if value.name == name)

    def runs_of(self, value: Value) -> tuple[str, ...]:
        """Where it is shown: runs and crossings."""
        return value.run or tuple(run.name for run in self.runs)

    def asked_in(self, value: Value) -> tuple[str, ...]:
        """The runs that must answer it, for its cells and for crossings."""
        crossings = {crossing.name: crossing for crossing in self.crossings}
        shown = self.runs_of(value)
        along = [crossings[name] for name in shown if name in crossings]
        along += [crossing for crossing in self.crossings if crossing.value == value.name]
        between = [run for crossing in along for run in crossing.runs]
        return tuple(dict.fromkeys([*(name for name in shown if name not in crossings), *between]))

    def cells(self, operand: str) -> tuple[tuple[Value, str], ...]:
        """The cells that a claim means by a name; empty if there is no such value or run."""
        named = [value for value in self.values if value.name == operand]
        if named:
            return tuple((named[0], run) for run in self.runs_of(named[0]))
        name, _, run = operand.rpartition(" @ ")
        return tuple((value, run) for value in self.values if value.name == name and run in self.runs_of(value))


def read(folder: Path) -> Expected:
    """Read and check `expected.toml`. Raises InputError with file, key and what it must be."""
    file = folder / FILE
    return check(toml.read(file, GUIDE), file)


def check(table: dict[str, Any], file: Path) -> Expected:
    """The content of `file` as a value."""
    expected = toml.check(Expected, table, file, spot=_spot)
    problem = next(_problems(expected), None)
    if problem:
        raise InputError(file, problem)
    return expected


def changes(run: Run) -> list[str]:
    """A run's changes in the form of `--set`."""
    return [f"{key}={_toml(value)}" for key, value in run.set.items()]


def json_schema() -> dict[str, Any]:
    """The JSON Schema of `expected.toml`, for editors."""
    return Expected.model_json_schema()


def _spot(location: toml.Location) -> toml.Location:
    """Without the parts that pydantic adds for a choice of types."""
    if location[:1] == ("values",):
        inner = [part for part in location[2:] if str(part) in Value.model_fields | When.model_fields]
        return (*location[:2], *inner[: 2 if inner[:1] in (["when"], ["meets"]) else 1])
    return (*location[:2], *location[3:]) if location[:1] == ("panels",) and len(location) > 2 else location


def _problems_of_causes(expected: Expected) -> Iterator[str]:
    of_runs = {f"runs[{number}].cause": run.cause or () for number, run in enumerate(expected.runs)}
    for key, causes in {"cause": expected.cause, **of_runs}.items():
        for cause in causes:
            if cause not in PLAIN:
                yield wrong_name(key, cause, PLAIN, "cause of diagnosis.json")


def _problems(expected: Expected) -> Iterator[str]:
    yield from _problems_of_causes(expected)
    runs_known = [run.name for run in expected.runs]
    values_known = [value.name for value in expected.values]
    places_known = [*runs_known, *(crossing.name for crossing in expected.crossings)]
    for what, names in (("runs and crossings", places_known), ("values", values_known)):
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice:
            yield f"{what} must have different names, got {twice!r} twice"
    for number, crossing in enumerate(expected.crossings):
        if crossing.value not in values_known:
            yield wrong_name(f"crossings[{number}].value", crossing.value, values_known, "value")
        for run in crossing.runs:
            if run not in runs_known:
                yield wrong_name(f"crossings[{number}].runs", run, runs_known, "run")
    for number, value in enumerate(expected.values):
        yield from _problems_of_value(f"values[{number}]", value, places_known, expected)
    for number, claim in enumerate(expected.claims):
        yield from _problems_of_claim(f"claims[{number}]", claim, expected)
    for number, panel in enumerate(expected.panels):
        for run in panel.runs_used():
            if run not in runs_known:
                yield wrong_name(f"panels[{number}].run", run, runs_known, "run")
        for name in panel.values_used():
            if name not in values_known:
                yield wrong_name(f"panels[{number}]", name, values_known, "value")
        if isinstance(panel, Timeline):
            for line in panel.lines:
                problem = drawn.problem(line.series, line.interaction, f"panels[{number}].lines.")
                if problem:
                    yield problem
        if isinstance(panel, Lines):
            yield from _problems_of_lines(f"panels[{number}]", panel, expected)


def _problems_of_value(key: str, value: Value, places_known: list[str], expected: Expected) -> Iterator[str]:
    problem = runs.check(value.measure, value.values, f"{key}.")
    if problem:
        yield problem
        return
    known = UNITS[dimension(value.measure, value.values)]
    if known and value.measure != "level" and value.unit not in known:
        units = ", ".join(f'"{unit}"' for unit in known)
        yield f"{key}.unit must be one of {units} for {value.measure}, got {value.unit!r}"
    for run in value.run:
        if run not in places_known:
            yield wrong_name(f"{key}.run", run, places_known, "run or crossing")
    by_run = [(name, found) for name in ("paper", "note") if isinstance(found := getattr(value, name), dict)]
    if not isinstance(value.calibrated, bool):
        by_run.append(("calibrated", dict.fromkeys(value.calibrated)))
    for name, found in by_run:
        for run in found:
            if run not in expected.runs_of(value):
                yield wrong_name(f"{key}.{name}", run, expected.runs_of(value), "run of this value")
    if isinstance(value.paper, float) and len(expected.runs_of(value)) > 1:
        yield f"{key}.paper must say which run each number is for, like {{ {places_known[0]!r} = {value.paper:g} }}"


def _problems_of_lines(key: str, panel: Lines, expected: Expected) -> Iterator[str]:
    for line in panel.lines:
        for name in line.run or expected.runs_of(expected.value(line.value)):
            place = next((run.set.get(panel.x) for run in expected.runs if run.name == name), None)
            if not isinstance(place, int | float):
                yield f"{key}.x must be a key that every run of the lines sets to a number; {name!r} has {place!r}"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(inner) for inner in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def _problems_of_claim(key: str, claim: Claim, expected: Expected) -> Iterator[str]:
    given = [name for name in ("less", "near", "zero") if getattr(claim, name)]
    if len(given) != 1:
        yield f"{key} must have one of less, near and zero, got {' and '.join(given) or 'none'}"
        return
    operands: tuple[float | str, ...] = getattr(claim, given[0])
    if given[0] != "zero" and len(operands) < 2:
        yield f"{key}.{given[0]} must compare two or more"
    for operand in operands:
        if not isinstance(operand, str):
            continue
        cells = expected.cells(operand)
        if not cells:
            known = [f"{value.name} @ {run}" for value in expected.values for run in expected.runs_of(value)]
            yield wrong_name(f"{key}.{given[0]}", operand, known, "cell")
        elif len(cells) > 1 and given[0] != "zero":
            yield f"{key}.{given[0]} must name one cell, like {operand + ' @ ' + cells[0][1]!r}, got {operand!r}"
