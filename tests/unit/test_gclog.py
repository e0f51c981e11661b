"""Pauses begin and end where the log says, and a log that cannot be placed in time is refused."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from tailrace.errors import InputError
from tailrace.readers import gclog
from tailrace.readers.source import Found, Source
from tailrace.units import parse_moment


class Event(NamedTuple):
    kind: str
    begin: int
    end: int
    detail: str


def events(found: Found) -> list[Event]:
    return [Event(*row) for frame in found.events for row in frame.rows()]


def read(tmp_path: Path, text: str) -> list[Event]:
    path = tmp_path / "gc.log"
    path.write_text(text)
    source = Source(path, "app")
    assert gclog.sniff(path.name, source.head())
    return events(gclog.read([source]))


def test_a_unified_line_is_stamped_at_the_end(tmp_path: Path) -> None:
    [event] = read(tmp_path, "[2026-11-20T16:52:55.693+0000][gc] GC(5) Pause Young (Normal) 150M->14M(494M) 4.859ms\n")
    end = parse_moment("2026-11-20T16:52:55.693Z")
    assert (event.begin, event.end) == (end - 4_859_000, end)
    assert (event.kind, event.detail) == ("gc", "Pause Young (Normal)")


def test_a_jdk_8_line_is_stamped_at_the_begin(tmp_path: Path) -> None:
    [event] = read(tmp_path, "2026-11-20T17:52:55.693+0100: 1.2: [Full GC (Ergonomics) 9K->1K(99K), 1.5 secs]\n")
    begin = parse_moment("2026-11-20T16:52:55.693Z")
    assert (event.begin, event.end) == (begin, begin + 1_500_000_000)


def test_pauses_that_nest_are_one_and_a_safepoint_widens_its_pause(tmp_path: Path) -> None:
    text = (
        "[2026-11-20T16:52:55.900+0000][gc] GC(5) Pause Young (Allocation Failure) 1M->1M(1M) 100.000ms\n"
        "[2026-11-20T16:52:56.500+0000][gc] GC(6) Pause Full (Allocation Failure) 1M->1M(1M) 650.000ms\n"
        '[2026-11-20T16:52:56.510+0000][safepoint] Safepoint "GenCollectForAllocation", Time since last: 1 ns, '
        "Reaching safepoint: 9 ns, Cleanup: 1 ns, At safepoint: 3 ns, Total: 720000000 ns\n"
    )
    [event] = read(tmp_path, text)
    assert event.detail == "Pause Full (Allocation Failure)"
    assert event.end - event.begin == 720_000_000


def test_other_stops_are_no_collections(tmp_path: Path) -> None:
    line = '[2026-11-20T16:52:56.510+0000][safepoint] Safepoint "{}", Total: 7000000 ns\n'
    kinds = [
        event.kind for event in read(tmp_path, line.format("Cleanup") + line.format("ThreadDump").replace(":56", ":57"))
    ]
    assert kinds == ["safepoint", "safepoint"]


def test_a_log_without_a_wall_clock_is_refused_with_what_to_do(tmp_path: Path) -> None:
    for text in ("[0.100s] GC(0) Pause Young (Normal) 17M->3M(61M) 7.393ms\n", "1.2: [GC (X) 9K->1K(99K), 1.5 secs]\n"):
        with pytest.raises(InputError, match=r"line 1: .* start of the JVM, .* --began app=.* log with -Xlog"):
            read(tmp_path, text)


def test_an_uptime_of_many_days_is_no_unix_time(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="start of the JVM"):
        read(tmp_path, "[8640000123ms][gc] GC(0) Pause Young (Normal) 17M->3M(61M) 7.393ms\n")


def test_concurrent_phases_stop_nobody(tmp_path: Path) -> None:
    text = "[2026-11-20T16:52:55.693+0000][gc] GC(5) Concurrent Mark Cycle 4000.859ms\n"
    assert read(tmp_path, text) == []
