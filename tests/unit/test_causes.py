"""Every cause: a case that it must find, one that it must not, and one that looks like it but is something else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from builders import T0, requests, run, visits
from systems import NX1, NX3, Memory, Slow, Tier, cause, starved, system
from tailrace.diagnosis import CauseEvidence, Diagnosis, diagnose
from tailrace.diagnosis.tables import look
from tailrace.topology import Node, Server


def evidence(diagnosis: Diagnosis, name: str) -> CauseEvidence:
    episode = max(diagnosis.episodes, key=lambda e: e.vlrt)
    return next(c for c in episode.causes if c.cause == name)


@cache
def stopped() -> Memory:
    """app stands still and uses no CPU, 4.0 to 4.6 s."""
    return system(Slow("app", 4.0, 4.6))


@cache
def db_stopped() -> Memory:
    return system(Slow("db", 4.0, 4.6))


@cache
def db_waits() -> Memory:
    """db stands still, waiting for its disk."""
    return db_stopped().sample("db", "psi_io", 0.01, (4.0, 4.6, 1.0))


@cache
def burning() -> Memory:
    """app answers nothing while its CPU is saturated, 4.0 to 4.6 s."""
    return system(Slow("app", 4.0, 4.6, cpu=1.0, always=True))


@cache
def burst() -> Memory:
    """Five times as many requests, 4.0 to 4.4 s."""
    return system(bursts=((4.0, 4.4, 2500),))


def beside_other_work() -> Memory:
    """A burst at a server that receives little else, and whose CPU is 5 % busy with something else."""
    memory = system(tiers=(Tier("app", 2.0, (), 60, 40),), bursts=((3.5, 5.0, 900),), rate=20)
    more = pl.when(metric="cpu_busy").then((pl.col("value") + 0.05).clip(upper_bound=1.0)).otherwise(pl.col("value"))
    return replace(memory, tables={**memory.tables, "samples": memory.tables["samples"].with_columns(value=more)})


def slow_clock() -> Memory:
    """app's core runs at half its clock rate, 4.0 to 4.8 s, and is saturated by the usual load."""
    return system(Slow("app", 4.0, 4.8, speed=0.5, cpu=1.0), rate=600)


def often_slow_clock(place: str = "app") -> Memory:
    """app's clock is at half its rate for 0.3 s every 0.6 s: then all connections of web are in use, and web, which
    overflows, seems to fill first."""
    tiers = (Tier("web", 0.2, ("app",), 30, 25, pool=30), Tier("app", 1.2, ("db",), 80, 128), Tier("db", 0.3))
    short = [(at, at + 0.3) for at in (0.4, 1.0, 1.6, 2.2, 6.2, 6.8, 7.4, 8.0, 8.6, 9.2, 9.8, 10.4, 11.0)]
    steps = [*short, (4.0, 4.8)]
    memory = system(*(Slow("app", *step, speed=0.5, cpu=1.0) for step in steps), tiers=tiers, rate=600)
    return memory.sample(place, "cpu_hz", 2.2e9, *((*step, 1.1e9) for step in steps))


def often_throttled() -> Memory:
    """app's quota withholds the CPU for half of 0.1 s every 0.4 s, and for half of a second."""
    steps = [*((n * 0.4, n * 0.4 + 0.1) for n in range(30) if n not in (10, 11, 12)), (4.0, 5.0)]
    tiers = (Tier("web", 0.2, ("app",)), Tier("app", 1.2, (), 40, 20))
    memory = system(*(Slow("app", *step, speed=0.5, cpu=0.5) for step in steps), tiers=tiers, rate=520)
    return memory.sample("app", "cpu_throttled", 0.0, *((*step, 0.5) for step in steps))


POOLED = (Tier("web", 0.2, ("app",), 60, 40), Tier("app", 0.4, ("db",), 80, 128, pool=2), Tier("db", 0.2, delay_ms=4))
WIDE = (Tier("web", 0.1, ("app",)), Tier("app", 1.2, ("db",)), Tier("db", 0.2))
CROWDED = (Tier("web", 0.2, ("app",), 200, 100), Tier("app", 1.0, ("db",), 300, 128, inflation=0.01), Tier("db", 0.2))


