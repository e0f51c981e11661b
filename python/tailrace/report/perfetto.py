"""The run for Perfetto's viewer (ui.perfetto.dev): counters, episodes with their findings, events, and VLRT requests.

    Diagnosis                 episodes, and under each step the intervals of its findings
    <server>                  queue length and samples as counters, events, and VLRT requests while they are inside
    VLRT requests             end to end; a flow links each to its stays in the servers

The format is TrackEvent protobuf (Perfetto's "synthetic track events"). Its builders come from Google's own package,
an extra (`tailrace[perfetto]`) because it requires a recent protobuf, which often conflicts with other packages.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tailrace import whole
from tailrace.diagnosis.finding import Diagnosis
from tailrace.errors import UsageError
from tailrace.report import words
from tailrace.report.recording import Recording

STAYS_MAX = 20_000
"""Slices of single requests in a trace, so that the viewer stays quick; VLRT come first."""
SEQUENCE = 1
BOOTTIME, REALTIME = 6, 1
"""Perfetto's numbers of the clocks: the trace uses the first, and the second gives the date."""

Annotations = Mapping[str, float | int | str | bool | None]


@dataclass(frozen=True)
class Stay:
    """A request from end to end (`server` is None), or its stay in one server."""

    request: int
    server: str | None
    begin: int
    end: int
    interaction: str | None = None
    drops: int = 0


def write(recording: Recording, diagnosis: Diagnosis, stays: tuple[Stay, ...], path: Path) -> None:
    """Write the trace, completely or not at all."""
    whole.write(path, trace(recording, diagnosis, stays))


def trace(recording: Recording, diagnosis: Diagnosis, stays: tuple[Stay, ...] = ()) -> bytes:
    """The trace as bytes."""
    writer = _Writer(recording, diagnosis, stays)
    writer.clock()
    writer.diagnosis(diagnosis)
    writer.requests(stays)
    writer.places(recording)
    return writer.bytes()


def _package() -> Any:
    try:
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2
    except ImportError as error:
        raise UsageError(
            "writing a Perfetto trace needs the package perfetto",
            advice="install it with `pip install tailrace[perfetto]`",
        ) from error
    return perfetto_trace_pb2


