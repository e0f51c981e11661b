"""Visits that take as long as each other: by themselves, or because they wait together or in a queue."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ledgers import here
from tailrace.diagnosis.ledger import ahead, places
from tailrace.diagnosis.ledger.alike import each_alone
from tailrace.diagnosis.ledger.excess import is_rare
from tailrace.units import MILLISECOND as MS

APART = np.array([1000, 1350, 1700]) * MS


def alone(begin: np.ndarray, end: np.ndarray, others: np.ndarray) -> list[bool]:
    """Whether each of these long visits takes that long by itself, beside quick visits that came at other times."""
    begins, ends = np.concatenate((begin, others)), np.concatenate((end, others + 4 * MS))
    long = np.arange(len(begins)) < len(begin)
    return each_alone(begins, ends, long)[: len(begin)].tolist()


def test_visits_that_last_alike_although_they_began_apart_take_that_long_by_themselves() -> None:
    assert alone(APART, APART + 2000 * MS, np.arange(100) * 10 * MS) == [True] * 3


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        (APART, np.full(3, 3000) * MS),
        (APART, APART + np.array([2000, 2300, 2600]) * MS),
        (APART[:2], APART[:2] + 2000 * MS),
        (APART // 100 + 1000 * MS, APART // 100 + 3000 * MS),
    ],
    ids=["released together", "in a queue that grows", "only two", "begun together"],
)
def test_other_visits_may_wait_for_each_other(begin: np.ndarray, end: np.ndarray) -> None:
    assert not any(alone(begin, end, np.arange(100) * 10 * MS))


def test_visits_that_came_when_a_slow_one_was_inside_may_wait_behind_it() -> None:
    begins = np.concatenate(([500 * MS], APART))
    ends = np.concatenate(([2400 * MS], APART + 2000 * MS))
    assert not each_alone(begins, ends, np.array([False, True, True, True])).any()


def test_reports_that_begin_apart_hold_all_places() -> None:
    """Three places are held from 1.7 s on. Before that, pages pass; after it, they wait."""
    early, late = np.arange(169) * 10 * MS, 1710 * MS + np.arange(60) * 20 * MS
    begins = np.concatenate((early, late, APART))
    ends = np.concatenate(
        (early + 4 * MS, np.maximum(3000 * MS + np.arange(60) * MS, late) + 4 * MS, APART + 2000 * MS)
    )
    heavy = np.arange(len(begins)) >= len(begins) - 3
    assert places._heavy(here(begins, ends)).tolist() == heavy.tolist()
    assert places._places(here(begins, ends), heavy)[0] == 3


def test_several_of_a_rare_name_at_the_head_of_a_stall_hold_places_though_others_came_a_moment_earlier() -> None:
    """Twenty clients that send nothing come while five pages are on their way to a server with twenty places."""
    pages = np.concatenate(
        (np.arange(700) * 10 * MS, 6995 * MS + np.arange(5) * MS, 7030 * MS + np.arange(290) * 10 * MS)
    )
    silent = 7001 * MS + np.arange(20) * MS
    left = np.where(pages < 6990 * MS, pages + 4 * MS, 10_030 * MS + np.arange(len(pages)) * MS // 10)
    begins, ends = np.concatenate((pages, silent)), np.concatenate((left, silent + 3000 * MS))
    name, labels = (np.arange(len(begins)) >= len(pages)).astype(np.uint32), np.array(["page", "silent"])
    held = replace(here(begins, ends), name=name, labels=labels)
    assert ahead.named(held, held.is_long).tolist() == (name == 1).tolist()


@pytest.mark.parametrize(("in_front", "sure"), [([0, 0, 0], True), ([5, 5, 5], True), ([60, 90, 120], False)])
def test_chance_puts_few_of_a_rare_name_ahead_of_many(in_front: list[int], sure: bool) -> None:
    assert (ahead._far_ahead(np.array(in_front), 0.02) <= 0.01) == sure


def test_many_small_chances_together_are_no_smaller_than_chance_makes_them() -> None:
    """Twenty probabilities that are spread evenly, as chance spreads them, show nothing."""
    assert ahead._all_by_chance((np.arange(20) + 0.5) / 20) > 0.3
    assert ahead._all_by_chance(np.full(3, 0.01)) < 0.001
    assert ahead._all_by_chance(np.array([0.005])) == pytest.approx(0.005)


@pytest.mark.parametrize(
    ("number", "of", "more"), [(1, 1, True), (0, 0, False), (1, 3, False), (2, 3, True), (300, 5000, True)]
)
def test_some_of_many_lulls_are_as_long_as_the_next_by_chance(number: int, of: int, more: bool) -> None:
    assert is_rare(number, 0.05 * of) == more
