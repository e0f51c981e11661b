"""Processes that wait for a lock on a file, or that write to a pipe that nobody reads: their first threads show it."""

from __future__ import annotations

import pytest

from ledgers import charged
from systems import Memory, Slow, system


def waited(metric: str, server: str = "app", usual: float = 0.0, number: float = 4.0) -> Memory:
    """app, a process with four others that serve, answers nobody and uses no CPU from 4.0 to 4.6 s."""
    memory = system(Slow("app", 4.0, 4.6)).sample("app", "processes", 5.0).sample("db", "processes", 5.0)
    return memory.sample(server, metric, usual, (4.0, 4.6, number))


@pytest.mark.parametrize(("metric", "cause"), [("tasks_pipe_full", "pipe"), ("tasks_file_locked", "lock")])
def test_a_server_whose_processes_all_wait_lacks_all_of_its_capacity(metric: str, cause: str) -> None:
    assert charged(waited(metric)).keys() == {cause}


@pytest.mark.parametrize("metric", ["tasks_pipe_full", "tasks_file_locked"])
def test_a_wait_of_a_server_that_lost_nothing_is_not_charged(metric: str) -> None:
    assert charged(waited(metric, server="db")).keys() == {"freeze"}


@pytest.mark.parametrize("metric", ["tasks_pipe_full", "tasks_file_locked"])
def test_a_wait_that_is_usual_takes_nothing(metric: str) -> None:
    assert charged(waited(metric, usual=4.0)).keys() == {"freeze"}


def test_a_stop_that_its_threads_show_is_not_a_full_pipe() -> None:
    stopped = waited("tasks_stopped", number=5.0).sample("app", "tasks_pipe_full", 0.0)
    assert charged(stopped).keys() == {"freeze"}