def in_front_of_db() -> Memory:
    """200 requests at once fill web, which could serve them, and wait there for db, which cannot."""
    tiers = (Tier("web", 0.1, ("app",), 60, 40, pool=20), Tier("app", 0.1, ("db",)), Tier("db", 2.0))
    return system(tiers=tiers, bursts=((4.0, 4.02, 10_000),), rate=200)


def quiet_clock(memory: Memory) -> Memory:
    return memory.sample("app", "cpu_hz", 2.2e9)


FOUND: dict[str, tuple[str, Callable[[], Memory]]] = {
    "a pause over the stall": ("garbage-collection", lambda: burning().event("app", "gc", 4.0, 4.6)),
    "a pause of a log that does not say whose": ("garbage-collection", lambda: burning().event("jvm", "gc", 4.0, 4.6)),
    "gc_share samples": ("garbage-collection", lambda: burning().sample("app", "gc_share", 0.01, (4.0, 4.6, 1.0))),
    "a heap dump over the stall": ("safepoint", lambda: burning().event("app", "safepoint", 4.0, 4.6)),
    "half the clock rate": ("frequency-step", lambda: slow_clock().sample("app", "cpu_hz", 2.2e9, (4.0, 4.8, 1.1e9))),
    "half the clock rate, as it often is for a shorter time": ("frequency-step", often_slow_clock),
    "a clock rate at which hardly anything is answered at first": (
        "frequency-step",
        lambda: system(Slow("app", 4.0, 4.3, speed=0.15, cpu=1.0), rate=600).sample(
            "app", "cpu_hz", 2.2e9, (4.0, 4.3, 0.33e9)
        ),
    ),
    "half the clock rate of a CPU that others use a little": (
        "frequency-step",
        lambda: (
            system(Slow("app", 4.0, 4.8, speed=0.5, cpu=0.8), rate=600)
            .sample("app", "cpu_hz", 2.2e9, (4.0, 4.8, 1.1e9))
            .sample("app", "psi_cpu", 0.1, (4.0, 4.8, 1.0))
        ),
    ),
    "another cgroup": ("neighbour", lambda: starved().sample("tenant", "cpu_busy", 0.01, (4.0, 4.8, 0.8))),
    "the hypervisor": ("neighbour", lambda: starved().sample("app", "cpu_steal", 0.0, (4.0, 4.8, 0.8))),
    "bytes handed over at once": (
        "log-flush",
        lambda: (
            db_waits()
            .sample("db", "dirty_bytes", 1e6, (4.0, 4.05, 2e7))
            .sample("db", "writeback_bytes", 0, (4.05, 4.6, 2e7))
        ),
    ),
    "bytes that go to the disk at once, beside others' dirty pages": (
        "log-flush",
        lambda: db_waits().sample("host", "dirty_bytes", 1.5e7).sample("host", "writeback_bytes", 0, (4.0, 4.6, 1.8e7)),
    ),
    "bytes that are dirty for a moment only, on top of others'": (
        "log-flush",
        lambda: (
            db_waits()
            .sample("host", "dirty_bytes", 1.5e7, (4.1, 4.2, 1.8e7), (4.3, 4.35, 1.8e7))
            .sample("host", "writeback_bytes", 0, (4.0, 4.6, 4e6))
        ),
    ),
    "a recorded flush": ("log-flush", lambda: db_stopped().event("db", "log_flush", 4.0, 4.6)),
    "pages gathered over seconds": (
        "writeback",
        lambda: (
            db_stopped()
            .sample("db", "cpu_iowait", 0.01, (4.0, 4.6, 1.0))
            .ramp("db", "dirty_bytes", (0, 1e6), (4.0, 2e7), (4.6, 1e6), (9, 1e7))
        ),
    ),
    "gathered pages while others on the host write": (
        "writeback",
        lambda: (
            db_waits()
            .ramp("host", "dirty_bytes", (0, 1e6), (4.0, 2e7), (4.05, 1.75e7), (12, 5e7))
            .sample("host", "writeback_bytes", 0, (4.0, 4.6, 2.5e6))
        ),
    ),
    "only the host's writeback": (
        "writeback",
        lambda: (
            db_stopped()
            .ramp("host", "dirty_bytes", (0, 1e6), (4.0, 2e7), (4.6, 1e6), (9, 1e7))
            .sample("host", "writeback_bytes", 0, (4.0, 4.6, 2e7))
        ),
    ),
    "five times the arrivals": ("workload-burst", burst),
    "arrivals that wait in front of a full server": ("workload-burst", in_front_of_db),
    "a batch that came just before a slow clock is felt": (
        "workload-burst",
        lambda: system(Slow("app", 3.9, 4.6, speed=0.8, cpu=1.0), bursts=((4.0, 4.02, 12000),), rate=300).sample(
            "app", "cpu_hz", 2.2e9, (3.9, 4.6, 1.76e9)
        ),
    ),
    "a burst where a CPU is mostly used for other things": ("workload-burst", beside_other_work),
    "arrivals without samples": ("workload-burst", lambda: burst().without("samples")),
    "a burst at a full pool with idle hardware": (
        "workload-burst",
        lambda: system(tiers=POOLED, bursts=((4.0, 4.6, 1000),), rate=200),
    ),
    "throttled": ("cpu-quota", lambda: starved().sample("app", "cpu_throttled", 0.01, (4.0, 4.8, 0.8))),
    "throttled in the second half of each period": (
        "cpu-quota",
        lambda: starved().sample(
            "app", "cpu_throttled", 0.0, *((4.05 + n / 10, 4.1 + n / 10, 0.9) for n in range(8)), step_ms=50
        ),
    ),
    "throttled as often when no request waits": ("cpu-quota", often_throttled),
    "no CPU and no answer": ("freeze", stopped),
    "a recorded freeze": ("freeze", lambda: stopped().without("samples").event("app", "freeze", 4.0, 4.6)),
}

