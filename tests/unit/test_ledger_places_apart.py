"""Visits that hold places, and do not begin and end together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ledgers import here
from tailrace.diagnosis.ledger import ahead, places
from tailrace.units import MILLISECOND as MS


def test_the_first_that_was_released_lets_others_go_on() -> None:
    """Four clients read slowly for a second each, and hold all workers from the last one on. When the first one is
    ready, the others of the queue pass one by one, long before the last one leaves."""
    pages = np.arange(460) * 10 * MS
    before, during = pages[:412], pages[412:]
    slow = 4000 * MS + np.arange(4) * 40 * MS + 1 * MS
    ends = np.concatenate((before + 4 * MS, 5005 * MS + np.arange(len(during)) * 4 * MS, slow + 1000 * MS))
    came = np.concatenate((pages, slow))
    name, labels = (np.arange(len(came)) >= len(pages)).astype(np.uint32), np.array(["page", "export"])
    held = replace(here(came, ends), name=name, labels=labels)
    assert places._heavy(held).nonzero()[0].tolist() == list(range(len(pages), len(came)))
    # If the last one alone kept the others waiting, they would have waited for it.
    assert ahead.first_released(slow, slow + 1000 * MS).tolist() == [int(slow[0] + 1000 * MS)] * 4
    assert ahead.first_released(slow, slow).tolist() == slow.tolist(), "without a length"
    assert ahead.first_released(slow, slow + 10 * MS).tolist() == (slow + 10 * MS).tolist(), "one after the other"


def test_as_many_as_leave_together_may_be_the_number_of_places() -> None:
    """Three workers serve nine slow visits, three at a time. They came within 100 ms, so nine were inside at once."""
    usual, later = np.arange(100) * 10 * MS, 1110 * MS + np.arange(60) * 10 * MS
    slow = 1000 * MS + np.arange(9) * 10 * MS
    left = 1000 * MS + 500 * MS * (1 + np.arange(9) // 3) + np.arange(9) % 3 * 10 * MS
    waited = np.maximum(left.max() + 4 * MS + np.arange(60) * 2 * MS, later + 4 * MS)
    came, end = np.concatenate((usual, slow, later)), np.concatenate((usual + 4 * MS, left, waited))
    heavy = np.isin(np.arange(len(came)), np.arange(100, 109))
    found, begin = places._places(here(came, end), heavy)
    assert found == 3
    assert ((end - begin)[heavy] // MS == 500).all()


def test_two_that_overlap_for_a_moment_held_nobody_up() -> None:
    """Pages pass all the time. One export leaves right after the next one came."""
    pages = np.arange(600) * 10 * MS
    slow = np.array([2001, 2991]) * MS
    came, end = np.concatenate((pages, slow)), np.concatenate((pages + 4 * MS, slow + 1000 * MS))
    name, labels = (np.arange(len(came)) >= len(pages)).astype(np.uint32), np.array(["page", "export"])
    held = replace(here(came, end), name=name, labels=labels)
    assert not ahead.named(held, held.is_long).any()
