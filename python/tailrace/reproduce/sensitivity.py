"""How much hangs on the numbers that a paper does not give: each is changed by a quarter, and the claims are judged
again.

```text
knobs.toml ─▶ a number of a file ─▶ the runs that get it from this file ─▶ the same figures, with 0.75 and 1.25 of it
                                                     verdicts of the claims before and after ─▶ those that change
```
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tailrace.errors import InputError
from tailrace.reproduce import knobs
from tailrace.reproduce.expected import Expected
from tailrace.reproduce.knobs import Number
from tailrace.reproduce.outcome import Outcome, Plan, Seeds, outcome, plan
from tailrace.reproduce.shelf import Entry
from tailrace.reproduce.summary import cell
from tailrace.reproduce.varied import varied
from tailrace.study.engines import Progress
from tailrace.study.runs import Runs

FACTORS = (0.75, 1.25)


@dataclass(frozen=True)
class Changed:
    """What a figure's claims become when one number is changed."""

    number: Number
    factor: float
    entry: Entry
    value: str
    claims: int
    changes: tuple[tuple[str, str, str], ...]
    """Each claim whose verdict changes, with its verdict before and after."""


def vary(
    entries: Sequence[Entry], out: Path, seeds: Seeds, workers: int | None = None, progress: Progress | None = None
) -> list[Changed]:
    """All numbers of the entries' papers that some run of them uses; runs are kept in `out`/runs."""
    runs = Runs(out / "runs")
    plain = [plan(entry, compared(entry.read()), runs, seeds) for entry in entries]
    changed = [
        (number, factor, value, old, new)
        for old in plain
        for number in knobs.read(old.entry.folder.parent)
        for factor in FACTORS
        if number.settable
        and (value := scaled(number.value, factor))
        and (expected := varied(old.entry, old.expected, number.key, old.entry.folder.parent / number.file, value))
        and (new := _planned(old, expected, runs, seeds))
    ]
    runs.make(workers, progress)
    return [
        Changed(number, factor, old.entry, value, *_changes(outcome(old), outcome(new)))
        for number, factor, value, old, new in changed
    ]


def compared(expected: Expected) -> Expected:
    """The figure with nothing but what its claims compare, so that no run is made and nothing is measured for a cell
    or a drawing that no claim needs."""
    names = {name for claim in expected.claims for name in (*claim.less, *claim.near, *claim.zero)}
    cells = [(value.name, run) for name in names if isinstance(name, str) for value, run in expected.cells(name)]
    crossings = tuple(crossing for crossing in expected.crossings if crossing.name in {run for _, run in cells})
    enclosing = {crossing.value for crossing in crossings}
    values = []
    for value in expected.values:
        own = tuple(run for run in expected.runs_of(value) if (value.name, run) in cells)
        # a crossing asks for its value in its runs by itself, but a value without runs would mean all of them
        own = own or (tuple(c.name for c in crossings if c.value == value.name) if value.name in enclosing else ())
        if own:
            values.append(value.model_copy(update={"run": own, "paper": None, "note": "", "calibrated": False}))
    return expected.model_copy(update={"values": tuple(values), "crossings": crossings, "panels": ()})


def _planned(old: Plan, expected: Expected, runs: Runs, seeds: Seeds) -> Plan | None:
    """None if the experiment refuses the value, such as a threshold above the one that must be higher."""
    try:
        return plan(old.entry, expected, runs, seeds)
    except InputError:
        return None


def scaled(value: str, factor: float) -> str:
    """The number with its unit, times the factor; a whole one stays whole and changes by one at least. Empty if it is
    no number, such as the name of a heap."""
    found = knobs.NUMBER.fullmatch(value)
    if found is None:
        return ""
    number, unit = found.groups()
    if "." in number or unit:
        return f"{float(number) * factor:.6g}{unit}"
    whole = int(number)
    changed = round(whole * factor)
    if changed == whole:
        changed += 1 if factor > 1 else -1
    return str(changed) if changed > 0 else ""


def _changes(before: Outcome, after: Outcome) -> tuple[int, tuple[tuple[str, str, str], ...]]:
    pairs = zip(before.claims, after.claims, strict=True)
    found = [(old.says, old.verdict, new.verdict) for old, new in pairs if old.verdict != new.verdict]
    return len(before.claims), tuple(found)


def markdown(found: Sequence[Changed], seeds: Seeds) -> str:
    """A table for each paper, and below it the claims that change."""
    lines = [
        "# How much hangs on the numbers that the papers do not give",
        "",
        f"`tailrace reproduce PAPER --knobs{seeds.options}` writes this page. It changes each number of",
        "`base/knobs.toml` by a quarter, alone, and judges the claims of the figures that use it again. A number that",
        "no run of these figures uses is left out, and so is a value without a number, such as the name of a heap.",
        "With few replications, a claim near its border can change by chance.",
    ]
    for paper in dict.fromkeys(one.entry.paper for one in found):
        of_paper = [one for one in found if one.entry.paper == paper]
        figures = ", ".join(dict.fromkeys(one.entry.title for one in of_paper))
        lines += ["", f"## {paper}", "", f"{figures}:", "", *_table(of_paper), "", *_claims(of_paper)]
    return "\n".join(lines) + "\n"


def _table(found: Sequence[Changed]) -> Iterator[str]:
    yield "| number | value | file | claims that change, with 0.75 of it | with 1.25 of it |"
    yield "| --- | --- | --- | --- | --- |"
    for place in dict.fromkeys(one.number.place for one in found):
        rows = [one for one in found if one.number.place == place]
        counts = []
        for factor in FACTORS:
            own = [one for one in rows if one.factor == factor]
            changes = f"{sum(len(one.changes) for one in own)} of {sum(one.claims for one in own)}"
            counts.append(f"{changes} ({own[0].value})" if own else "none tried")
        first = rows[0].number
        yield "| " + " | ".join(cell(text) for text in (first.key, first.value, first.file, *counts)) + " |"


def _claims(found: Sequence[Changed]) -> Iterator[str]:
    for one in found:
        for says, old, new in one.changes:
            name = f"{one.number.key} = {one.value}, {one.entry.title}"
            yield f"- {cell(name)}: {cell(says)} {old} → {new}"
