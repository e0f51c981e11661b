"""Tells other systems of an incident: each target is tried a bounded number of times, and failures are reported.

| target | receives |
|---|---|
| `URL` | a JSON object for any webhook |
| `slack:URL` | a message for an incoming webhook of Slack or Mattermost |
| `alertmanager:URL` | an alert |
| `pagerduty:KEY` | an event for the integration with this key |
| `otlp:URL` | a log event of OpenTelemetry |
| `otlp-span:URL` | a span of OpenTelemetry, from the first to the last request that took very long |
| `journald:` | an entry of systemd's journal with fields |
"""

from __future__ import annotations

import hashlib
import queue
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from tailrace import foreign
from tailrace.errors import UsageError
from tailrace.units import format_moment
from tailrace.watch import posting
from tailrace.watch.posting import attribute, post, signal, tried

if TYPE_CHECKING:
    from tailrace.watch.listing import Incident

WAITING_MAX = 100
"""Messages that wait; a watch keeps 50 incidents."""
AT_END_S = 20
"""How long the end of the watch waits for messages."""
JOURNAL = "/run/systemd/journal/socket"
PAGERDUTY = "https://events.pagerduty.com/v2/enqueue"


@dataclass(frozen=True)
class Target:
    form: str
    to: str
    """A URL, or the key of an integration."""

    @property
    def shown(self) -> str:
        """The target without its secrets, which are in the path, the query or the user's part of a URL."""
        if self.form in ("pagerduty", "journald"):
            return self.form
        return f"{self.form} at {posting.shown(self.to)}"


def target(text: str) -> Target:
    """Raises UsageError, which does not repeat the text, because it may hold a secret."""
    form, colon, rest = text.partition(":")
    if form == "journald" and colon and not rest:
        return Target(form, "")
    if form == "pagerduty" and rest.isascii() and rest.isalnum():
        return Target(form, rest)
    named, to = (form, rest) if form in _FORMS else ("webhook", text)
    if not posting.is_url(to):
        forms = "URL, slack:URL, alertmanager:URL, otlp:URL, otlp-span:URL, pagerduty:KEY, or journald:"
        raise UsageError(f"--notify: one target is neither of {forms}", advice="a URL begins with http:// or https://")
    return Target(named, to)


@dataclass
class Notifier:
    """A thread sends messages, so that the watch never waits for a receiver."""

    targets: tuple[Target, ...]
    pause: Callable[[float], object] = time.sleep
    _waiting: queue.Queue[tuple[Target, Incident] | None] = field(default_factory=lambda: queue.Queue(WAITING_MAX))
    _failures: queue.SimpleQueue[str] = field(default_factory=queue.SimpleQueue)
    _thread: threading.Thread | None = None

    def begin(self) -> None:
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def send(self, incident: Incident) -> None:
        for one in self.targets:
            try:
                self._waiting.put_nowait((one, incident))
            except queue.Full:
                self._failures.put(f"{one.shown}: {WAITING_MAX} messages wait already; {incident.name} is not sent")

    def failures(self) -> list[str]:
        """What failed since the last call, in sentences."""
        return posting.drained(self._failures)

    def close(self) -> None:
        """Wait a bounded time for the messages that are still to be sent."""
        if self._thread is None:
            return
        with suppress(queue.Full):
            self._waiting.put_nowait(None)
        self._thread.join(AT_END_S)
        if self._thread.is_alive():
            self._failures.put(f"the watch ends before {self._waiting.qsize() + 1} messages were sent")

    def _work(self) -> None:
        while (work := self._waiting.get()) is not None:
            one, incident = work
            failure = tried(partial(_FORMS[one.form], one, incident), self.pause)
            if failure is not None:
                self._failures.put(f"{one.shown}: {incident.name} could not be sent: {failure}")


def fields(incident: Incident) -> dict[str, Any]:
    """What a message says of an incident. Names come from packets of strangers: hidden characters are escaped."""
    said = incident.sentence if incident.failed is None else f"It could not be explained: {incident.failed}"
    names = {key: foreign.name(getattr(incident, key) or "") for key in ("dropper", "origin", "cause")}
    return {
        "incident": incident.name,
        "host": socket.gethostname(),
        "text": foreign.sentence(said),
        "begin": incident.begin,
        "end": incident.end,
        "requests": incident.requests,
        "vlrt": incident.vlrt,
        **{key: value or None for key, value in names.items()},
        "ctqo": incident.ctqo,
        "report": incident.report,
        "traces": [trace for trace, _ in incident.traces],
    }


def _webhook(to: Target, incident: Incident) -> None:
    post(to.to, fields(incident))


