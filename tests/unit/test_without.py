"""What is left of a drawn system's very slow requests without each of its troubles."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tailrace import sim
from tailrace.experiment import from_table
from tailrace.score import drawing, graphs, without
from tailrace.score.sweep import CHAINS, summarise, sweep
from tailrace.score.troubles import TROUBLES, Table


@pytest.mark.parametrize("draw", [drawing.draw, graphs.draw])
def test_nothing_is_left_of_a_trouble_that_is_taken_away_and_all_of_the_others(draw: Callable[[int], Table]) -> None:
    seen = set()
    for seed in range(150):
        table = draw(seed)
        kinds = without.troubles(table)
        seen |= set(kinds)
        for kind in kinds:
            left = without.without(table, {kind})
            assert set(without.troubles(left)) == set(kinds) - {kind}
            sim.lower(from_table(left))
        assert without.without(table, ()) == table == draw(seed)
        assert without.troubles(without.without(table, kinds)) == ()
    assert len(seen) == len(TROUBLES)


@pytest.mark.parametrize(
    ("left", "credit"),
    [
        ({"": 0, "a": 100, "b": 0, "ab": 100}, {"a": 100, "b": 0, "unknown": 0}),  # by a alone
        ({"": 0, "a": 0, "b": 0, "ab": 100}, {"a": 100, "b": 100, "unknown": 0}),  # by both together
        ({"": 0, "a": 100, "b": 100, "ab": 100}, {"a": 100, "b": 100, "unknown": 0}),  # each of them would do
        ({"": 0, "a": 60, "b": 40, "ab": 100}, {"a": 60, "b": 40, "unknown": 0}),  # some by each
        ({"": 90, "a": 100, "b": 92, "ab": 100}, {"a": 10, "b": 2, "unknown": 90}),  # nearly all by neither
    ],
)
def test_a_kind_has_what_is_missed_without_it_or_is_there_with_it_alone(
    left: dict[str, int], credit: dict[str, int]
) -> None:
    """`left` says how many there are with which kinds."""
    found = without.credit(100, ("a", "b"), balancer=False, left=lambda gone: left["".join(sorted({"a", "b"} - gone))])
    assert found == credit


def test_a_diagnosis_is_right_of_no_more_than_are_missed() -> None:
    """A drawn system whose burst is all there is."""
    table = drawing.draw(23_000_112)
    assert without.troubles(table) == ("workload-burst",)
    chains = [{"cause": "workload-burst", "vlrt": 300}, {"cause": "unknown", "vlrt": 23}]
    told = {"threshold_ns": 950_000_000, "episodes": [{"vlrt": 323, "chains": chains}]}
    assert without.right(table, told) == 300
    chains[0]["cause"] = "freeze or workload-burst"
    assert without.right(table, told) == 0


def test_a_sweep_that_simulates_again_does_so_where_an_earlier_one_did_not(tmp_path: Path) -> None:
    seeds = [1, 23_000_397]
    assert summarise(sweep(seeds, tmp_path, systems=CHAINS, processes=1)).right_without is None
    found = summarise(sweep(seeds, tmp_path, systems=CHAINS, again=True, processes=1))
    assert found.right_without is not None
    assert found.right_without == found.counts["vlrt"] > 100
    assert found.right_without_of_runs == 1.0
