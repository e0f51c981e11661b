"""Overloads that last for a whole recording in which nothing was dropped."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl

from tailrace.diagnosis import lasting
from tailrace.diagnosis.queues import Stays
from tailrace.units import MILLISECOND as MS


def view(arrival: np.ndarray, departure: np.ndarray) -> Any:
    visits = pl.LazyFrame({"server": ["app"] * len(arrival), "arrival": arrival, "departure": departure})
    return SimpleNamespace(kept=lambda _: 1.0, visits=visits, stays={"app": Stays.of(arrival, np.sort(departure))})


def in_line(came: np.ndarray, service: int) -> np.ndarray:
    """When each visit leaves a server that serves one after the other."""
    left, free = np.empty_like(came), -2000 * MS
    for i, now in enumerate(came.tolist()):
        left[i] = free = max(free, now, 0) + service
    return left


def test_a_queue_that_makes_visits_wait_the_longer_it_is_has_a_place() -> None:
    random = np.random.default_rng(5)
    came = np.concatenate((np.zeros(50, dtype=np.int64), np.sort(random.integers(0, 20_000, 850)))) * MS
    found = lasting.crowded(view(came, in_line(came, 25 * MS)), "app")
    assert found is not None
    assert "took longer: app was overloaded" in found.sentence


def test_visits_that_each_take_as_long_show_no_overload_however_many_are_inside() -> None:
    came = np.sort(np.random.default_rng(5).integers(0, 20_000, 800)) * MS
    assert lasting.crowded(view(came, came + 1200 * MS), "app") is None


def test_a_server_that_is_idle_for_a_part_of_the_time_is_not_overloaded_all_the_time() -> None:
    came = np.concatenate((np.arange(400) * 20, 8000 + np.arange(400) * 50)) * MS
    assert lasting.crowded(view(came, in_line(came, 25 * MS)), "app") is None


def test_few_visits_show_nothing() -> None:
    came = np.zeros(10, dtype=np.int64)
    assert lasting.crowded(view(came, in_line(came, 100 * MS)), "app") is None
