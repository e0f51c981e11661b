"""Twins of real servers' recordings repeat them, from the packets and samples alone."""

from __future__ import annotations

import functools
from pathlib import Path

import polars as pl
import pytest

from tailrace import sim, twin
from tailrace.advise.changing import changed
from tailrace.advise.remedies import silence

HERE = Path(__file__).parent / "real"


@functools.cache
def learnt(name: str) -> twin.Twin:
    return twin.learn(HERE / name)


REPEATED = ("sync", "node-event-loop", "gunicorn-one-worker", "half-requests", "fsync", "uvicorn-own-work")


@pytest.mark.parametrize("name", REPEATED)
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


def test_clients_that_send_half_a_request_are_sent_away() -> None:
    """Two clients sent half a request and held both workers for 2.2 s. A time limit would have freed these early."""
    found = learnt("half-requests").experiment
    (option,) = silence.REMEDY.options(found)
    left = {size: sim.count(changed(found, option.changes(size))).over_1s for size in option.sizes}
    assert sim.count(found).over_1s > 70
    assert min(left.values()) <= 5


def test_a_server_that_lost_attempts_holds_no_more_than_it_held_then() -> None:
    """One worker and a backlog of 1: connections that opened as others closed made five seem to be inside."""
    web = learnt("gunicorn-one-worker").experiment.tiers["gunicorn"]
    assert (web.workers, web.backlog, web.kind) == (1, 1, "sync")


def test_a_refusal_names_inferred_workers() -> None:
    """Waitress had four threads, and kept the others waiting inside: the recording shows how many it held at most."""
    gate = twin.gate(learnt("waitress-threads"), HERE / "waitress-threads")
    assert not gate.passed
    assert all("workers and queue_max of waitress-serve in topology.toml" in row for row in gate.off)


@pytest.mark.parametrize("name", ["node-event-loop", "half-requests", "uvicorn-own-work"])
def test_visits_need_no_more_cpu_time_than_their_listener_used(name: str) -> None:
    """The recorder counts that in CPUs, and the nodes have two."""
    server = learnt(name).demands[0].tier
    use = pl.col("value") * pl.col("interval_ns")
    mine = pl.scan_parquet(HERE / name / "samples.parquet").filter(
        pl.col("place").cast(pl.String).str.contains(":"), pl.col("metric").cast(pl.String) == "cpu_busy"
    )
    used = mine.select(use.sum()).collect().item()
    assert sum(one.visits * one.compute_ns for one in learnt(name).demands if one.tier == server) <= 1.1 * used