OTHER: dict[str, tuple[str, Callable[[], Memory]]] = {
    # negative: the stall exists, but the evidence is elsewhere or nowhere
    "pauses at other times": ("garbage-collection", lambda: burning().event("app", "gc", 8.0, 8.6)),
    "another server's pause": ("garbage-collection", lambda: burning().event("db", "gc", 4.0, 4.6)),
    "a heap dump at another time": ("safepoint", lambda: burning().event("app", "safepoint", 8.0, 8.6)),
    "full clock rate": ("frequency-step", lambda: quiet_clock(burning())),
    "a neighbour busy later": ("neighbour", lambda: starved().sample("tenant", "cpu_busy", 0.01, (6.0, 6.8, 0.8))),
    "no steal": ("neighbour", lambda: starved().sample("app", "cpu_steal", 0.0)),
    "a disk at rest": ("log-flush", lambda: db_stopped().sample("db", "psi_io", 0.01)),
    "dirty pages that stay": ("writeback", lambda: db_stopped().ramp("db", "dirty_bytes", (0, 1e6), (12, 3e7))),
    "the usual arrivals": ("workload-burst", stopped),
    "as fast when fuller": ("concurrency-overhead", burst),
    "one server of its kind": ("balancer", stopped),
    "a pool with room": ("soft-resource", lambda: stopped().sample("app", "pool_in_use", 3.0)),
    "not throttled": ("cpu-quota", lambda: starved().sample("app", "cpu_throttled", 0.01)),
    "a little CPU": ("freeze", starved),
    # confusable: it looks like this cause and is not
    "short young collections": (
        "garbage-collection",
        lambda: starved().event("app", "gc", 4.1, 4.12).event("app", "gc", 4.5, 4.52).event("app", "gc", 7.0, 7.02),
    ),
    "a heap dump after the stall had begun": ("safepoint", lambda: stopped().event("app", "safepoint", 4.45, 5.2)),
    "a collection caused by the backlog": ("garbage-collection", lambda: stopped().event("app", "gc", 4.45, 5.2)),
    "collections all the time": (
        "garbage-collection",
        lambda: burning().sample("app", "gc_share", 0.7),
    ),
    "a slow clock in idle time": (
        "frequency-step",
        lambda: stopped().sample("app", "cpu_hz", 2.2e9, (0.0, 3.0, 1.1e9), (8.0, 12.0, 1.1e9)),
    ),
    "a tenant on another core": (
        "neighbour",
        lambda: burning().sample("tenant", "cpu_busy", 0.01, (4.0, 4.6, 0.8)),
    ),
    "the core that contains it": ("neighbour", lambda: _core(burst())),
    "gathered pages are no log": (
        "log-flush",
        lambda: (
            db_stopped()
            .sample("db", "cpu_iowait", 0.01, (4.0, 4.6, 1.0))
            .ramp("db", "dirty_bytes", (0, 1e6), (4.0, 2e7), (4.6, 1e6), (9, 1e7))
        ),
    ),
    "a log is not gathered pages": (
        "writeback",
        lambda: (
            db_waits()
            .sample("db", "dirty_bytes", 1e6, (4.0, 4.05, 2e7))
            .sample("db", "writeback_bytes", 0, (4.05, 4.6, 2e7))
        ),
    ),
    "packets that come back together": ("workload-burst", lambda: system(Slow("app", 4.0, 5.5))),
    "a burst that full speed would serve": (
        "workload-burst",
        lambda: system(Slow("app", 3.9, 5.0, speed=0.3, cpu=1.0), bursts=((4.0, 5.0, 780),), rate=200).sample(
            "app", "cpu_hz", 3e9, (3.9, 5.0, 0.9e9)
        ),
    ),
    "a collection while the queue is long already": (
        "concurrency-overhead",
        lambda: system(Slow("app", 4.6, 5.0, cpu=1.0, always=True), bursts=((4.0, 4.9, 1400),), rate=300, tiers=WIDE),
    ),
    "a collection with a long queue": ("concurrency-overhead", lambda: burning().event("app", "gc", 4.0, 4.6)),
    "a slow server behind a pool": (
        "soft-resource",
        lambda: system(
            Slow("db", 4.0, 4.6),
            tiers=(Tier("web", 0.2, ("app",), 60, 40), Tier("app", 0.4, ("db",), 80, 128, pool=20), Tier("db", 0.3)),
        ),
    ),
    "a pool in front of a CPU that two servers fill together": ("soft-resource", lambda: shared_cpu()),
    "throttled a little all the time": ("cpu-quota", lambda: starved().sample("app", "cpu_throttled", 0.15)),
    "a collection uses up the quota": ("cpu-quota", lambda: burning().sample("app", "cpu_throttled", 0, (4, 4.6, 0.2))),
    "waiting for the disk": ("freeze", lambda: db_waits()),
}


