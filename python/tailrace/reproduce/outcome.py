"""Our results for one figure: every cell with its interval, every claim with its verdict, every drawing with its
data, and what the diagnosis reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tailrace.experiment import Experiment, places
from tailrace.experiment import read as read_experiment
from tailrace.experiment.layout import topology
from tailrace.experiment.workloads import Closed
from tailrace.reproduce import names
from tailrace.reproduce.claims import Judged, judge
from tailrace.reproduce.crossings import crossed
from tailrace.reproduce.diagnoses import Diagnosed, check_origin, summed
from tailrace.reproduce.diagnoses import question as diagnosis
from tailrace.reproduce.expected import WITHIN, Expected, Value, changes
from tailrace.reproduce.panels import Frequency, Timeline
from tailrace.reproduce.shelf import Entry
from tailrace.study.intervals import Interval, interval
from tailrace.study.runs import Job, Question, Runs
from tailrace.topology import Topology
from tailrace.units import SECOND


@dataclass(frozen=True)
class Seeds:
    """How many replications a run gets: `count` instead of the figure's own number, and at `most`. The first has the
    seed `first` instead of the experiment's own, and each further one the next seed."""

    count: int | None = None
    most: int | None = None
    first: int | None = None

    def of(self, own: int) -> int:
        count = self.count or own
        return count if self.most is None else min(count, self.most)

    def give(self, experiment: Experiment, number: int) -> Experiment:
        """The replication `number`, counted from 0."""
        first = experiment.seed if self.first is None else self.first
        return experiment.model_copy(update={"seed": first + number})

    @property
    def options(self) -> str:
        """As the command line takes them."""
        found = {"--seeds": self.count, "--at-most": self.most, "--first-seed": self.first}
        return "".join(f" {name} {count}" for name, count in found.items() if count is not None)


DIAGNOSED = 120 * SECOND
"""A run is diagnosed for so long after its ramp, because a diagnosis and the simulations that judge it take longer than
the run. Stalls of the papers come every 4 to 30 s, so that there are several."""
DIAGNOSED_REQUESTS = 1_000_000
"""A run with more requests in that time is diagnosed for as long as it has about so many, because a diagnosis takes
4 to 5 GB of memory for a million. Of the papers, `balancers` alone has more: table I is diagnosed for 100 s, and
figure 4, whose clients also fetch images, for 50 s."""


@dataclass(frozen=True)
class Ours:
    """The results of the runs for a cell, in its unit."""

    interval: Interval
    ratio: float | None
    """The ratio to the paper's number; None without one, or if it is 0."""
    close: bool | None
    """Within a quarter of the paper's number; None without one."""


@dataclass(frozen=True)
class Cell:
    value: str
    run: str
    measure: str
    unit: str
    paper: float | None
    calibrated: bool
    note: str
    ours: Ours


@dataclass(frozen=True)
class Drawing:
    """The data of a panel: `runs` of distributions (mean counts over replications), or lines of a timeline."""

    distributions: dict[str, list[float]]
    lines: list[dict[str, Any]]


@dataclass(frozen=True)
class System:
    runs: str
    """Their names."""
    topology: Topology
    servers: dict[str, str]
    """The papers' names of its servers."""


@dataclass(frozen=True)
class Outcome:
    """One figure or table."""

    entry: Entry
    expected: Expected
    seeds: tuple[int, ...]
    """The numbers of replications of its runs, each number once, in increasing order."""
    wanted: Seeds
    """How many the caller asked for."""
    cells: tuple[Cell, ...]
    claims: tuple[Judged, ...]
    drawings: tuple[Drawing, ...]
    """One for each panel."""
    diagnoses: tuple[Diagnosed, ...] = ()
    """One for each run, if they were requested."""
    systems: tuple[System, ...] = ()
    """The topologies of its runs, each once, with the names of the runs."""
    first_seed: int = 1
    """The lowest seed of its runs."""

    @property
    def diagnosed(self) -> int:
        """The most replications of a run that were diagnosed."""
        return max((one.replications for one in self.diagnoses), default=0)

    def cell(self, value: str, run: str) -> Cell:
        return next(cell for cell in self.cells if (cell.value, cell.run) == (value, run))


Jobs = Mapping[str, Sequence[Job]]
"""The seeds of each run."""


@dataclass(frozen=True)
class Plan:
    """A figure whose questions are registered; its runs may not exist yet."""

    entry: Entry
    expected: Expected
    jobs: Jobs
    seeds: Seeds
    diagnosed: Jobs
    """Those that are also diagnosed."""


def plan(entry: Entry, expected: Expected, runs: Runs, seeds: Seeds, diagnosed: int = 0) -> Plan:
    """Register every question that the figure needs. So many replications of each run are also `diagnosed`."""
    jobs: dict[str, list[Job]] = {}
    judged: dict[str, list[Job]] = {}
    for run in expected.runs:
        experiment = read_experiment(entry.folder / run.experiment, changes(run))
        check_origin(expected, run, experiment)
        values = [_question(value) for value in expected.values if run.name in expected.asked_in(value)]
        shapes = [question for panel in expected.panels for question in _shapes(panel, run.name)]
        count = seeds.of(run.seeds or expected.seeds)
        for number in range(count):
            asked = [*values, *shapes, *(_timelines(expected, run.name) if number == 0 else ())]
            jobs.setdefault(run.name, []).append(runs.ask(seeds.give(experiment, number), asked))
        part = experiment.model_copy(update={"duration": _diagnosed(experiment)})
        for number in range(min(count, diagnosed)):
            asked = [diagnosis(expected.cause_of(run))]
            judged.setdefault(run.name, []).append(runs.ask(seeds.give(part, number), asked))
    return Plan(entry, expected, jobs, seeds, judged)