def _slack(to: Target, incident: Incident) -> None:
    """Slack reads `&`, `<` and `>` as its own markup."""
    told = fields(incident)
    text = f"{told['host']}: {told['text']} ({told['incident']})"
    post(to.to, {"text": text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")})


def _alertmanager(to: Target, incident: Incident) -> None:
    """Alertmanager ends an alert without an end after its `resolve_timeout`. One with an end in the past would never
    be sent on."""
    told = fields(incident)
    labels = {key: str(told[key]) for key in ("host", "dropper", "origin", "cause", "incident") if told[key]}
    alert: dict[str, Any] = {
        "labels": {"alertname": "TailraceIncident", "severity": "warning", **labels},
        "annotations": {"summary": told["text"], "report": told["report"] or ""},
    }
    if incident.begin is not None:
        alert["startsAt"] = format_moment(incident.begin)
    post(to.to.rstrip("/") + "/api/v2/alerts", [alert])


def _pagerduty(to: Target, incident: Incident) -> None:
    told = fields(incident)
    payload = {
        "summary": told["text"][:1024],  # the longest that PagerDuty accepts
        "source": told["host"],
        "severity": "warning",
        "component": told["origin"] or told["dropper"] or "unknown",
        "custom_details": told,
    }
    event = {"routing_key": to.to, "event_action": "trigger", "dedup_key": f"{told['host']} {incident.name}"}
    post(PAGERDUTY, {**event, "payload": payload})


def _otlp(to: Target, incident: Incident) -> None:
    """OTLP/HTTP with JSON: numbers of 64 bits are texts (opentelemetry.io/docs/specs/otlp)."""
    told = fields(incident)
    record = {
        "timeUnixNano": str(incident.begin or time.time_ns()),
        "observedTimeUnixNano": str(time.time_ns()),
        "severityNumber": 13,
        "severityText": "WARN",
        "eventName": "tailrace.incident",
        "body": {"stringValue": told["text"]},
        "attributes": _attributes(told),
    }
    scope = {**_SCOPE, "logRecords": [record]}
    post(signal(to.to, "logs"), {"resourceLogs": [{**_resource(told), "scopeLogs": [scope]}]})


def _otlp_span(to: Target, incident: Incident) -> None:
    """The ids follow from the host and the incident, so that a message that is sent twice is one span."""
    told = fields(incident)
    begin = incident.begin or time.time_ns()
    digest = hashlib.sha256(f"{told['host']} {incident.name}".encode()).hexdigest()
    span = {
        "traceId": digest[:32],
        "spanId": digest[32:48],
        "name": "tailrace.incident",
        "kind": 1,
        "startTimeUnixNano": str(begin),
        "endTimeUnixNano": str(max(begin, incident.end or begin)),
        "status": {"code": 2, "message": told["text"]},
        "attributes": _attributes(told),
        "links": [{"traceId": trace, "spanId": span} for trace, span in incident.traces if span],
    }
    scope = {**_SCOPE, "spans": [span]}
    post(signal(to.to, "traces"), {"resourceSpans": [{**_resource(told), "scopeSpans": [scope]}]})


_SCOPE = {"scope": {"name": "tailrace.watch"}}


def _resource(told: dict[str, Any]) -> dict[str, Any]:
    named = [attribute("service.name", "tailrace"), attribute("host.name", told["host"])]
    return {"resource": {"attributes": named}}


def _attributes(told: dict[str, Any]) -> list[dict[str, Any]]:
    wanted = ("incident", "vlrt", "requests", "dropper", "origin", "cause", "ctqo", "report")
    return [attribute(f"tailrace.{key}", told[key]) for key in wanted if told[key] is not None] + _traces(
        told["traces"]
    )


def _traces(ids: list[str]) -> list[dict[str, Any]]:
    values = [{"stringValue": one} for one in ids]
    return [{"key": "tailrace.trace_ids", "value": {"arrayValue": {"values": values}}}] if ids else []


def _journald(to: Target, incident: Incident) -> None:
    """systemd.io/JOURNAL_NATIVE_PROTOCOL: NAME=value lines; `fields` has no line breaks."""
    told = fields(incident)
    lines = [f"MESSAGE={told['text']}", "PRIORITY=4", "SYSLOG_IDENTIFIER=tailrace"]
    said = {**told, "text": None, "traces": " ".join(told["traces"]) or None}
    lines += [f"TAILRACE_{key.upper()}={value}" for key, value in said.items() if value is not None]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.sendto("".join(f"{line}\n" for line in lines).encode(), JOURNAL)


_FORMS: dict[str, Callable[[Target, Incident], None]] = {
    "webhook": _webhook,
    "slack": _slack,
    "alertmanager": _alertmanager,
    "pagerduty": _pagerduty,
    "otlp": _otlp,
    "otlp-span": _otlp_span,
    "journald": _journald,
}
