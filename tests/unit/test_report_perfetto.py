"""The Perfetto trace, read back with Perfetto's own classes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

from fixtures_report import BEGIN, SECOND, diagnosis, recording
from tailrace.errors import OutputError, UsageError
from tailrace.report import perfetto
from tailrace.report.perfetto import Stay, trace, write

STAYS = (
    Stay(7, None, BEGIN + 6 * SECOND, BEGIN + 7 * SECOND, "GET /s", 1),
    Stay(8, None, BEGIN + 6 * SECOND + 1, BEGIN + 7 * SECOND + 1, "GET /s", 1),
    Stay(7, "web", BEGIN + 7 * SECOND - 9, BEGIN + 7 * SECOND, "GET /s"),
)


@pytest.fixture(scope="module")
def packets() -> list[Any]:
    return list(Trace.FromString(trace(recording(), diagnosis(), STAYS)).packet)


def tracks(packets: list[Any]) -> dict[int, Any]:
    return {p.track_descriptor.uuid: p.track_descriptor for p in packets if p.HasField("track_descriptor")}


def events(packets: list[Any]) -> list[Any]:
    return [p for p in packets if p.HasField("track_event")]


def test_every_event_has_a_track_and_every_parent_exists(packets: list[Any]) -> None:
    known = tracks(packets)
    assert all(p.track_event.track_uuid in known for p in events(packets))
    assert all(t.parent_uuid in known for t in known.values() if t.HasField("parent_uuid"))


def test_slices_close_and_never_cross_on_a_track(packets: list[Any]) -> None:
    by_track: dict[int, list[tuple[int, int, int]]] = {}
    for order, packet in enumerate(events(packets)):
        event = packet.track_event
        if event.type in (TrackEvent.TYPE_SLICE_BEGIN, TrackEvent.TYPE_SLICE_END):
            by_track.setdefault(event.track_uuid, []).append((packet.timestamp, order, event.type))
    assert by_track
    for found in by_track.values():
        depth = 0
        for _, _, kind in sorted(found):
            depth += 1 if kind == TrackEvent.TYPE_SLICE_BEGIN else -1
            assert depth in (0, 1)
        assert depth == 0


def test_counters_hold_the_peaks(packets: list[Any]) -> None:
    known = tracks(packets)
    web = next(u for u, t in known.items() if t.name == "web")
    queue = next(u for u, t in known.items() if t.name == "Queue length" and t.parent_uuid == web)
    found = [p.track_event.double_counter_value for p in events(packets) if p.track_event.track_uuid == queue]
    line = recording().line("web", "queue_length")
    assert line is not None
    assert max(found) == recording().lines[line].values.max()


def test_episodes_findings_and_requests_are_slices(packets: list[Any]) -> None:
    names = [p.track_event.name for p in events(packets) if p.track_event.type == TrackEvent.TYPE_SLICE_BEGIN]
    assert "Episode 1: neighbour" in names
    assert sum(name.startswith("The core of app was saturated") for name in names) == 3
    assert names.count("GET /s") == 3


def test_stays_of_a_request_share_a_flow(packets: list[Any]) -> None:
    flows = [tuple(p.track_event.flow_ids) for p in events(packets) if p.track_event.flow_ids]
    assert sorted(flows) == [(8,), (8,), (9,)]


def test_trace_knows_the_date(packets: list[Any]) -> None:
    clocks = {c.clock_id: c.timestamp for c in packets[0].clock_snapshot.clocks}
    assert clocks == {6: 0, 1: BEGIN}


def test_equal_input_gives_equal_bytes() -> None:
    assert trace(recording(), diagnosis(), STAYS) == trace(recording(), diagnosis(), STAYS)


def test_file_is_whole_or_absent(tmp_path: Path) -> None:
    write(recording(), diagnosis(), STAYS, tmp_path / "run.pftrace")
    assert [p.name for p in tmp_path.iterdir()] == ["run.pftrace"]
    with pytest.raises(OutputError, match="does not exist"):
        write(recording(), diagnosis(), (), tmp_path / "none" / "run.pftrace")


def test_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "perfetto.protos.perfetto.trace", None)
    with pytest.raises(UsageError, match=r"pip install tailrace\[perfetto\]"):
        perfetto.trace(recording(), diagnosis())
