"""What `jfr print --json` of a JDK prints of a flight recording: stops of the application, and waits of its threads.

```text
{"recording": {"events": [{"type": "jdk.GCPhasePause", "values": {"startTime": "2026-11-20T16:49:00.559627475Z",
    "duration": "PT0.003302082S", "gcId": 2, "name": "GC Pause"}}, …
```
A stop lasts from `SafepointBegin` to the end of the operations with its `safepointId`. Stops and pauses of the
collector are joined as those of a log are (`gclog_stops`). Each wait of a thread for a lock, for a condition, for a
permit or for a socket becomes an event. The JVM records only those that are longer than a threshold (20 ms, or 10 ms
with `settings=profile`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tailrace import units
from tailrace.errors import InputError
from tailrace.readers.elements import elements, moment, number, table, text
from tailrace.readers.gclog_stops import BRIEF, Stop, joined
from tailrace.readers.happened import Happened
from tailrace.readers.source import Found, Source, text_head

_SEEN = re.compile(r'\A[\s\ufeff]*\{\s*"recording"\s*:\s*\{\s*"events"\s*:\s*\[')
_OPENING = re.compile(r'"events"\s*:\s*\[')
_RESUME = re.compile(r'\{\s*"type"\s*:\s*"jdk\.')
_DURATION = re.compile(r"PT(?:(\d{1,6})H)?(?:(\d{1,6})M)?(?:(\d{1,9}(?:\.\d{1,9})?)S)?")
_WAITS = {
    "jdk.JavaMonitorEnter": "lock_wait",
    "jdk.JavaMonitorWait": "condition_wait",
    "jdk.ThreadPark": "park",
    "jdk.SocketRead": "socket_read",
    "jdk.SocketWrite": "socket_write",
}
_STALLS = ("jdk.ZAllocationStall",)
_ABOUT = ("monitorClass", "parkedClass")
_SAFEPOINT = ("jdk.SafepointBegin", "jdk.SafepointEnd", "jdk.ExecuteVMOperation")
EVENTS = ",".join(("jdk.GarbageCollection", "jdk.GCPhasePause", *_SAFEPOINT, *_STALLS, *_WAITS))
"""What `jfr print --events` must name."""


def sniff(name: str, head: bytes) -> bool:
    return bool(_SEEN.search(text_head(head) or ""))


def read(source: Source) -> Found:
    found, events, jvm = Found(), Happened(), _Stops()
    for _, element in elements(source, found, _RESUME, _OPENING):
        kind, values = text(table(element).get("type")) or "", table(table(element).get("values"))
        begin, length = moment(text(values.get("startTime")) or ""), duration(values.get("duration"))
        if begin is None:
            found.lose("events without a time", 1)
        elif kind == "jdk.GarbageCollection":
            jvm.collected(values, begin, length)
        elif length is None:
            continue
        elif kind == "jdk.GCPhasePause":
            jvm.paused(number(values.get("gcId")), begin, begin + length)
        elif kind in _SAFEPOINT:
            jvm.stopped(values, begin, begin + length)
        elif kind in _STALLS:
            events.add("", "allocation_stall", begin, begin + length, _thread(values, "eventThread"))
        elif kind in _WAITS:
            events.add("", _WAITS[kind], begin, begin + length, _described(values))
        if events.full or jvm.count >= events.most:
            break
    for stop in jvm.joined():
        if stop.kind == "gc" or stop.end - stop.begin > BRIEF:
            events.add("", stop.kind, stop.begin, stop.end, stop.detail)
    if not len(events):
        raise InputError(
            source.path,
            "no pause, no long stop and no wait is in this flight recording",
            f"print these events: jfr print --json --events {EVENTS} FILE.jfr",
        )
    events.into(found, source, placed=False)
    if jvm.concurrent:
        found.notes.append(
            f"{source.path.name}: {jvm.concurrent} collections have no event GCPhasePause and were partly concurrent, "
            "so when they stopped the application is unknown"
        )
    waits = sorted(events.kinds & set(_WAITS.values()))
    if waits:
        found.notes.append(
            f"{source.path.name}: {', '.join(waits)} are waits of single threads. A thread that waits for work is "
            "idle, so they prove no delay of a request"
        )
    return found


def duration(value: Any) -> int | None:
    """The nanoseconds of a duration in ISO 8601, `PT1M2.5S`."""
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    hours, minutes, seconds = (units.parse_number(part or "0") for part in match.groups())
    if hours is None or minutes is None or seconds is None:
        return None
    return round((hours * 3600 + minutes * 60 + seconds) * units.SECOND)


def _thread(values: dict[str, Any], key: str) -> str:
    thread = table(values.get(key))
    return text(thread.get("javaName")) or text(thread.get("osName")) or "a thread"


def _described(values: dict[str, Any]) -> str:
    about = next((name for key in _ABOUT if (name := text(table(values.get(key)).get("name")))), "")
    to = f"{text(values.get('host')) or text(values.get('address'))}:{values.get('port')}" if "port" in values else ""
    owner = f", held by {_thread(values, 'previousOwner')}" if values.get("previousOwner") else ""
    what = about.replace("/", ".") or to
    return f"{_thread(values, 'eventThread')}{f': {what}' if what else ''}{owner}"


class _Stops:
    """The times when the application stood still."""

    def __init__(self) -> None:
        self._pauses: list[tuple[int, int, float | None]] = []
        self._safepoints: dict[float, Stop] = {}
        self._collections: dict[float, tuple[str, int, int | None]] = {}
        self.concurrent = 0

    @property
    def count(self) -> int:
        return len(self._pauses) + len(self._safepoints) + len(self._collections)

    def collected(self, values: dict[str, Any], begin: int, length: int | None) -> None:
        """A collection; if all of it was a pause, its end is known."""
        cause = text(values.get("cause"))
        name = f"{text(values.get('name')) or 'collection'}{f' ({cause})' if cause else ''}"
        paused = duration(values.get("sumOfPauses"))
        if (number_ := number(values.get("gcId"))) is not None:
            self._collections[number_] = (name, begin, begin + length if length and length == paused else None)

    def paused(self, collection: float | None, begin: int, end: int) -> None:
        self._pauses.append((begin, end, collection))

    def stopped(self, values: dict[str, Any], begin: int, end: int) -> None:
        """A part of a safepoint; operations outside of safepoints stop no thread."""
        number_ = number(values.get("safepointId"))
        if number_ is None or values.get("safepoint") is False:
            return
        operation = text(values.get("operation")) or ""
        stop = self._safepoints.setdefault(number_, Stop(begin, end, operation, around=True))
        stop.begin, stop.end = min(stop.begin, begin), max(stop.end, end)
        stop.detail = stop.detail or operation

    def joined(self) -> Iterator[Stop]:
        with_pauses = {collection for _, _, collection in self._pauses}
        pauses = [
            Stop(begin, end, self._collections.get(-1 if collection is None else collection, ("pause", 0, 0))[0])
            for begin, end, collection in self._pauses
        ]
        for number_, (name, begin, end) in self._collections.items():
            if number_ in with_pauses:
                continue
            if end is None:
                self.concurrent += 1
            else:
                pauses.append(Stop(begin, end, name))
        for pause in pauses:
            pause.collection = pause.longest = pause.end - pause.begin
        yield from joined(
            sorted(pauses, key=lambda stop: stop.end), sorted(self._safepoints.values(), key=lambda stop: stop.end)
        )
