"""What a server loses because many visits are inside follows from its CPU time for each visit."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plans import made
from tailrace.diagnosis import diagnose
from tailrace.diagnosis.ledger.losses.overhead import Curve, _growing, _is_dearer

THREADS = {"free": 1, "slope": 0.5, "power": 0.2}
"""With 40 visits inside, each costs twice as much as alone."""


def system(rate: float, scv: float = 1.0, inflation: dict[str, float] | None = None, *stalls: Any) -> dict[str, Any]:
    """Each page sends three queries of 0.1 ms to a database with one core, over 40 connections."""
    overhead = {"inflation": inflation} if inflation else {}
    return {
        "seed": 1,
        "duration": "30 s",
        "ramp": "3 s",
        "sampling": {"interval": "50 ms"},
        "tiers": {
            "web": {"workers": 60, "backlog": 40, "calls": {"db": {"pool": 40, "kept": False}}},
            "db": {"workers": 80, "backlog": 64, "software": "mysql", **overhead},
        },
        "interactions": {
            "page": {"at": {"web": {"compute": "0.1 ms", "calls": {"query": 3}}}},
            "query": {"at": {"db": {"compute": "0.1 ms", "scv": scv}}},
        },
        "workloads": {"users": {"kind": "poisson", "rate": rate, "interaction": "page", "entry": "web"}},
        "stalls": list(stalls),
    }


def causes(table: dict[str, Any], folder: Path) -> Counter[tuple[str | None, str]]:
    found: Counter[tuple[str | None, str]] = Counter()
    for row in diagnose(made(table, folder / "run")).summary:
        found[row.origin, row.cause] += row.vlrt
    return found


def test_a_queue_in_which_visits_cost_more_is_the_cause_of_its_own_length(tmp_path: Path) -> None:
    """Without the overhead the CPU is half idle. With it, a long queue keeps the CPU full for seconds."""
    found = causes(system(1600, 1.0, THREADS), tmp_path)
    assert set(found) == {("db", "concurrency-overhead")}
    assert found.total() > 10


def test_overhead_shows_where_the_cpu_is_nearly_always_full(tmp_path: Path) -> None:
    """Few visits are done in a sample with a spare CPU. So only full samples show what a visit costs."""
    table = system(560, 1.0, THREADS)
    table["sampling"]["interval"] = "20 ms"
    table["interactions"]["query"]["at"]["db"]["compute"] = "0.3 ms"
    found = causes(table, tmp_path)
    assert set(found) == {("db", "concurrency-overhead")}
    assert found.total() > 1000


def test_overhead_from_the_first_second_on_is_the_cause_of_an_overload_that_lasts(tmp_path: Path) -> None:
    """The time that counts as calm is overloaded, too, so what is usual does not show what the overhead took."""
    found = causes(system(1700, 1.0, THREADS), tmp_path)
    assert found["db", "concurrency-overhead"] > 0.9 * found.total() > 1000


SLOW = {"kind": "slow", "place": "db", "at": "2 s", "for": "60 ms", "every": "200 ms", "left": 0.3}
FREEZE = {"kind": "freeze", "place": "db", "at": "9 s", "for": "700 ms"}
CLOCK = {"kind": "slow", "place": "db", "at": "8 s", "for": "3 s", "left": 0.7}


@pytest.mark.parametrize(
    "table",
    [system(3200, 16), system(2600, 1.0, None, SLOW, FREEZE), system(2600, 1.0, None, CLOCK)],
    ids=["some visits need much", "it is slow for moments", "it is slow for long"],
)
def test_a_queue_that_has_another_reason_shows_no_overhead(table: dict[str, Any], tmp_path: Path) -> None:
    """No monitor records why. Many visits gather in a slow server, which each costs more CPU time."""
    found = causes(table, tmp_path)
    assert found.total() > 10
    assert "concurrency-overhead" not in {cause for _, cause in found}


@pytest.mark.parametrize(
    ("dearest", "by_chance", "expected"),
    [(2.0, 0.05, True), (2.0, 0.4, False), (1.1, 0.05, False)],
    ids=["more than chance", "visits that vary", "a little dearer"],
)
def test_visits_are_dearer_if_chance_explains_less(dearest: float, by_chance: float, expected: bool) -> None:
    assert _is_dearer(np.linspace(1.0, dearest, 100), by_chance) is expected


def test_visits_that_are_dear_only_while_most_are_inside_show_another_reason() -> None:
    assert not _is_dearer(np.repeat([1.0, 3.0], [60, 40]), 0.05)


def test_the_nearest_growing_values_are_means_of_neighbours() -> None:
    assert _growing(np.array([1.0, 3.0, 2.0, 2.0, 5.0, 4.0])).tolist() == pytest.approx(
        [1, 7 / 3, 7 / 3, 7 / 3, 4.5, 4.5]
    )


def test_a_curve_holds_from_its_first_number_on() -> None:
    curve = Curve(np.array([2.0, 10.0]), np.array([1.0, 1.5]))
    assert curve.at(np.array([0.0, 2.0, 9.9, 10.0, 50.0])).tolist() == [1.0, 1.0, 1.0, 1.5, 1.5]
