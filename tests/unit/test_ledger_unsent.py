"""Visits that gave up while they waited for a connection."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from tailrace.diagnosis.ledger import unsent

MS = 1_000_000


def recorded(failed: list[int]) -> Any:
    """Three pages with a call each; a page without a call, a short page without one, and a picture that needs none."""
    starts, lasts = np.array([0, 10, 20, 30, 40, 50, 2, 12, 22]) * MS, np.array([9, 9, 9, 1000, 5, 1000, 3, 3, 3]) * MS
    parent = np.array([-1] * 6 + [0, 1, 2])
    return SimpleNamespace(
        number={"web": 0, "app": 1},
        server=np.array([0] * 6 + [1] * 3),
        group=np.array([0] * 5 + [1] + [2] * 3),
        groups=3,
        parent=parent,
        start=starts,
        departure=starts + lasts,
        failed=np.isin(np.arange(9), failed),
    )


def test_a_failed_visit_without_its_usual_call_waited_for_a_connection() -> None:
    pools: Any = SimpleNamespace(of={("web", "app"): 0})
    found = unsent.pauses(recorded([3, 4, 5]), pools)
    assert found is not None
    assert (found.visits.tolist(), found.lasts.tolist(), found.late.tolist()) == ([3], [1000 * MS], [False])
    assert unsent.pauses(recorded([4, 5]), pools) is None, "it had an answer"


def test_without_a_pool_nothing_waits_for_a_connection() -> None:
    pools: Any = SimpleNamespace(of={})
    assert unsent.pauses(recorded([3]), pools) is None