def shared_cpu() -> Memory:
    """app and a tenant, which has as much as usual, fill the CPU of their node."""
    memory = system(tiers=POOLED, bursts=((4.0, 4.6, 1000),), rate=200).sample("tenant", "cpu_busy", 0.85)
    servers = (*memory.topology.servers, Server(name="tenant", node="app-node"))
    return Memory(memory.topology.model_copy(update={"servers": servers}), memory.tables)


def _core(memory: Memory) -> Memory:
    """A core that app does not share: its utilisation is app's own, and slightly more."""
    import polars as pl

    own = memory.tables["samples"].filter(pl.col("place") == "app", pl.col("metric") == "cpu_busy")
    core = own.with_columns(place=pl.lit("core1"), value=pl.col("value") + 0.02)
    return Memory(
        memory.topology, {**memory.tables, "samples": pl.concat([memory.tables["samples"], core]).sort("time")}
    )


@pytest.mark.parametrize("case", FOUND, ids=str)
def test_a_cause_is_found_by_its_evidence(case: str) -> None:
    expected, make = FOUND[case]
    diagnosis = diagnose(make())
    assert cause(diagnosis) == expected
    found = evidence(diagnosis, expected)
    assert found.verdict == "found"
    assert found.share is not None
    assert found.share >= 0.5


