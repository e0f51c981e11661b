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

import pytest

from tailrace import readers
from tailrace.dataset import Dataset
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
        statuses.append(post(port, gzip.compress(first), JSON, Content_Encoding="gzip"))
        statuses.extend(post(port, b" " + line, JSON + "; charset=utf-8") for line in rest)
        statuses.append(post(port, b"x", JSON, "/v1/logs"))
        statuses.append(post(port, b"x", "text/plain"))
        statuses.append(post(port, b"x", JSON, Content_Encoding="gzip"))
        statuses.append(post(port, b"x", PROTOBUF, Content_Encoding="br"))
        assert spool.messages == len(lines())

    receive(listening, tmp_path / "traces.otlp", 1 << 20, send)
    assert statuses == [200] * len(lines()) + [404, 415, 400, 400]
    run, expected = readers.read(tmp_path / "traces.otlp"), readers.read(OTLP)
    assert run.manifest.rows == expected.manifest.rows


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

    spool = receive(listening, tmp_path / "traces.otlp", 1500, send)
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
