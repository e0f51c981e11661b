"""A watch on loopback: requests to its own metrics are as slow as those to a server, and only the server is noticed."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import polars as pl
import pytest

from recorders import MISSING, TAILRACE, started
from tailrace.dataset import Dataset
from tailrace.watch.noticing import CLUSTER

pytestmark = pytest.mark.skipif(MISSING, reason="needs root and ip (iproute2)")

LATE_S = 1.3


class Late(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        time.sleep(LATE_S)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@contextmanager
def late() -> Iterator[int]:
    """The port of a server that answers late."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Late) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@contextmanager
def held(watch: int) -> Iterator[None]:
    """The process that serves the metrics stands still."""
    children = Path(f"/proc/{watch}/task").glob("*/children")
    pids = [int(word) for path in children for word in path.read_text().split()]
    [serving] = [pid for pid in pids if b"serving.serve" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(serving, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(serving, signal.SIGCONT)


def asked(port: int) -> threading.Thread:
    def ask() -> None:
        with suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20).read()

    thread = threading.Thread(target=ask)
    thread.start()
    return thread


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        found: int = server.getsockname()[1]
        return found


def noticed(watch: subprocess.Popen[str], *ports: int) -> list[str]:
    """What the watch reports after slow requests to itself and to the server at these ports."""
    assert watch.stdout is not None
    assert watch.stderr is not None
    assert "watching" in watch.stdout.readline(), watch.stderr.read()
    with held(watch.pid):
        asking = [asked(which) for which in ports for _ in range(2 * CLUSTER)]
        time.sleep(LATE_S)
    for each in asking:
        each.join()
    return watch.stdout.readlines()


def test_a_watch_leaves_its_own_metrics_out(tmp_path: Path) -> None:
    out = tmp_path / "incidents"
    metrics = free_port()  # a fixed one may be in use, also by a process of an attempt before
    with late() as port:
        words = ("-o", str(out), "--interface", "lo", "--server", f"web=127.0.0.1:{port}")
        ports = ("--port", str(port), "--port", str(metrics), "--metrics", f"127.0.0.1:{metrics}")
        with started(*TAILRACE, "watch", *words, *ports, "--once", "--duration", "5min") as watch:
            said = noticed(watch, metrics, port)
            assert watch.wait(60) == 0
    counted = re.search(r"noticed: (\d+) requests to web took 950 ms or longer", said[0])
    assert counted is not None
    assert CLUSTER <= int(counted[1]) <= 2 * CLUSTER  # on a busy machine, some are sent a little later
    assert "; " not in said[0]
    [incident] = out.glob("incident-*")
    run = Dataset.open(incident)
    assert run.visits().select(pl.col("server").cast(pl.String).unique()).collect()["server"].to_list() == ["web"]
    queues = run.samples().filter(pl.col("metric").cast(pl.String) == "accept_queue").collect()
    assert set(queues["place"].cast(pl.String)) == {f"host:{port}"}
