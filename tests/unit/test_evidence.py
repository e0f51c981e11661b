"""Laws of the interval arithmetic, against a naive bitmap, and of coverage, lift and the permutation test."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.diagnosis.evidence import coverage, fit, lift, p_value
from tailrace.diagnosis.spans import clip, complement, contains, length, overlap, spans, union

rows = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=8)


def bitmap(table: np.ndarray, size: int = 64) -> np.ndarray:
    bits = np.zeros(size, dtype=bool)
    for begin, end in table.tolist():
        bits[begin:end] = True
    return bits


@given(rows)
def test_spans_are_sorted_disjoint_and_cover_the_same(given_rows: list[tuple[int, int]]) -> None:
    table = spans(given_rows)
    expected = np.zeros(64, dtype=bool)
    for begin, end in given_rows:
        expected[begin:end] = True
    assert (bitmap(table) == expected).all()
    assert (np.diff(table.ravel()) > 0).all()


@given(rows, st.integers(0, 60), st.integers(0, 60))
def test_overlap_complement_and_clip_agree_with_counting(
    given_rows: list[tuple[int, int]], begin: int, end: int
) -> None:
    begin, end = min(begin, end), max(begin, end)
    table = spans(given_rows)
    bits = bitmap(table)
    assert int(overlap(table, begin, end)[0]) == int(bits[begin:end].sum())
    assert length(clip(table, begin, end)) == int(bits[begin:end].sum())
    rest = complement(table, begin, end)
    assert length(rest) == (end - begin) - int(bits[begin:end].sum())
    assert (contains(table, np.arange(64)) == bits).all()


def test_coverage_is_the_share_of_the_stall() -> None:
    assert coverage(spans([(0, 50), (80, 90)]), 0, 100) == pytest.approx(0.6)


def test_lift_is_the_ratio_of_rates_inside_and_outside() -> None:
    evidence, stalls = spans([(0, 50), (500, 550)]), spans([(0, 100)])
    assert lift(evidence, stalls, (0, 1000), 1) == pytest.approx((50 / 100) / (50 / 900))


def test_evidence_never_seen_outside_counts_there_once() -> None:
    assert lift(spans([(0, 100)]), spans([(0, 100)]), (0, 1000), 10) == pytest.approx(1.0 / (10 / 900))


def test_a_lift_without_an_outside_is_not_computable() -> None:
    assert lift(spans([(0, 10)]), spans([(0, 100)]), (0, 100), 1) is None
    assert p_value(spans([(0, 10)]), spans([(0, 100)]), (0, 100)) is None


def test_chance_explains_what_is_everywhere_and_not_what_is_only_in_the_stall() -> None:
    stalls = spans([(500, 510)])
    assert p_value(spans([(0, 1000)]), stalls, (0, 1000)) == 1.0
    assert (p_value(spans([(500, 510)]), stalls, (0, 1000)) or 1) <= 0.01


def test_the_permutation_test_repeats_itself() -> None:
    evidence, stalls = spans([(100, 300), (600, 700)]), spans([(120, 180), (620, 650)])
    assert p_value(evidence, stalls, (0, 1000)) == p_value(evidence, stalls, (0, 1000))


def test_the_lead_is_that_of_the_interval_that_covers_most() -> None:
    measured = fit(spans([(80, 102), (110, 200)]), (100, 200), spans([(100, 200)]), spans([(0, 1000)]), 1)
    assert (measured.lead_ns, measured.begin, measured.end) == (-10, 110, 200)
    assert measured.coverage == pytest.approx(0.92)


def test_a_short_gap_does_not_make_evidence_late() -> None:
    evidence = spans([(98, 130), (135, 200)])
    measured = fit(evidence, (100, 200), spans([(100, 200)]), spans([(0, 1000)]), 1)
    assert (measured.lead_ns, measured.begin, measured.end) == (2, 98, 200)


def test_what_lasts_after_a_stall_is_not_counted_as_chance() -> None:
    """A burst at each of two stalls, and its backlog for five times as long."""
    stalls = spans([(100, 150), (500, 550)])
    backlog = spans([(100, 400), (500, 800)])
    calm = spans([(0, 90), (410, 490), (810, 1000)])
    whole = fit(backlog, (100, 150), stalls, spans([(0, 1000)]), 1)
    counted = fit(backlog, (100, 150), stalls, union([calm, stalls]), 1)
    assert whole.lift == pytest.approx(1.8)
    assert whole.p_value is not None
    assert whole.p_value > 0.2
    assert counted.lift == pytest.approx(360)
    assert counted.p_value is not None
    assert counted.p_value < 0.05
