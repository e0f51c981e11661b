"""The summary of a replication: what was compared, by paper, and everything that does not agree, with its reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tailrace import foreign
from tailrace.report.plots import number
from tailrace.reproduce.earlier import Figure
from tailrace.reproduce.outcome import Outcome
from tailrace.reproduce.reproduction import Reproduction, Sides
from tailrace.reproduce.tables import mean_and_half
from tailrace.units import format_share

Verdicts = Mapping[Figure, tuple[int, int]]
"""On real servers: the claims that hold, and all that were judged."""
COLUMNS = (
    "claims that hold, simulator",
    "claims that hold, real servers",
    "predicted numbers within a quarter",
    "calibrated numbers within a quarter",
    "runs in which the diagnosis finds the paper's cause",
    "replications of a run",
)
INTRODUCTION = (
    "`make replicate` writes this page. A claim is a direction or a number that a paper states. It is undecided if its",
    "95 % interval contains the border. A single replication has no interval: its value alone decides. Where a paper",
    "says that two things coincide in a drawing, the claim asks for nine of ten, and the paper's number is taken as",
    "100 %. Nothing was fitted to a predicted number, and something was fitted to a calibrated one. Claims on real",
    "servers belong to the figures that one machine can carry, at a smaller scale. README means the page of a figure,",
    "such as `experiments/average/figure-2/README.md`.",
)


def markdown(made: Reproduction, real: Verdicts) -> str:
    rows = [_row(f"**{paper}**", of_paper(made, paper), real) for paper in made.papers]
    figures = [
        _row(f"{one.entry.paper} {one.entry.title}", replace(made, outcomes=(one,), sides=(sides,)), real)
        for one, sides in _pairs(made)
    ]
    undiagnosed = "There are none." if made.diagnosed[1] else "No run was diagnosed."
    lines = [
        "# The papers and Tailrace",
        "",
        *INTRODUCTION,
        "",
        *_table("paper", [*rows, _row("**all**", made, real)]),
        "",
        "## Figures and tables",
        "",
        *_table("figure or table", figures),
        *_section("Claims that do not hold", _open_claims(made.outcomes), "All claims hold."),
        *_section("Predicted numbers that are more than a quarter off", _off(made.outcomes), "There are none."),
        *_section("Runs in which the diagnosis does not find the paper's cause", _missed(made.outcomes), undiagnosed),
    ]
    return "\n".join(lines) + "\n"


def of_paper(made: Reproduction, paper: str) -> Reproduction:
    outcomes, sides = zip(*(pair for pair in _pairs(made) if pair[0].entry.paper == paper), strict=True)
    numbers = {name: found for name, found in made.numbers.items() if name == paper}
    return Reproduction(outcomes, sides, numbers)


def _pairs(made: Reproduction) -> Iterator[tuple[Outcome, Sides | None]]:
    return zip(made.outcomes, made.sides, strict=True)


def _row(name: str, made: Reproduction, real: Verdicts) -> list[str]:
    known = [real.get((one.entry.paper, one.entry.name), (0, 0)) for one in made.outcomes]
    measured = sum(held for held, _ in known), sum(every for _, every in known)
    counts = (made.claims, measured, made.close(calibrated=False), made.close(calibrated=True), made.diagnosed)
    seeds = sorted({count for outcome in made.outcomes for count in outcome.seeds})
    replications = str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    return [name, *(f"{held} of {every}" if every else "none" for held, every in counts), replications]


def _table(heading: str, rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for row in ([heading, *COLUMNS], ["---"] * (1 + len(COLUMNS)), *rows):
        yield "| " + " | ".join(cell(text) for text in row) + " |"


def _section(title: str, rows: Iterator[str], without: str) -> Iterator[str]:
    yield from ("", f"## {title}", "")
    yield from list(rows) or [without]


def _open_claims(outcomes: Sequence[Outcome]) -> Iterator[str]:
    for outcome in outcomes:
        for claim in outcome.claims:
            if claim.verdict != "holds":
                yield _item(outcome, f"{claim.verdict}: {claim.says} {claim.why}")


def _off(outcomes: Sequence[Outcome]) -> Iterator[str]:
    for outcome in outcomes:
        for one in outcome.cells:
            if one.ours.close is False and not one.calibrated and one.paper is not None:
                unit = f" {one.unit}" if one.unit else ""
                ours = " ".join(filter(None, mean_and_half(one.ours.interval)))
                said = f"the paper has {number(one.paper)}{unit}, ours is {ours}{unit}. {one.note}"
                yield _item(outcome, f"{one.value} @ {one.run}: {said}")


def _missed(outcomes: Sequence[Outcome]) -> Iterator[str]:
    for outcome in outcomes:
        for one in outcome.diagnoses:
            if one.verdict == "fails":
                right = format_share(one.share(one.right))
                said = f"the paper names {one.named}; reported for {one.vlrt:,} VLRT: {one.shares}; {right} are right"
                yield _item(
                    outcome,
                    f"{one.run}: {said} by simulating without the cause. Without what the paper names, "
                    f"{one.gone_share} are gone.",
                )


def _item(outcome: Outcome, text: str) -> str:
    return f"- {cell(f'{outcome.entry.paper} {outcome.entry.title}')}, {cell(text)}"


def cell(text: str) -> str:
    return foreign.visible(text).replace("|", "\\|").replace("<", "&lt;")