@pytest.mark.parametrize("case", OTHER, ids=str)
def test_a_lookalike_of_a_cause_is_not_reported(case: str) -> None:
    wrong, make = OTHER[case]
    diagnosis = diagnose(make())
    assert wrong not in cause(diagnosis)
    assert (evidence(diagnosis, wrong).share or 0.0) <= 0.5


def test_a_burst_that_a_clock_rate_never_reached_would_have_served_is_no_cause() -> None:
    seen = burst().sample("app", "cpu_hz", 1.1e9)
    assert cause(diagnose(seen)) == "workload-burst"
    assert cause(diagnose(seen.sample("app", "cpu_hz_max", 4.4e9))) == "frequency-step"


def test_a_burst_is_the_cause_at_a_server_that_is_slower_the_fuller_it_is() -> None:
    diagnosis = diagnose(system(tiers=CROWDED, bursts=((4.0, 4.5, 1500), (4.5, 20, 60)), rate=300))
    assert cause(diagnosis) == "workload-burst"


def test_no_stall_is_reported_if_most_requests_are_very_slow() -> None:
    diagnosis = diagnose(system(Slow("db", 6.0, 6.9), tiers=NX3, rate=900))
    assert diagnosis.vlrt > diagnosis.requests / 2
    assert {e.cause for e in diagnosis.episodes} == {"unknown"}


def test_no_stall_is_reported_for_requests_long_after_it() -> None:
    """db stands still for 0.3 s, and app receives more than it can serve from then to the end."""
    memory = system(Slow("db", 4.0, 4.3), bursts=((4.3, 30.0, 1000),), seconds=30.0)
    late = [e for e in diagnose(memory).episodes if e.end > memory.tables["requests"]["sent"][0] + 20_000_000_000]
    assert late
    assert all(e.cause != "freeze" for e in late)


def test_two_simultaneous_causes_are_a_tie() -> None:
    memory = starved().sample("tenant", "cpu_busy", 0.01, (4.0, 4.8, 0.8)).event("app", "gc", 4.0, 4.8)
    found = diagnose(memory)
    assert {row.cause for row in found.summary} == {"neighbour", "garbage-collection"}
    assert all(0.3 <= (evidence(found, name).share or 0.0) <= 0.7 for name in ("neighbour", "garbage-collection"))


def test_two_stalls_one_after_the_other_have_a_share_each() -> None:
    """A collection of app, 4.0 to 4.4 s; in its last moments db stops, until 5.2 s."""
    tiers = (Tier("web", 0.2, ("app",), 60, 40), Tier("app", 1.2, ("db",), 80, 128, pool=30), Tier("db", 0.3))
    memory = system(Slow("app", 4.0, 4.4, cpu=1.0, always=True), Slow("db", 4.35, 5.2), tiers=tiers)
    diagnosis = diagnose(memory.event("app", "gc", 4.0, 4.4))
    assert {row.cause for row in diagnosis.summary} == {"garbage-collection", "freeze"}, "either is enough"


def test_a_collection_without_any_answer_is_a_cause_however_frequent() -> None:
    short = [at / 10 for at in (*range(5, 35, 4), *range(60, 110, 4))]  # too short for a queue that is long
    pauses = [(4.0, 4.7), *((at, at + 0.15) for at in short)]
    memory = system(*(Slow("app", *pause, cpu=1.0, always=True) for pause in pauses), rate=200)
    for pause in pauses:
        memory = memory.event("app", "gc", *pause)
    found = evidence(diagnose(memory), "garbage-collection")
    assert found.verdict == "found"
    assert (found.share or 0.0) > 0.9


def test_io_without_dirty_pages_is_a_flush_or_writeback_and_it_is_not_known_which() -> None:
    diagnosis = diagnose(db_stopped().sample("db", "cpu_iowait", 0.01, (4.0, 4.6, 1.0)))
    assert {row.cause for row in diagnosis.summary} == {"log-flush or writeback"}


