"""Calls that failed while an episode with an unknown cause lasted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from tailrace.diagnosis import failing
from tailrace.diagnosis.finding import Finding
from tailrace.units import SECOND

UNKNOWN = Finding("cause", "unknown", "The cause is unknown.")


def view(*failed: tuple[str, str, float]) -> Any:
    """A recording of 100 s, and its failed calls: server, status and second."""
    rows = [(server, status, round(second * SECOND)) for server, status, second in failed]
    calls = pl.DataFrame(rows, ["server", "status", "departure"], orient="row")
    requests = pl.DataFrame({"sent": [0], "end": [100 * SECOND]})
    return SimpleNamespace(failed_calls=calls, requests=requests)


def told(seen: Any) -> Finding:
    """From 40 s to 41 s, with requests that take up to a second."""
    first = Finding("vlrt", "found", "", numbers={"response_ns_max": SECOND})
    episode: Any = SimpleNamespace(begin=40 * SECOND, end=41 * SECOND, findings=(first,))
    return failing.told(seen, episode, UNKNOWN)


def test_calls_that_failed_meanwhile_are_counted_by_server_and_status() -> None:
    refused = [("db", "error-57P03", 39.0 + n / 10) for n in range(9)]
    found = told(view(*refused, ("db", "reset", 40.5), ("cache", "reset", 40.5), ("db", "reset", 80.0)))
    said = "Meanwhile, 10 calls to db failed, most of them with the status error-57P03."
    assert found.sentence == f"The cause is unknown. {said}"
    assert found.numbers == {"calls_failed": 10, "calls_failed_at": "db", "calls_failed_status": "error-57P03"}


@pytest.mark.parametrize(
    "failed",
    [[], [("db", "reset", 40.1), ("db", "reset", 40.2)], [("db", "503", n / 2) for n in range(200)]],
    ids=["none", "two", "as many at any time"],
)
def test_few_calls_and_usual_ones_are_not_reported(failed: list[tuple[str, str, float]]) -> None:
    seen = view(*failed) if failed else view(("db", "reset", 99.0))
    assert told(seen) == UNKNOWN
