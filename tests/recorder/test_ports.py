"""A process that listens on two ports is one server of the recording."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from recorders import MISSING, end, recording, started, two_hosts
from tailrace.dataset import Dataset

pytestmark = pytest.mark.skipif(MISSING, reason="needs root and ip (iproute2)")

SERVER = """
import http.server, threading
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
    def log_message(self, *_):
        pass
servers = [http.server.ThreadingHTTPServer(("0.0.0.0", port), Page) for port in (80, 81, 82)]
for server in servers[1:]:
    threading.Thread(target=server.serve_forever).start()
print("serving", flush=True)
servers[0].serve_forever()
"""
ASK = """
import sys, urllib.request
for number in range(40):
    port = 80 if number % 4 else 81
    urllib.request.urlopen(f"http://{sys.argv[1]}:{port}/page", timeout=20).read()
"""


@pytest.mark.parametrize("kind", [(), ("--capture",)], ids=["visits", "packets"])
def test_two_ports_of_one_process_are_one_server(tmp_path: Path, kind: tuple[str, ...]) -> None:
    out = tmp_path / "run"
    with two_hosts() as hosts, started(*hosts.on(hosts.server, sys.executable, "-c", SERVER)) as serving:
        assert serving.stdout is not None
        assert serving.stdout.readline() == "serving\n"
        with recording(out, "--node", hosts.node, "--interface", "box:eth0", *kind) as process:
            subprocess.run(hosts.on(hosts.client, sys.executable, "-c", ASK, hosts.address), check=True)
            end(process)
    run = Dataset.open(out)
    run.validate(checksums=True)
    [server] = run.topology.servers
    assert server.addresses == (f"{hosts.address}:80", f"{hosts.address}:81")
    assert set(run.visits().select(pl.col("server").cast(pl.String)).collect()["server"]) == {server.name}
    assert run.requests().collect().height == 40
    assert {place for place, name in run.topology.places.items() if name == server.name} == {
        f"box:{port}" for port in (80, 81, 82)
    }
    samples = run.samples().select(pl.col("place", "metric").cast(pl.String)).collect()
    at = {metric: set(samples.filter(metric=metric)["place"]) for metric in ("cpu_busy", "accept_queue")}
    assert {place for place in at["cpu_busy"] if place.startswith("box:")} == {"box:80"}
    assert {"box:80", "box:81", "box:82"} <= at["accept_queue"]