@pytest.mark.parametrize(("kind", "told"), [("log_flush", "log-flush"), ("writeback", "writeback")])
def test_a_recorded_event_tells_what_io_was_waited_for(kind: str, told: str) -> None:
    assert cause(diagnose(db_waits().event("db", kind, 4.0, 4.6))) == told
    slow_disk = db_waits().ramp("db", "dirty_bytes", (0, 0), (4.0, 4e5), (4.6, 0), (9, 0))
    assert cause(diagnose(slow_disk.event("db", kind, 4.0, 4.6))) == told


def test_a_neighbour_without_samples_is_not_invented() -> None:
    diagnosis = diagnose(starved())
    assert cause(diagnosis) == "unknown"
    settle = diagnosis.episodes[0].findings[4].missing
    assert settle is not None
    assert "cpu_throttled" in settle
    assert "cpu_steal" in settle


@pytest.mark.parametrize(
    ("host", "sampled", "verdict"),
    [
        ("box", ("app", "psi_cpu", 0.1, (4.0, 4.8, 1.0)), "found"),
        ("box", ("app", "psi_cpu", 0.1), "absent"),
        ("box", ("box", "cpu_busy", 0.5, (4.0, 4.8, 1.0)), "found"),
        ("box", ("box", "cpu_busy", 0.5), "unknown"),
        ("box", None, "unknown"),
        (None, ("app", "psi_cpu", 0.1, (4.0, 4.8, 1.0)), "absent"),
    ],
)
def test_another_node_is_a_neighbour_where_both_use_the_same_cpus(
    host: str | None, sampled: tuple[Any, ...] | None, verdict: str
) -> None:
    memory = starved().sample("tenant", "cpu_busy", 0.01, (4.0, 4.8, 0.8))
    if sampled is not None:
        memory = memory.sample(*sampled)
    nodes = [*memory.topology.nodes, Node(name="tenant-node")]
    topology = memory.topology.model_copy(
        update={
            "nodes": tuple(node.model_copy(update={"host": host}) for node in nodes),
            "servers": (*memory.topology.servers, Server(name="tenant", node="tenant-node")),
        }
    )
    assert evidence(diagnose(Memory(topology, memory.tables)), "neighbour").verdict == verdict


@pytest.mark.parametrize(
    ("cpus", "waited", "verdict"),
    [
        ({"app": (1,), "tenant": (0,)}, 1.0, "absent"),
        ({"app": (1,), "tenant": (1,)}, None, "found"),
        ({"app": (1,), "tenant": (0, 1)}, None, "unknown"),
        ({"app": (1,), "tenant": (0, 1)}, 1.0, "found"),
    ],
)
def test_cpu_sets_show_which_processes_can_be_neighbours(
    cpus: dict[str, tuple[int, ...]], waited: float | None, verdict: str
) -> None:
    memory = starved().sample("tenant", "cpu_busy", 0.01, (4.0, 4.8, 0.8))
    if waited is not None:
        memory = memory.sample("app", "psi_cpu", 0.1, (4.0, 4.8, waited))
    nodes = [node.model_copy(update={"host": "box"}) for node in memory.topology.nodes]
    topology = memory.topology.model_copy(
        update={
            "nodes": (*nodes, Node(name="tenant-node", host="box")),
            "servers": (*memory.topology.servers, Server(name="tenant", node="tenant-node")),
            "cpus": cpus,
        }
    )
    assert evidence(diagnose(Memory(topology, memory.tables)), "neighbour").verdict == verdict


def test_the_clock_rate_of_its_host_is_that_of_a_server() -> None:
    memory = often_slow_clock("box").sample("other box", "cpu_hz", 2.2e9)
    nodes = [node.model_copy(update={"host": "box"}) for node in memory.topology.nodes]
    topology = memory.topology.model_copy(update={"nodes": (*nodes, Node(name="elsewhere", host="other box"))})
    on_host, own = diagnose(Memory(topology, memory.tables)), diagnose(often_slow_clock())
    assert cause(on_host) == "frequency-step"
    assert evidence(on_host, "frequency-step").numbers == evidence(own, "frequency-step").numbers


