"""Messages of a watch: what each receiver gets, bounded retries, and failures without secrets."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from json_receiver import receiver
from tailrace.errors import UsageError
from tailrace.watch import notifying
from tailrace.watch.listing import Incident
from tailrace.watch.notifying import WAITING_MAX, Notifier, Target, target
from tailrace.watch.posting import TRIES

BEGIN = 1_795_193_380_000_000_000
INCIDENT = Incident("incident-1", BEGIN, BEGIN + 1, 10, 3, "web", "a\x1bpp", "freeze", "local", "3 <b> took & \x07 1 s")
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def sent(*targets: Target, incidents: int = 1) -> tuple[list[str], list[float]]:
    """The failures, and the pauses between tries."""
    pauses: list[float] = []
    notifier = Notifier(targets, pauses.append)
    notifier.begin()
    for _ in range(incidents):
        notifier.send(INCIDENT)
    notifier.close()
    return notifier.failures(), pauses


def test_each_receiver_gets_its_form(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiver() as (url, came):
        monkeypatch.setattr(notifying, "PAGERDUTY", f"{url}/pagerduty")
        targets = [url, f"slack:{url}/hook", f"alertmanager:{url}", f"otlp:{url}", f"otlp-span:{url}", "pagerduty:KEY1"]
        assert sent(*map(target, targets)) == ([], [])
    assert [path for path, _ in came] == ["/", "/hook", "/api/v2/alerts", "/v1/logs", "/v1/traces", "/pagerduty"]
    webhook, slack, alerts, logs, spans, event = (content for _, content in came)
    assert (webhook["vlrt"], webhook["origin"], webhook["report"]) == (3, "a\\u001bpp", "incident-1/report.html")
    assert set(slack) == {"text"}
    assert "3 &lt;b&gt; took &amp; \\u0007 1 s" in slack["text"]
    assert alerts[0]["labels"]["cause"] == "freeze"
    assert alerts[0]["startsAt"].startswith("2026-11-20T")
    assert "endsAt" not in alerts[0]
    [record] = logs["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    assert record["timeUnixNano"] == str(BEGIN)
    assert {"key": "tailrace.vlrt", "value": {"intValue": "3"}} in record["attributes"]
    [span] = spans["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert (len(span["traceId"]), len(span["spanId"])) == (32, 16)
    assert BEGIN == int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
    assert span["attributes"] == record["attributes"]
    assert (event["routing_key"], event["payload"]["severity"]) == ("KEY1", "warning")


def test_a_span_has_links_to_the_traces_of_slow_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.INCIDENT", replace(INCIDENT, traces=((TRACE, SPAN), ("1" * 32, None))))
    with receiver() as (url, came):
        assert sent(target(url), target(f"otlp-span:{url}"), target(f"otlp:{url}")) == ([], [])
    webhook, spans, logs = (content for _, content in came)
    assert webhook["traces"] == [TRACE, "1" * 32]
    [span] = spans["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert span["links"] == [{"traceId": TRACE, "spanId": SPAN}]
    [record] = logs["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    values = [{"stringValue": TRACE}, {"stringValue": "1" * 32}]
    assert {"key": "tailrace.trace_ids", "value": {"arrayValue": {"values": values}}} in record["attributes"]


def test_a_receiver_that_fails_is_tried_again_with_growing_pauses() -> None:
    with receiver(503, 429) as (url, came):
        assert sent(target(url)) == ([], [1, 2])
    assert len(came) == 3


def test_tries_are_bounded_and_the_failure_has_no_secret() -> None:
    users: list[str] = []
    with receiver(*[500] * 50, users=users) as (url, came):
        [failure], pauses = sent(target(f"slack:{url.replace('//', '//me:pass@')}/T0/secret?k=secret"))
    assert (len(came), pauses) == (TRIES, [1, 2, 4, 8])
    assert set(users) == {"Basic bWU6cGFzcw=="}  # me:pass
    assert "could not be sent: the answer is 500 (5 tries)" in failure
    assert "secret" not in failure
    assert "pass" not in failure


def test_a_refusal_and_a_redirect_are_final() -> None:
    with receiver(400) as (url, came):
        [failure], pauses = sent(target(url))
        assert ("400" in failure, pauses, len(came)) == (True, [], 1)
    with receiver() as (elsewhere, never), receiver(307, location=elsewhere) as (url, came):
        [failure], _ = sent(target(url))
        assert ("307" in failure, len(came), never) == (True, 1, [])


def test_what_waits_is_bounded() -> None:
    notifier = Notifier((target("http://127.0.0.1:9/"),))
    for _ in range(WAITING_MAX + 3):
        notifier.send(INCIDENT)
    assert len(notifier.failures()) == 3


def test_an_entry_of_the_journal_has_a_line_for_each_field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifying, "JOURNAL", str(tmp_path / "socket"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.bind(str(tmp_path / "socket"))
        assert sent(target("journald:")) == ([], [])
        lines = journal.recv(1 << 16).decode().splitlines()
    assert lines[1:3] == ["PRIORITY=4", "SYSLOG_IDENTIFIER=tailrace"]
    assert "TAILRACE_CAUSE=freeze" in lines
    assert all(line.isprintable() and "=" in line for line in lines)


@pytest.mark.parametrize(
    "text",
    ["", "secret", "slack:secret", "ftp://secret/", "http://", "http://secret:x/", "pagerduty:sec ret", "http://a b"],
)
def test_other_targets_are_refused_without_repeating_them(text: str) -> None:
    with pytest.raises(UsageError) as error:
        target(text)
    assert "secret" not in str(error.value)
