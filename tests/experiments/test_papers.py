"""Every figure and table of the papers, run once: the claims hold, and numbers that are far off say why.

One seed, and none of those that say `slow`, so that all of a paper takes about a minute; `tailrace reproduce` judges by
several.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import pytest

from tailrace.reproduce import Outcome, reproduce, shelf

SHELF = Path(__file__).parents[2] / "experiments"
QUICK = [entry for entry in shelf.entries(SHELF) if not entry.read().slow]


@cache
def outcomes(paper: str) -> dict[str, Outcome]:
    """All of a paper at once, since figures share runs."""
    with tempfile.TemporaryDirectory() as folder:
        done = reproduce([entry for entry in QUICK if entry.paper == paper], Path(folder), seeds=1)
    return {outcome.entry.name: outcome for outcome in done.outcomes}


@pytest.mark.parametrize("entry", QUICK, ids=lambda entry: f"{entry.paper}-{entry.name}")
def test_the_papers_claims_hold(entry: shelf.Entry) -> None:
    outcome = outcomes(entry.paper)[entry.name]
    assert outcome.claims
    pairs = zip(outcome.expected.claims, outcome.claims, strict=True)
    demanded = [judged for claim, judged in pairs if not claim.note]
    assert [f"{claim.says} {claim.why}" for claim in demanded if claim.verdict != "holds"] == []
    far = [cell for cell in outcome.cells if cell.ours.close is False]
    assert [f"{cell.value} @ {cell.run}" for cell in far if not cell.note] == [], "say why in `note`"
