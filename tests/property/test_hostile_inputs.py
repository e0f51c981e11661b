"""Damaged files through every interface: an answer, or one sentence and exit code 2. `tests/attacks.py` tries
thousands."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attacks import attack
from doors import DOORS, Door

EXPLORING = settings.default.max_examples > 100
SETTINGS = settings(
    max_examples=settings.default.max_examples if EXPLORING else 5, suppress_health_check=list(HealthCheck)
)


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
@SETTINGS
@given(seed=st.integers(0, 2**32))
def test_a_damaged_input_ends_in_an_answer_or_a_sentence(door: Door, seed: int) -> None:
    attack(door, seed)
