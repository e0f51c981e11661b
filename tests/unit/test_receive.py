"""`tailrace receive`: what programs send becomes the run folder that a file of the Collector becomes."""

from __future__ import annotations

import gzip
import http.client
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from grpc import Compression

from tailrace import readers
from tailrace.dataset import Dataset
from tailrace.errors import UsageError
from tailrace.readers import receiving
from tailrace.readers.receiving import Spool, receive

OTLP = Path(__file__).parents[1] / "golden" / "readers" / "traces" / "otlp.jsonl"
JSON, PROTOBUF = "application/json", "application/x-protobuf"


def post(port: int, body: bytes, kind: str, path: str = "/v1/traces", **headers: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(
        "POST", path, body, {"Content-Type": kind, **{k.replace("_", "-"): v for k, v in headers.items()}}
    )
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


def lines() -> list[bytes]:
    return [line for line in OTLP.read_bytes().splitlines() if line.endswith(b"]}]}]}")]


def test_what_is_sent_is_kept_and_read(tmp_path: Path) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    statuses = []

    def send(spool: Spool) -> None:
        first, *rest = lines()
        statuses.append(post(port, gzip.compress(first[:9]) + gzip.compress(first[9:]), JSON, Content_Encoding="gzip"))
        statuses.extend(post(port, b" " + line, JSON + "; charset=utf-8") for line in rest)
        statuses.append(post(port, b"x", JSON, "/v1/logs"))
        statuses.append(post(port, b"x", "text/plain"))
        statuses.append(post(port, b"x", JSON, Content_Encoding="gzip"))
        statuses.append(post(port, b"x", PROTOBUF, Content_Encoding="br"))
        assert spool.messages == len(lines())

    receive(listening, tmp_path, 1 << 20, send)
    assert statuses == [200] * len(lines()) + [404, 415, 400, 400]
    run, expected = readers.read(tmp_path / "traces.otlp"), readers.read(OTLP)
    assert run.manifest.rows == expected.manifest.rows


def by_sdk(port: int) -> None:
    """Three requests of a server, of which one calls a database, and two moments of its threads, as the SDK of
    OpenTelemetry exports them over gRPC."""
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    from opentelemetry.metrics import Observation
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import SpanKind

    about = Resource.create({"service.name": "web", "host.name": "h1"})
    endpoint: dict[str, Any] = {"endpoint": f"127.0.0.1:{port}", "insecure": True, "timeout": 60}
    tracing = TracerProvider(resource=about)
    tracing.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(**endpoint, compression=Compression.Gzip)))
    tracer = tracing.get_tracer("test")
    for number in range(3):
        asked = {"http.request.method": "GET", "http.route": "/users/{id}", "http.response.status_code": 200}
        with tracer.start_as_current_span("GET", kind=SpanKind.SERVER, attributes=asked):
            if number == 1:
                called = {"db.system.name": "mysql", "db.operation.name": "SELECT"}
                with tracer.start_as_current_span("SELECT", kind=SpanKind.CLIENT, attributes=called):
                    pass
    tracing.shutdown()
    reader = PeriodicExportingMetricReader(OTLPMetricExporter(**endpoint), export_interval_millis=3_600_000)
    metering = MeterProvider(metric_readers=[reader], resource=about)
    metering.get_meter("test").create_observable_gauge("tomcat.threads.busy", [lambda _: [Observation(7)]])
    metering.force_flush()
    metering.shutdown()


def test_what_an_sdk_sends_over_grpc_is_kept_and_read(tmp_path: Path) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    spool = receive(listening, tmp_path, 1 << 20, lambda spool: by_sdk(port), f"127.0.0.1:{port}")
    assert spool.messages == 3
    run = readers.read(tmp_path / "traces.otlp", tmp_path / "metrics.otlp")
    run.validate()
    visits = run.visits().select(pl.col("server", "interaction", "status").cast(pl.String)).collect()
    assert sorted(visits.rows()) == [("mysql", "SELECT", "ok")] + 3 * [("web", "GET /users/{id}", "ok")]
    samples = run.samples().select(pl.col("place", "metric").cast(pl.String), "value").collect()
    assert samples.rows() == 2 * [("h1", "workers_busy", 7.0)]


def test_grpc_beyond_what_may_be_kept_is_refused(tmp_path: Path) -> None:
    import grpc

    listening = socket.create_server(("127.0.0.1", 0))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    name = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
    codes = []

    def send(spool: Spool) -> None:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            for called, message in ((name, b"x" * 900), (name, b"x" * 900), (name + "s", b"x")):
                try:
                    channel.unary_unary(called)(message, timeout=60, wait_for_ready=True)
                except grpc.RpcError as error:
                    codes.append(error.code())
        assert spool.full

    spool = receive(listening, tmp_path, 1500, send, f"127.0.0.1:{port}")
    assert codes == [grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNIMPLEMENTED]
    assert (spool.messages, spool.refused) == (1, 1)


def test_an_address_for_grpc_that_is_taken_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UsageError, match="cannot be used"):
            receive(socket.create_server(("127.0.0.1", 0)), tmp_path, 1500, lambda spool: None, address)


def test_bodies_beyond_a_bound_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "OTLP_MESSAGE", 1000)
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    statuses = []

    def send(spool: Spool) -> None:
        statuses.append(post(port, b"x" * 1001, PROTOBUF))
        statuses.append(post(port, gzip.compress(b"x" * 100_000), PROTOBUF, Content_Encoding="gzip"))
        statuses.append(post(port, b"x" * 900, PROTOBUF))
        assert not spool.full
        statuses.append(post(port, b"x" * 900, PROTOBUF))
        assert spool.full

    spool = receive(listening, tmp_path, 1500, send)
    assert statuses == [413, 400, 200, 503]
    assert (spool.messages, spool.refused) == (1, 1)


def test_the_command_ends_on_a_signal_with_a_run_folder(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = (
        sys.executable,
        "-m",
        "tailrace",
        "receive",
        "-o",
        str(tmp_path / "run"),
        "--listen",
        f"127.0.0.1:{port}",
    )
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
        assert process.stdout is not None
        assert "receiving traces" in process.stdout.readline()
        for line in lines():
            assert post(port, line, JSON) == 200
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "explain it with `tailrace diagnose" in said
    assert Dataset.open(tmp_path / "run").manifest.rows["requests"] == 5
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