class _Writer:
    """Builds the packets. Tracks are numbered in the order of their creation."""

    def __init__(self, recording: Recording, diagnosis: Diagnosis, stays: tuple[Stay, ...]) -> None:
        self._proto = _package()
        self._trace = self._proto.Trace()
        self._tracks: dict[tuple[int, str], int] = {}
        self._number = 0
        moments = [recording.begin, *(s.begin for s in stays), *(s.begin for s in recording.spans)]
        moments += [f.begin for e in diagnosis.episodes for f in e.findings if f.begin is not None]
        self._zero = min(moments)

    def bytes(self) -> bytes:
        return bytes(self._trace.SerializeToString(deterministic=True))

    # ---- the parts of a trace ----------------------------------------------------------------------------------

    def clock(self) -> None:
        packet = self._packet()
        packet.sequence_flags = self._proto.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        snapshot = packet.clock_snapshot
        snapshot.primary_trace_clock = BOOTTIME
        for clock, moment in ((BOOTTIME, 0), (REALTIME, self._zero)):
            entry = snapshot.clocks.add()
            entry.clock_id, entry.timestamp = clock, moment

    def diagnosis(self, diagnosis: Diagnosis) -> None:
        root = self._track("Diagnosis")
        for number, this in enumerate(diagnosis.episodes, 1):
            chain: Annotations = {
                "vlrt": this.vlrt,
                "dropper": this.dropper,
                "origin": this.origin,
                "cause": this.cause,
                "ctqo": this.ctqo,
            }
            self._slice(self._track("Episodes", root), this.begin, this.end, f"Episode {number}: {this.cause}", chain)
        for row, step in enumerate(("vlrt", "drops", "overflow", "millibottleneck", "cause")):
            for this in diagnosis.episodes:
                finding = this.findings[row]
                if finding.verdict == "found" and finding.begin is not None and finding.end is not None:
                    track = self._track(f"{row + 1} {words.STEP_TITLES[finding.step]}", root)
                    about: Annotations = {"place": finding.place, **finding.numbers}
                    self._slice(track, finding.begin, finding.end, finding.sentence, {"step": step, **about})

    def requests(self, stays: tuple[Stay, ...]) -> None:
        """Stays that overlap get lanes: tracks with the same name, which the viewer shows as one."""
        by_server: dict[str | None, list[Stay]] = {}
        for stay in stays[:STAYS_MAX]:
            by_server.setdefault(stay.server, []).append(stay)
        for server in sorted(by_server, key=lambda s: (s is not None, s or "")):
            name = "VLRT requests" if server is None else "VLRT requests inside"
            parent = 0 if server is None else self._track(words.name(server))
            for lane, stay in _lanes(by_server[server]):
                track = self._lane(name, parent, lane)
                about: Annotations = {"request": stay.request, "drops": stay.drops}
                self._slice(track, stay.begin, stay.end, stay.interaction or "request", about, flow=stay.request)

    def places(self, recording: Recording) -> None:
        for line in recording.lines:
            axis = recording.axes[line.axis]
            if axis.episode is not None:
                continue  # it has a part of the same numbers
            track = self._track(words.metric(line.metric), self._track(words.name(line.place)), counter=True)
            starts = axis.times - axis.step_ns // 2
            # A counter holds until it changes.
            changed = np.flatnonzero(np.diff(line.values, prepend=np.nan) != 0)
            for k in changed.tolist():
                if np.isfinite(line.values[k]):
                    self._count(track, int(starts[k]), float(line.values[k]))
        for kind in dict.fromkeys((s.place, s.kind) for s in recording.spans):
            parent = self._track(words.name(kind[0]))
            spans = [Stay(0, None, s.begin, s.end, s.detail) for s in recording.spans if (s.place, s.kind) == kind]
            for lane, span in _lanes(spans[:STAYS_MAX]):
                name = words.name(kind[1])
                self._slice(self._lane(name, parent, lane), span.begin, span.end, name, {"detail": span.interaction})

    # ---- packets -----------------------------------------------------------------------------------------------

    def _packet(self) -> Any:
        packet = self._trace.packet.add()
        packet.trusted_packet_sequence_id = SEQUENCE
        return packet

    def _track(self, name: str, parent: int = 0, *, counter: bool = False) -> int:
        return self._lane(name, parent, 0, counter=counter)

    def _lane(self, name: str, parent: int, lane: int, *, counter: bool = False) -> int:
        key = (parent, f"{lane} {counter} {name}")
        if key not in self._tracks:
            self._number += 1
            descriptor = self._packet().track_descriptor
            descriptor.uuid, descriptor.name = self._number, words.visible(name)
            if parent:
                descriptor.parent_uuid = parent
            if counter:
                descriptor.counter.SetInParent()
            self._tracks[key] = self._number
        return self._tracks[key]

    def _event(self, track: int, moment: int, kind: str) -> Any:
        packet = self._packet()
        packet.timestamp = max(0, moment - self._zero)
        event = packet.track_event
        event.type = getattr(self._proto.TrackEvent, f"TYPE_{kind}")
        event.track_uuid = track
        return event

    def _slice(self, track: int, begin: int, end: int, name: str, about: Annotations, flow: int | None = None) -> None:
        event = self._event(track, begin, "SLICE_BEGIN")
        event.name = words.sentence(name)
        if flow is not None:
            event.flow_ids.append(flow + 1)
        for key, value in about.items():
            _annotate(event.debug_annotations.add(), key, value) if value is not None else None
        self._event(track, max(begin, end), "SLICE_END")

    def _count(self, track: int, moment: int, value: float) -> None:
        self._event(track, moment, "COUNTER").double_counter_value = value


def _annotate(entry: Any, key: str, value: float | int | str | bool) -> None:
    entry.name = words.name(key)
    if isinstance(value, bool):
        entry.bool_value = value
    elif isinstance(value, int):
        entry.int_value = value
    elif isinstance(value, float):
        entry.double_value = value
    else:
        entry.string_value = words.sentence(value)


def _lanes(stays: list[Stay]) -> Iterator[tuple[int, Stay]]:
    """Each stay, in the order of their begin, with the lowest lane that is free then."""
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    used = 0
    for stay in sorted(stays, key=lambda s: (s.begin, s.end, s.request)):
        while busy and busy[0][0] <= stay.begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lane, used = used, used + 1
        heapq.heappush(busy, (max(stay.end, stay.begin), lane))
        yield lane, stay