@pytest.mark.parametrize(
    ("usual", "meanwhile", "expected"), [(0.4, 1.0, "unknown"), (0.4, 0.5, "freeze"), (1.0, 1.0, "freeze")]
)
def test_a_server_on_a_full_host_is_not_reported_as_stopped(usual: float, meanwhile: float, expected: str) -> None:
    memory = stopped().sample("box", "cpu_busy", usual, (4.0, 4.6, meanwhile))
    nodes = tuple(node.model_copy(update={"host": "box"}) for node in memory.topology.nodes)
    diagnosis = diagnose(Memory(memory.topology.model_copy(update={"nodes": nodes}), memory.tables))
    assert cause(diagnosis) == expected


@pytest.mark.parametrize(("waited", "expected"), [(0.0, "freeze"), (0.9, "neighbour"), (None, "neighbour")])
def test_a_servers_own_pressure_distinguishes_a_stop_from_waiting_for_a_cpu(
    waited: float | None, expected: str
) -> None:
    memory = stopped().sample("tenant", "cpu_busy", 0.1, (4.0, 4.6, 0.98))
    if waited is not None:
        memory = memory.sample("app", "psi_cpu", 0.02, (4.0, 4.6, waited))
    assert cause(diagnose(memory)) == expected


@pytest.mark.parametrize(
    ("woken", "pressures", "expected"),
    [
        (0.0, ("psi_io", "psi_memory"), "freeze"),
        (0.001, ("psi_io", "psi_memory"), "lock"),
        (0.001, ("psi_io",), "unknown"),
    ],
    ids=["stopped", "a thread runs now and then", "a wait for memory is not excluded"],
)
def test_a_server_that_runs_now_and_then_was_not_stopped(
    woken: float, pressures: tuple[str, ...], expected: str
) -> None:
    memory = system(Slow("app", 4.0, 4.6)).without("samples")
    memory = memory.sample("app", "cpu_busy", 0.4, (4.0, 4.6, 0.0), (4.25, 4.3, 0.4 + woken))
    for metric in pressures:
        memory = memory.sample("app", metric, 0.0)
    assert cause(diagnose(memory)) == expected


@pytest.mark.parametrize(("busier", "expected"), [(0.98, "unknown"), (0.35, "freeze")])
def test_a_small_server_beside_a_place_that_is_full_may_have_waited_for_its_cpu(busier: float, expected: str) -> None:
    memory = system(Slow("app", 4.0, 4.8, speed=0.01, cpu=0.0)).without("samples")
    memory = memory.sample("app", "cpu_busy", 0.05, (4.0, 4.8, 0.0))
    memory = memory.sample("tenant", "cpu_busy", 0.35, (4.0, 4.8, busier))
    assert cause(diagnose(memory)) == expected


@pytest.mark.parametrize(
    ("cpus", "usual", "verdict"),
    [
        ({"app": (0,), "tenant": (0,)}, 0.3, "absent"),
        ({"app": (0,), "tenant": (1,)}, 0.3, "found"),
        ({"app": (0, 1), "tenant": (0,)}, 0.3, "found"),
        ({"app": (0,), "tenant": (0,)}, 0.95, "found"),
        ({}, 0.3, "absent"),
    ],
)
def test_a_server_whose_only_cpu_was_taken_is_not_reported_as_stopped(
    cpus: dict[str, tuple[int, ...]], usual: float, verdict: str
) -> None:
    memory = stopped().sample("tenant", "cpu_busy", usual, (4.0, 4.6, 0.98))
    topology = memory.topology.model_copy(update={"cpus": cpus})
    told = evidence(diagnose(Memory(topology, memory.tables)), "freeze")
    assert told.verdict == verdict


def test_a_hypervisor_that_took_the_cpu_leaves_no_question_of_quota() -> None:
    assert cause(diagnose(starved().sample("app", "cpu_steal", 0.0, (4.0, 4.8, 0.8)))) == "neighbour"


