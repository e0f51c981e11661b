"""What the threads of a server did tells a stop from waiting."""

from __future__ import annotations

import pytest

from systems import MS, Memory, Slow, system
from tailrace.diagnosis import diagnose, ledger, vlrt
from tailrace.diagnosis.tables import look


def stopped() -> Memory:
    """app stands still: no answer, no CPU."""
    return system(Slow("app", 4.0, 4.6))


def threads(stopped_ones: float, runnable: float, blocked: float) -> Memory:
    """app answers nothing and uses no CPU; so many of its threads are in each state meanwhile."""
    meanwhile = {"tasks_stopped": stopped_ones, "tasks_runnable": runnable, "tasks_blocked": blocked}
    memory = stopped()
    for metric, value in meanwhile.items():
        memory = memory.sample("app", metric, 0.0, (4.0, 4.6, value))
    return memory


@pytest.mark.parametrize(
    ("states", "expected"), [((4, 0, 0), "freeze"), ((0, 0, 0), "unknown"), ((0, 4, 0), "unknown"), (None, "freeze")]
)
def test_the_states_of_its_threads_tell_a_stop_from_waiting(
    states: tuple[float, float, float] | None, expected: str
) -> None:
    diagnosis = diagnose(threads(*states) if states is not None else stopped())
    assert max(diagnosis.episodes, key=lambda episode: episode.vlrt).cause == expected


def test_the_account_has_no_stop_of_a_server_whose_threads_slept() -> None:
    def charged(memory: Memory) -> set[str]:
        seen = look(memory, 50 * MS)
        judged = ledger.judge(seen, vlrt.find(seen, None))
        return {share.cause for one in judged if one is not None for share in one.shares}

    assert "freeze" in charged(threads(4, 0, 0))
    assert "freeze" not in charged(threads(0, 0, 0))


def test_a_server_whose_threads_slept_waited_for_something() -> None:
    (episode,) = diagnose(threads(0, 0, 0)).episodes
    assert "all threads of app slept" in episode.findings[4].sentence
    assert "waited for" in (episode.findings[4].missing or "")
    assert "cpu_busy of what" not in (episode.findings[4].missing or ""), "no neighbour kept it from running"
