"""When a process or a hypervisor took the CPU of a server, and when it could not."""

from __future__ import annotations

import numpy as np
import pytest

from systems import Memory, Slow, cause, starved, system
from tailrace.diagnosis import diagnose
from tailrace.diagnosis.ledger import account
from tailrace.topology import Node


@pytest.mark.parametrize(("runnable", "expected"), [(1.0, "neighbour"), (0.0, "unknown")])
def test_a_server_whose_threads_all_sleep_loses_nothing_to_the_hypervisor(runnable: float, expected: str) -> None:
    memory = starved().sample("app", "cpu_steal", 0.0, (4.0, 4.8, 0.8))
    assert cause(diagnose(memory.sample("app", "tasks_runnable", 1.0, (4.0, 4.8, runnable)))) == expected


@pytest.mark.parametrize(("other", "expected"), [(0.0, "neighbour"), (0.95, "unknown")])
def test_processes_that_take_turns_on_a_full_machine_take_nothing_beyond_the_usual(other: float, expected: str) -> None:
    memory = starved().sample("app", "psi_cpu", 0.0, (4.0, 4.8, 0.9))
    memory = memory.sample("process one", "cpu_busy", 0.0, (4.0, 4.8, 0.95)).sample("host", "cpu_busy", 1.0)
    memory = memory.sample("process two", "cpu_busy", other, (4.0, 4.8, 0.0))
    assert cause(diagnose(on_one_host(memory))) == expected


def on_one_host(memory: Memory) -> Memory:
    servers = [one.model_copy(update={"node": "host"}) for one in memory.topology.servers]
    nodes = [Node(name="host", cores=1, host="host")]
    return Memory(memory.topology.model_copy(update={"servers": servers, "nodes": nodes}), memory.tables)


def test_a_group_of_processes_contains_no_server_although_it_always_used_more() -> None:
    memory = system(Slow("app", 4.0, 4.8, speed=0.01, cpu=0.0)).without("samples")
    memory = memory.sample("app", "cpu_busy", 0.05, (4.0, 4.8, 0.0)).sample("app", "psi_cpu", 0.0, (4.0, 4.8, 0.9))
    assert cause(diagnose(memory.sample("process hog", "cpu_busy", 0.1, (4.0, 4.8, 1.0)))) == "neighbour"


def test_what_is_unknown_for_nearly_all_of_a_stretch_or_for_most_of_a_silent_one_is_all_of_it() -> None:
    """A neighbour that took a little of what a server lacked does not let it go on."""
    lacked = np.repeat([0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0], 20)
    took = np.repeat([0.0, 0.95, 0.0, 0.6, 0.0, 0.6, 0.0, 0.2], 20)
    silent = np.repeat([False, False, False, True, False, False, False, True], 20)
    found = account._all_of_stretches(took, lacked, silent)
    assert found.tolist() == np.repeat([0.0, 1.0, 0.0, 1.0, 0.0, 0.6, 0.0, 0.2], 20).tolist()