def _diagnosed(experiment: Experiment) -> int:
    """The time of a run that is diagnosed. Clients send at most one page and what it embeds in each think time."""
    closed = [load for load in experiment.workloads.values() if isinstance(load, Closed) and load.think]
    per_second = sum(load.clients * (1 + len(load.embedded)) / load.think * SECOND for load in closed)
    longest = min(experiment.duration, DIAGNOSED)
    return min(longest, round(DIAGNOSED_REQUESTS / per_second * SECOND)) if per_second else longest


def _question(value: Value) -> Question:
    return Question.of(value.measure, value.values)


def _shapes(panel: object, run: str) -> list[Question]:
    """Distributions, which need every replication."""
    if not isinstance(panel, Frequency) or (panel.run and run not in panel.run):
        return []
    return [Question.of("histogram", {"edges": panel.bounds(), "place": panel.place})]


def _timelines(expected: Expected, run: str) -> list[Question]:
    """Of the first replication only."""
    panels = [panel for panel in expected.panels if isinstance(panel, Timeline) and panel.run == run]
    return [_line(panel, number) for panel in panels for number in range(len(panel.lines))]


def _line(panel: Timeline, number: int) -> Question:
    line = panel.lines[number]
    span = {"begin": panel.begin, "end": panel.end, "window": panel.window}
    of = {"interaction": line.interaction} if line.interaction else {}
    return Question.of("series", {"series": line.series, "place": line.place, **of, **span})


def outcome(plan: Plan) -> Outcome:
    """The outcome, once its runs exist."""
    expected, jobs = plan.expected, plan.jobs
    replications = _replications(expected, jobs)
    shown = [(value, run) for value in expected.values for run in expected.runs_of(value)]
    return Outcome(
        entry=plan.entry,
        expected=expected,
        seeds=tuple(sorted({len(found) for found in jobs.values()})),
        wanted=plan.seeds,
        cells=tuple(
            _cell(value, run, replications[value.name, run])
            for value, run in shown
            if (value.name, run) in replications
        ),
        claims=tuple(judge(claim, expected, replications) for claim in expected.claims),
        drawings=tuple(_drawing(panel, expected, jobs) for panel in expected.panels),
        diagnoses=tuple(
            summed(expected, run, plan.diagnosed[run.name]) for run in expected.runs if run.name in plan.diagnosed
        ),
        systems=_systems(jobs),
        first_seed=min(job.experiment.seed for found in jobs.values() for job in found),
    )


def _systems(jobs: Jobs) -> tuple[System, ...]:
    systems: list[tuple[list[str], Topology, dict[str, str]]] = []
    for run, found in jobs.items():
        known, servers = topology(found[0].experiment), names.of_papers(found[0].experiment)
        runs = next((runs for runs, *other in systems if other == [known, servers]), None)
        if runs is None:
            systems.append(([run], known, servers))
        else:
            runs.append(run)
    return tuple(System(", ".join(runs), known, servers) for runs, known, servers in systems)


def _replications(expected: Expected, jobs: Jobs) -> dict[tuple[str, str], list[float]]:
    """By value and run, and by value and crossing if it is reached."""
    found = {
        (value.name, run): [job.answers[_question(value).key] * value.scale for job in jobs[run]]
        for value in expected.values
        for run in expected.asked_in(value)
    }
    for crossing in expected.crossings:
        for value in expected.values:
            there = crossed(crossing, value.name, found) if crossing.name in expected.runs_of(value) else None
            if there is not None:
                found[value.name, crossing.name] = there
    return found


def _cell(value: Value, run: str, found: list[float]) -> Cell:
    paper, ours = value.paper_of(run), interval(found)
    ratio = ours.mean / paper if paper else None
    close: bool | None = None
    if paper is not None:
        close = abs(ours.mean - paper) <= WITHIN * abs(paper)
    return Cell(
        value=value.name,
        run=run,
        measure=value.measure,
        unit=value.unit,
        paper=paper,
        calibrated=value.calibrated_in(run),
        note=value.note_of(run),
        ours=Ours(ours, ratio, close),
    )


def _drawing(panel: object, expected: Expected, jobs: Jobs) -> Drawing:
    distributions: dict[str, list[float]] = {}
    lines: list[dict[str, Any]] = []
    if isinstance(panel, Frequency):
        for run in panel.run or tuple(run.name for run in expected.runs):
            [question] = _shapes(panel, run)
            counts = [job.answers[question.key] for job in jobs[run]]
            distributions[run] = [sum(bar) / len(counts) for bar in zip(*counts, strict=True)]
    if isinstance(panel, Timeline):
        job = jobs[panel.run][0]
        known = names.of_papers(job.experiment)
        for number, line in enumerate(panel.lines):
            found = job.answers[_line(panel, number).key]
            own = [known.get(one["label"], one["label"]) for one in found]
            labels = places.numbered(line.label, len(found)) if line.label else own
            lines += [{"series": line.series, **one, "label": label} for one, label in zip(found, labels, strict=True)]
    return Drawing(distributions, lines)
