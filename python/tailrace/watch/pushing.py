"""Sends the metrics of a watch over OTLP (HTTP with JSON), at regular intervals.

Counters are cumulative, so an export that fails loses nothing: the next one has its counts. Only the newest metrics
wait to be sent. docs/how-to/watch.md lists the names.
"""

from __future__ import annotations

import json
import os
import queue
import socket
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tailrace import foreign
from tailrace.errors import UsageError
from tailrace.watch import posting
from tailrace.watch.exposition import Exemplar, Family, Labels
from tailrace.watch.posting import attribute

INTERVAL_MS = 10_000
INTERVAL_VARIABLE = "OTEL_METRIC_EXPORT_INTERVAL"
AT_END_S = 5
"""How long the end of the watch waits for the last export."""
FAILURES_MAX = 10
_CUMULATIVE = 2


def interval_s() -> float:
    """Seconds between two exports. Raises UsageError if the variable holds something else than a number of
    milliseconds from 1 on."""
    text = os.environ.get(INTERVAL_VARIABLE, "").strip() or str(INTERVAL_MS)
    if not (text.isascii() and text.isdigit() and int(text[:10]) > 0 and len(text) <= 10):
        raise UsageError(f"{INTERVAL_VARIABLE} is not a number of milliseconds", advice="set it to 10000, for example")
    return int(text) / 1000


def target(text: str) -> str:
    """The URL of `otlp:URL`. Raises UsageError, which does not repeat the text, because it may hold a secret."""
    url = text.removeprefix("otlp:")
    if not posting.is_url(url):
        raise UsageError("--metrics: an otlp: target has no URL", advice="write otlp:http://HOST:4318")
    return posting.signal(url, "metrics")


@dataclass
class Pusher:
    """A thread sends the newest metrics, so that the watch never waits for a receiver."""

    url: str
    version: str
    every_s: float
    begun_ns: int = field(default_factory=time.time_ns)
    _newest: deque[tuple[Sequence[Family], int]] = field(default_factory=lambda: deque(maxlen=1))
    _failures: queue.Queue[str] = field(default_factory=lambda: queue.Queue(FAILURES_MAX))
    _ending: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _fails: bool = False
    """Whether the last export failed, or only a part of it was taken."""

    def begin(self) -> None:
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def offer(self, families: Sequence[Family], now: int) -> None:
        """The metrics at `now`, which replace earlier ones that are not sent."""
        self._newest.append((families, now))

    def failures(self) -> list[str]:
        """What failed since the last call, in sentences."""
        return posting.drained(self._failures)

    def close(self) -> None:
        """Send the newest metrics once more; wait a bounded time for that."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join(AT_END_S)

    def _work(self) -> None:
        while not self._ending.wait(self.every_s):
            self._export(posting.TRIES)
        self._export(tries=1)

    def _export(self, tries: int) -> None:
        if not self._newest:
            return
        families, now = self._newest.pop()
        content = exported(families, self.version, self.begun_ns, now)
        rejected: list[str] = []
        send = partial(self._send, content, rejected)
        failure = posting.tried(send, self._ending.wait, tries)
        self._say(failure or "; ".join(rejected))

    def _say(self, why_not: str) -> None:
        """A receiver that is gone for a day is one sentence when it goes, and one when it is back."""
        if bool(why_not) != self._fails:
            said = f"metrics could not be sent: {why_not}" if why_not else "metrics are taken again"
            with suppress(queue.Full):
                self._failures.put_nowait(f"otlp at {posting.shown(self.url)}: {said}")
        self._fails = bool(why_not)

    def _send(self, content: dict[str, Any], rejected: list[str]) -> None:
        rejected += _rejected(posting.post(self.url, content))


def _rejected(answer: bytes) -> list[str]:
    """What a receiver says of data points that it did not take (partial success)."""
    try:
        taken = json.loads(answer)["partialSuccess"]
        count = int(taken.get("rejectedDataPoints") or 0)
        said = str(taken.get("errorMessage") or "it gives no reason")
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return []
    return [f"the receiver rejected data points: {foreign.sentence(said[:200])}"] if count > 0 else []


def exported(families: Sequence[Family], version: str, begun_ns: int, now: int) -> dict[str, Any]:
    """A request of OTLP in JSON. Names of strangers are made safe."""
    about = {"service.name": "tailrace", "service.version": version, "host.name": socket.gethostname()}
    scope = {"name": "tailrace.watch", "version": version}
    metrics = [_metric(family, begun_ns, now) for family in families if family.rows and family.kind != "info"]
    resource = {"attributes": [attribute(key, value) for key, value in about.items()]}
    return {"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"scope": scope, "metrics": metrics}]}]}


def _metric(family: Family, begun_ns: int, now: int) -> dict[str, Any]:
    points = [_point(family, *row, begun_ns, now) for row in family.rows]
    told: dict[str, Any] = {"name": family.name, "description": family.what, "unit": family.unit}
    if family.kind == "counter":
        return told | {"sum": {"aggregationTemporality": _CUMULATIVE, "isMonotonic": True, "dataPoints": points}}
    return told | {"gauge": {"dataPoints": points}}


def _point(
    family: Family, labels: Labels, value: float, exemplar: Exemplar | None, begun_ns: int, now: int
) -> dict[str, Any]:
    point: dict[str, Any] = {"attributes": _attributes(labels), "timeUnixNano": str(now)}
    if family.kind == "counter":
        point["startTimeUnixNano"] = str(begun_ns)
    point |= {"asInt": str(int(value))} if isinstance(value, int) else {"asDouble": float(value)}
    if exemplar is not None:
        about = {"filteredAttributes": _attributes(tuple(exemplar.labels.items())), "asInt": "1"}
        traced = {"traceId": exemplar.trace, "spanId": exemplar.span} if exemplar.trace and exemplar.span else {}
        point["exemplars"] = [{**about, "timeUnixNano": str(exemplar.time), **traced}]
    return point


def _attributes(labels: Labels) -> list[dict[str, Any]]:
    return [attribute(key, foreign.name(value)) for key, value in labels]
