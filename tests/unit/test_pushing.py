"""Metrics over OTLP: what a receiver gets, that a slow or failing one costs nothing, and what the peers make of it."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from json_receiver import receiver
from tailrace.errors import UsageError
from tailrace.readers.receiving import Spool, path_of, receive
from tailrace.watch import posting, pushing
from tailrace.watch.gauges import Gauges
from tailrace.watch.listing import Incident
from tailrace.watch.pushing import FAILURES_MAX, Pusher, exported, interval_s, target

SECOND = 1_000_000_000
NOW = 1_795_193_380 * SECOND


def gauges() -> Gauges:
    found = Gauges("1")
    rows = [("a\x1bpp", NOW - 2 * SECOND, NOW - 2 * SECOND, NOW - SECOND)]
    found.see("stays", pl.DataFrame(rows, schema=["server", "sent", "arrival", "departure"], orient="row"), NOW)
    found.incident(Incident("incident-1", cause="freeze", origin="app"), NOW)
    return found


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not holds() and time.monotonic() < end:
        time.sleep(0.02)
    assert holds()


def test_the_official_package_reads_what_is_sent() -> None:
    content = exported(list(gauges().families(NOW)), "1", NOW - SECOND, NOW + SECOND)
    message = Parse(json.dumps(encoded(content)), ExportMetricsServiceRequest())
    [resource] = message.resource_metrics
    about = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert about == {"service.name": "tailrace", "service.version": "1", "host.name": socket.gethostname()}
    metrics = {metric.name: metric for metric in resource.scope_metrics[0].metrics}
    vlrt = metrics["tailrace.vlrt"]
    assert (vlrt.unit, vlrt.sum.is_monotonic, vlrt.sum.aggregation_temporality) == ("{request}", True, 2)
    [point] = vlrt.sum.data_points
    assert (point.as_int, point.start_time_unix_nano, point.time_unix_nano) == (1, NOW - SECOND, NOW + SECOND)
    assert [(one.key, one.value.string_value) for one in point.attributes] == [("tailrace.server", "a\\u001bpp")]
    longest = metrics["tailrace.response.max"]
    assert (longest.unit, longest.gauge.data_points[0].as_double) == ("s", 1.0)
    [exemplar] = metrics["tailrace.incidents"].sum.data_points[0].exemplars
    assert [(one.key, one.value.string_value) for one in exemplar.filtered_attributes] == [
        ("tailrace.incident", "incident-1")
    ]
    assert "target" not in metrics


def encoded(content: dict[str, Any]) -> dict[str, Any]:
    """OTLP writes ids as hexadecimal digits, where JSON of protobuf has base64: a known difference."""
    from base64 import b64encode

    def walked(value: Any) -> Any:
        if isinstance(value, list):
            return [walked(one) for one in value]
        if not isinstance(value, dict):
            return value
        return {
            key: b64encode(bytes.fromhex(one)).decode() if key in ("traceId", "spanId") else walked(one)
            for key, one in value.items()
        }

    found: dict[str, Any] = walked(content)
    return found


def test_tailrace_receive_takes_it(tmp_path: Path) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]

    def send(spool: Spool) -> None:
        pusher = Pusher(target(f"otlp:http://127.0.0.1:{port}"), "1", 0.01)
        pusher.begin()
        pusher.offer(list(gauges().families(NOW)), NOW)
        until(lambda: spool.messages)
        pusher.close()
        assert pusher.failures() == []

    receive(listening, tmp_path, 1 << 20, send)
    assert b"tailrace.queue.length.max" in path_of(tmp_path, "metrics").read_bytes()


def test_a_receiver_that_fails_is_tried_again_and_the_newest_counts_arrive() -> None:
    with receiver(503) as (url, came):
        pusher = Pusher(target(f"otlp:{url}/v1/metrics"), "1", 0.01)
        pusher.begin()
        families = list(gauges().families(NOW))
        pusher.offer(families, NOW)
        until(lambda: len(came) == 2)
        pusher.offer(families, NOW + 1)
        until(lambda: len(came) == 3)
        pusher.close()
    assert {path for path, _ in came} == {"/v1/metrics"}
    assert came[0][1] == came[1][1] != came[2][1]
    assert pusher.failures() == []


def test_the_end_sends_what_is_left_and_failures_are_bounded_and_without_secrets() -> None:
    with receiver(400) as (url, came):
        pusher = Pusher(target(f"otlp:{url.replace('//', '//me:pass@')}/secret"), "1", 3600.0)
        pusher.begin()
        pusher.offer(list(gauges().families(NOW)), NOW)
        pusher.close()
    assert len(came) == 1
    [failure] = pusher.failures()
    assert "metrics could not be sent: " in failure
    assert "400" in failure
    assert "pass" not in failure
    assert "secret" not in failure
    assert pusher._failures.maxsize == FAILURES_MAX


def test_points_that_a_receiver_rejects_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"partialSuccess": {"rejectedDataPoints": "3", "errorMessage": "too \x07 old"}}
    endless = b'{"partialSuccess": {"rejectedDataPoints": 1e999}}'
    answers = iter([json.dumps(said).encode(), b"[[", b'{"partialSuccess": {}}', b"{}", endless])
    monkeypatch.setattr(posting, "post", lambda url, content: next(answers))
    pusher = Pusher("http://h/v1/metrics", "1", 1)
    for _ in range(5):
        pusher.offer(list(gauges().families(NOW)), NOW)
        pusher._export(1)
    failure, recovery = pusher.failures()
    assert recovery == "otlp at http://h: metrics are taken again"
    assert failure == "otlp at http://h: metrics could not be sent: the receiver rejected data points: too \\u0007 old"


def test_a_receiver_that_is_gone_is_reported_when_it_goes_and_when_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = iter([True, True, True, False, False, True, True])

    def post(url: str, content: object) -> bytes:
        if next(gone):
            raise OSError("no route")
        return b"{}"

    monkeypatch.setattr(posting, "post", post)
    pusher = Pusher("http://h/v1/metrics", "1", 1)
    said = []
    for _ in range(7):
        pusher.offer(list(gauges().families(NOW)), NOW)
        pusher._export(1)
        said.append([one.rpartition("metrics ")[2] for one in pusher.failures()])
    lost = ["could not be sent: no route (1 tries)"]
    assert said == [lost, [], [], ["are taken again"], [], lost, []]


def test_the_interval_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(pushing.INTERVAL_VARIABLE, raising=False)
    assert interval_s() == 10
    monkeypatch.setenv(pushing.INTERVAL_VARIABLE, "2500")
    assert interval_s() == 2.5
    for wrong in ("0", "-1", "ten", "1e3", "9" * 20):
        monkeypatch.setenv(pushing.INTERVAL_VARIABLE, wrong)
        with pytest.raises(UsageError, match=pushing.INTERVAL_VARIABLE):
            interval_s()


@pytest.mark.parametrize("text", ["otlp:", "otlp:secret", "otlp:ftp://secret", "otlp:http://secret:x/"])
def test_other_targets_are_refused_without_repeating_them(text: str) -> None:
    with pytest.raises(UsageError) as error:
        target(text)
    assert "secret" not in str(error.value)
