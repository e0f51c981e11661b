"""The diagnosis of restarts: the ledger's line, and what only looks alike."""

from __future__ import annotations

import pytest

from ledgers import shares
from systems import Memory, Slow, system
from tailrace.topology import Server, Topology

STOPPED = Slow("app", 4.0, 4.7, cpu=0.3)


def processes(memory: Memory, *ended: tuple[float, float, float], usually: float = 2.0) -> Memory:
    return memory.sample("app", "processes", usually).sample("app", "processes_ended", 0.0, *ended)


def test_a_worker_that_ends_and_begins_again_is_charged() -> None:
    found = shares(processes(system(STOPPED), (4.0, 4.05, 1.0)))
    assert found["restart"] >= 0.9


def test_workers_that_end_one_after_the_other_are_charged_from_the_last_one_on() -> None:
    one_by_one = ((3.7, 3.75, 1.0), (3.8, 3.85, 1.0), (3.9, 3.95, 1.0), (4.0, 4.05, 1.0))
    memory = system(STOPPED).sample("app", "processes", 5.0, (4.0, 4.2, 1.0))
    assert shares(memory.sample("app", "processes_ended", 0.0, *one_by_one))["restart"] >= 0.9


def test_a_container_that_is_restarted_is_charged() -> None:
    assert shares(system(STOPPED).event("app", "k8s OOMKilled", 4.0, 4.3))["restart"] >= 0.9


@pytest.mark.parametrize(
    ("ended", "usually"),
    [((8.0, 8.05, 1.0), 2.0), ((4.0, 4.05, 1.0), 9.0)],
    ids=["at another time", "one of many"],
)
def test_a_process_that_ends_without_a_loss_is_not_charged(ended: tuple[float, float, float], usually: float) -> None:
    assert "restart" not in shares(processes(system(STOPPED), ended, usually=usually))


def test_a_pause_in_which_a_worker_ends_is_the_pauses() -> None:
    paused = system(Slow("app", 4.0, 4.7, cpu=1.0, always=True)).event("app", "gc", 4.0, 4.7)
    assert shares(processes(paused, (4.6, 4.65, 1.0)))["garbage-collection"] >= 0.9


@pytest.mark.parametrize(("left", "charged"), [(0.0, True), (3.0, False)], ids=["all", "those of connections"])
def test_a_database_is_restarted_if_all_of_its_processes_end(left: float, charged: bool) -> None:
    memory = system(Slow("db", 4.0, 4.7, cpu=0.3))
    servers = tuple(
        Server(name=one.name, node=one.node, protocol="postgres" if one.name == "db" else None)
        for one in memory.topology.servers
    )
    memory.topology = Topology(nodes=memory.topology.nodes, servers=servers, calls=memory.topology.calls)
    ended = memory.sample("db", "processes", 9.0, (4.0, 4.2, left)).sample(
        "db", "processes_ended", 0.0, (4.0, 4.05, 6.0)
    )
    assert ("restart" in shares(ended)) == charged
