"""Calls for which a server stood still."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tailrace.diagnosis.constants import STEP_NS
from tailrace.diagnosis.ledger import stood
from tailrace.units import MILLISECOND as MS

CALM = np.arange(2000) < 900
"""The recording lasts 20 s, and its first 9 s are calm."""


def recorded(*calls: tuple[int, int], stands: bool = True, ends: int = 11_500) -> Any:
    """A page of a server each 20 ms, and its calls (milliseconds). From 10 s on, the server answers nobody until it
    `ends` to stand still."""
    came = np.arange(1000) * 20 * MS
    waits = stands & (came >= 10_000 * MS) & (came < ends * MS)
    left = np.where(waits, ends * MS + 3 * MS, came + 2 * MS)
    sent, back = (np.array(column, dtype=np.int64) * MS for column in zip(*calls, strict=True))
    parent = np.searchsorted(came, sent, "right") - 1
    every = np.arange(1000, 1000 + len(calls))
    return SimpleNamespace(
        server=np.repeat([0, 1], [1000, len(calls)]),
        parent=np.concatenate((np.full(1000, -1), parent)),
        sent=np.concatenate((came, sent)),
        arrival=np.concatenate((came, sent)),
        departure=np.concatenate((left, back)),
        called_by={0: every},
        steps=SimpleNamespace(at=lambda times: np.asarray(times) // STEP_NS),
    )


def test_a_server_that_answers_nobody_while_its_only_call_is_open_waits_for_it() -> None:
    found = stood.still_for(recorded((5_000, 5_001), (10_001, 11_500)), CALM)
    assert np.flatnonzero(found).tolist() == [1001]


@pytest.mark.parametrize(
    "of",
    [
        recorded((10_001, 11_500), stands=False),
        recorded((10_001, 11_500), (10_030, 11_501)),
        recorded((10_001, 10_500)),
        recorded((10_001, 10_060), ends=10_060),
    ],
    ids=[
        "others are answered meanwhile",
        "another call ends at the same time",
        "it stands still for longer than the call lasts",
        "hardly anybody would have been answered",
    ],
)
def test_it_may_wait_for_something_else(of: Any) -> None:
    assert not stood.still_for(of, CALM).any()
