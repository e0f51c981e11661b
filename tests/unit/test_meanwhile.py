"""What else went wrong while an episode with an unknown cause lasted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from tailrace.diagnosis import meanwhile
from tailrace.diagnosis.finding import Finding
from tailrace.diagnosis.series import Series
from tailrace.units import SECOND

UNKNOWN = Finding("cause", "unknown", "The cause is unknown.")


def view(
    *failed: tuple[str, str, float],
    repeated: dict[str, dict[int, float]] | None = None,
    lost: int = 0,
    states: dict[tuple[str, str], Any] | None = None,
    events: dict[str, list[tuple[float, float]]] | None = None,
) -> Any:
    """A recording of 100 s: its failed calls (server, status and second), how many attempts each kernel `repeated` in
    which seconds, how many attempts of the second 40 the capture shows as lost, the samples of each place and
    metric, and the seconds of the events of each kind at app."""
    rows = [(server, status, round(second * SECOND)) for server, status, second in failed]
    columns = {"server": pl.String, "status": pl.String, "departure": pl.Int64}
    begin = np.arange(100) * SECOND
    samples = [
        Series(place, "syn_retransmits", begin, begin + SECOND, np.array([counts.get(n, 0.0) for n in range(100)]))
        for place, counts in (repeated or {}).items()
    ]
    samples += [
        Series(place, metric, begin, begin + SECOND, np.asarray(value, dtype=float))
        for (place, metric), value in (states or {}).items()
    ]
    lossy = pl.DataFrame({"request": [1], "sent": [40 * SECOND], "drops": [lost]})
    return SimpleNamespace(
        begin=0,
        end=100 * SECOND,
        failed_calls=pl.DataFrame(rows, columns, orient="row").sort("departure"),
        requests=pl.DataFrame({"request": [1], "sent": [40 * SECOND], "connected": [1], "drops": [lost]}),
        lossy=lossy,
        lost_between=lambda begin, end: lossy.filter(pl.col("sent").is_between(begin, end)),
        events_of=lambda kind: [
            ("app", (np.array(its) * SECOND).astype(np.int64)) for of, its in (events or {}).items() if of == kind
        ],
        everywhere=lambda metric: [one for one in samples if one.metric == metric],
        topology=SimpleNamespace(place_to_server=lambda place: {"host:80": SimpleNamespace(name="web")}.get(place)),
    )


def told(seen: Any) -> Finding:
    """From 40 s to 41 s, with requests that take up to a second."""
    first = Finding("vlrt", "found", "", numbers={"response_ns_max": SECOND})
    episode: Any = SimpleNamespace(begin=40 * SECOND, end=41 * SECOND, findings=(first,))
    return meanwhile.told(seen, episode, UNKNOWN)


def test_a_place_that_was_stopped_or_had_no_process_is_named() -> None:
    at = np.arange(100)
    out = (at >= 39) & (at < 42)
    states = {("host:53", "tasks_stopped"): out, ("host:80", "processes"): np.where(out, 0, 3)}
    found = told(view(states=states))
    said = "Meanwhile, host:53 was stopped by a signal, a debugger or a frozen control group for 3 s."
    assert found.sentence == f"The cause is unknown. {said} Meanwhile, web had no process for 3 s."
    assert found.numbers == {"stopped": "host:53", "stopped_ns": 3 * SECOND, "gone": "web", "gone_ns": 3 * SECOND}


def test_what_was_so_at_other_times_or_nearly_always_is_left_out() -> None:
    at = np.arange(100)
    states = {("host:53", "tasks_stopped"): at < 30, ("host:80", "processes"): np.where(at < 90, 0, 3)}
    assert told(view(states=states)) == UNKNOWN


def test_calls_that_failed_are_counted_by_server_and_status() -> None:
    refused = [("db", "error-57P03", 39.0 + n / 10) for n in range(9)]
    found = told(view(*refused, ("db", "reset", 40.5), ("cache", "reset", 40.5), ("db", "reset", 80.0)))
    said = "Meanwhile, 10 calls to db failed with the status error-57P03."
    assert found.sentence == f"The cause is unknown. {said}"
    assert found.numbers == {"calls_failed": 10, "calls_failed_at": "db", "calls_failed_status": "error-57P03"}


def test_a_status_that_few_had_is_not_named_and_usual_failures_hide_no_others() -> None:
    usual = [("cache", "404", n / 4) for n in range(400)]
    statuses = ["reset"] * 4 + ["refused"] * 3 + ["timeout"] * 3
    found = told(view(*usual, *(("db", status, 40.0 + n / 10) for n, status in enumerate(statuses))))
    assert found.sentence == "The cause is unknown. Meanwhile, 10 calls to db failed."
    assert found.numbers == {"calls_failed": 10, "calls_failed_at": "db"}


@pytest.mark.parametrize(
    "failed",
    [[], [("db", "reset", 40.1), ("db", "reset", 40.2)], [("db", "503", n / 2) for n in range(200)]],
    ids=["none", "two", "as many at any time"],
)
def test_few_calls_and_usual_ones_are_not_reported(failed: list[tuple[str, str, float]]) -> None:
    assert told(view(*failed)) == UNKNOWN


def test_attempts_that_a_kernel_repeated_and_no_capture_shows_are_counted() -> None:
    found = told(view(repeated={"host": {41: 134.0, 90: 1.0}, "other": {41: 3.0}}, lost=4))
    said = "The kernel of host repeated 130 connection attempts that no capture shows."
    assert found.sentence == f"The cause is unknown. {said}"
    assert found.numbers == {"attempts_repeated": 130, "attempts_repeated_by": "host"}


def test_attempts_that_the_capture_shows_and_usual_ones_are_not_reported() -> None:
    assert told(view(repeated={"host": {41: 5.0}}, lost=4)) == UNKNOWN
    assert told(view(repeated={"host": dict.fromkeys(range(100), 2.0)})) == UNKNOWN
    without_packets = view(repeated={"host": {41: 134.0}})
    without_packets.requests = without_packets.requests.with_columns(connected=pl.lit(None))
    assert told(without_packets) == UNKNOWN


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("refused_call", "Meanwhile, 3 attempts to connect to app were refused."),
        ("unanswered_call", "Meanwhile, 3 attempts to connect to app had no answer."),
        (
            "unacknowledged",
            "Meanwhile, 3 times, app did not acknowledge what it was sent, for up to 1.5 s: packets were lost on the "
            "way, or its host stood still.",
        ),
    ],
)
def test_calls_that_no_server_answered_are_reported(kind: str, said: str) -> None:
    found = told(view(events={kind: [(40.0, 41.5), (40.5, 41.0), (40.6, 41.0), (90.0, 91.0)]}))
    assert found.sentence == f"{UNKNOWN.sentence} {said}"