def skewed(*slow: Slow, until: float = 4.0, rate: float = 500) -> Memory:
    """web spreads over app1 and app2, but sends everything to app1 from 4.05 s on `until` then."""
    tiers = (
        Tier("web", 0.2, ("app1", "app2"), 100, 40),
        Tier("app1", 1.2, (), 200, 128),
        Tier("app2", 1.2, (), 200, 128),
    )

    def choose(run: object) -> Callable[[str, tuple[str, ...], int], str]:
        turn = iter(range(10**9))

        def pick(_caller: str, callees: tuple[str, ...], now: int) -> str:
            from systems import at

            return "app1" if at(4.05) <= now < at(until) else callees[next(turn) % 2]

        return pick

    return system(*slow, tiers=tiers, choose=choose, rate=rate)


def test_a_stalled_candidate_that_a_balancer_prefers_is_the_origin() -> None:
    diagnosis = diagnose(skewed(Slow("app1", 4.0, 4.6), until=4.6))
    assert (diagnosis.episodes[0].origin, cause(diagnosis)) == ("app1", "freeze")


def test_a_balancer_does_not_stop_a_candidate() -> None:
    diagnosis = diagnose(skewed(Slow("app1", 4.0, 4.6), until=4.6).without("samples"))
    assert cause(diagnosis) in ("unknown", "balancer"), "without the skew, it would not have happened"
    assert diagnosis.episodes[0].origin == "app1"


def test_a_balancer_that_sends_one_candidate_more_than_it_can_do_is_the_cause() -> None:
    assert cause(diagnose(skewed(until=4.8, rate=1100))) == "balancer"


def test_a_round_robin_balancer_is_not_the_cause() -> None:
    assert evidence(diagnose(skewed(Slow("app1", 4.0, 4.6))), "balancer").verdict == "absent"


def test_a_bigger_share_in_all_the_recording_is_a_weight_and_no_skew() -> None:
    def choose(_run: object) -> Callable[[str, tuple[str, ...], int], str]:
        turn = iter(range(10**9))
        return lambda _caller, callees, _now: callees[0] if next(turn) % 10 else callees[1]

    tiers = (Tier("web", 0.2, ("app1", "app2"), 100, 40), Tier("app1", 1.2, (), 200, 128), Tier("app2", 1.2))
    diagnosis = diagnose(system(Slow("app1", 4.0, 4.6), tiers=tiers, choose=choose))
    assert evidence(diagnosis, "balancer").verdict == "absent"


def test_the_same_cause_is_found_behind_an_asynchronous_server() -> None:
    memory = system(Slow("app", 4.0, 4.8, speed=0.2, cpu=0.2), tiers=NX1)
    assert cause(diagnose(memory.sample("tenant", "cpu_busy", 0.01, (4.0, 4.8, 0.8)))) == "neighbour"


def test_requests_count_for_the_system_that_receives_them(tmp_path: Path) -> None:
    """Two systems side by side: 1000 requests/s to `web`, which calls `app`; then 200 at once to `other`."""
    ms = 1_000_000
    steady = [{"server": "web", "sent": T0 + n * ms, "end": T0 + (n + 1) * ms} for n in range(100)]
    burst = [{"server": "other", "sent": T0 + 50 * ms, "end": T0 + 60 * ms} for _ in range(200)]
    asked = sorted(steady + burst, key=lambda row: row["sent"])
    stays = [
        {"request": n, "server": row["server"], "caller": "clients", "sent": row["sent"]}
        | {"arrival": row["sent"], "departure": row["end"]}
        for n, row in enumerate(asked, 1)
    ]
    calls = [{**stay, "server": "app", "caller": "web"} for stay in stays if stay["server"] == "web"]
    alone = {**stays[0], "server": "cache", "caller": None, "request": None}
    recorded = run(tmp_path / "run", requests=requests(*asked), visits=visits(*stays, *calls, alone))
    view = look(recorded, 50 * ms)
    edges = np.array([T0 + 50 * ms, T0 + 60 * ms])
    assert [int(view.asked(server).arrived(edges)[0]) for server in ("web", "app", "other")] == [10, 10, 200]
    assert int(view.asked("cache").arrived(edges)[0]) == 210  # its caller is unknown
