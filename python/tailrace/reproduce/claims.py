"""Whether a paper's claim holds in our results: judged by all replications, not only by their means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from tailrace.report.plots import number
from tailrace.reproduce.expected import Claim, Expected
from tailrace.study.intervals import above, interval

Verdict = Literal["holds", "fails", "undecided"]
Replications = Mapping[tuple[str, str], Sequence[float]]
"""By value and run, in the value's unit."""


@dataclass(frozen=True)
class Judged:
    says: str
    verdict: Verdict
    """undecided: the replications differ too much; more seeds could decide it."""
    why: str
    """The compared cells, with our numbers."""


def judge(claim: Claim, expected: Expected, replications: Replications) -> Judged:
    compare = _zero if claim.zero else _near if claim.near else _less
    missing = _missing(claim, expected, replications)
    judged = Judged(claim.says, "undecided", missing) if missing else compare(claim, expected, replications)
    return replace(judged, why=f"{judged.why}. {claim.note}") if claim.note else judged


def _missing(claim: Claim, expected: Expected, replications: Replications) -> str:
    """A sentence about a crossing that no two runs enclose; empty if all exist."""
    names = [name for name in (*claim.less, *claim.near, *claim.zero) if isinstance(name, str)]
    cells = [(value.name, run) for name in names for value, run in expected.cells(name)]
    crossings = {run for value, run in cells if (value, run) not in replications}
    return ", ".join(
        f"{crossing.value} reaches {number(crossing.reaches)} between no two runs of {crossing.name!r}"
        for crossing in expected.crossings
        if crossing.name in crossings
    )


def _less(claim: Claim, expected: Expected, replications: Replications) -> Judged:
    """Pairs of neighbours; the first pair that does not hold decides."""
    verdict: Verdict = "holds"
    count = max(len(found) for found in replications.values())
    operands = [_numbers(operand, expected, replications, count) for operand in claim.less]
    for below, over in pairwise(operands):
        found = above(*_paired(over, [claim.by * number for number in below]))
        if found is not True:
            verdict = "undecided" if found is None else "fails"
            break
    times = f" (by a factor of {claim.by:g})" if claim.by != 1 else ""
    return Judged(claim.says, verdict, " < ".join(_said(*pair) for pair in _pairs(claim.less, operands)) + times)


def _paired(over: Sequence[float], below: Sequence[float]) -> tuple[Sequence[float], Sequence[float]]:
    """Pairs by seed, as far as both have it."""
    count = min(len(over), len(below))
    return over[:count], below[:count]


def _near(claim: Claim, expected: Expected, replications: Replications) -> Judged:
    count = max(len(found) for found in replications.values())
    operands = [_numbers(operand, expected, replications, count) for operand in claim.near]
    means = [interval(numbers).mean for numbers in operands]
    holds = max(means) <= (1 + claim.within) * min(means)
    said = " ≈ ".join(_said(*pair) for pair in _pairs(claim.near, operands))
    return Judged(claim.says, "holds" if holds else "fails", f"{said} (within {claim.within:.0%})")


def _zero(claim: Claim, expected: Expected, replications: Replications) -> Judged:
    cells = [(value.name, run) for operand in claim.zero for value, run in expected.cells(operand)]
    wrong = [cell for cell in cells if any(number != 0 for number in replications[cell])]
    if not wrong:
        return Judged(claim.says, "holds", "0 in every replication: " + ", ".join(" @ ".join(cell) for cell in cells))
    said = ", ".join(_said(" @ ".join(cell), replications[cell]) for cell in wrong)
    return Judged(claim.says, "fails", f"not 0 in every replication: {said}")


def _numbers(operand: float | str, expected: Expected, replications: Replications, count: int) -> Sequence[float]:
    if not isinstance(operand, str):
        return [operand] * count
    [(value, run)] = expected.cells(operand)
    return replications[value.name, run]


def _pairs(
    operands: Sequence[float | str], numbers: Sequence[Sequence[float]]
) -> list[tuple[float | str, Sequence[float]]]:
    return list(zip(operands, numbers, strict=True))


def _said(operand: float | str, numbers: Sequence[float]) -> str:
    return f"{operand} = {number(interval(numbers).mean)}" if isinstance(operand, str) else number(operand)
