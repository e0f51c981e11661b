"""Visits of any times: what holds places is found without a fault, and says no more than it may."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tailrace.diagnosis.ledger import places
from tailrace.units import MILLISECOND

MOMENTS = st.integers(0, 3_000)
VISITS = st.lists(
    st.tuples(MOMENTS, st.integers(0, 2_000), st.sampled_from(("", "page", "report"))), min_size=1, max_size=60
)


@given(VISITS, st.integers(0, 3), st.booleans(), st.booleans())
def test_any_visits(drawn: list[tuple[int, int, str]], known: int, own: bool, orphan: bool) -> None:
    begin = np.array([visit[0] for visit in drawn]) * MILLISECOND
    end = begin + np.array([visit[1] for visit in drawn]) * MILLISECOND
    labels, name = np.unique([visit[2] for visit in drawn], return_inverse=True)
    flag = np.full(len(drawn), own)
    work = (end - begin).astype(float)
    orphans = np.full(len(drawn), orphan)
    rows = np.arange(len(drawn))
    no = np.zeros(len(drawn), dtype=bool)
    here = places.Here(rows, begin, begin, end, work, work, name, labels, orphans, flag, ~flag, no, no, known, no, no)
    heavy = places._heavy(here)
    assert not (heavy & ~here.is_long).any(), "a short visit did not take long"
    if heavy.any():
        held = places._held(here, heavy)
        assert (held.begin <= held.end).all()
        assert (held.start <= end).all()
        assert 0 <= held.most <= heavy.sum()
        assert held.places == known or not known
